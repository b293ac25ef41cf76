"""What would change from one policy to another over a stretch of time. Behind `elastic policy diff`.

Exact for what calendars decide (hours open, headroom, cache workers); for the rest it compares what *may* happen: a
ceiling is not a forecast. Nothing here knows demand.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from elastic.calendar_windows import hours_in, minus, union
from elastic.planning.policy import Policy, PolicyDocument
from forecast.calendar import Span

MEANING = (
    "hours, headroom and cache workers are exact: calendars decide them",
    "ceiling: GPU-hours if every node that may be rented were rented all the time; demand decides how much is",
    "floor: GPU-hours of nodes that are kept whatever the demand (on-prem nodes, min_nodes)",
    "headroom: idle GPU-hours wanted; what the site has idle anyway is not rented for it",
    "USD: GPU-hours or worker-hours times the price given for the pool or cache; nothing is priced without one",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One value that differs; None: not given there."""

    path: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """One figure over the range, before and after. `usd_before` and `usd_after` are None without a price."""

    owner: str
    name: str
    unit: str
    before: float | None
    after: float | None
    usd_before: float | None = None
    usd_after: float | None = None

    @property
    def delta(self) -> float | None:
        """After less before; what is not there counts as nothing, None only if it is in neither."""
        if self.before is None and self.after is None:
            return None
        return (self.after or 0.0) - (self.before or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowChange:
    """A stretch in which one policy's calendar is open and the other's is not."""

    calendar: str
    start: datetime
    end: datetime
    opens: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDiff:
    """Everything that differs, and the figures of calendars, pools and teams over the range."""

    since: datetime
    until: datetime
    settings: tuple[Setting, ...]
    windows: tuple[WindowChange, ...]
    calendars: tuple[Quantity, ...]
    pools: tuple[Quantity, ...]
    teams: tuple[Quantity, ...]
    money: tuple[Quantity, ...]
    meaning: tuple[str, ...] = MEANING

    def as_dict(self) -> dict[str, object]:
        """Plain values for JSON, with the deltas."""
        plain = asdict(self)
        for section in ("calendars", "pools", "teams", "money"):
            plain[section] = [{**asdict(q), "delta": q.delta} for q in getattr(self, section)]
        return plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two policies, its calendars resolved over the whole range."""

    policy: Policy
    document: PolicyDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """The range compared, and the prices: USD a GPU-hour by pool, USD a worker-hour by cache group."""

    since: datetime
    until: datetime
    prices: Mapping[str, float]
    worker_prices: Mapping[str, float]

    @property
    def hours(self) -> float:
        """Length in hours."""
        return (self.until - self.since).total_seconds() / 3600


def compare_policies(before: Side, after: Side, stretch: Stretch) -> PolicyDiff:
    """The differences from `before` to `after`."""
    calendars = _either(before.policy.calendars, after.policy.calendars)
    return PolicyDiff(
        since=stretch.since,
        until=stretch.until,
        settings=tuple(_settings(before.document, after.document)),
        windows=tuple(
            change
            for name in calendars
            for change in _window_changes(name, _spans(before, name, stretch), _spans(after, name, stretch))
        ),
        calendars=tuple(
            Quantity(
                owner=name,
                name="open",
                unit="h",
                before=_open_hours(before, name, stretch),
                after=_open_hours(after, name, stretch),
            )
            for name in calendars
        ),
        pools=tuple(_paired(_pool_figures(before, stretch), _pool_figures(after, stretch))),
        teams=tuple(_paired(_team_figures(before, stretch), _team_figures(after, stretch))),
        money=tuple(_paired(_money_figures(before, stretch), _money_figures(after, stretch))),
    )


_Key = tuple[str, str, str]  # owner, name, unit
_Figures = dict[_Key, tuple[float, float | None]]  # value, price of one


def _paired(before: _Figures, after: _Figures) -> Iterable[Quantity]:
    for key in _either(before, after):
        (was, was_price), (will, will_price) = before.get(key, (None, None)), after.get(key, (None, None))
        yield Quantity(
            owner=key[0],
            name=key[1],
            unit=key[2],
            before=was,
            after=will,
            usd_before=None if was is None or was_price is None else was * was_price,
            usd_after=None if will is None or will_price is None else will * will_price,
        )


def _either(before: Mapping[Any, object], after: Mapping[Any, object]) -> list[Any]:
    """Keys of both in the order of the newer, then what only the older has."""
    return [*after, *(key for key in before if key not in after)]


def _settings(before: PolicyDocument, after: PolicyDocument) -> Iterable[Setting]:
    was = dict(_flat(before.model_dump(by_alias=True, mode="json")))
    will = dict(_flat(after.model_dump(by_alias=True, mode="json")))
    for path in sorted({*was, *will}):
        if was.get(path) != will.get(path):
            yield Setting(path=path, before=was.get(path), after=will.get(path))


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, inner in value.items():
        path = f"{prefix}.{key}" if prefix else key
        if isinstance(inner, dict) and inner:
            yield from _flat(inner, path)
        elif inner not in (None, [], {}):
            yield path, inner


def _spans(side: Side, name: str, stretch: Stretch) -> list[Span]:
    calendar = side.policy.calendars.get(name)
    if calendar is None:
        return []
    cut = ((max(start, stretch.since), min(end, stretch.until)) for start, end in calendar.spans)
    return [(start, end) for start, end in cut if start < end]


def _open_hours(side: Side, name: str, stretch: Stretch) -> float | None:
    if name not in side.policy.calendars:
        return None
    return hours_in(_spans(side, name, stretch), stretch.since, stretch.until)


def _window_changes(name: str, before: list[Span], after: list[Span]) -> list[WindowChange]:
    changes = [WindowChange(calendar=name, start=s, end=e, opens=True) for s, e in minus(after, before)]
    changes += [WindowChange(calendar=name, start=s, end=e, opens=False) for s, e in minus(before, after)]
    return sorted(changes, key=lambda change: change.start)


def _pool_figures(side: Side, stretch: Stretch) -> _Figures:
    figures: _Figures = {}
    for name, pool in side.policy.pools.items():
        onprem = pool.place == "on-prem"
        price = stretch.prices.get(name)
        if onprem and price is None:
            price = side.policy.money.onprem_usd_per_gpu_hour or None
        gpu_hours = pool.gpus_per_node * stretch.hours
        floor, ceiling = (pool.nodes, pool.nodes) if onprem else (pool.min_nodes, pool.max_nodes)
        if floor is not None:
            figures[name, "floor", "GPU-hours"] = (floor * gpu_hours, price)
        if ceiling is not None and not onprem:
            figures[name, "ceiling", "GPU-hours"] = (ceiling * gpu_hours, price)
        if pool.headroom:
            kept = 0.0
            for headroom in pool.headroom:
                hours = stretch.hours if headroom.calendar is None else _open_hours(side, headroom.calendar, stretch)
                kept += headroom.gpus * (hours or 0.0)
            figures[name, "headroom", "GPU-hours"] = (kept, None if onprem else price)
    return figures


def _team_figures(side: Side, stretch: Stretch) -> _Figures:
    figures: _Figures = {}
    days = stretch.hours / 24
    for name, team in side.policy.teams.items():
        at_work = union(span for c in team.calendars for span in _spans(side, c, stretch))
        hours = hours_in(at_work, stretch.since, stretch.until) if team.calendars else stretch.hours
        figures[name, "at work", "h"] = (hours, None)
        figures[name, "guaranteed", "GPU-hours"] = (team.guaranteed_gpus * stretch.hours, None)
        if team.burst_ceiling_gpus is not None:
            figures[name, "burst ceiling", "GPU-hours"] = (team.burst_ceiling_gpus * stretch.hours, None)
        if team.budget.usd_per_day is not None:
            figures[name, "budget by day", "USD"] = (team.budget.usd_per_day * days, 1.0)
        if team.budget.usd_per_month is not None:
            figures[name, "budget by month", "USD a month"] = (team.budget.usd_per_month, None)
        worker_hours = _cache_worker_hours(side, name, stretch)
        if worker_hours is not None:
            price = stretch.worker_prices.get(team.cache_group or "")
            figures[name, "cache", "worker-hours"] = (worker_hours, price)
    return figures


def _cache_worker_hours(side: Side, team_name: str, stretch: Stretch) -> float | None:
    team = side.policy.teams[team_name]
    rules = side.policy.caches.get(team.cache_group) if team.cache_group else None
    if rules is None:
        return None
    if not team.calendars:
        return rules.awake_workers * stretch.hours
    lead = timedelta(seconds=rules.warm_lead_s)
    # A span that begins after the range still wakes the cache within it.
    spans = (span for name in team.calendars for span in side.policy.calendars[name].spans)
    awake = hours_in(union((start - lead, end) for start, end in spans), stretch.since, stretch.until)
    return rules.awake_workers * awake + rules.asleep_workers * (stretch.hours - awake)


def _money_figures(side: Side, stretch: Stretch) -> _Figures:
    money, hours = side.policy.money, stretch.hours
    figures: _Figures = {}
    for name, cap, factor, unit in (
        ("cap by hour", money.usd_per_hour, hours, "USD"),
        ("cap by day", money.usd_per_day, hours / 24, "USD"),
        ("cap by month", money.usd_per_month, 1.0, "USD a month"),
    ):
        if cap is not None:
            figures["site", name, unit] = (cap * factor, None)
    return figures
