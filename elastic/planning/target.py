"""How many GPUs each family of pools should have and when: demand, forecast, headroom, leases and floors.

The targets are what a person argues about; `keep_nodes` is what scale-out must reach and scale-in must leave.
"""

from datetime import timedelta
from math import ceil

from elastic.planning.desk import Desk, leases_now
from elastic.planning.family import Family
from elastic.planning.plan import Target


def targets(desk: Desk) -> tuple[Target, ...]:
    """One target a family, with its arithmetic in words."""
    return tuple(_target(desk, family) for family in desk.families)


def keep_nodes(desk: Desk) -> dict[str, int]:
    """Rented nodes wanted by pool whatever the queue says: minimum, leases, headroom and the forecast peak ahead."""
    wanted: dict[str, int] = {}
    for family in desk.families:
        for name in family.burst:
            pool = desk.pool(name)
            nodes = max(pool.min_nodes, ceil(_leased_gpus(desk, name) / pool.gpus_per_node))
            headroom = sum(h.gpus for h in pool.headroom if _is_on(desk, h.calendar))
            wanted[name] = nodes + ceil(max(0, headroom - _free_at_home(desk, family)) / pool.gpus_per_node)
        if family.burst:
            first = family.burst[0]
            ahead = ceil(_forecast_shortfall(desk, family) / desk.pool(first).gpus_per_node)
            wanted[first] = max(wanted[first], ahead)
    return wanted


def _target(desk: Desk, family: Family) -> Target:
    waiting = [j for j in desk.pending if desk.terms(j).family is family]
    running = [j for j in desk.running.values() if desk.family_of_pool.get(j.pool) is family]
    home = sum(n.gpus for n in desk.snapshot.nodes if n.pool in family.onprem)
    run_gpus, wait_gpus = sum(j.gpus for j in running), sum(j.gpus for j in waiting)
    headroom = _headroom_gpus(desk, family)
    leased = sum(_leased_gpus(desk, p) for p in family.burst)
    forecast = _forecast_gpus(desk, family)
    demand = run_gpus + wait_gpus
    need = max(demand + headroom, forecast or 0)
    at_home, rented = min(need, home), max(leased, need - home)
    reasons = [f"{run_gpus} running + {wait_gpus} waiting = {demand}"]
    if headroom:
        reasons.append(f"+ {headroom} headroom")
    if forecast is not None:
        reasons.append(f"forecast q{desk.policy.forecast.quantile:g} {forecast}")
    if leased:
        reasons.append(f"{leased} leased")
    return Target(
        pool=family.onprem[0] if family.onprem else family.burst[0],
        needed_by=desk.at + timedelta(seconds=family.lead_time_s),
        gpus_wanted=at_home + rented,
        gpus_on_prem=at_home,
        gpus_burst=rented,
        reasons=tuple(reasons),
    )


def _is_on(desk: Desk, calendar: str | None) -> bool:
    """Whether a window holds now or at the end of the lead time; a calendar that is not known holds nothing."""
    if calendar is None:
        return True
    known = desk.policy.calendars.get(calendar)
    return known is not None and known.is_open(desk.at)


def _headroom_gpus(desk: Desk, family: Family) -> int:
    pools = (*family.onprem, *family.burst)
    return sum(h.gpus for p in pools for h in desk.pool(p).headroom if _is_on(desk, h.calendar))


def _free_at_home(desk: Desk, family: Family) -> int:
    return sum(desk.floors[p].free_gpus for p in family.onprem)


def _leased_gpus(desk: Desk, pool: str) -> int:
    """GPUs of manual bursts that hold now, or start within the pool's lead time."""
    return sum(lease.gpus for lease in leases_now(desk, pool))


def _forecast_gpus(desk: Desk, family: Family) -> int | None:
    """The family's forecast demand when a launch of now would be ready; None without a fresh forecast."""
    rules = desk.policy.forecast
    total: float | None = None
    for pool in family.onprem or family.burst:
        forecast = desk.forecasts.demand.get(pool)
        if forecast is None or (desk.at - forecast.made_at).total_seconds() > rules.max_age_s:
            continue
        ready_at = desk.at + timedelta(seconds=family.lead_time_s)
        value = forecast.at(ready_at, quantile=rules.quantile)
        if value is not None:
            total = (total or 0.0) + value
    return None if total is None else ceil(total)


def _forecast_shortfall(desk: Desk, family: Family) -> int:
    """GPUs to buy ahead of the forecast: the share of what home will lack that falls to work which can neither wait
    for a launch nor displace other work. All else is served in time by launches on demand, which cost nothing when the
    forecast is wrong: buying the whole shortfall ahead kept 14 idle nodes through quiet nights of the made-up desk.
    """
    hurried = {
        name
        for name, rules in desk.policy.classes.items()
        if rules.may_burst and rules.wait_target_s < family.lead_time_s and not rules.may_displace
    }
    if not desk.policy.forecast.prelaunch or not hurried:
        return 0
    home = sum(s.gpus for p in family.onprem for s in desk.floors[p].slots.values())
    missing = max(0, (_forecast_gpus(desk, family) or 0) - home)
    demand = [j for j in (*desk.running.values(), *desk.pending) if desk.family_of_pool.get(j.pool) is family]
    all_gpus = sum(j.gpus for j in demand)
    urgent_gpus = sum(j.gpus for j in demand if j.job_class in hurried)
    return ceil(missing * urgent_gpus / all_gpus) if all_gpus else 0
