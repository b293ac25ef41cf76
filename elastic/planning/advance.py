"""The fold of the controller's memory: `advance(state, record)`. Called after every tick, and to rebuild the state.

It reads of a record only what `slim` keeps (rented machines and their nodes, prices, notices, actions, outcomes), so
that quiet ticks are cheap to write down.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from elastic.planning.flights import Boot, follow_flights
from elastic.planning.plan import Launch, Move, Terminate
from elastic.planning.policy import Guard
from elastic.planning.shortage import BOOT_FAILURES, boots_in_a_row, unavailable
from elastic.planning.snapshot import Snapshot
from elastic.planning.state import ControllerState, MoveMemory, Outcome, PoolMemory, Record, Result, Spend
from providers.facts import InstanceState, InterruptionKind, Offering

KEEP_MOVES = timedelta(days=1)
KEEP_LOSSES = timedelta(hours=1)
KEEP_BOOTS = 10
# The breaker: so many failures in a row (policy), or this share of the last ten; then a pause, one probe, and after a
# failed probe a pause this many times as long (15 min, then 1 h).
BREAKER_SHARE = 0.5
PROBE_FACTOR = 4
# Refusals that are about us, not about capacity; the pause after one, doubling.
REFUSED_KINDS = ("access_denied", "invalid_request", "unknown_trouble")
REFUSED_S, REFUSED_MAX_S = 600.0, 3600.0
THROTTLED, THROTTLED_PAUSE = "throttled", timedelta(minutes=1)


def advance(state: ControllerState, record: Record) -> ControllerState:
    """The memory after a tick. Pure: folding the ledger's records again gives the same state."""
    snapshot = record.snapshot
    at = snapshot.at
    done = {o.action_key: o for o in record.outcomes}
    acted = [(a, done[a.key]) for a in record.plan.actions if a.key in done]
    launches = [(a, o) for a, o in acted if isinstance(a, Launch)]
    in_flight, boots = follow_flights(state, snapshot, launches, _given_back(acted))
    fresh = [n for n in snapshot.interruptions if n.id not in state.notices]
    failed_boots = boots_in_a_row(state.failed_boots, boots)
    failing = {b.offering_key for b in boots if failed_boots.get(b.offering_key, 0) >= BOOT_FAILURES}
    return replace(
        state,
        tick=record.tick,
        at=at,
        spend=_spend(state, snapshot),
        in_flight=in_flight,
        unavailable=unavailable(state.unavailable, snapshot, launches, notices=fresh, failed_boots=failing),
        failed_boots=failed_boots,
        pools=_pools(state, record, acted, boots),
        moves=_moves(state.moves, at, [a for a, o in acted if isinstance(a, Move) and _is_done(o)]),
        prices=_prices(state.prices, snapshot.offerings, record.guard),
        notices=_notices(state.notices, at, [n.id for n in fresh]),
    )


def slim(record: Record, *, known_offerings: tuple[Offering, ...] | None = None) -> Record:
    """The record with only what `advance` reads; offerings are left out when they are those already written."""
    snapshot = record.snapshot
    kept = replace(
        snapshot,
        jobs=(),
        nodes=tuple(n for n in snapshot.nodes if n.instance_id is not None),
        offerings=() if snapshot.offerings == known_offerings else snapshot.offerings,
        cache_groups=(),
    )
    return replace(record, snapshot=kept)


def _is_done(outcome: Outcome) -> bool:
    return outcome.result in (Result.DONE, Result.PARTIAL)


def _given_back(acted: Iterable[tuple[object, Outcome]]) -> set[str]:
    return {a.instance_id for a, o in acted if isinstance(a, Terminate) and _is_done(o)}


# Money


def _spend(state: ControllerState, snapshot: Snapshot) -> Spend:
    """Machines seen at this tick have cost their price since the last one, or since they were asked for."""
    at, spend = snapshot.at, state.spend
    day, month = f"{at:%Y-%m-%d}", f"{at:%Y-%m}"
    if spend.day != day:
        spend = replace(spend, day=day, usd_day=0.0, team_usd_day={})
    if spend.month != month:
        spend = replace(spend, month=month, usd_month=0.0, team_usd_month={})
    since = state.at
    if since is None or not snapshot.instances or at <= since:
        return spend
    by_team: dict[str, float] = {}
    for instance in snapshot.instances:
        if instance.state is not InstanceState.TERMINATED:
            begun = instance.requested_at if instance.requested_at > since else since
            hours = max(0.0, (at - begun).total_seconds()) / 3600
            by_team[instance.team] = by_team.get(instance.team, 0.0) + instance.price_usd_per_hour * hours
    usd = sum(by_team.values())
    return replace(
        spend,
        usd_day=spend.usd_day + usd,
        usd_month=spend.usd_month + usd,
        team_usd_day=_added(spend.team_usd_day, by_team),
        team_usd_month=_added(spend.team_usd_month, by_team),
    )


def _added(known: Mapping[str, float], more: Mapping[str, float]) -> dict[str, float]:
    return {**known, **{key: known.get(key, 0.0) + value for key, value in more.items()}}


def _prices(known: Mapping[str, float], offerings: Iterable[Offering], guard: Guard) -> Mapping[str, float]:
    """Last good prices. One that jumps beyond the band is not believed: the last good one stays (F015)."""
    news: dict[str, float] = {}
    for offering in offerings:
        price, last = offering.price_usd_per_hour, known.get(offering.key)
        if price is None or not price > 0 or price == last:
            continue
        if last is None or last / guard.price_band <= price <= last * guard.price_band:
            news[offering.key] = price
    return {**known, **news} if news else known


