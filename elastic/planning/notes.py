"""What a person should know beside the actions: sources in trouble, money that runs out, prices nobody believes."""

from collections.abc import Iterable

from elastic.planning.cost import moved_too_far
from elastic.planning.desk import Desk

WARN_SHARE = 0.8  # of a budget: capacity-anchors, 80 % warns and 100 % stops


def notes(desk: Desk) -> tuple[str, ...]:
    """One line each, the same as long as it holds."""
    return (*_sources(desk), *_budgets(desk), *_prices(desk), *_pools(desk))


def _pools(desk: Desk) -> Iterable[str]:
    """Pools that rent nothing because machines do not join, or because the cloud refuses us: a person must look."""
    for name, memory in desk.state.pools.items():
        pool = desk.policy.pools.get(name)
        if pool is None:
            continue
        if memory.paused_until is not None:
            kinds = ", ".join(sorted(k for k, n in desk.state.failed_boots.items() if n)) or "no machine of it"
            yield (
                f"pool {name}: machines do not join ({kinds}); one is tried after {memory.paused_until:%H:%M} UTC:"
                f" look at its image ({pool.image or 'the one of its cloud'}), its launch template and its user data"
            )
        if memory.held_until is not None and desk.at < memory.held_until and memory.held_strikes:
            yield (
                f"pool {name}: {memory.held_strikes} launch(es) in a row were refused, {memory.held_why}; the next try"
                f" is after {memory.held_until:%H:%M} UTC: `elastic doctor --policy FILE` says what is missing"
            )


def _sources(desk: Desk) -> Iterable[str]:
    for reading in desk.snapshot.trouble():
        yield f"{reading.source}: {reading.error}"
    for reading in desk.stale_readings:
        age_min = (desk.at - reading.read_at).total_seconds() / 60
        yield f"{reading.source}: read {age_min:.0f} min ago, older than the policy's stale_after"


def _budgets(desk: Desk) -> Iterable[str]:
    spend, money = desk.state.spend, desk.policy.money
    today, month = spend.day == f"{desk.at:%Y-%m-%d}", spend.month == f"{desk.at:%Y-%m}"
    rows = [
        ("the day", spend.usd_day if today else 0.0, money.usd_per_day),
        ("the month", spend.usd_month if month else 0.0, money.usd_per_month),
    ]
    for name, team in sorted(desk.policy.teams.items()):
        rows.append(
            (f"team {name}'s day", spend.team_usd_day.get(name, 0.0) if today else 0.0, team.budget.usd_per_day)
        )
        usd = spend.team_usd_month.get(name, 0.0) if month else 0.0
        rows.append((f"team {name}'s month", usd, team.budget.usd_per_month))
    for whose, spent, cap in rows:
        if cap and spent >= WARN_SHARE * cap:
            yield f"{spent:.2f} of {cap:.2f} USD of {whose} are spent"


def _prices(desk: Desk) -> Iterable[str]:
    """Prices the guard refuses, for pools of this policy."""
    pools = [pool for pool in desk.policy.pools.values() if pool.place == "burst"]
    wanted = [
        o for o in desk.snapshot.offerings if any(o.cloud == p.cloud and o.gpu_model == p.gpu_model for p in pools)
    ]
    rules = desk.policy.guard
    jumped = [o for o in wanted if moved_too_far(o, guard=rules, last_good=desk.state.prices)]
    if jumped:
        first = jumped[0]
        yield (
            f"{len(jumped)} price(s) are not believed, among them {first.key}: {first.price_usd_per_hour:.2f} after"
            f" {desk.state.prices[first.key]:.2f} USD an hour; the higher counts"
        )
    guessed = [o for o in wanted if o.estimated and o.price_usd_per_hour is not None]
    if guessed:
        yield f"{len(guessed)} price(s) are estimates, among them {guessed[0].key} from {guessed[0].price_source}"
    old = [o for o in wanted if (desk.at - o.priced_at).total_seconds() > rules.price_stale_after_s]
    if old:
        yield f"{len(old)} price(s) are older than {rules.price_stale_after_s / 3600:.0f} h, among them {old[0].key}"
