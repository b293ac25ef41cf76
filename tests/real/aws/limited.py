"""AWS clients that may do what one IAM policy allows and nothing else: each call is refused as EC2 refuses it, before
it takes effect. Which actions a call needs on which resources: the service authorization reference of each service."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import botocore.session

from providers.sim.aws.fake import ACCOUNT_ID, FakeAws
from providers.sim.aws.trouble import refused
from tests.real.terraform.iam import allows

# Services whose name in IAM is not boto3's.
PREFIXES = {"service-quotas": "servicequotas"}
# Calls that IAM knows by another name.
ACTIONS = {"delete_message_batch": "DeleteMessage"}
Tags = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Need:
    """One question to IAM."""

    action: str
    arn: str = "*"
    context: Mapping[str, Any] = field(default_factory=dict)


class LimitedAws:
    """`clients` is what the adapter takes for boto3. `used` and `refused` are the questions, by how IAM answered."""

    def __init__(self, aws: FakeAws, policy: Mapping[str, Any], *, node_roles: Mapping[str, str]) -> None:
        self._aws, self._policy, self._node_roles = aws, policy, node_roles  # ARNs of roles by instance profile
        self._ec2 = f"arn:aws:ec2:{aws.region}:{ACCOUNT_ID}"
        self.used: list[Need] = []
        self.refused: list[Need] = []

    def clients(self, service: str) -> "LimitedClient":
        """The client of a service."""
        return LimitedClient(self, service)

    def call(self, service: str, operation: str, asked: dict[str, Any]) -> dict[str, Any]:
        """The call, if all it needs is allowed."""
        action = f"{PREFIXES.get(service, service)}:{ACTIONS.get(operation) or _camel(service, operation)}"
        needs = getattr(self, f"_{operation}", None)
        for need in needs(asked) if needs else self._of_service(service, action, asked):
            if not allows(self._policy, need.action, need.arn, context=need.context):
                self.refused.append(need)
                words = f"You are not authorized to perform {need.action} on {need.arn}"
                raise refused("UnauthorizedOperation", words, status=403, action=operation)
            self.used.append(need)
        answer: dict[str, Any] = getattr(self._aws.clients(service), operation)(**asked)
        return answer

    def _of_service(self, service: str, action: str, asked: Mapping[str, Any]) -> Iterator[Need]:
        if service == "sqs":
            yield Need(action, f"arn:aws:sqs:{self._aws.region}:{ACCOUNT_ID}:{asked['QueueUrl'].rpartition('/')[2]}")
        elif service == "ssm":
            yield Need(action, self._parameter(asked["Name"]))
        elif service == "iam":
            yield Need(action, asked["PolicySourceArn"])
        else:
            assert action.partition(":")[2].startswith(("Describe", "Get")), f"what does {action} work on?"
            yield Need(action)

    def _parameter(self, name: str) -> str:
        return f"arn:aws:ssm:{self._aws.region}:{ACCOUNT_ID}:parameter{name}"

    # Calls that change something

    def _create_launch_template(self, asked: Mapping[str, Any]) -> Iterator[Need]:
        tags, arn = _tags_for("launch-template", asked["TagSpecifications"]), f"{self._ec2}:launch-template/lt-new"
        yield Need("ec2:CreateLaunchTemplate", arn, _on_request(tags))
        yield Need("ec2:CreateTags", arn, {"ec2:CreateAction": "CreateLaunchTemplate", **_on_request(tags)})

    def _delete_launch_template(self, asked: Mapping[str, Any]) -> Iterator[Need]:
        row = self._aws.templates.found(asked)
        arn = f"{self._ec2}:launch-template/{row['LaunchTemplateId']}"
        yield Need("ec2:DeleteLaunchTemplate", arn, _on_resource(row["Tags"]))

    def _terminate_instances(self, asked: Mapping[str, Any]) -> Iterator[Need]:
        yield from (Need("ec2:TerminateInstances", arn, tags) for arn, tags in self._machines(asked["InstanceIds"]))

    def _create_tags(self, asked: Mapping[str, Any]) -> Iterator[Need]:
        new = _on_request({t["Key"]: t["Value"] for t in asked["Tags"]})
        for arn, carried in self._machines(asked["Resources"]):
            yield Need("ec2:CreateTags", arn, {**new, **carried})

    def _create_fleet(self, asked: Mapping[str, Any]) -> Iterator[Need]:
        """The fleet, the machines it runs in our name, what they are put together from, and their tags."""
        (config,) = asked["LaunchTemplateConfigs"]
        row = self._aws.templates.found(config["LaunchTemplateSpecification"])
        content, overrides = row["Data"], config["Overrides"]
        tags = {kind: _tags_for(kind, asked["TagSpecifications"]) for kind in ("fleet", "instance")}
        template_arn = f"{self._ec2}:launch-template/{row['LaunchTemplateId']}"
        yield Need("ec2:CreateFleet", f"{self._ec2}:fleet/fleet-new", _on_request(tags["fleet"]))
        for action in ("ec2:CreateFleet", "ec2:RunInstances"):
            yield Need(action, template_arn, _on_resource(row["Tags"]))
            for kind in {o["InstanceType"] for o in overrides}:
                context = {**_on_request(tags["instance"]), "ec2:InstanceType": kind}
                yield Need(action, f"{self._ec2}:instance/i-new", context)
            for arn in self._parts(asked, content, overrides):
                yield Need(action, arn)
        tags["volume"] = _tags_for("volume", content["TagSpecifications"])
        for kind, carried in tags.items():
            made_by = "CreateFleet" if kind == "fleet" else "RunInstances"
            yield Need(
                "ec2:CreateTags", f"{self._ec2}:{kind}/new", {"ec2:CreateAction": made_by, **_on_request(carried)}
            )
        if profile := content.get("IamInstanceProfile"):
            yield Need("iam:PassRole", self._node_roles[profile["Name"]], {"iam:PassedToService": "ec2.amazonaws.com"})
        if content["ImageId"].startswith("resolve:ssm:"):
            yield Need("ssm:GetParameters", self._parameter(content["ImageId"].removeprefix("resolve:ssm:")))

    def _parts(
        self, asked: Mapping[str, Any], content: Mapping[str, Any], overrides: Iterable[Mapping[str, Any]]
    ) -> Iterator[str]:
        """ARNs of what a machine is put together from."""
        yield from sorted({f"{self._ec2}:subnet/{o['SubnetId']}" for o in overrides})
        groups = {g for face in content["NetworkInterfaces"] for g in face["Groups"]}
        yield from (f"{self._ec2}:security-group/{group}" for group in sorted(groups))
        yield from (f"{self._ec2}:{kind}/new" for kind in ("network-interface", "volume"))
        yield from (f"arn:aws:ec2:{self._aws.region}::{kind}/of-image" for kind in ("image", "snapshot"))
        if asked["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == "spot":
            yield f"{self._ec2}:spot-instances-request/new"
        target = content.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
        if reservation_id := target.get("CapacityReservationId"):
            yield f"{self._ec2}:capacity-reservation/{reservation_id}"
        if key_name := content.get("KeyName"):
            yield f"{self._ec2}:key-pair/{key_name}"

    def _machines(self, ids: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """ARN and condition keys of machines; an id that EC2 does not know has no tags."""
        rows = self._aws.ec2.truth()
        for instance_id in ids:
            yield f"{self._ec2}:instance/{instance_id}", _on_resource(rows.get(instance_id, {}).get("Tags", ()))


class LimitedClient:
    """Looks like a boto3 client."""

    def __init__(self, aws: LimitedAws, service: str) -> None:
        self._aws, self._service = aws, service

    def __getattr__(self, operation: str) -> Callable[..., dict[str, Any]]:
        if operation.startswith("_"):
            raise AttributeError(operation)
        return lambda **asked: self._aws.call(self._service, operation, asked)


@cache
def _camel(service: str, operation: str) -> str:
    """AWS's own spelling of a call."""
    names = botocore.session.get_session().get_service_model(service).operation_names
    return next(str(name) for name in names if name.lower() == operation.replace("_", ""))


def _tags_for(kind: str, specifications: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {t["Key"]: t["Value"] for s in specifications if s["ResourceType"] == kind for t in s["Tags"]}


def _on_request(tags: Tags) -> dict[str, Any]:
    return {**{f"aws:RequestTag/{k}": v for k, v in tags.items()}, "aws:TagKeys": list(tags)}


def _on_resource(tags: Iterable[Mapping[str, str]]) -> dict[str, Any]:
    return {f"aws:ResourceTag/{t['Key']}": t["Value"] for t in tags}
