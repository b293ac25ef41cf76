"""The last word over every action: sources, mode, money, ceilings. What it stops moves to `withheld` with the rule.

A launch of single nodes may be cut down to what a rule leaves; a gang is let through whole or withheld whole.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import ceil

from elastic.planning.cost import price_usd_per_hour
from elastic.planning.desk import Desk
from elastic.planning.plan import (
    Action,
    Cordon,
    Displace,
    Drain,
    Forget,
    Launch,
    Move,
    Route,
    Terminate,
    Uncordon,
    Withheld,
)
from elastic.planning.policy import Mode
from elastic.planning.snapshot import Reading
from elastic.planning.state import ControllerMode, InFlight
from providers.facts import InstanceState


@dataclass(slots=True)
class _Counts:
    """What the actions let through so far add up to."""

    launched: dict[str, int] = field(default_factory=dict)  # nodes by pool
    launched_usd_per_hour: float = 0.0
    team_gpus: dict[str, int] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)  # nodes by pool
    running_usd_per_hour: float = 0.0  # what is rented already, seen or not


def guard(desk: Desk, actions: Iterable[Action]) -> tuple[list[Action], list[Withheld]]:
    """Split the actions into those that may be done and those withheld."""
    allowed: list[Action] = []
    withheld: list[Withheld] = []
    counts = _Counts(running_usd_per_hour=_running_usd_per_hour(desk))
    blind = _blind_clusters(desk), any(r.source.startswith("cloud:") for r in _unreadable(desk))
    for action in actions:
        stopped = _pool_rule(desk, action) or _source_rule(desk, action, *blind) or _mode_rule(desk, action)
        if stopped:
            withheld.append(Withheld(action=action, rule=stopped[0], detail=stopped[1]))
        elif isinstance(action, Launch):
            kept, rest = _limit_launch(desk, action, counts)
            allowed += [kept] if kept else []
            withheld += [rest] if rest else []
        elif isinstance(action, Terminate):
            rest = _limit_removal(desk, action, counts)
            if rest:
                withheld.append(rest)
            else:
                allowed.append(action)
        else:
            allowed.append(action)
    return allowed, withheld


def _blind_clusters(desk: Desk) -> frozenset[str]:
    names = [r.source for r in _unreadable(desk) if r.source.startswith("cluster:")]
    return frozenset(name.removeprefix("cluster:") for name in names)


def _unreadable(desk: Desk) -> Iterable[Reading]:
    """Readings that failed, and those whose facts are too old to act on."""
    return (*desk.snapshot.trouble(), *desk.stale_readings)


def _pool_rule(desk: Desk, action: Action) -> tuple[str, str] | None:
    if isinstance(action, Launch) and action.pool not in desk.policy.pools:
        return "unknown_pool", f"the policy has no pool {action.pool}"
    return None


def _source_rule(desk: Desk, action: Action, blind: frozenset[str], cloud_blind: bool) -> tuple[str, str] | None:
    """No facts, no action: an unreadable source stops everything that rests on it."""
    match action:
        case Launch():
            cluster = desk.pool(action.pool).cluster
            if cluster in blind or cloud_blind:
                return (
                    "source_unreadable",
                    "a source could not be read whole: nothing is bought on old facts",
                )
        case Forget():
            if cloud_blind or action.cluster in blind:
                return "source_unreadable", "a source could not be read whole: no node is forgotten on old facts"
        case Terminate():
            pool = desk.policy.pools.get(action.pool)
            home = action.cluster or (pool.cluster if pool else None)
            if cloud_blind or (home in blind if home else blind):
                return "source_unreadable", "a source could not be read whole: nothing is removed on old facts"
        case Route() | Move() | Displace() | Drain() | Cordon() | Uncordon():
            if action.cluster in blind:
                return "source_unreadable", f"cluster {action.cluster} could not be read whole"
    return None


def _mode_rule(desk: Desk, action: Action) -> tuple[str, str] | None:
    if desk.policy.mode is Mode.OBSERVE:
        return "mode_observe", "the policy only observes"
    if desk.policy.mode is Mode.ADVISE:
        return "mode_advise", "the policy only advises"
    if desk.state.mode is ControllerMode.PAUSED:
        return "paused", desk.state.mode_reason or "the controller is paused"
    if desk.state.mode is ControllerMode.PROTECTED and isinstance(action, Launch):
        return "protected", desk.state.mode_reason or "protected mode holds launches"
    return None


def _limit_launch(desk: Desk, launch: Launch, counts: _Counts) -> tuple[Launch | None, Withheld | None]:
    """The launch, cut to the nodes that every ceiling leaves, and the rest as withheld. Offerings without a price or
    at which those nodes would break a cap are left out: the cloud may pick any that is named."""
    prices = _prices(desk, launch)
    if not prices:
        return None, Withheld(action=launch, rule="no_price", detail="none of its offerings has a price to plan with")
    launch = _at_prices(launch, prices)
    price = prices[launch.offerings[0].key]
    rooms = list(_money_rooms(desk, launch, counts))
    nodes, rule, detail = launch.nodes, "", ""
    by_money = ((int(usd / price + 1e-9), name, words) for usd, name, words in rooms if price > 0)
    for left, name, words in (*_launch_ceilings(desk, launch, counts), *by_money):
        if left < nodes:
            nodes, rule, detail = max(0, left), name, words
    if nodes < launch.nodes and (launch.gang or nodes == 0):
        return None, Withheld(action=launch, rule=rule, detail=detail)
    usd_left, cap, _ = min(rooms, default=(float("inf"), "", ""))
    kept = _affordable(launch, prices, nodes=nodes, usd_left=usd_left, cap=cap)
    counts.launched[launch.pool] = counts.launched.get(launch.pool, 0) + nodes
    counts.launched_usd_per_hour += nodes * max(prices[o.key] for o in kept.offerings)
    counts.team_gpus[launch.team] = counts.team_gpus.get(launch.team, 0) + nodes * desk.pool(launch.pool).gpus_per_node
    if nodes == launch.nodes:
        return kept, None
    rest = replace(launch, nodes=launch.nodes - nodes, token=f"{launch.token}-rest")
    return replace(kept, nodes=nodes), Withheld(action=rest, rule=rule, detail=detail)


def _prices(desk: Desk, launch: Launch) -> dict[str, float]:
    """What each of its offerings costs an hour as far as one may plan with it: never a price out of its band (F015)."""
    found: dict[str, float] = {}
    for offering in launch.offerings:
        price = price_usd_per_hour(offering, at=desk.at, guard=desk.policy.guard, last_good=desk.state.prices)
        if price is not None:
            found[offering.key] = price
    return found


def _at_prices(launch: Launch, prices: dict[str, float]) -> Launch:
    """The launch with its eligible offerings as planned with: a price that is not believed is not shown either."""
    priced = [
        o
        if o.price_usd_per_hour == prices[o.key]
        else replace(o, price_usd_per_hour=prices[o.key], price_source="last good price")
        for o in launch.offerings
        if o.key in prices
    ]
    return launch if priced == list(launch.offerings) else replace(launch, offerings=tuple(priced))


def _affordable(launch: Launch, prices: dict[str, float], *, nodes: int, usd_left: float, cap: str) -> Launch:
    """The launch with the offerings that keep the cap whichever of them the cloud takes."""
    kept = tuple(o for o in launch.offerings if nodes * prices[o.key] <= usd_left + 1e-6)
    dearer = len(launch.offerings) - len(kept)
    if not dearer:
        return launch
    return replace(launch, offerings=kept, reason=f"{launch.reason}; {dearer} dearer offering(s) left out by {cap}")


def _launch_ceilings(desk: Desk, launch: Launch, counts: _Counts) -> Iterable[tuple[int, str, str]]:
    """(nodes left, rule, words) for every ceiling that can hold this launch."""
    pool, guard_rules = desk.pool(launch.pool), desk.policy.guard
    asked = sum(counts.launched.values())
    yield (
        guard_rules.launch_ceiling_nodes - asked,
        "launch_ceiling",
        (f"at most {guard_rules.launch_ceiling_nodes} nodes are launched in one tick"),
    )
    alive = desk.alive_nodes.get(launch.pool, 0) + counts.launched.get(launch.pool, 0)
    yield (
        pool.max_nodes - alive,
        "pool_ceiling",
        (f"pool {launch.pool} has {alive} of at most {pool.max_nodes} nodes alive or asked for"),
    )
    memory = desk.state.pools.get(launch.pool)
    if memory is not None and memory.paused_until is not None:
        yield from _breaker(desk, launch, memory.paused_until, counts)
    if memory is not None and memory.losses_until is not None and desk.at < memory.losses_until:
        words = f"{len(memory.losses)} nodes of {launch.pool} were taken back within an hour"
        yield 0, "losses", f"{words}: no launch until {memory.losses_until:%H:%M} UTC"
    if memory is not None and memory.held_until is not None and desk.at < memory.held_until:
        yield 0, "refused", f"the cloud refused: {memory.held_why}; no try until {memory.held_until:%H:%M} UTC"
    yield from _quota(desk, launch, counts)
    yield from _team_ceilings(desk, launch, counts)


def _quota(desk: Desk, launch: Launch, counts: _Counts) -> Iterable[tuple[int, str, str]]:
    """What our quota leaves, where every offering of the launch says it: the cloud may pick any of them."""
    known = [o.quota_nodes for o in launch.offerings if o.quota_nodes is not None]
    if known and len(known) == len(launch.offerings):
        left = max(known) - sum(counts.launched.values())
        yield left, "quota", f"the account's quota leaves {max(0, left)} more node(s) of these types"


def _breaker(desk: Desk, launch: Launch, until: datetime, counts: _Counts) -> Iterable[tuple[int, str, str]]:
    """After boot failures a pool is quiet for a while; then one node probes whether machines join again."""
    if desk.at < until:
        yield 0, "breaker", f"machines of {launch.pool} did not join: no launch until {until:%H:%M} UTC"
        return
    coming = len(desk.coming.get(launch.pool, ())) + desk.unseen_nodes.get(launch.pool, 0)
    left = 1 - coming - counts.launched.get(launch.pool, 0)
    yield left, "breaker", f"machines of {launch.pool} did not join: one node at a time until one does"


def _money_rooms(desk: Desk, launch: Launch, counts: _Counts) -> Iterable[tuple[float, str, str]]:
    """(USD an hour left, rule, words) by cap. A cap per day or month must carry what runs, to the end of an hour."""
    money, spend = desk.policy.money, desk.state.spend
    running = counts.launched_usd_per_hour + counts.running_usd_per_hour
    if money.usd_per_hour is not None:
        words = f"{running:.2f} of {money.usd_per_hour:.2f} USD an hour are spoken for"
        yield money.usd_per_hour - running, "budget_hour", words
    day_usd = spend.usd_day if spend.day == _day(desk.at) else 0.0
    month_usd = spend.usd_month if spend.month == _day(desk.at)[:7] else 0.0
    if money.usd_per_day is not None:
        words = f"{day_usd:.2f} spent and {running:.2f} an hour running of {money.usd_per_day:.2f} USD a day"
        yield money.usd_per_day - day_usd - running, "budget_day", words
    if money.usd_per_month is not None:
        words = f"{month_usd:.2f} spent of {money.usd_per_month:.2f} USD a month"
        yield money.usd_per_month - month_usd - running, "budget_month", words
    if money.approval_above_usd is not None and not launch.lease_id:
        words = f"a launch above {money.approval_above_usd:.2f} USD an hour needs a person's approval"
        yield money.approval_above_usd, "approval", words


def _running_usd_per_hour(desk: Desk) -> float:
    seen = sum(i.price_usd_per_hour for i in desk.snapshot.instances if i.state is not InstanceState.TERMINATED)
    return seen + sum(nodes * _dearest(flight.launch) for flight, nodes in _unseen(desk))


def _unseen(desk: Desk) -> Iterable[tuple[InFlight, int]]:
    """Launches in flight with the machines of theirs that no listing shows yet: asked for, so paid for (F016)."""
    if not desk.state.in_flight:
        return
    listed = {i.id for i in desk.snapshot.instances}
    by_token: dict[str, int] = {}
    for instance in desk.snapshot.instances:
        by_token[instance.token] = by_token.get(instance.token, 0) + 1
    for token, flight in desk.state.in_flight.items():
        if flight.instance_ids:
            nodes = len([i for i in flight.instance_ids if i not in listed and i not in flight.listed_ids])
        else:
            nodes = flight.launch.nodes - by_token.get(token, 0)
        if nodes > 0:
            yield flight, nodes


def _dearest(launch: Launch) -> float:
    return max((o.price_usd_per_hour or 0.0 for o in launch.offerings), default=0.0)


def _team_ceilings(desk: Desk, launch: Launch, counts: _Counts) -> Iterable[tuple[int, str, str]]:
    team = desk.policy.teams.get(launch.team)
    if team is None:
        return
    pool = desk.pool(launch.pool)
    if team.burst_ceiling_gpus is not None:
        held = counts.team_gpus.get(launch.team, 0) + sum(
            i.gpus for i in desk.snapshot.instances if i.team == launch.team and i.state is not InstanceState.TERMINATED
        )
        held += sum(
            nodes * desk.pool(f.launch.pool).gpus_per_node
            for f, nodes in _unseen(desk)
            if f.launch.team == launch.team and f.launch.pool in desk.policy.pools
        )
        left = (team.burst_ceiling_gpus - held) // pool.gpus_per_node
        yield left, "team_ceiling", f"team {launch.team} holds {held} of {team.burst_ceiling_gpus} burst GPUs"
    spend = desk.state.spend
    day_usd = spend.team_usd_day.get(launch.team, 0.0) if spend.day == _day(desk.at) else 0.0
    month_usd = spend.team_usd_month.get(launch.team, 0.0) if spend.month == _day(desk.at)[:7] else 0.0
    for spent, cap, word in (
        (day_usd, team.budget.usd_per_day, "day"),
        (month_usd, team.budget.usd_per_month, "month"),
    ):
        if cap is not None and spent >= cap:
            yield 0, f"team_budget_{word}", f"team {launch.team} spent {spent:.2f} of {cap:.2f} USD this {word}"


def _limit_removal(desk: Desk, action: Terminate, counts: _Counts) -> Withheld | None:
    """At most a share of a pool's machines goes in one tick, whatever the cause; one may always go."""
    alive = desk.alive_nodes.get(action.pool, 0) - desk.unseen_nodes.get(action.pool, 0)
    ceiling = max(1, ceil(desk.policy.guard.removal_ceiling * alive))
    removed = counts.removed.get(action.pool, 0)
    if removed >= ceiling:
        detail = f"at most {ceiling} of {alive} machines of {action.pool} go in one tick"
        return Withheld(action=action, rule="removal_ceiling", detail=detail)
    counts.removed[action.pool] = removed + 1
    return None


def _day(at: datetime) -> str:
    return f"{at:%Y-%m-%d}"
