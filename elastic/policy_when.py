"""What a policy says at one instant: calendars, sizes, limits, and what changes next. Behind `elastic policy when`."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from elastic.calendar_sources import sources_at
from elastic.planning.policy import CachePolicy, Policy, PolicyDocument, Team
from forecast.calendar import Calendar


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarAt:
    """A calendar at an instant. `holds`: its parts that hold; `known_until` None: rules give every year."""

    name: str
    zone: str
    is_open: bool
    day: str
    day_type: str
    holds: tuple[str, ...]
    next_change: datetime | None
    known_until: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAt:
    """A pool's sizes at an instant. `ceiling_gpus` None: an on-prem pool whose size is not given."""

    name: str
    place: str
    floor_gpus: int
    ceiling_gpus: int | None
    headroom_gpus: int
    capacity_types: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamAt:
    """A team at an instant: whether it is at work, what it may have, how big its cache group should be."""

    name: str
    at_work: bool
    guaranteed_gpus: int
    burst_ceiling_gpus: int | None
    usd_per_day: float | None
    usd_per_month: float | None
    cache_group: str | None
    cache_workers: int | None
    cache_reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyAt:
    """Everything a policy says at an instant."""

    at: datetime
    content_hash: str
    mode: str
    calendars: tuple[CalendarAt, ...]
    pools: tuple[PoolAt, ...]
    teams: tuple[TeamAt, ...]
    money: dict[str, object]
    guard: dict[str, object]
    next_change: tuple[datetime, str] | None  # the first of all calendars, and whose

    def as_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return asdict(self)


def policy_at(policy: Policy, document: PolicyDocument, at: datetime) -> PolicyAt:
    """Evaluate a policy whose calendars were resolved around `at` (aware)."""
    calendars = tuple(
        _calendar_at(policy.calendars[name], sources_at(spec, at), at) for name, spec in document.calendars.items()
    )
    changes = [(c.next_change, c.name) for c in calendars if c.next_change is not None]
    return PolicyAt(
        at=at,
        content_hash=policy.content_hash,
        mode=policy.mode.value,
        calendars=calendars,
        pools=tuple(_pool_at(policy, name, at) for name in policy.pools),
        teams=tuple(_team_at(policy, name, team, at) for name, team in policy.teams.items()),
        money=policy.money.model_dump(by_alias=True, mode="json", exclude_none=True),
        guard=policy.guard.model_dump(by_alias=True, mode="json"),
        next_change=min(changes, default=None),
    )


def _calendar_at(calendar: Calendar, holds: tuple[str, ...], at: datetime) -> CalendarAt:
    day = calendar.local_day(at)
    return CalendarAt(
        name=calendar.name,
        zone=calendar.zone,
        is_open=calendar.is_open(at),
        day=f"{day:%a} {day.isoformat()}",
        day_type=calendar.day_type(day).value,
        holds=holds,
        next_change=calendar.next_change(at),
        known_until=calendar.known_until.isoformat() if calendar.known_until.year < 9999 else None,
    )


def _pool_at(policy: Policy, name: str, at: datetime) -> PoolAt:
    pool = policy.pools[name]
    kept = sum(h.gpus for h in pool.headroom if h.calendar is None or policy.calendars[h.calendar].is_open(at))
    onprem = pool.place == "on-prem"
    ceiling = pool.nodes if onprem else pool.max_nodes
    return PoolAt(
        name=name,
        place=pool.place,
        floor_gpus=((pool.nodes or 0) if onprem else pool.min_nodes) * pool.gpus_per_node,
        ceiling_gpus=None if ceiling is None else ceiling * pool.gpus_per_node,
        headroom_gpus=kept,
        capacity_types=("on-prem",) if onprem else tuple(kind.value for kind in pool.capacity_types),
    )


def _team_at(policy: Policy, name: str, team: Team, at: datetime) -> TeamAt:
    calendars = [policy.calendars[c] for c in team.calendars]
    rules = policy.caches.get(team.cache_group) if team.cache_group else None
    workers, reason = (None, "") if rules is None else cache_workers(calendars, rules, at)
    return TeamAt(
        name=name,
        at_work=not calendars or any(c.is_open(at) for c in calendars),
        guaranteed_gpus=team.guaranteed_gpus,
        burst_ceiling_gpus=team.burst_ceiling_gpus,
        usd_per_day=team.budget.usd_per_day,
        usd_per_month=team.budget.usd_per_month,
        cache_group=team.cache_group,
        cache_workers=workers,
        cache_reason=reason,
    )


def cache_workers(calendars: Iterable[Calendar], rules: CachePolicy, at: datetime) -> tuple[int, str]:
    """Workers a group should have by its team's calendars, and why; running work may keep it awake longer."""
    known = list(calendars)
    if not known:
        return rules.awake_workers, "no calendar: always awake"
    if any(c.is_open(at) for c in known):
        return rules.awake_workers, "the team is at work"
    if any(c.is_open(at + timedelta(seconds=rules.warm_lead_s)) for c in known):
        return rules.awake_workers, f"its day begins within {rules.warm_lead_s / 60:.0f} min"
    return rules.asleep_workers, "out of hours"
