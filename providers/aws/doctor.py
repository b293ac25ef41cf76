"""Whether an account is ready for a policy: asked read-only, each finding with its fix. Called by `elastic doctor`.

Nothing is made or changed: reads, dry runs and IAM's own simulation.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from providers.aws.account import CONTROLLER_TAG, MADE_BY, MADE_BY_TAG, OWNER_TAG, NodeShape
from providers.aws.cloud import AwsCloud
from providers.aws.rights import PARAMETER, actions_of, rights
from providers.errors import AccessDenied, InvalidRequest, NotFound, ProviderError
from providers.facts import CapacityType, Offering

FEW_OFFERINGS = 5  # fewer, and one shortage stops a pool (capacity-anchors (d): accept 5, aim 15)
_ASSUMED = re.compile(r"^arn:([\w-]+):sts::(\d+):assumed-role/([^/]+)/")


class Verdict(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One finding. `fix` says what to do; '' when nothing has to be done."""

    subject: str
    verdict: Verdict
    detail: str
    fix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolWish:
    """What a policy's pool asks of the account."""

    name: str
    gpu_model: str
    gpus_per_node: int
    max_nodes: int
    instance_types: tuple[str, ...]
    zones: tuple[str, ...]
    capacity_types: tuple[CapacityType, ...]


def examine(cloud: AwsCloud, wishes: Iterable[PoolWish], at: datetime) -> list[Check]:
    """Every check of one account. Without an identity there is nothing more to ask."""
    identity, who = _identity(cloud)
    if not who:
        return identity
    cloud.offerings.refresh(at)
    offerings = cloud.offerings.offerings(at)
    found = [*identity, *_permissions(cloud, who), *_network(cloud), *_queue(cloud, who), *_images(cloud)]
    for wish in wishes:
        found += _pool(wish, offerings)
    return [*found, *_sources(cloud)]


def _ok(subject: str, detail: str) -> Check:
    return Check(subject=subject, verdict=Verdict.OK, detail=detail)


def _failed(subject: str, detail: str, fix: str) -> Check:
    return Check(subject=subject, verdict=Verdict.FAILED, detail=detail, fix=fix)


def _warning(subject: str, detail: str, fix: str) -> Check:
    return Check(subject=subject, verdict=Verdict.WARNING, detail=detail, fix=fix)


def _identity(cloud: AwsCloud) -> tuple[list[Check], Mapping[str, str]]:
    try:
        who = cloud.calls.read("sts", "get_caller_identity")
    except ProviderError as trouble:
        fix = "give the process a role or AWS_PROFILE, and check the region and the way out to the network"
        return [_failed("identity", trouble.detail, fix)], {}
    return [_ok("identity", f"{who['Arn']} in account {who['Account']}, region {cloud.account.region}")], who


def _permissions(cloud: AwsCloud, who: Mapping[str, str]) -> list[Check]:
    """IAM's simulation of what the controller calls, with the resources and tags of each call; and a dry run."""
    arn = _role_arn(who["Arn"])
    asked = list(rights(cloud.account, account_id=who["Account"]))
    denied: dict[str, None] = {}
    try:
        for right in asked:
            answer = cloud.calls.read("iam", "simulate_principal_policy", **right.asked(arn))
            rows = answer.get("EvaluationResults") or ()
            denied |= {str(r["EvalActionName"]): None for r in rows if r["EvalDecision"] != "allowed"}
    except ProviderError as trouble:
        words = f"could not be simulated: {trouble.detail}"
        return [_warning("permissions", words, "allow iam:SimulatePrincipalPolicy"), *_dry_runs(cloud)]
    if denied:
        fix = "apply terraform's module controller-role; a permissions boundary or an SCP may deny it as well"
        return [_failed("permissions", f"denied: {', '.join(denied)}", fix), *_dry_runs(cloud)]
    words = f"{len(actions_of(asked))} actions allowed with our tags (simulated; iam:PassRole was not asked)"
    return [_ok("permissions", words), *_dry_runs(cloud)]


def _role_arn(arn: str) -> str:
    """IAM simulates roles, not their sessions."""
    session = _ASSUMED.match(arn)
    return f"arn:{session[1]}:iam::{session[2]}:role/{session[3]}" if session else arn


