"""Money: what offerings cost, what is spent an hour now, what a launch commits to."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from elastic.planning.plan import Action, Launch, PlanCost, Terminate
from elastic.planning.policy import Guard
from elastic.planning.snapshot import Snapshot
from providers.facts import CapacityType, InstanceState, Offering


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
    return max(price, _on_demand(offering, last_good)) if is_stale else price


def moved_too_far(offering: Offering, *, guard: Guard, last_good: Mapping[str, float]) -> bool:
    """Whether a price lies out of its band around the last good one."""
    price, known = offering.price_usd_per_hour, last_good.get(offering.key)
    if price is None or known is None:
        return False
    return not known / guard.price_band <= price <= known * guard.price_band


def _on_demand(offering: Offering, last_good: Mapping[str, float]) -> float:
    """The dearest last good on-demand price of the type in any zone; 0 if none is known."""
    begin, end = f"{offering.instance_type}/", f"/{CapacityType.ON_DEMAND.value}"
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
