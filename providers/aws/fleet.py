"""Renting: EC2 Fleet of type `instant`, from ranked offerings. Called by `cloud`.

Markets are tried in the order the offerings are ranked; within one market EC2 picks by price and capacity. A gang gets
one zone or none: a part of it is given back at once and the next zone follows in the same call.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from providers.aws.account import (
    CLUSTER_TAG,
    CONTROLLER_TAG,
    ENDS_AT_TAG,
    MADE_BY,
    MADE_BY_TAG,
    OWNER_TAG,
    POOL_TAG,
    TEAM_TAG,
    TOKEN_TAG,
    AwsAccount,
)
from providers.aws.calls import Calls
from providers.aws.errors import meaning_of
from providers.aws.templates import Templates
from providers.errors import InsufficientCapacity, InvalidRequest, NotFound, ProviderError, QuotaExceeded, Unreachable
from providers.facts import CapacityType, Instance, InstanceState, LaunchReply, LaunchRequest, Offering, OfferingFailure

MOST_NODES_A_CALL = 500  # capacity-anchors (d): ParallelCluster's launch batch
MOST_OFFERINGS = 15  # capacity-anchors (d): aim 15, accept 5
CALLS_AT_ONCE = 4
CAPACITY_BLOCK = "capacity-block"


@dataclass(frozen=True, slots=True)
class _Part:
    """One call of a launch: so many nodes from offerings of one market."""

    offerings: tuple[Offering, ...]
    nodes: int
    name: str  # within the launch, for its client token


@dataclass(slots=True)
class _Found:
    """What the calls of a launch brought so far."""

    instances: list[Instance]
    failures: dict[str, OfferingFailure]

    def add(self, other: "_Found") -> None:
        self.instances += other.instances
        self.failures |= other.failures


class Fleet:
    """Launches of one account and region. `give_back` ends machines that have just come."""

    def __init__(
        self,
        account: AwsAccount,
        calls: Calls,
        templates: Templates,
        *,
        give_back: Callable[[Sequence[Instance]], object],
    ) -> None:
        self._account, self._calls, self._templates, self._give_back = account, calls, templates, give_back
        self._zones = {subnet: zone for zone, subnet in account.subnets.items()}

    def launch(self, request: LaunchRequest, at: datetime, *, attempt: int = 0) -> LaunchReply:
        """See `Cloud.launch`. `attempt` counts sure failures of the same token: each is a question of its own to EC2,
        which would otherwise answer the next one with the failure it remembers."""
        if not request.offerings or request.nodes < 1:
            raise InvalidRequest("a launch needs offerings and at least one node")
        if request.pool not in self._account.shapes:
            raise InvalidRequest(f"cloud {self._account.name} has no image and settings for pool {request.pool}")
        offerings = [o for o in request.offerings if o.zone in self._account.subnets]
        if not offerings:
            zones = ", ".join(sorted({o.zone for o in request.offerings}))
            raise InvalidRequest(f"no subnet is named for any of the zones {zones}")
        found, refused = _Found([], {}), None
        steps = _zones_of(offerings) if request.gang else _markets(offerings)
        for number, mine in enumerate(steps):
            missing = request.nodes - len(found.instances)
            if missing <= 0:
                break
            parts = [_Part(mine, n, f"{attempt}.{number}.{i}") for i, n in enumerate(_chunks(missing))]
            try:
                found.add(self._whole(request, parts, at) if request.gang else self._call_all(request, parts, at))
            except (InsufficientCapacity, QuotaExceeded) as trouble:  # of the whole call: the next step may do
                refused = trouble
                found.failures |= _failed(mine, trouble.kind, trouble.detail, trouble.scope)
            except ProviderError as trouble:
                if isinstance(trouble, Unreachable) or not found.instances:
                    raise
                found.failures |= _failed(mine, trouble.kind, trouble.detail, trouble.scope)
                break  # what an earlier step brought is an answer
        if (
            refused is not None
            and not found.instances
            and all(f.detail == refused.detail for f in found.failures.values())
        ):
            raise refused  # EC2 said nothing about single offerings
        return LaunchReply(instances=tuple(found.instances), failures=tuple(found.failures.values()))

    def _whole(self, request: LaunchRequest, parts: list[_Part], at: datetime) -> _Found:
        """All nodes of a gang, or none: what came of a zone that could not give all is given back."""
        found, nodes = self._call_all(request, parts, at), sum(p.nodes for p in parts)
        if found.instances and len(found.instances) < nodes:
            self._give_back(found.instances)
            detail = f"only {len(found.instances)} of the {nodes} nodes of a gang came: given back"
            short = _failed(parts[0].offerings, InsufficientCapacity.kind, detail, "offering")
            return _Found([], short | found.failures)  # EC2 need not say why the others did not come
        return found

    def _call_all(self, request: LaunchRequest, parts: list[_Part], at: datetime) -> _Found:
        """The calls of one step, at once. One that is refused does not make the others' machines forgotten: single
        nodes are an answer; of a gang they are given back. A call whose effect is not known is told."""
        if len(parts) == 1:
            return self._call(request, parts[0], at)
        with ThreadPoolExecutor(max_workers=CALLS_AT_ONCE) as pool:
            futures = [pool.submit(self._call, request, part, at) for part in parts]
        found, refused = _Found([], {}), None
        for future in futures:
            try:
                found.add(future.result())
            except ProviderError as trouble:
                refused = trouble
        if refused is None or (found.instances and not request.gang and not isinstance(refused, Unreachable)):
            return found
        if found.instances and request.gang:
            self._give_back(found.instances)
        raise refused

    def _call(self, request: LaunchRequest, part: _Part, at: datetime) -> _Found:
        first = part.offerings[0]
        is_block = first.capacity_type is CapacityType.RESERVED and first.ends_at is not None
        template_id = self._templates.id_for(
            self._account.shapes[request.pool], at, reservation_id=first.reservation_id, is_block=is_block
        )
        asked = self._asked(request, part, template_id, at, is_block=is_block)
        try:
            answer = self._calls.write("ec2", "create_fleet", **asked)
        except NotFound as trouble:
            if "LaunchTemplate" in trouble.detail:
                self._templates.forget(template_id)  # somebody removed it: the next launch makes it again
            raise
        return self._read(request, part, answer, at, str(asked["TagSpecifications"][0]["Tags"][-1]["Value"]))

    def _asked(
        self, request: LaunchRequest, part: _Part, template_id: str, at: datetime, *, is_block: bool
    ) -> dict[str, Any]:
        overrides = [
            {"InstanceType": o.instance_type, "SubnetId": self._account.subnets[o.zone], "Priority": float(rank)}
            for rank, o in enumerate(part.offerings)
        ]
        is_spot = part.offerings[0].capacity_type is CapacityType.SPOT
        options: dict[str, Any] = {"AllocationStrategy": "price-capacity-optimized" if is_spot else "prioritized"}
        if request.gang:
            options |= {"SingleAvailabilityZone": True, "MinTargetCapacity": part.nodes}
        market = CAPACITY_BLOCK if is_block else "spot" if is_spot else "on-demand"
        return {
            "Type": "instant",
            "ClientToken": f"{request.token}.{part.name}"[:64],
            "LaunchTemplateConfigs": [
                {
                    "LaunchTemplateSpecification": {"LaunchTemplateId": template_id, "Version": "$Latest"},
                    "Overrides": overrides,
                }
            ],
            "TargetCapacitySpecification": {
                "TotalTargetCapacity": part.nodes,
                "DefaultTargetCapacityType": market,
            },
            "SpotOptions" if is_spot else "OnDemandOptions": options,
            "TagSpecifications": [
                {"ResourceType": "instance", "Tags": self._tags(request, part, at)},
                {"ResourceType": "fleet", "Tags": self._tags(request, part, at)},
            ],
        }

    def _tags(self, request: LaunchRequest, part: _Part, at: datetime) -> list[dict[str, str]]:
        """Who owns it, what it is for and when it ends, in the same call that rents it: never later (F001)."""
        ends = [at + timedelta(seconds=self._account.lease_s), request.ends_at, part.offerings[0].ends_at]
        tags = {
            OWNER_TAG: self._account.owner,
            CONTROLLER_TAG: self._account.controller,
            MADE_BY_TAG: MADE_BY,
            CLUSTER_TAG: request.cluster,
            POOL_TAG: request.pool,
            TEAM_TAG: request.team,
            TOKEN_TAG: request.token,
            ENDS_AT_TAG: min(e for e in ends if e is not None).isoformat(timespec="seconds"),
        }
        return [{"Key": key, "Value": value} for key, value in tags.items()]

    def _read(self, request: LaunchRequest, part: _Part, answer: dict[str, Any], at: datetime, ends_at: str) -> _Found:
        by_place = {(o.instance_type, o.zone): o for o in part.offerings}
        instances: list[Instance] = []
        for row in answer.get("Instances") or ():
            overrides = (row.get("LaunchTemplateAndOverrides") or {}).get("Overrides") or {}
            place = str(row.get("InstanceType") or overrides.get("InstanceType", "")), self._zone(overrides)
            offering = by_place.get(place) or _nearest(part.offerings, *place)
            instances += [self._instance(str(i), request, offering, at, ends_at) for i in row.get("InstanceIds") or ()]
        return _Found(instances, self._failures(part, answer, by_place, missing=part.nodes - len(instances)))

    def _instance(
        self, instance_id: str, request: LaunchRequest, offering: Offering, at: datetime, ends_at: str
    ) -> Instance:
        return Instance(
            id=instance_id,
            cloud=self._account.name,
            pool=request.pool,
            token=request.token,
            team=request.team,
            state=InstanceState.PENDING,
            instance_type=offering.instance_type,
            zone=offering.zone,
            region=self._account.region,
            capacity_type=offering.capacity_type,
            gpus=offering.gpus,
            price_usd_per_hour=offering.price_usd_per_hour or 0.0,
            price_source=offering.price_source,
            requested_at=at,
            ends_at=datetime.fromisoformat(ends_at),
        )

    def _failures(
        self, part: _Part, answer: dict[str, Any], by_place: dict[tuple[str, str], Offering], *, missing: int
    ) -> dict[str, OfferingFailure]:
        failures: dict[str, OfferingFailure] = {}
        for row in answer.get("Errors") or ():
            overrides = (row.get("LaunchTemplateAndOverrides") or {}).get("Overrides") or {}
            offering = by_place.get((str(overrides.get("InstanceType", "")), self._zone(overrides)))
            meaning = meaning_of(str(row.get("ErrorCode", "")))
            detail = f"{row.get('ErrorCode', '')}: {row.get('ErrorMessage', '')}"
            for one in [offering] if offering else part.offerings:
                failures[one.key] = OfferingFailure(
                    offering_key=one.key, error_kind=meaning.kind.kind, detail=detail, scope=meaning.scope
                )
        if missing == part.nodes and not failures:
            detail = f"none of {part.nodes} node(s) came, and no error says why"
            return _failed(part.offerings, InsufficientCapacity.kind, detail, "offering")
        return failures

    def _zone(self, overrides: dict[str, Any]) -> str:
        return str(overrides.get("AvailabilityZone") or self._zones.get(str(overrides.get("SubnetId", "")), ""))


def _markets(offerings: Iterable[Offering]) -> list[tuple[Offering, ...]]:
    """The best offerings of each market, in the order of the best of all; a reservation is a market of its own."""
    return _grouped(offerings, lambda o: (o.capacity_type, o.reservation_id))


def _zones_of(offerings: Iterable[Offering]) -> list[tuple[Offering, ...]]:
    """The same by market and zone: a gang never spans two."""
    return _grouped(offerings, lambda o: (o.capacity_type, o.reservation_id, o.zone))


def _grouped(offerings: Iterable[Offering], key: Callable[[Offering], object]) -> list[tuple[Offering, ...]]:
    found: dict[object, list[Offering]] = {}
    for offering in offerings:
        found.setdefault(key(offering), []).append(offering)
    return [tuple(o[:MOST_OFFERINGS]) for o in found.values()]


def _failed(offerings: Iterable[Offering], kind: str, detail: str, scope: str) -> dict[str, OfferingFailure]:
    return {o.key: OfferingFailure(offering_key=o.key, error_kind=kind, detail=detail, scope=scope) for o in offerings}


def _chunks(nodes: int) -> list[int]:
    full, rest = divmod(nodes, MOST_NODES_A_CALL)
    return [MOST_NODES_A_CALL] * full + ([rest] if rest else [])


def _nearest(offerings: tuple[Offering, ...], instance_type: str, zone: str) -> Offering:
    """The offering an instance most likely came from where the answer does not name its place whole."""
    return next(
        (o for o in offerings if instance_type == o.instance_type or zone == o.zone),
        offerings[0],
    )
