"""The fold of the controller's memory: `advance(state, record)`. Called after every tick, and to rebuild the state."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import blake2b

from elastic.planning.plan import Launch, Move
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
from providers.facts import InstanceState

# Set aside (type, zone, market) 10 min after a capacity error, doubling to 60, with up to 20 % more so that retries
# do not fall together; the whole market for 60 min after a quota error (capacity-anchors (d)).
SET_ASIDE_S, SET_ASIDE_MAX_S, JITTER_SHARE = 600.0, 3600.0, 0.2
QUOTA_S = 3600.0
# A launch that no listing ever shows is closed after this long.
IN_FLIGHT_S = 1800.0
KEEP_MOVES = timedelta(days=1)


def advance(state: ControllerState, record: Record) -> ControllerState:
    """The memory after a tick. Pure: folding the ledger's records again gives the same state."""
    at = record.snapshot.at
    done = {o.action_key: o for o in record.outcomes}
    launches = [(a, done[a.key]) for a in record.plan.actions if isinstance(a, Launch) and a.key in done]
    moved = [a for a in record.plan.actions if isinstance(a, Move) and _is_done(done.get(a.key))]
    return replace(
        state,
        tick=record.tick,
        at=at,
        spend=_spend(state, record),
        in_flight=_in_flight(state.in_flight, record, launches),
        unavailable=_unavailable(state.unavailable, at, launches),
        pools=_pools(state.pools, at, launches),
        moves=_moves(state.moves, at, moved),
    )


def _is_done(outcome: Outcome | None) -> bool:
    return outcome is not None and outcome.result in (Result.DONE, Result.PARTIAL)


def _spend(state: ControllerState, record: Record) -> Spend:
    """Machines seen at this tick have cost their price since the last one (a left sum over the ticks)."""
    at, spend = record.snapshot.at, state.spend
    day, month = f"{at:%Y-%m-%d}", f"{at:%Y-%m}"
    if spend.day != day:
        spend = replace(spend, day=day, usd_day=0.0, team_usd_day={})
    if spend.month != month:
        spend = replace(spend, month=month, usd_month=0.0, team_usd_month={})
    if state.at is None or not record.snapshot.instances:
        return spend
    hours = (at - state.at).total_seconds() / 3600
    by_team: dict[str, float] = {}
    for instance in record.snapshot.instances:
        if instance.state is not InstanceState.TERMINATED:
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


def _in_flight(
    known: Mapping[str, InFlight], record: Record, launches: list[tuple[Launch, Outcome]]
) -> Mapping[str, InFlight]:
    """Launches asked for and not seen yet. Seen in a listing, failed for sure, or too old: closed."""
    if not known and not launches:
        return known
    at = record.snapshot.at
    seen = {i.token for i in record.snapshot.instances}
    kept = {
        token: flight
        for token, flight in known.items()
        if token not in seen and (at - flight.asked_at).total_seconds() < IN_FLIGHT_S
    }
    for launch, outcome in launches:
        unknown = outcome.result is Result.FAILED and outcome.error_kind in ("unreachable", "throttled")
        if _is_done(outcome) or unknown:
            kept[launch.token] = InFlight(launch=launch, asked_at=at, instance_ids=outcome.provider_ids)
    return kept


def _unavailable(
    known: Mapping[str, UnavailableOffering], at: datetime, launches: list[tuple[Launch, Outcome]]
) -> Mapping[str, UnavailableOffering]:
    if not launches:
        return known
    kept = {k: u for k, u in known.items() if at - u.until < timedelta(seconds=SET_ASIDE_MAX_S)}
    for launch, outcome in launches:
        for instance in outcome.instances:
            kept.pop(f"{instance.instance_type}/{instance.zone}/{instance.capacity_type.value}", None)
        failed = [(f.offering_key, f.error_kind, f.detail) for f in outcome.failures]
        if outcome.result is Result.FAILED and outcome.error_kind == "quota_exceeded":
            failed = [(o.key, outcome.error_kind, outcome.detail) for o in launch.offerings]
        for key, kind, detail in failed:
            strikes = kept[key].strikes + 1 if key in kept else 1
            seconds = QUOTA_S if kind == "quota_exceeded" else min(SET_ASIDE_MAX_S, SET_ASIDE_S * 2 ** (strikes - 1))
            until = at + timedelta(seconds=seconds * (1 + JITTER_SHARE * _fraction(f"{key}|{strikes}|{at}")))
            kept[key] = UnavailableOffering(key=key, until=until, strikes=strikes, error_kind=kind, detail=detail)
    return kept


def _fraction(seed: str) -> float:
    """A number in [0, 1) that depends on the seed alone: jitter without randomness."""
    return int.from_bytes(blake2b(seed.encode(), digest_size=4).digest()) / 2**32


def _pools(
    known: Mapping[str, PoolMemory], at: datetime, launches: list[tuple[Launch, Outcome]]
) -> Mapping[str, PoolMemory]:
    if not launches:
        return known
    pools = dict(known)
    for launch, outcome in launches:
        if _is_done(outcome):
            pools[launch.pool] = replace(pools.get(launch.pool, PoolMemory()), last_launch_at=at)
    return pools


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
