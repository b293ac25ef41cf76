"""Money: what offerings and running machines cost, what is spent an hour now, what a launch commits to."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import isfinite

from elastic.planning.plan import Action, Launch, PlanCost, Terminate
from elastic.planning.policy import Guard
from elastic.planning.snapshot import Snapshot
from providers.facts import CapacityType, Instance, InstanceState, Offering

# Sources of prices that are no quotation.
LISTING, LAST_GOOD = "the cloud's listing", "last good price"
ASSUMED, NO_PRICE = "on-demand price of the type, assumed", "no price known"


def price_usd_per_hour(
    offering: Offering, *, at: datetime, guard: Guard, last_good: Mapping[str, float]
) -> float | None:
    """The price to plan with, None if the offering is not eligible (F015).

    A price that moved by more than the band is refused: the last good one stays, and the higher of both is taken.
    For a price older than the limit the last good on-demand price of the type is assumed where it is higher; by policy
    such an offering may be stopped instead.
    """
    price = offering.price_usd_per_hour
    if price == 0.0 and offering.capacity_type is CapacityType.RESERVED:
        return price  # a capacity block is paid in advance
    if price is None or not price > 0:
        return None
    is_stale = (at - offering.priced_at).total_seconds() > guard.price_stale_after_s
    if is_stale and guard.price_stale_rule == "stop":
        return None
    if moved_too_far(offering, guard=guard, last_good=last_good):
        price = max(price, last_good[offering.key])
    return max(price, _on_demand(offering.instance_type, last_good)) if is_stale else price


def moved_too_far(offering: Offering, *, guard: Guard, last_good: Mapping[str, float]) -> bool:
    """Whether a price lies out of its band around the last good one."""
    price, known = offering.price_usd_per_hour, last_good.get(offering.key)
    return price is not None and known is not None and not _in_band(price, known, guard)


def _in_band(price: float, known: float, guard: Guard) -> bool:
    return known / guard.price_band <= price <= known * guard.price_band


@dataclass(frozen=True, slots=True)
class HeldPrice:
    """What a machine costs an hour at one reading. `estimated`: no quotation of this offering; where nothing at all is
    known, `is_known` is False and the amount 0: hours to be counted and told, not money."""

    usd_per_hour: float
    source: str
    estimated: bool = False

    @property
    def is_known(self) -> bool:
        return self.source != NO_PRICE


def held_price(instance: Instance, *, guard: Guard, last_good: Mapping[str, float]) -> HeldPrice:
    """The price to cost a rented machine with (F015): its own; out of its band the higher of it and the last good one;
    without one the last good one of its offering, else the dearest known on-demand price of its type."""
    price, source = instance.price_usd_per_hour, instance.price_source or LISTING
    known = last_good.get(instance.offering_key)
    if price == 0.0 and instance.capacity_type is CapacityType.RESERVED:
        return HeldPrice(price, source)  # a capacity block is paid in advance
    if price > 0 and isfinite(price):
        if known is None or _in_band(price, known, guard):
            return HeldPrice(price, source)
        return HeldPrice(max(price, known), f"higher of {source} and {LAST_GOOD}", estimated=True)
    if known is not None:
        return HeldPrice(known, LAST_GOOD, estimated=True)
    usual = _on_demand(instance.instance_type, last_good)
    return HeldPrice(usual, ASSUMED if usual else NO_PRICE, estimated=True)


def dearest_usd_per_hour(offerings: Iterable[Offering]) -> float:
    """What a node costs an hour at most, whichever of the offerings comes."""
    return max((o.price_usd_per_hour or 0.0 for o in offerings), default=0.0)


def _on_demand(instance_type: str, last_good: Mapping[str, float]) -> float:
    """The dearest last good on-demand price of the type in any zone; 0 if none is known."""
    begin, end = f"{instance_type}/", f"/{CapacityType.ON_DEMAND.value}"
    return max((usd for key, usd in last_good.items() if key.startswith(begin) and key.endswith(end)), default=0.0)


def plan_cost(snapshot: Snapshot, actions: Iterable[Action]) -> PlanCost:
    """Hourly cost of rented machines before and after the actions; launches are counted at their first offering, and
    `estimated` says whether one of those prices is not a quoted one."""
    alive = {
        i.id: i.price_usd_per_hour
        for i in snapshot.instances
        if i.state in (InstanceState.PENDING, InstanceState.RUNNING)
    }
    now = sum(alive.values())
    after, committed, estimated = now, 0.0, False
    for action in actions:
        if isinstance(action, Launch):
            price = action.offerings[0].price_usd_per_hour or 0.0
            after += action.nodes * price
            committed += action.nodes * price
            estimated = estimated or action.offerings[0].estimated
        elif isinstance(action, Terminate):
            after -= alive.get(action.instance_id, 0.0)
    return PlanCost(usd_per_hour_now=now, usd_per_hour_after=after, committed_usd=committed, estimated=estimated)
