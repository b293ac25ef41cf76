"""The AWS on loopback as tests see it: a process of its own, steered over HTTP, asked with boto3."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import boto3
from botocore.config import Config

REGION = "us-east-1"
START_S = 60.0  # a busy core takes a while to load moto
EVENTS = (
    "EC2 Spot Instance Interruption Warning",
    "EC2 Instance Rebalance Recommendation",
    "EC2 Instance State-change Notification",
)


class AwsProcess:
    """The server and what tests do with it. `end` stops it, by closing its standard input."""

    def __init__(self) -> None:
        checks = {"MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION": "true", "MOTO_ENABLE_AMI_VALIDATION": "true"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "providers.sim.aws.server", "--port", "0"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **checks},
            text=True,
        )
        guard = threading.Timer(START_S, self.process.kill)
        guard.start()
        line = self.process.stdout.readline() if self.process.stdout else ""
        guard.cancel()
        assert line, "the AWS on loopback did not start"
        self.url = str(json.loads(line)["url"])
        self._clients: dict[str, Any] = {}

    def end(self) -> int:
        """Its exit status."""
        self.process.communicate(timeout=20)
        return self.process.returncode

    def client(self, service: str, **settings: Any) -> Any:
        """boto3's, with credentials that are none and without retries."""
        if service not in self._clients or settings:
            usual = {"retries": {"total_max_attempts": 1}, "connect_timeout": 5, "read_timeout": 30}
            config = Config(**{**usual, **settings})
            made = boto3.session.Session(aws_access_key_id="loopback", aws_secret_access_key="loopback").client(
                service, region_name=REGION, endpoint_url=self.url, config=config
            )
            if settings:
                return made
            self._clients[service] = made
        return self._clients[service]

    # Steering

    def steer(self, what: str, **asked: Any) -> dict[str, Any]:
        """One call of the layer's own; ValueError with its words if it refuses."""
        request = Request(f"{self.url}/layer/{what}", data=json.dumps(asked).encode(), method="POST")
        try:
            with urlopen(request, timeout=30) as answer:
                return dict(json.load(answer))
        except HTTPError as refused:
            raise ValueError(json.load(refused)["wrong"]) from refused

    def reset(self) -> None:
        """As just started."""
        self.steer("reset")

    def trouble(self, **fields: Any) -> None:
        """Fields of `AwsTrouble`; keys of several parts with slashes."""
        self.steer("trouble", **fields)

    def interrupt(self, instance_id: str, *, notice_s: float = 120.0) -> None:
        """The cloud takes a spot machine after its notice."""
        self.steer("interrupt", instance_id=instance_id, notice_s=notice_s)

    def announce(self, kind: str, instance_id: str, **detail: Any) -> None:
        """Any other event about a machine."""
        self.steer("announce", kind=kind, instance_id=instance_id, detail=detail)

    def advance(self, seconds: float) -> None:
        """The cloud's clock goes on."""
        self.steer("clock", seconds=seconds)

    def counts(self) -> dict[str, int]:
        """Calls so far by action, as AWS spells it."""
        return dict(self.steer("counts")["counts"])


class Site:
    """An account with what terraform makes: subnets by zone, an image, a group, a queue that a rule sends to."""

    def __init__(self, aws: AwsProcess) -> None:
        self.aws = aws
        self.ec2, self.sqs = aws.client("ec2"), aws.client("sqs")
        subnets = self.ec2.describe_subnets()["Subnets"]
        self.subnets = {row["AvailabilityZone"]: row["SubnetId"] for row in subnets}
        self.zones = {subnet: zone for zone, subnet in self.subnets.items()}
        self.image = self.ec2.register_image(Name="gpu-node", RootDeviceName="/dev/sda1")["ImageId"]
        group = self.ec2.create_security_group(
            GroupName="nodes", Description="rented nodes", VpcId=subnets[0]["VpcId"]
        )  # fmt: skip
        self.group = group["GroupId"]
        self.queue_url = self.sqs.create_queue(QueueName="notices")["QueueUrl"]
        about = self.sqs.get_queue_attributes(QueueUrl=self.queue_url, AttributeNames=["QueueArn"])
        events = aws.client("events")
        events.put_rule(Name="notices", EventPattern=json.dumps({"source": ["aws.ec2"], "detail-type": list(EVENTS)}))
        events.put_targets(Rule="notices", Targets=[{"Id": "queue", "Arn": about["Attributes"]["QueueArn"]}])

    def template(self, name: str = "gpu-node", **data: Any) -> str:
        """The id of a new launch template."""
        data = {"ImageId": self.image, "SecurityGroupIds": [self.group], **data}
        made = self.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data)
        return str(made["LaunchTemplate"]["LaunchTemplateId"])

    def fleet(
        self, template: str, places: list[str], nodes: int, *, market: str = "spot", token: str = "", **options: Any
    ) -> dict[str, Any]:  # fmt: skip
        """An instant fleet; a place is `type/zone letter`, best first."""
        pairs = [place.split("/") for place in places]
        overrides = [
            {"InstanceType": kind, "SubnetId": self.subnets[f"{REGION}{zone}"], "Priority": float(rank)}
            for rank, (kind, zone) in enumerate(pairs)
        ]
        strategy = "price-capacity-optimized" if market == "spot" else "prioritized"
        key = "SpotOptions" if market == "spot" else "OnDemandOptions"
        specification = {"LaunchTemplateId": template, "Version": "$Latest"}
        return dict(
            self.ec2.create_fleet(
                Type="instant",
                LaunchTemplateConfigs=[{"LaunchTemplateSpecification": specification, "Overrides": overrides}],
                TargetCapacitySpecification={"TotalTargetCapacity": nodes, "DefaultTargetCapacityType": market},
                TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "owner", "Value": "research"}]}],
                **{key: {"AllocationStrategy": strategy, **options}},
                **({"ClientToken": token} if token else {}),
            )
        )

    def rent(self, nodes: int, *, place: str = "g5.xlarge/a", market: str = "spot") -> list[str]:
        """The ids of so many machines."""
        return ids_of(self.fleet(self.template(f"gpu-node-{nodes}-{market}"), [place], nodes, market=market))

    def listed(self, **asked: Any) -> list[dict[str, Any]]:
        """Every machine of a listing, page after page."""
        pages = self.ec2.get_paginator("describe_instances").paginate(**asked)
        return [row for page in pages for r in page["Reservations"] for row in r["Instances"]]

    def states(self, *ids: str) -> list[str]:
        """The states of machines, asked for by id."""
        return [row["State"]["Name"] for row in self.listed(InstanceIds=list(ids))]

    def messages(self) -> list[dict[str, Any]]:
        """The events that wait in the queue."""
        return [json.loads(body) for body in self.raw_messages()]

    def raw_messages(self) -> list[str]:
        """The same as texts."""
        found = self.sqs.receive_message(QueueUrl=self.queue_url, MaxNumberOfMessages=10)
        return [str(message["Body"]) for message in found.get("Messages", ())]


def ids_of(answer: dict[str, Any]) -> list[str]:
    """The machines a fleet brought."""
    return [i for row in answer["Instances"] for i in row["InstanceIds"]]


def wait_for(what: Callable[[], bool], *, within_s: float = 10.0) -> bool:
    """Whether it comes true in time."""
    pause = threading.Event()
    for _ in range(int(within_s / 0.05)):
        if what():
            return True
        pause.wait(0.05)
    return what()
