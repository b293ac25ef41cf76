"""What is wrong with a policy's `clouds` and the pools that rent from them, as far as one can tell offline.

Called by `policy_conflicts`. What only the account itself can tell is `elastic doctor`'s.
"""

import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from elastic.planning.policy import Cloud, PolicyDocument, Pool
from elastic.policy_findings import Finding, Severity
from elastic.policy_words import nearest
from elastic.policy_yaml import Loc
from providers.facts import CapacityType

SIMULATED = "sim"  # the name of a simulated cloud that needs no entry
# Fewer offerings than this and one shortage stops the pool (capacity-anchors (d): accept 5, aim 15).
FEW_OFFERINGS = 5
# Shapes by AWS's documentation of each identifier.
_REGION = re.compile(r"^[a-z]{2}(-[a-z]+)+-\d$")
_ZONE = re.compile(r"^[a-z]{2}(-[a-z]+)+-\d[a-z]$")
_SUBNET = re.compile(r"^subnet-[0-9a-f]{8,17}$")
_GROUP = re.compile(r"^sg-[0-9a-f]{8,17}$")
_IMAGE = re.compile(r"^(ami-[0-9a-f]{8,17}|resolve:ssm:/[\w./-]+)$")
_QUEUE = re.compile(r"^https://sqs\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/\d{12}/[\w-]{1,80}(?:\.fifo)?$")
_TAG_VALUE = re.compile(r"^[\w.:/=+@ -]{1,256}$")
_TYPE = re.compile(r"^[a-z0-9-]+\.[a-z0-9-]+$")
_SECRET = re.compile(r"(?i)(BEGIN [A-Z ]*PRIVATE KEY|AKIA[0-9A-Z]{16}|aws_secret|password\s*=)")
_NEEDED = ("region", "owner", "controller", "subnets", "image", "security_groups")


def cloud_findings(document: PolicyDocument) -> Iterator[Finding]:
    """Every finding about clouds, and about pools that rent from EC2."""
    for name, cloud in document.clouds.items():
        if cloud.kind == "aws":
            yield from _missing(name, cloud)
            yield from _shapes(name, cloud)
            yield from _places_agree(name, cloud)
        elif cloud.kind == "sim":
            yield from _unused_keys(name, cloud)
        yield from _no_secrets(name, cloud)
    for name, pool in document.pools.items():
        yield from _pool(name, pool, document.clouds)


def _missing(name: str, cloud: Cloud) -> Iterator[Finding]:
    for key in _NEEDED:
        if not getattr(cloud, key):
            yield Finding(
                loc=("clouds", name),
                uses=(("clouds", name, key),),
                of_key=True,
                message=f"a cloud of kind aws needs {key}",
                hint="terraform's outputs name it",
            )
    if not cloud.queue_url:
        yield Finding(
            loc=("clouds", name),
            uses=(("clouds", name, "queue_url"),),
            of_key=True,
            severity=Severity.WARNING,
            message="no queue_url: interruptions are only seen when machines are gone",
            hint="terraform's module interruption-events makes the queue",
        )


def _shapes(name: str, cloud: Cloud) -> Iterator[Finding]:
    """Identifiers that cannot be what they should be."""
    rows: list[tuple[Loc, str, re.Pattern[str], str]] = [
        (("region",), cloud.region, _REGION, "a region, such as us-east-1"),
        (("owner",), cloud.owner, _TAG_VALUE, "a tag value: letters, digits and . : / = + @ - _"),
        (("controller",), cloud.controller, _TAG_VALUE, "a tag value: letters, digits and . : / = + @ - _"),
        (("image",), cloud.image, _IMAGE, "ami-... or resolve:ssm:/a/parameter"),
    ]
    for zone, subnet in cloud.subnets.items():
        rows.append((("subnets", zone), zone, _ZONE, "a zone, such as us-east-1a"))
        rows.append((("subnets", zone), subnet, _SUBNET, "a subnet, such as subnet-0a1b2c3d"))
    rows += [
        (("security_groups", n), group, _GROUP, "a security group, such as sg-0a1b2c3d")
        for n, group in enumerate(cloud.security_groups)
    ]
    if not cloud.endpoint_url:
        rows.append((("queue_url",), cloud.queue_url, _QUEUE, "https://sqs.REGION.amazonaws.com/ACCOUNT/NAME"))
    for loc, value, pattern, wanted in rows:
        if value and not pattern.match(value):
            yield Finding(loc=("clouds", name, *loc), message=f"{value!r} can't be right", hint=wanted)
    if cloud.endpoint_url and not _is_loopback(cloud.endpoint_url):
        yield Finding(
            loc=("clouds", name, "endpoint_url"),
            severity=Severity.WARNING,
            message=f"{cloud.endpoint_url!r} is no loopback address: calls with credentials go there",
            hint="leave it out for AWS itself",
        )