def _dry_runs(cloud: AwsCloud) -> list[Check]:
    """What can be tried without effect: a launch template as we would make it."""
    tags = [
        {"Key": OWNER_TAG, "Value": cloud.account.owner},
        {"Key": CONTROLLER_TAG, "Value": cloud.account.controller},
        {"Key": MADE_BY_TAG, "Value": MADE_BY},
    ]
    image_id = next((s.image_id for s in cloud.account.shapes.values()), "")
    try:
        cloud.calls.write(
            "ec2",
            "create_launch_template",
            DryRun=True,
            LaunchTemplateName=f"elastic-{cloud.account.controller}-dry-run",
            LaunchTemplateData={"ImageId": image_id},
            TagSpecifications=[{"ResourceType": "launch-template", "Tags": tags}],
        )
    except AccessDenied as trouble:
        return [_failed("dry run", trouble.detail, "allow ec2:CreateLaunchTemplate with our tags")]
    except ProviderError as trouble:
        if "DryRunOperation" not in trouble.detail:
            return [_warning("dry run", trouble.detail, "look at the words: EC2 did not like the request")]
    return [_ok("dry run", "a launch template would be made")]


def _network(cloud: AwsCloud) -> list[Check]:
    account = cloud.account
    vpcs, found = _subnets(cloud)
    groups = sorted({g for shape in account.shapes.values() for g in shape.security_group_ids})
    for group in groups:
        try:
            rows = cloud.calls.read("ec2", "describe_security_groups", GroupIds=[group])["SecurityGroups"]
        except ProviderError as trouble:
            found.append(_failed(f"security group {group}", trouble.detail, "name one that exists in this account"))
            continue
        vpc = rows[0].get("VpcId", "") if rows else ""
        if vpcs and vpc not in vpcs:
            fix = f"a group belongs to one VPC: name one of {', '.join(sorted(vpcs))}"
            found.append(_failed(f"security group {group}", f"it is in {vpc}, the subnets are not", fix))
        else:
            found.append(_ok(f"security group {group}", f"in {vpc}"))
    return found


def _subnets(cloud: AwsCloud) -> tuple[set[str], list[Check]]:
    found: list[Check] = []
    vpcs: set[str] = set()
    for zone, subnet in cloud.account.subnets.items():
        subject = f"subnet {subnet}"
        try:
            rows = cloud.calls.read("ec2", "describe_subnets", SubnetIds=[subnet])["Subnets"]
        except ProviderError as trouble:
            found.append(_failed(subject, trouble.detail, "name a subnet of this account and region"))
            continue
        row = rows[0] if rows else {}
        vpcs.add(str(row.get("VpcId", "")))
        if row.get("AvailabilityZone") != zone:
            found.append(_failed(subject, f"it is in {row.get('AvailabilityZone')}, not in {zone}", "swap the zones"))
        else:
            found.append(
                _ok(subject, f"{zone}, {row.get('VpcId')}, {row.get('AvailableIpAddressCount')} addresses free")
            )
    if len(vpcs) > 1:
        fix = "one security group cannot serve two VPCs: use subnets of one"
        found.append(_failed("subnets", f"they are in {', '.join(sorted(vpcs))}", fix))
    return vpcs, found


def _queue(cloud: AwsCloud, who: Mapping[str, str]) -> list[Check]:
    url = cloud.account.queue_url
    if not url:
        fix = "apply terraform's module interruption-events and name its queue_url"
        return [_warning("queue", "none is named: interruptions are seen only when machines are gone", fix)]
    owner = url.rstrip("/").split("/")[-2] if url.count("/") >= 4 else ""
    if owner.isdecimal() and owner != who["Account"]:
        fix = "name the queue of this account; EventBridge delivers where the machines are"
        return [_failed("queue", f"it belongs to account {owner}, we are {who['Account']}", fix)]
    try:
        answer = cloud.calls.read("sqs", "get_queue_attributes", QueueUrl=url, AttributeNames=["All"])
    except ProviderError as trouble:
        return [_failed("queue", trouble.detail, "check queue_url and sqs:GetQueueAttributes")]
    attributes = answer.get("Attributes") or {}
    waiting = attributes.get("ApproximateNumberOfMessages", "?")
    found = [_ok("queue", f"{attributes.get('QueueArn', url)}, {waiting} message(s) wait")]
    if "events.amazonaws.com" not in str(attributes.get("Policy", "")):
        fix = "the queue's policy must let events.amazonaws.com send: terraform's module interruption-events does"
        found.append(_warning("queue", "nothing lets EventBridge send to it", fix))
    return found


