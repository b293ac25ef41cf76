"""What a test, a demo or a story may do to an AWS-like cloud, and how a fleet is filled under it.

Shared by the AWS in memory (`fake`) and the layer over moto (`providers.sim.aws.layer`): one truth about stock, quotas
and faults for both.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from botocore.exceptions import ClientError

# Where nobody set a price: shares and levels are made up, only their order matters.
DEFAULT_ON_DEMAND_USD, DEFAULT_SPOT_SHARE = 30.0, 0.4
SPOT, ON_DEMAND = "spot", "on-demand"


def refused(code: str, message: str, *, status: int = 400, action: str = "") -> ClientError:
    """An error as boto3 raises it."""
    answer = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, action)


@dataclass(slots=True)
class AwsTrouble:
    """Everything that can be set. Times are instants of the cloud's own clock."""

    stock: dict[tuple[str, str, str], int] = field(
        default_factory=dict
    )  # nodes left by (type, zone, market); absent: any
    quota_nodes: dict[str, int] = field(default_factory=dict)  # nodes our account may have at once, by market
    errors: dict[str, list[tuple[str, str, int]]] = field(default_factory=dict)  # next answers: (code, message, status)
    outages: dict[str, tuple[str, datetime]] = field(default_factory=dict)  # by action: code, until
    lost_replies: dict[str, int] = field(default_factory=dict)  # so many calls take effect, their answer does not come
    delay_s: dict[str, float] = field(default_factory=dict)
    hidden_ids: set[str] = field(default_factory=set)  # left out of listings
    hide_new_s: float = 0.0  # a new machine is not listed for so long
    unknown_new_s: float = 0.0  # a new machine's id is not known for so long, not even when asked for by name
    bare_s: float = 0.0  # a new machine's listing lacks its address for so long
    never_boot: int = 0  # so many of the next machines end while they pend: EC2's own start of them fails
    broken_pages: dict[str, int] = field(default_factory=dict)  # so many calls for a later page of a listing fail
    keeps_minimum: bool = True  # False: a fleet brings a part although all or none was asked for
    pending_s: float = 0.0
    shutting_down_s: float = 0.0
    spot_prices: dict[tuple[str, str], list[tuple[datetime, float]]] = field(default_factory=dict)  # by (type, zone)
    on_demand_prices: dict[str, float] = field(default_factory=dict)
    scores: dict[tuple[str, str], int] = field(default_factory=dict)  # placement scores by (type, zone)
    vcpu_quotas: dict[str, float] = field(default_factory=dict)  # by quota code

    def planned(self, action: str, at: datetime, *, is_later_page: bool = False) -> tuple[str, str, int] | None:
        """The error this call of an action gets; None if it passes."""
        waiting = self.errors.get(action)
        if waiting:
            return waiting.pop(0)
        if is_later_page and self.broken_pages.get(action, 0):
            self.broken_pages[action] -= 1
            return "InternalError", f"{action}: this page cannot be read", 500
        code, until = self.outages.get(action, ("", at))
        return (code, f"{action} is out of order", 500) if at < until else None

    def loses_reply(self, action: str) -> bool:
        """Whether the answer of this call gets lost after it took effect."""
        left = self.lost_replies.get(action, 0)
        if left:
            self.lost_replies[action] = left - 1
        return left > 0

    def spot_price(self, instance_type: str, zone: str, at: datetime) -> float:
        """USD an hour now: the newest of its series, or a made-up one."""
        series = [usd for since, usd in self.spot_prices.get((instance_type, zone), ()) if since <= at]
        return series[-1] if series else DEFAULT_SPOT_SHARE * self.on_demand_price(instance_type)

    def on_demand_price(self, instance_type: str) -> float:
        """USD an hour."""
        return self.on_demand_prices.get(instance_type, DEFAULT_ON_DEMAND_USD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """One way a fleet may be filled."""

    instance_type: str
    zone: str
    subnet_id: str
    priority: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """How a fleet is filled: nodes by override, and why others gave nothing as (override, code, message)."""

    taken: tuple[tuple[Override, int], ...]
    errors: tuple[tuple[Override, str, str], ...]


_NO_CAPACITY, _TOO_FEW = "InsufficientInstanceCapacity", "UnfulfillableCapacity"
_WORDS = {
    "MaxSpotInstanceCountExceeded": "Max spot instance count exceeded",
    "VcpuLimitExceeded": "You have requested more vCPU capacity than your current vCPU limit allows",
    _TOO_FEW: "Unable to fulfill capacity due to your request configuration.",
}
Words = tuple[str, str]  # code and message


def _words(code: str, market: str, override: Override) -> Words:
    if code != _NO_CAPACITY:
        return code, _WORDS[code]
    if market == SPOT:
        return code, "There is no Spot capacity available that matches your request."
    where = f"{override.instance_type} capacity in the Availability Zone you requested ({override.zone})."
    return code, f"We currently do not have sufficient {where}"


def fill(
    trouble: AwsTrouble, overrides: Sequence[Override], nodes: int, *, market: str, asked: Mapping[str, Any],
    alive: Mapping[str, int], at: datetime,
) -> Filling:  # fmt: skip
    """Fill an instant fleet as EC2 does, by its allocation strategy; `asked` are its spot or on-demand options. With a
    minimum that cannot be met nothing is taken. Takes from the stock. `alive`: our nodes by market."""
    errors: dict[Override, Words] = {}
    over_quota = "MaxSpotInstanceCountExceeded" if market == SPOT else "VcpuLimitExceeded"
    room = max(0, trouble.quota_nodes[market] - alive.get(market, 0)) if market in trouble.quota_nodes else nodes
    wanted = min(nodes, room)
    least = max(1, asked.get("MinTargetCapacity", 1)) if trouble.keeps_minimum else 1
    for group in _groups(overrides, asked) if wanted else ():
        taken = pick(trouble, group, wanted, market=market, strategy=asked.get("AllocationStrategy", ""), at=at)
        came = sum(taken.values())
        empty = [o for o in group if o not in taken] if came < wanted else []
        errors |= {o: _words(_NO_CAPACITY, market, o) for o in empty}
        if came < least:
            errors |= {o: _words(_TOO_FEW, market, o) for o in taken}
            continue
        for override, count in taken.items():
            key = override.instance_type, override.zone, market
            if key in trouble.stock:
                trouble.stock[key] -= count
        if came == wanted < nodes:
            errors |= {o: _words(over_quota, market, o) for o in taken}
        return Filling(taken=tuple(taken.items()), errors=tuple((o, *words) for o, words in errors.items()))
    if wanted < nodes:
        errors |= {o: _words(over_quota, market, o) for o in overrides}
    return Filling(taken=(), errors=tuple((o, *words) for o, words in errors.items()))


def _groups(overrides: Sequence[Override], asked: Mapping[str, Any]) -> list[list[Override]]:
    """Which overrides may serve one fleet together: those of one zone, of one type, or all."""
    found: dict[tuple[str, str], list[Override]] = {}
    for override in overrides:
        zone = override.zone if asked.get("SingleAvailabilityZone") else ""
        kind = override.instance_type if asked.get("SingleInstanceType") else ""
        found.setdefault((zone, kind), []).append(override)
    return list(found.values())


def pick(
    trouble: AwsTrouble, overrides: Sequence[Override], nodes: int, *, market: str, strategy: str, at: datetime
) -> dict[Override, int]:
    """How many nodes come from which override (CreateFleet, `AllocationStrategy`). How deep EC2 thinks a pool is nobody
    outside knows: for price-capacity-optimized all that are not dry count as deep, so the price decides."""

    def has(override: Override) -> int:
        return trouble.stock.get((override.instance_type, override.zone, market), nodes)

    def price(override: Override) -> float:
        if market == SPOT:
            return trouble.spot_price(override.instance_type, override.zone, at)
        return trouble.on_demand_price(override.instance_type)

    ranks: dict[str, Callable[[Override], tuple[float, ...]]] = {
        "lowest-price": lambda o: (price(o), o.priority),
        "prioritized": lambda o: (o.priority,),
        "price-capacity-optimized": lambda o: (price(o), o.priority),
        "capacity-optimized": lambda o: (-has(o),),
        "capacity-optimized-prioritized": lambda o: (has(o) < nodes, o.priority),
    }
    taken: dict[Override, int] = {}
    left = nodes
    for override in sorted(overrides, key=ranks[strategy or "lowest-price"]):
        count = min(left, has(override))
        if count > 0:
            taken[override] = count
            left -= count
    return taken