# Pools


def _pools(
    state: ControllerState,
    record: Record,
    acted: Sequence[tuple[object, Outcome]],
    boots: list[Boot],
) -> Mapping[str, PoolMemory]:
    at, known = record.snapshot.at, state.pools
    lost = _lost_pools(state, record.snapshot)
    aged = [name for name, memory in known.items() if memory.losses and at - memory.losses[0] >= KEEP_LOSSES]
    if not acted and not boots and not lost and not aged:
        return known
    pools = dict(known)

    def change(pool: str, **changes: object) -> None:
        pools[pool] = replace(pools.get(pool, PoolMemory()), **changes)  # type: ignore[arg-type]

    for action, outcome in acted:
        if isinstance(action, Launch):
            pools[action.pool] = _launched(pools.get(action.pool, PoolMemory()), at, outcome)
        elif isinstance(action, Terminate) and _is_done(outcome):
            change(action.pool, last_release_at=at)
    for boot in boots:
        pools[boot.pool] = _booted(pools.get(boot.pool, PoolMemory()), at, joined=boot.joined, guard=record.guard)
    for pool in dict.fromkeys([*aged, *lost]):
        kept = tuple(t for t in pools.get(pool, PoolMemory()).losses if at - t < KEEP_LOSSES)
        change(pool, losses=(*kept, *[at] * lost.count(pool)))
        if pool in lost and _too_many(pools[pool].losses, record, pool):
            change(pool, losses_until=at + KEEP_LOSSES)
    return pools


def _too_many(losses: tuple[datetime, ...], record: Record, pool: str) -> bool:
    """Whether so many machines were taken within the hour that more would only follow them. One loss alone never
    stops a pool, however small it is: it says nothing about the next."""
    alive = sum(i.pool == pool and i.state is not InstanceState.TERMINATED for i in record.snapshot.instances)
    rules = record.guard
    return len(losses) > rules.losses_per_hour or (len(losses) > 1 and len(losses) > rules.loss_share * alive)


def _launched(memory: PoolMemory, at: datetime, outcome: Outcome) -> PoolMemory:
    """After a launch. One that was refused for a reason no other offering cures pauses the pool, longer each time: a
    wrong image or a missing right is asked for a few times an hour. Throttling pauses it for a moment."""
    if _is_done(outcome):
        return replace(memory, last_launch_at=at, held_until=None, held_why="", held_strikes=0)
    if outcome.error_kind == THROTTLED:
        return replace(memory, held_until=at + THROTTLED_PAUSE, held_why=f"{THROTTLED}: {outcome.detail}")
    if outcome.result is not Result.FAILED or outcome.error_kind not in REFUSED_KINDS:
        return memory
    strikes = memory.held_strikes + 1
    seconds = min(REFUSED_MAX_S, REFUSED_S * 2 ** (strikes - 1))
    why = f"{outcome.error_kind}: {outcome.detail}"
    return replace(memory, held_until=at + timedelta(seconds=seconds), held_why=why, held_strikes=strikes)


def _lost_pools(state: ControllerState, snapshot: Snapshot) -> list[str]:
    """The pool of every machine that the cloud announces to take, once for each notice."""
    if not snapshot.interruptions:
        return []
    pools = {i.id: i.pool for i in snapshot.instances}
    return [
        pools[n.instance_id]
        for n in snapshot.interruptions
        if n.kind is InterruptionKind.SPOT_INTERRUPTION and n.id not in state.notices and n.instance_id in pools
    ]


def _booted(memory: PoolMemory, at: datetime, *, joined: bool, guard: Guard) -> PoolMemory:
    """One more boot. A success after a pause closes the breaker; failures open it."""
    if joined and memory.paused_until is not None:
        return replace(memory, boots=(True,), paused_until=None)
    boots = (*memory.boots, joined)[-KEEP_BOOTS:]
    if joined:
        return replace(memory, boots=boots)
    row = next((number for number, ok in enumerate(reversed(boots)) if ok), len(boots))
    half = len(boots) == KEEP_BOOTS and boots.count(False) >= BREAKER_SHARE * KEEP_BOOTS
    if memory.paused_until is not None and at >= memory.paused_until:  # the probe failed
        return replace(memory, boots=boots, paused_until=at + timedelta(seconds=guard.breaker_probe_s * PROBE_FACTOR))
    if memory.paused_until is None and (row >= guard.breaker_failures or half):
        return replace(memory, boots=boots, paused_until=at + timedelta(seconds=guard.breaker_probe_s))
    return replace(memory, boots=boots)


# Jobs and notices


def _moves(known: Mapping[str, MoveMemory], at: datetime, moved: list[Move]) -> Mapping[str, MoveMemory]:
    if not moved:
        return known
    day = f"{at:%Y-%m-%d}"
    kept = {job_id: m for job_id, m in known.items() if at - m.last_at < KEEP_MOVES}
    for move in moved:
        before = kept.get(move.job_id)
        count = before.count + 1 if before is not None and before.day == day else 1
        kept[move.job_id] = MoveMemory(day=day, count=count, last_at=at)
    return kept


def _notices(known: Mapping[str, datetime], at: datetime, fresh: list[str]) -> Mapping[str, datetime]:
    if not fresh:
        return known
    kept = {key: seen_at for key, seen_at in known.items() if at - seen_at < KEEP_LOSSES}
    return {**kept, **dict.fromkeys(fresh, at)}
