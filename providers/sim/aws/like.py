"""An AWS on loopback beside a simulated site: moto behind our layer in a thread, in the site's own time.

It makes what terraform makes for a real account (queue, event rules, image, security group) and plays a market whose
spot machines are taken now and then. Used by the wiring of clouds of kind `aws-like`.
"""

import json
import logging
import threading
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

from providers.aws.account import AwsAccount
from providers.aws.catalogue import catalogue
from providers.aws.clients import Boto3Clients
from providers.facts import Instance, InstanceState
from providers.ports import Clock

REGION = "us-east-1"
NOTICES = (
    "EC2 Spot Instance Interruption Warning",
    "EC2 Instance Rebalance Recommendation",
    "EC2 Instance State-change Notification",
)
# A spot machine lives so long on average before the demo's market takes it: some are lost on every simulated day.
MEAN_LIFE = timedelta(hours=8)
# By zone: how much dearer than the cheapest one.
ZONE_FACTORS = {"a": 1.0, "b": 1.15, "c": 1.3}
SPOT_SHARE = 0.4
PENDING_S, SHUTTING_DOWN_S = 20.0, 40.0


class MissingMoto(RuntimeError):
    """The optional package is not installed; the message says how to get it."""


class AwsLike:
    """The AWS of one demo. `account` is the given one with what was made for it."""

    def __init__(self, account: AwsAccount, clock: Clock, *, seed: int = 1) -> None:
        try:
            from werkzeug.serving import make_server

            from providers.sim.aws.layer import AwsLayer
        except ModuleNotFoundError as missing:
            raise MissingMoto(
                f"a cloud of kind aws-like needs {missing.name}: pip install 'elastic-capacity[aws-like]'"
            ) from missing
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self.layer = AwsLayer(clock.now)
        self._server = make_server("127.0.0.1", 0, self.layer, threaded=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True, name="aws-like")
        self._thread.start()
        self._random, self._ends = Random(seed), dict[str, datetime]()
        bare = replace(
            account,
            region=REGION,
            owner=account.owner or "demo",
            controller=account.controller or "demo",
            endpoint_url=f"http://127.0.0.1:{self._server.server_port}",
        )
        self.account = self._furnished(bare)
        self._set_market()

    def play(self, instances: tuple[Instance, ...], at: datetime) -> None:
        """Take spot machines whose time has come, with two minutes' notice. Called with every listing."""
        for instance in instances:
            if instance.capacity_type.value != "spot" or instance.state is not InstanceState.RUNNING:
                continue
            life_s = self._random.expovariate(1 / MEAN_LIFE.total_seconds()) if instance.id not in self._ends else 0.0
            ends_at = self._ends.setdefault(instance.id, instance.requested_at + timedelta(seconds=life_s))
            if at >= ends_at:
                self._ends[instance.id] = at + MEAN_LIFE  # once
                self.layer.interrupt(instance.id)

    def stop(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def _furnished(self, account: AwsAccount) -> AwsAccount:
        """What terraform makes: a queue that event rules send to, and a network, an image and a group to name."""
        clients = Boto3Clients(account)
        ec2, sqs, events = clients("ec2"), clients("sqs"), clients("events")
        queue_url = sqs.create_queue(QueueName="elastic-interruptions")["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        events.put_rule(Name="elastic", EventPattern=json.dumps({"source": ["aws.ec2"], "detail-type": list(NOTICES)}))
        events.put_targets(Rule="elastic", Targets=[{"Id": "queue", "Arn": arn}])
        zones: dict[str, str] = {}
        for row in ec2.describe_subnets()["Subnets"]:
            if row["AvailabilityZone"][-1] in ZONE_FACTORS:
                zones[row["AvailabilityZone"]] = row["SubnetId"]
        vpc_id = ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
        group = _group(ec2, vpc_id)
        image = ec2.register_image(Name="elastic-node", RootDeviceName="/dev/sda1")["ImageId"]
        shapes = {
            pool: replace(shape, image_id=image, security_group_ids=(group,)) for pool, shape in account.shapes.items()
        }
        return replace(account, queue_url=queue_url, subnets=dict(sorted(zones.items())), shapes=shapes)

    def _set_market(self) -> None:
        """Prices that differ by zone, at the level of the bundled table."""
        trouble = self.layer.trouble
        trouble.pending_s, trouble.shutting_down_s = PENDING_S, SHUTTING_DOWN_S
        long_ago = self.layer.now() - timedelta(days=30)
        for name, row in catalogue().items():
            if row.on_demand_usd_per_hour is None:
                continue
            trouble.on_demand_prices[name] = row.on_demand_usd_per_hour
            for zone in self.account.subnets:
                usd = row.on_demand_usd_per_hour * SPOT_SHARE * ZONE_FACTORS[zone[-1]]
                trouble.spot_prices[name, zone] = [(long_ago, usd)]


def _group(ec2: Any, vpc_id: str) -> str:
    answer = ec2.create_security_group(GroupName="elastic-nodes", Description="rented nodes", VpcId=vpc_id)
    return str(answer["GroupId"])