def _images(cloud: AwsCloud) -> list[Check]:
    shapes = {s.image_id: s for s in cloud.account.shapes.values()}
    return [_image(cloud, shape) for shape in shapes.values()]


def _image(cloud: AwsCloud, shape: NodeShape) -> Check:
    subject, image_id = f"image {shape.image_id}", shape.image_id
    try:
        if image_id.startswith(PARAMETER):
            name = image_id.removeprefix(PARAMETER)
            image_id = str(cloud.calls.read("ssm", "get_parameter", Name=name)["Parameter"]["Value"])
        rows: list[dict[str, Any]] = cloud.calls.read("ec2", "describe_images", ImageIds=[image_id])["Images"]
    except (NotFound, InvalidRequest) as trouble:
        return _failed(subject, trouble.detail, "name an image of this region that this account may use")
    except ProviderError as trouble:
        return _warning(subject, f"could not be looked at: {trouble.detail}", "allow ec2:DescribeImages")
    row = rows[0] if rows else {}
    if row.get("State") != "available":
        return _failed(subject, f"{image_id} is {row.get('State') or 'not there'}", "name an image that is available")
    device = row.get("RootDeviceName")
    if device and device != shape.root_device:
        fix = f"set root_device: {device}, or the root volume keeps the image's size and encryption"
        return _failed(subject, f"its root device is {device}, the policy says {shape.root_device}", fix)
    return _ok(subject, f"{image_id}: {row.get('Name', '')}, {row.get('Architecture', '')}")


def _pool(wish: PoolWish, offerings: Iterable[Offering]) -> list[Check]:
    """Types that are offered, how many ways there are to rent, prices, quota against the pool's ceiling."""
    subject = f"pool {wish.name}"
    mine = [o for o in offerings if _fits(wish, o)]
    missing = [t for t in wish.instance_types if not any(o.instance_type == t for o in offerings)]
    found = [
        _failed(subject, f"{t} is offered in no zone with a subnet", "`elastic offerings` lists what is")
        for t in missing
    ]
    if not mine:
        wanted = f"{wish.gpus_per_node} x {wish.gpu_model}"
        return [*found, _failed(subject, f"nothing offers nodes of {wanted}", "name another shape, zone or region")]
    unpriced = [o.key for o in mine if o.price_usd_per_hour is None]
    if unpriced:
        found.append(_warning(subject, f"no price: {', '.join(unpriced[:3])}", "it is not rented until it has one"))
    for market in dict.fromkeys(o.capacity_type for o in mine):
        found += _quota(wish, subject, market, [o for o in mine if o.capacity_type is market])
    if len(mine) < FEW_OFFERINGS:
        fix = f"name more types or zones: {FEW_OFFERINGS} at least, 15 is good"
        found.append(_warning(subject, f"only {len(mine)} offering(s): one shortage stops it", fix))
    cheapest = min((o for o in mine if o.price_usd_per_hour), key=_usd, default=None)
    if cheapest is not None:
        words = f"{len(mine)} offering(s), from {_usd(cheapest):.2f} USD an hour ({cheapest.key})"
        found.append(_ok(subject, words + (", an estimate" if cheapest.estimated else "")))
    return found


def _usd(offering: Offering) -> float:
    return offering.price_usd_per_hour or 0.0


def _quota(wish: PoolWish, subject: str, market: CapacityType, mine: list[Offering]) -> list[Check]:
    known = [o.quota_nodes for o in mine if o.quota_nodes is not None]
    if not known or max(known) >= wish.max_nodes:
        return []
    detail = f"the {market.value} quota leaves {max(known)} node(s), the policy's ceiling is {wish.max_nodes}"
    verdict = _failed if max(known) == 0 else _warning
    return [verdict(subject, detail, "ask for more in Service Quotas (vCPUs of the family), or lower max_nodes")]


def _fits(wish: PoolWish, offering: Offering) -> bool:
    return (
        offering.gpus == wish.gpus_per_node
        and offering.gpu_model == wish.gpu_model
        and offering.capacity_type in wish.capacity_types
        and (not wish.instance_types or offering.instance_type in wish.instance_types)
        and (not wish.zones or offering.zone in wish.zones)
    )


def _sources(cloud: AwsCloud) -> list[Check]:
    subject = "prices and quotas"
    told = [_warning(subject, line, "allow the call it names") for line in cloud.offerings.trouble]
    return told or [_ok(subject, "all sources answer")]
