"""Planned errors, outages, delays, lost answers, events, and the process itself."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError

from providers.aws.records import message_of
from providers.facts import InterruptionKind
from tests.real.aws.aws_process import AwsProcess, Site, ids_of, wait_for


def test_planned_errors_come_once_each_in_their_order(site: Site) -> None:
    site.rent(1)
    errors = [["RequestLimitExceeded", "Request limit exceeded.", 503], ["InternalError", "a < b & c", 500]]
    site.aws.trouble(errors={"describe_instances": errors})
    for code, words, status in errors:
        with pytest.raises(ClientError) as refused:
            site.listed()
        told = refused.value.response
        assert (told["Error"]["Code"], told["Error"]["Message"]) == (code, words)
        assert told["ResponseMetadata"]["HTTPStatusCode"] == status
    assert len(site.listed()) == 1


def test_planned_errors_are_in_the_protocol_of_their_service(site: Site) -> None:
    planned = [["AccessDeniedException", "not allowed", 403]]
    site.aws.trouble(errors={"receive_message": planned, "get_products": planned, "get_caller_identity": planned})
    calls = [
        lambda: site.sqs.receive_message(QueueUrl=site.queue_url),
        lambda: site.aws.client("pricing").get_products(ServiceCode="AmazonEC2"),
        lambda: site.aws.client("sts").get_caller_identity(),
    ]
    for call in calls:
        with pytest.raises(ClientError) as refused:
            call()
        assert refused.value.response["Error"]["Code"] == "AccessDeniedException"
        assert refused.value.response["Error"]["Message"] == "not allowed"


def test_an_outage_lasts_until_its_end_by_the_clouds_clock(site: Site) -> None:
    template = site.template()
    now = datetime.fromisoformat(site.aws.steer("counts")["now"])
    site.aws.trouble(outages={"create_fleet": ["InternalError", (now + timedelta(minutes=40)).isoformat()]})
    for minutes in (20, 19):
        with pytest.raises(ClientError, match="InternalError"):
            site.fleet(template, ["g5.xlarge/a"], 1)
        site.aws.advance(60 * minutes)
    with pytest.raises(ClientError, match="InternalError"):
        site.fleet(template, ["g5.xlarge/a"], 1)
    site.aws.advance(70)
    assert len(ids_of(site.fleet(template, ["g5.xlarge/a"], 1))) == 1


def test_a_lost_answer_has_its_effect_and_the_same_token_tells_it(site: Site) -> None:
    template = site.template()
    site.aws.trouble(lost_replies={"create_fleet": 1})
    with pytest.raises(ConnectionClosedError):
        site.fleet(template, ["g5.xlarge/a"], 2, token="launch-1")
    listed = {row["InstanceId"] for row in site.listed()}
    assert len(listed) == 2
    assert set(ids_of(site.fleet(template, ["g5.xlarge/a"], 2, token="launch-1"))) == listed


def test_a_delayed_answer_is_given_up_by_its_client_and_holds_up_no_other_call(site: Site) -> None:
    site.rent(1)
    site.aws.trouble(delay_s={"describe_instances": 3.0})
    hasty = site.aws.client("ec2", read_timeout=0.5)
    with ThreadPoolExecutor(1) as other:
        waiting = other.submit(hasty.describe_instances)
        assert site.ec2.describe_subnets()["Subnets"]
        with pytest.raises(ReadTimeoutError):
            waiting.result()


def test_fifty_calls_at_once_with_one_token_rent_once(site: Site) -> None:
    template = site.template()
    with ThreadPoolExecutor(8) as many:
        answers = list(
            many.map(lambda _: site.fleet(template, ["g5.xlarge/a"], 2, token="launch-1"), range(50))
        )  # fmt: skip
    assert len({tuple(ids_of(answer)) for answer in answers}) == 1
    assert len(site.listed()) == 2


def test_every_call_is_counted_by_its_action(site: Site) -> None:
    before = site.aws.counts()
    site.rent(1)
    site.listed()
    site.listed()
    site.aws.client("sts").get_caller_identity()
    site.messages()
    after = site.aws.counts()
    new = {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}
    assert new == {
        "CreateLaunchTemplate": 1, "CreateFleet": 1, "DescribeInstances": 2, "GetCallerIdentity": 1, "ReceiveMessage": 1
    }  # fmt: skip


def test_interruption_is_announced_through_eventbridge_and_takes_the_machine_after_its_notice(site: Site) -> None:
    ids = site.rent(2)
    site.aws.interrupt(ids[0], notice_s=120.0)
    (envelope,) = site.messages()
    assert envelope["detail"] == {"instance-id": ids[0], "instance-action": "terminate"}
    assert envelope["resources"] == [f"arn:aws:ec2:us-east-1:123456789012:instance/{ids[0]}"]
    assert site.states(*ids) == ["running", "running"]
    site.aws.advance(121)
    states = {row["InstanceId"]: row["State"]["Name"] for row in site.listed(InstanceIds=ids)}
    assert states == {ids[0]: "terminated", ids[1]: "running"}
    row = site.listed(InstanceIds=ids[:1])[0]
    assert row["StateReason"]["Code"] == "Server.SpotInstanceTermination"


def test_the_adapter_reads_the_envelopes_that_arrive(site: Site) -> None:
    ids = site.rent(1)
    site.aws.interrupt(ids[0])
    site.aws.announce("EC2 Instance Rebalance Recommendation", ids[0])
    site.aws.announce("EC2 Instance State-change Notification", ids[0], state="shutting-down")
    site.aws.announce("EC2 Something Nobody Asked For", ids[0])
    bodies = [body for _ in range(3) for body in site.raw_messages()]
    read = [message_of(body, cloud="aws") for body in bodies]
    assert [m.trouble for m in read] == [""] * 3
    notices = [n for m in read for n in m.notices]
    assert {n.kind for n in notices} == {InterruptionKind.SPOT_INTERRUPTION, InterruptionKind.REBALANCE}
    assert {n.instance_id for n in notices} == set(ids)
    assert [i for m in read for i in m.changed_ids] == ids


def test_a_machine_that_has_ended_is_not_interrupted(site: Site) -> None:
    ids = site.rent(1)
    site.ec2.terminate_instances(InstanceIds=ids)
    for instance_id in (ids[0], "i-0123456789abcdef0"):
        with pytest.raises(ValueError, match="is not running"):
            site.aws.interrupt(instance_id)
    assert site.states(*ids) == ["terminated"]
    assert site.messages() == []


def test_steering_that_makes_no_sense_is_refused_with_its_reason(aws_like: AwsProcess) -> None:
    with pytest.raises(ValueError, match="no such trouble: colour"):
        aws_like.trouble(colour="blue")
    with pytest.raises(ValueError, match="there is trouble, interrupt"):
        aws_like.steer("dance")
    with pytest.raises(ValueError, match="seconds"):
        aws_like.steer("clock")


def test_a_reset_forgets_machines_trouble_counts_and_time(site: Site) -> None:
    site.rent(2)
    site.aws.trouble(stock={"g5.xlarge/us-east-1a/spot": 0})
    before = datetime.fromisoformat(site.aws.steer("counts")["now"])
    site.aws.advance(86_400)
    site.aws.reset()
    assert site.aws.counts() == {}
    after = datetime.fromisoformat(site.aws.steer("counts")["now"])
    assert after - before < timedelta(hours=1)
    fresh = Site(site.aws)
    assert fresh.listed() == []
    assert len(fresh.rent(1)) == 1


def test_the_process_ends_on_sigterm_and_when_its_parent_is_gone() -> None:
    command = [sys.executable, "-m", "providers.sim.aws.server", "--port", "0"]
    for way in ("sigterm", "closed input"):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline().startswith('{"url": "http://127.0.0.1:')
        if way == "sigterm":
            os.kill(process.pid, signal.SIGTERM)
        else:
            process.stdin.close()
        assert wait_for(lambda running=process: running.poll() is not None), way
        assert process.returncode == 0
        process.stdout.close()
        process.stdin.close()
