"""`elastic run` as a process that rents from the AWS on loopback, killed at the two worst instants of a launch."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter

import pytest
import sqlalchemy as sa
import yaml

from elastic.ledger import SqlLedger
from elastic.ledger_tables import INTENTS
from providers.aws.account import TOKEN_TAG
from tests.elastic.test_run_process import ROOT, Running
from tests.real.aws.aws_process import AwsProcess, Site, wait_for

TYPE = "p4d.24xlarge"
WAIT_S = 60.0  # a busy machine starts slowly
NODES = {"first": 2, "second": 1}


def policy_of(site: Site, *, nodes: dict[str, int]) -> str:
    """Two pools kept at `nodes`, each with an image of its own; at home there is room for every job."""
    whole = yaml.safe_load((ROOT / "policies" / "aws-like.yaml").read_text())
    home, rented = whole["pools"]["a100-onprem"], whole["pools"]["a100-spot"]
    images = {row["Name"]: row["ImageId"] for row in site.ec2.describe_images(Owners=["self"])["Images"]}
    image = images.get("second") or site.ec2.register_image(Name="second", RootDeviceName="/dev/sda1")["ImageId"]
    rented = {**rented, "instance_types": [TYPE], "max_nodes": 4, "idle_release": "1 min", "capacity_types": ["spot"]}
    whole["pools"] = {
        "a100-onprem": {**home, "nodes": 400, "headroom": []},
        "first": {**rented, "min_nodes": nodes["first"], "image": site.image},
        "second": {**rented, "min_nodes": nodes["second"], "image": image},
    }
    whole["clouds"]["aws"] = {
        "kind": "aws", "region": "us-east-1", "owner": "kill", "controller": "kill", "endpoint_url": site.aws.url,
        "subnets": {zone: site.subnets[zone] for zone in ("us-east-1a", "us-east-1b")},
        "security_groups": [site.group], "image": site.image, "queue_url": site.queue_url,
    }  # fmt: skip
    return yaml.safe_dump(whole, sort_keys=False)


class Story:
    """The service, its AWS and what both know."""

    def __init__(self, site: Site, folder) -> None:
        self.site, self.folder = site, folder
        self.policy, self.data = folder / "policy.yaml", folder / "data"
        self.wish(NODES)
        self.running: list[Running] = []

    def wish(self, nodes: dict[str, int]) -> None:
        """What the pools are kept at from now on."""
        fresh = self.folder / "policy.new"
        fresh.write_text(policy_of(self.site, nodes=nodes))
        fresh.rename(self.policy)

    def start(self) -> Running:
        """A service on the same policy and data folder."""
        options = ["--policy", str(self.policy), "--port", "0", "--speed", "1", "--tick", "1"]
        self.running.append(Running(self.data, *options))
        return self.running[-1]

    def kill(self) -> None:
        """The newest service and its workers, at once."""
        os.killpg(self.running[-1].process.pid, signal.SIGKILL)
        self.running[-1].process.wait()

    def until(self, true) -> None:
        """Wait for it, and see that the service lives."""

        def look() -> bool:
            assert self.running[-1].process.poll() is None, self.running[-1].text
            return bool(true())

        assert wait_for(look, within_s=WAIT_S), self.running[-1].text

    def alive(self) -> Counter[str]:
        """Machines that cost money, by launch token."""
        states = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
        tags = [{t["Key"]: t["Value"] for t in row["Tags"]} for row in self.site.listed(Filters=states)]
        return Counter(t[TOKEN_TAG] for t in tags)

    def ever(self) -> Counter[str]:
        """Every machine that was ever rented within the hour, by launch token."""
        tags = [{t["Key"]: t["Value"] for t in row["Tags"]} for row in self.site.listed()]
        return Counter(t[TOKEN_TAG] for t in tags)

    def intents(self) -> dict[str, int]:
        """Nodes by token as the ledger promised them."""
        ledger = SqlLedger(f"sqlite:///{self.data / 'ledger.sqlite'}")
        with ledger.engine.connect() as connection:
            found = {row.token: row.nodes for row in connection.execute(sa.select(INTENTS))}
        ledger.close()
        return found

    def told(self) -> Counter[str]:
        """Machines by pool as `elastic nodes` tells them, those left out that nobody has seen yet."""
        command = [sys.executable, "-m", "elastic", "nodes", "--data", str(self.data), "--format", "json"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
        return Counter(m["pool"] for m in json.loads(done.stdout)["machines"] if m["stage"] != "requested")


@pytest.fixture
def story(site: Site, tmp_path):
    one = Story(site, tmp_path)
    yield one
    for running in one.running:
        if running.process.poll() is None:
            os.killpg(running.process.pid, signal.SIGKILL)
            running.process.wait()


def goes_on_and_ends_clean(story: Story, wanted: dict[str, int]) -> None:
    """The next service on the same folder: each token takes effect once, all is known, and nothing is left."""
    service = story.start()
    story.until(lambda: "listening on" in service.text and sum(story.alive().values()) >= sum(wanted.values()))
    tick = service.health().json()["tick"]
    story.until(lambda: service.health().json()["tick"] >= tick + 5)
    alive, promised = story.alive(), story.intents()
    assert sum(alive.values()) == sum(wanted.values()), "as many as wished, and no second set"
    assert all(promised[token] == nodes for token, nodes in alive.items()), "a promise for each, and as promised"
    assert story.told() == Counter(wanted)
    story.wish(dict.fromkeys(NODES, 0))
    story.until(lambda: not story.alive())
    assert story.ever() == alive, "each token had its effect once, from the first to the last"
    assert service.end(signal.SIGTERM) == 0
    assert "Traceback" not in service.text


@pytest.mark.slow
def test_killed_between_intent_and_reply_a_launch_takes_effect_once_and_nothing_leaks(story: Story):
    aws: AwsProcess = story.site.aws
    aws.trouble(delay_s={"create_fleet": 4.0})
    story.start()
    story.until(lambda: aws.counts().get("CreateFleet"))
    story.kill()
    assert len(story.intents()) == 1
    assert not story.alive(), "the call is in flight"
    aws.trouble(delay_s={})
    assert wait_for(lambda: bool(story.alive())), "it takes effect although nobody is there any more"
    goes_on_and_ends_clean(story, NODES)


@pytest.mark.slow
def test_killed_between_reply_and_commit_a_launch_is_found_again_and_nothing_leaks(story: Story):
    """The second pool's launch template waits: the first pool's launch is answered, and its tick not yet written."""
    aws: AwsProcess = story.site.aws
    aws.trouble(delay_s={"create_launch_template": 4.0})
    story.start()
    story.until(lambda: aws.counts().get("CreateLaunchTemplate", 0) == 2)
    assert aws.counts()["CreateFleet"] == 1
    story.kill()
    aws.trouble(delay_s={})
    answered = story.alive()
    assert list(answered.values()) == [NODES["first"]], "rented"
    assert len(story.intents()) == 2, "both promised, and no tick was written that knows of them"
    # The other's answer may still come for all the service knows: ten minutes long it is not bought again.
    goes_on_and_ends_clean(story, {"first": NODES["first"]})
    assert story.ever() == answered
