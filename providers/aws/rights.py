"""What the controller must be allowed to do, with the resources and tags of each call: asked of IAM by `doctor`.

Terraform's module controller-role grants the same list, with the call beside each.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from providers.aws.account import CONTROLLER_TAG, MADE_BY, MADE_BY_TAG, OWNER_TAG, AwsAccount

PARAMETER = "resolve:ssm:"
READS = (
    "ec2:DescribeInstances", "ec2:DescribeLaunchTemplates", "ec2:DescribeInstanceTypes",
    "ec2:DescribeInstanceTypeOfferings", "ec2:DescribeSpotPriceHistory", "ec2:DescribeCapacityReservations",
    "ec2:DescribeSubnets", "ec2:DescribeSecurityGroups", "ec2:DescribeImages", "pricing:GetProducts",
    "servicequotas:GetServiceQuota", "ce:GetCostAndUsage",
)  # fmt: skip
SCORE_READS = ("ec2:GetSpotPlacementScores", "ec2:DescribeAvailabilityZones")
RENTS = ("ec2:CreateFleet", "ec2:RunInstances")
QUEUE = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes")
# Made up: IAM's simulation looks at the shape of an ARN and at the tags in the context, not at what is there.
SOME_INSTANCE, SOME_TEMPLATE = "instance/i-0123456789abcdef0", "launch-template/lt-0123456789abcdef0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """Actions with the ARNs they are used on ((): any) and the condition keys of the call."""

    actions: tuple[str, ...]
    arns: tuple[str, ...] = ()
    context: tuple[tuple[str, str], ...] = ()

    def asked(self, principal: str) -> dict[str, Any]:
        """The arguments of `simulate_principal_policy`."""
        entries = [
            {"ContextKeyName": key, "ContextKeyValues": [value], "ContextKeyType": "string"}
            for key, value in self.context
        ]
        arns = {"ResourceArns": list(self.arns)} if self.arns else {}
        return {
            "PolicySourceArn": principal,
            "ActionNames": list(self.actions),
            **arns,
            **({"ContextEntries": entries} if entries else {}),
        }


def rights(account: AwsAccount, *, account_id: str) -> Iterator[Right]:
    """Everything the controller calls with this account's settings."""
    ec2 = f"arn:aws:ec2:{account.region}:{account_id}:"
    carried = {OWNER_TAG: account.owner, MADE_BY_TAG: MADE_BY}
    asked = {**carried, CONTROLLER_TAG: account.controller}
    on_request = tuple((f"aws:RequestTag/{key}", value) for key, value in asked.items())
    on_resource = tuple((f"aws:ResourceTag/{key}", value) for key, value in carried.items())
    yield Right(actions=(*READS, *(SCORE_READS if account.wants_scores else ())))
    yield Right(actions=RENTS, arns=(f"{ec2}{SOME_INSTANCE}",), context=on_request)
    yield Right(actions=RENTS, arns=(f"{ec2}{SOME_TEMPLATE}",), context=on_resource)
    yield Right(actions=RENTS, arns=tuple(f"{ec2}subnet/{subnet}" for subnet in account.subnets.values()))
    at_creation = (("ec2:CreateAction", "RunInstances"), *on_request)
    yield Right(actions=("ec2:CreateTags",), arns=(f"{ec2}{SOME_INSTANCE}",), context=at_creation)
    yield Right(actions=("ec2:CreateLaunchTemplate",), arns=(f"{ec2}{SOME_TEMPLATE}",), context=on_request)
    yield Right(actions=("ec2:TerminateInstances",), arns=(f"{ec2}{SOME_INSTANCE}",), context=on_resource)
    yield Right(actions=("ec2:DeleteLaunchTemplate",), arns=(f"{ec2}{SOME_TEMPLATE}",), context=on_resource)
    if account.queue_url.count("/") >= 4:
        name = account.queue_url.rstrip("/").split("/")[-1]
        yield Right(actions=QUEUE, arns=(f"arn:aws:sqs:{account.region}:{account_id}:{name}",))
    parameters = sorted(
        {s.image_id.removeprefix(PARAMETER) for s in account.shapes.values() if PARAMETER in s.image_id}
    )
    if parameters:
        ssm = f"arn:aws:ssm:{account.region}:{account_id}:parameter"
        yield Right(
            actions=("ssm:GetParameter", "ssm:GetParameters"), arns=tuple(f"{ssm}{name}" for name in parameters)
        )


def actions_of(found: Iterable[Right]) -> tuple[str, ...]:
    """Every action, once, in order."""
    return tuple(dict.fromkeys(action for right in found for action in right.actions))
