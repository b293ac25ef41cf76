"""What a test, a demo or a story may do to an AWS-like cloud, and how a fleet is filled under it.

Shared by the AWS in memory (`fake`) and the layer over moto (`providers.sim.aws.layer`): one truth about stock, quotas
and faults for both.
"""

from collections.abc import Mapping, Sequence
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
    keeps_minimum: bool = True  # False: a fleet brings a part although all or none was asked for
    pending_s: float = 0.0
    shutting_down_s: float = 0.0
    spot_prices: dict[tuple[str, str], list[tuple[datetime, float]]] = field(default_factory=dict)  # by (type, zone)
    on_demand_prices: dict[str, float] = field(default_factory=dict)
    scores: dict[tuple[str, str], int] = field(default_factory=dict)  # placement scores by (type, zone)
    vcpu_quotas: dict[str, float] = field(default_factory=dict)  # by quota code

    def planned(self, action: str, at: datetime) -> tuple[str, str, int] | None:
        """The error this call of an action gets; None if it passes."""
        waiting = self.errors.get(action)
        if waiting:
            return waiting.pop(0)
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


_WORDS = {
    "InsufficientInstanceCapacity": "There is no Spot capacity available that matches your request.",
    "MaxSpotInstanceCountExceeded": "Max spot instance count exceeded",
    "VcpuLimitExceeded": "You have requested more vCPU capacity than your current vCPU limit allows",
    "UnfulfillableCapacity": "Unable to fulfill capacity due to your request configuration.",
}


def fill(
    trouble: AwsTrouble, overrides: Sequence[Override], nodes: int, *, market: str, asked: Mapping[str, Any],
    alive: Mapping[str, int], at: datetime,
) -> Filling:  # fmt: skip
    """Fill an instant fleet as EC2 does: by price (spot) or priority (on-demand); `asked` are its spot or on-demand
    options. With a minimum that cannot be met nothing is taken. Takes from the stock. `alive`: our nodes by market."""
    room = trouble.quota_nodes[market] - alive.get(market, 0) if market in trouble.quota_nodes else nodes
    if room <= 0:
        code = "MaxSpotInstanceCountExceeded" if market == SPOT else "VcpuLimitExceeded"
        return Filling(taken=(), errors=tuple((o, code, _WORDS[code]) for o in overrides))
    groups = [list(overrides)]
    if asked.get("SingleAvailabilityZone"):
        groups = [[o for o in overrides if o.zone == zone] for zone in dict.fromkeys(o.zone for o in overrides)]
    errors: dict[Override, tuple[str, str]] = {}
    wanted = min(nodes, room)
    for group in groups:
        taken = _take(trouble, group, wanted, market, at)
        short = {o for o in group if o not in taken} if sum(taken.values()) < wanted else set()
        errors |= dict.fromkeys(short, ("InsufficientInstanceCapacity", _WORDS["InsufficientInstanceCapacity"]))
        least = asked.get("MinTargetCapacity", 1) if trouble.keeps_minimum else 1
        if sum(taken.values()) < max(1, least):
            errors |= dict.fromkeys(taken, ("UnfulfillableCapacity", _WORDS["UnfulfillableCapacity"]))
            continue
        for override, count in taken.items():
            key = override.instance_type, override.zone, market
            if key in trouble.stock:
                trouble.stock[key] -= count
        return Filling(taken=tuple(taken.items()), errors=tuple((o, *words) for o, words in errors.items()))
    return Filling(taken=(), errors=tuple((o, *words) for o, words in errors.items()))


def _take(
    trouble: AwsTrouble, overrides: Sequence[Override], nodes: int, market: str, at: datetime
) -> dict[Override, int]:
    def rank(override: Override) -> tuple[float, float]:
        if market != SPOT:
            return override.priority, trouble.on_demand_price(override.instance_type)
        return trouble.spot_price(override.instance_type, override.zone, at), override.priority

    taken: dict[Override, int] = {}
    left = nodes
    for override in sorted(overrides, key=rank):
        has = min(left, trouble.stock.get((override.instance_type, override.zone, market), left))
        if has > 0:
            taken[override] = has
            left -= has
    return taken