def _is_loopback(url: str) -> bool:
    try:
        return urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
    except ValueError:
        return False


def _places_agree(name: str, cloud: Cloud) -> Iterator[Finding]:
    """Zones and the queue are of the region."""
    if not _REGION.match(cloud.region):
        return
    for zone in cloud.subnets:
        if _ZONE.match(zone) and not zone.startswith(cloud.region):
            yield Finding(
                loc=("clouds", name, "subnets", zone),
                uses=(("clouds", name, "region"),),
                of_key=True,
                message=f"zone {zone} is not in region {cloud.region}",
                hint="one cloud entry a region",
            )
    queue = _QUEUE.match(cloud.queue_url)
    if queue and queue[1] != cloud.region:
        yield Finding(
            loc=("clouds", name, "queue_url"),
            uses=(("clouds", name, "region"),),
            message=f"the queue is in {queue[1]}, the machines in {cloud.region}",
            hint="EventBridge delivers to a queue of its own region",
        )


def _unused_keys(name: str, cloud: Cloud) -> Iterator[Finding]:
    for key in sorted(cloud.model_fields_set - {"kind"}):
        yield Finding(
            loc=("clouds", name, key),
            severity=Severity.WARNING,
            message=f"a simulated cloud does not use {key}",
            hint="kind: aws rents from EC2, aws-like tries it on loopback",
        )


def _no_secrets(name: str, cloud: Cloud) -> Iterator[Finding]:
    for key, value in (cloud.user_data.values if cloud.user_data else {}).items():
        if _SECRET.search(value):
            yield Finding(
                loc=("clouds", name, "user_data", "values", key),
                message="this looks like a secret: user data can be read by anything on the node",
                hint="put it into Secrets Manager or SSM and name it here",
            )


def _pool(name: str, pool: Pool, clouds: Mapping[str, Cloud]) -> Iterator[Finding]:
    if pool.cloud is None:
        return
    cloud = clouds.get(pool.cloud)
    if cloud is None:
        if pool.cloud != SIMULATED:
            yield Finding(
                loc=("pools", name, "cloud"),
                severity=Severity.WARNING,
                message=f"no {pool.cloud!r} under clouds: it is simulated",
                hint=nearest(pool.cloud, sorted(clouds)) or "describe it under `clouds`",
            )
        return
    if cloud.kind == "aws":
        yield from _rented_pool(name, pool, cloud)


def _rented_pool(name: str, pool: Pool, cloud: Cloud) -> Iterator[Finding]:
    for number, kind in enumerate(pool.instance_types):
        if not _TYPE.match(kind):
            yield Finding(
                loc=("pools", name, "instance_types", number),
                message=f"{kind!r} is no instance type",
                hint="such as p5.48xlarge; `elastic offerings` lists them",
            )
    if pool.image is not None and not _IMAGE.match(pool.image):
        yield Finding(
            loc=("pools", name, "image"), message=f"{pool.image!r} can't be right", hint="ami-... or resolve:ssm:/..."
        )
    for number, zone in enumerate(pool.zones):
        if zone not in cloud.subnets:
            yield Finding(
                loc=("pools", name, "zones", number),
                uses=(("clouds", pool.cloud or "", "subnets"),),
                message=f"cloud {pool.cloud} names no subnet in {zone}",
                hint=f"its zones are {', '.join(cloud.subnets) or 'none'}",
            )
    zones = [z for z in (pool.zones or cloud.subnets) if z in cloud.subnets]
    offerings = len(zones) * len(pool.instance_types)
    if pool.instance_types and 0 < offerings < FEW_OFFERINGS and pool.capacity_types == (CapacityType.SPOT,):
        yield Finding(
            loc=("pools", name, "instance_types"),
            uses=(("clouds", pool.cloud or "", "subnets"), ("pools", name, "zones"), ("pools", name, "capacity_types")),
            severity=Severity.WARNING,
            message=f"spot only, and just {offerings} type(s) times zone(s): one shortage stops the pool",
            hint=f"name {FEW_OFFERINGS} or more, or allow on-demand after spot",
        )
