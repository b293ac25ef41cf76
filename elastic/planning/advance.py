"""The fold of the controller's memory: `advance(state, record)`. Called after every tick, and to rebuild the state.

It reads of a record only what `slim` keeps (rented machines and their nodes, prices, notices, actions, outcomes), so
that quiet ticks are cheap to write down.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum, auto
from hashlib import blake2b

from elastic.planning.plan import Launch, Move, Terminate
from elastic.planning.policy import Guard
from elastic.planning.snapshot import Snapshot
from elastic.planning.state import (
    ControllerState,
    InFlight,
    MoveMemory,
    Outcome,
    PoolMemory,
    Record,
    Result,
    Spend,
    UnavailableOffering,
)
from providers.facts import InstanceState, InterruptionKind, NodeState, Offering

# Set aside (type, zone, market) 10 min after a capacity error, doubling to 60, with up to 20 % more so that retries
# do not fall together; the whole market of the region for 60 min after a quota error (capacity-anchors (d)).
SET_ASIDE_S, SET_ASIDE_MAX_S, JITTER_SHARE = 600.0, 3600.0, 0.2
QUOTA_S = 3600.0
# From request to a node that runs jobs, at most; then it is a boot failure (capacity-anchors (d): GPU join 20 min).
JOIN_DEADLINE_S = 1200.0
# A launch that no listing shows is closed after this long: by then its machines have been given back.
IN_FLIGHT_S = 1800.0
# One whose answer never came is closed sooner when whole listings do not show it: most likely it never took effect, and
# its jobs still wait. Listings lag by minutes at most (F006); what shows up later counts as coming all the same.
UNKNOWN_S = 600.0
KEEP_MOVES = timedelta(days=1)
KEEP_LOSSES = timedelta(hours=1)
KEEP_BOOTS = 10
# The breaker: so many failures in a row (policy), or this share of the last ten; then a pause, one probe, and after a
# failed probe a pause this many times as long (15 min, then 1 h).
BREAKER_SHARE = 0.5
PROBE_FACTOR = 4


def advance(state: ControllerState, record: Record) -> ControllerState:
    """The memory after a tick. Pure: folding the ledger's records again gives the same state."""
    snapshot = record.snapshot
    at = snapshot.at
    done = {o.action_key: o for o in record.outcomes}
    acted = [(a, done[a.key]) for a in record.plan.actions if a.key in done]
    launches = [(a, o) for a, o in acted if isinstance(a, Launch)]
    in_flight, boots = _in_flight(state, snapshot, launches, _given_back(acted))
    fresh = [n for n in snapshot.interruptions if n.id not in state.notices]
    return replace(
        state,
        tick=record.tick,
        at=at,
        spend=_spend(state, snapshot),
        in_flight=in_flight,
        unavailable=_unavailable(state.unavailable, snapshot, launches),
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


# Launches and their machines


def _in_flight(
    state: ControllerState,
    snapshot: Snapshot,
    launches: list[tuple[Launch, Outcome]],
    given_back: set[str],
) -> tuple[Mapping[str, InFlight], list[tuple[str, bool]]]:
    """Launches with machines still to join, and the boots that ended in this tick as (pool, joined)."""
    boots: list[tuple[str, bool]] = []
    if not state.in_flight and not launches:
        return state.in_flight, boots
    kept: dict[str, InFlight] = {}
    if state.in_flight:
        seen = _Seen(snapshot, given_back)
        for token, flight in state.in_flight.items():
            still = _follow(flight, seen, boots)
            if still is not None:
                kept[token] = still
    for launch, outcome in launches:
        unknown = outcome.result is Result.FAILED and outcome.error_kind == "unreachable"
        if _is_done(outcome) or unknown:
            kept[launch.token] = InFlight(launch=launch, asked_at=snapshot.at, instance_ids=outcome.provider_ids)
    return kept, boots


class _Fate(Enum):
    JOINED = auto()
    FAILED = auto()  # it never ran a job
    EXCUSED = auto()  # taken by the cloud, or given back because nobody wanted it any more
    COMING = auto()


class _Seen:
    """One tick's machines by id and token, which of them have joined, and which went for a known reason."""

    def __init__(self, snapshot: Snapshot, given_back: set[str]) -> None:
        self.at = snapshot.at
        self.instances = {i.id: i for i in snapshot.instances}
        self.is_whole = not snapshot.trouble("cloud:")
        self._joined = {n.instance_id for n in snapshot.nodes if n.state in (NodeState.READY, NodeState.CORDONED)}
        self._given_back = given_back
        self._interrupted = {n.instance_id for n in snapshot.interruptions}

    def by_token(self, token: str) -> tuple[str, ...]:
        return tuple(i.id for i in self.instances.values() if i.token == token)

    def fate(self, instance_id: str, flight: InFlight) -> _Fate:
        """What became of one machine of a launch."""
        age_s = (self.at - flight.asked_at).total_seconds()
        if instance_id in self._joined:
            return _Fate.JOINED
        if instance_id in self._interrupted or (instance_id in self._given_back and age_s < JOIN_DEADLINE_S):
            return _Fate.EXCUSED
        if age_s >= IN_FLIGHT_S or instance_id in self._given_back:
            return _Fate.FAILED
        instance = self.instances.get(instance_id)
        if instance is None:
            return _Fate.FAILED if instance_id in flight.listed_ids and self.is_whole else _Fate.COMING
        gone = instance.state in (InstanceState.TERMINATING, InstanceState.TERMINATED)
        return _Fate.FAILED if gone else _Fate.COMING


def _follow(flight: InFlight, seen: _Seen, boots: list[tuple[str, bool]]) -> InFlight | None:
    """A launch one tick on; None when nothing of it is to come any more. Adds the boots that ended."""
    ids = flight.instance_ids or seen.by_token(flight.launch.token)  # a lost reply: found again by its token
    if not ids:
        age_s = (seen.at - flight.asked_at).total_seconds()
        return None if age_s >= (UNKNOWN_S if seen.is_whole else IN_FLIGHT_S) else flight
    still: list[str] = []
    for instance_id in ids:
        fate = seen.fate(instance_id, flight)
        if fate is _Fate.COMING:
            still.append(instance_id)
        elif fate is not _Fate.EXCUSED:
            boots.append((flight.launch.pool, fate is _Fate.JOINED))
    if not still:
        return None
    listed = tuple(i for i in still if i in flight.listed_ids or i in seen.instances)
    if tuple(still) == flight.instance_ids and listed == flight.listed_ids:
        return flight
    return replace(flight, instance_ids=tuple(still), listed_ids=listed)


def _unavailable(
    known: Mapping[str, UnavailableOffering], snapshot: Snapshot, launches: list[tuple[Launch, Outcome]]
) -> Mapping[str, UnavailableOffering]:
    if not launches:
        return known
    at = snapshot.at
    kept = {k: u for k, u in known.items() if at - u.until < timedelta(seconds=SET_ASIDE_MAX_S)}
    for launch, outcome in launches:
        for instance in outcome.instances:
            kept.pop(f"{instance.instance_type}/{instance.zone}/{instance.capacity_type.value}", None)
        for key, kind, detail in _failed_offerings(launch, outcome, snapshot.offerings):
            strikes = kept[key].strikes + 1 if key in kept else 1
            seconds = QUOTA_S if kind == "quota_exceeded" else min(SET_ASIDE_MAX_S, SET_ASIDE_S * 2 ** (strikes - 1))
            until = at + timedelta(seconds=seconds * (1 + JITTER_SHARE * _fraction(f"{key}|{strikes}|{at}")))
            kept[key] = UnavailableOffering(key=key, until=until, strikes=strikes, error_kind=kind, detail=detail)
    return kept


def _failed_offerings(
    launch: Launch, outcome: Outcome, offerings: Iterable[Offering]
) -> Iterable[tuple[str, str, str]]:
    """(offering key, error kind, detail) of a launch: each offering once, a quota error for its whole market (F014)."""
    failed = {f.offering_key: (f.error_kind, f.detail) for f in outcome.failures}
    if outcome.result is Result.FAILED and outcome.error_kind in ("quota_exceeded", "insufficient_capacity"):
        failed |= {o.key: (outcome.error_kind, outcome.detail) for o in launch.offerings if o.key not in failed}
    closed = {_market(o): failed[o.key][1] for o in launch.offerings if failed.get(o.key, ("",))[0] == "quota_exceeded"}
    if closed:
        every = {o.key: o for o in (*offerings, *launch.offerings)}
        failed |= {k: ("quota_exceeded", closed[_market(o)]) for k, o in every.items() if _market(o) in closed}
    return [(key, kind, detail) for key, (kind, detail) in failed.items()]


def _market(offering: Offering) -> tuple[str, str, str]:
    return offering.cloud, offering.region, offering.capacity_type.value


def _fraction(seed: str) -> float:
    """A number in [0, 1) that depends on the seed alone: jitter without randomness."""
    return int.from_bytes(blake2b(seed.encode(), digest_size=4).digest()) / 2**32


# Pools


def _pools(
    state: ControllerState,
    record: Record,
    acted: Sequence[tuple[object, Outcome]],
    boots: list[tuple[str, bool]],
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
        if isinstance(action, Launch) and _is_done(outcome):
            change(action.pool, last_launch_at=at)
        elif isinstance(action, Terminate) and _is_done(outcome):
            change(action.pool, last_release_at=at)
    for pool, joined in boots:
        pools[pool] = _booted(pools.get(pool, PoolMemory()), at, joined=joined, guard=record.guard)
    for pool in [*aged, *lost]:
        change(pool, losses=tuple(t for t in pools.get(pool, PoolMemory()).losses if at - t < KEEP_LOSSES))
    for pool in lost:
        change(pool, losses=(*pools[pool].losses, at))
    return pools


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
