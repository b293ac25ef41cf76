"""Simple candidates: last value, the same hour yesterday, and a profile by hour and day type put on today's level.

Called by `backtest` and `champion`. Persistence is the bar: on published GPU traces few models beat it day-ahead.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from forecast.calendar import Calendar, DayType
from forecast.forecaster import DemandSeries, Floats
from forecast.past import KINDS, LocalSteps, fill_gaps, known, last_known, learnable, local_steps, steps_per_day

PROFILE_DAYS = 28  # four of each weekday; older weeks describe a desk that has changed since
MIN_EXAMPLES = 3  # days of a type before its own profile is used
LEVEL_HOURS = 24  # the profile is scaled so that it agrees with this many hours of late
LEVEL_BACK_DAYS = 7
LEVEL_LIMITS = (0.25, 4.0)

# Whose profile to use for a day type with too few examples, nearest first.
_OFFICE = (DayType.WORKDAY, DayType.TRADING, DayType.MAKE_UP)
_CLOSED = (DayType.WEEKEND, DayType.HOLIDAY)
NEAREST: dict[DayType, tuple[DayType, ...]] = {
    DayType.TRADING: (DayType.TRADING, *_OFFICE, DayType.HALF, *_CLOSED),
    DayType.WORKDAY: (*_OFFICE, DayType.HALF, *_CLOSED),
    DayType.MAKE_UP: (DayType.MAKE_UP, *_OFFICE, DayType.HALF, *_CLOSED),
    DayType.HALF: (DayType.HALF, *_OFFICE, *_CLOSED),
    DayType.WEEKEND: (*_CLOSED, DayType.HALF, *_OFFICE),
    DayType.HOLIDAY: (DayType.HOLIDAY, DayType.WEEKEND, DayType.HALF, *_OFFICE),
}


class LastValue:
    """The last known value goes on: the baseline every other candidate must beat."""

    name = "last value"

    def predict(self, series: DemandSeries, *, horizon: int, calendar: Calendar) -> Floats:
        """Shape (horizon,). ValueError if nothing is known."""
        return np.full(horizon, last_known(known(series)))


class Yesterday:
    """The last day's values, repeated; a gap takes the same hour of the day before."""

    name = "same hour yesterday"

    def predict(self, series: DemandSeries, *, horizon: int, calendar: Calendar) -> Floats:
        """Shape (horizon,). ValueError for less than a day, or a week in which nothing is known."""
        season = steps_per_day(series.step_s)
        values = known(series)[-8 * season :]
        if len(values) < season:
            raise ValueError(f"{self.name} needs a day of history, there are {len(values)} steps")
        values = values[len(values) % season :]
        return np.resize(fill_gaps(values, season=season)[-season:], horizon)


class DayTypeProfile:
    """Median by hour of day and day type over four weeks, scaled to the level of the last day.

    Holidays shape only holidays (F019), outages and bursts of broken jobs shape nothing.
    """

    name = "day-type profile"

    def predict(self, series: DemandSeries, *, horizon: int, calendar: Calendar) -> Floats:
        """Shape (horizon,). ValueError for less than two days of known values."""
        return self.paths(series, origins=[len(series.gpus)], horizon=horizon, calendar=calendar)[0]

    def paths(self, series: DemandSeries, *, origins: Sequence[int], horizon: int, calendar: Calendar) -> list[Floats]:
        """A path for each origin (steps known), each as `predict` gives on the record cut there."""
        season = steps_per_day(series.step_s)
        if max(origins) < 1:
            raise ValueError(f"{self.name} needs two days of known values, there are 0 steps")
        values = learnable(series)
        local = local_steps(series, steps=max(origins) + horizon, calendar=calendar)
        return [_profile_path(values[:origin], local, horizon=horizon, season=season) for origin in origins]


def _profile_path(values: Floats, local: LocalSteps, *, horizon: int, season: int) -> Floats:
    origin = len(values)
    begin = max(origin - PROFILE_DAYS * season, 0)
    late = values[begin:]
    if int(np.sum(~np.isnan(late))) < 2 * season:
        raise ValueError(f"day-type profile needs two days of known values, there are {int(np.sum(~np.isnan(late)))}")
    table, kinds = _day_table(late, local, begin=begin, season=season)
    profiles: dict[int, Floats] = {}

    def expected(first: int, end: int) -> Floats:
        wanted = local.kind[first:end]
        for kind in {int(kind) for kind in wanted} - set(profiles):
            profiles[kind] = _profile_of(KINDS[kind], table, kinds)
        by_kind = np.array([profiles.get(kind, table[0]) for kind in range(len(KINDS))])
        return np.asarray(by_kind[wanted, local.slot[first:end]])

    back = max(origin - LEVEL_BACK_DAYS * season, 0)
    level = _level(values[back:], expected(back, origin), hours=LEVEL_HOURS * season // 24)
    return expected(origin, origin + horizon) * level


def _day_table(values: Floats, local: LocalSteps, *, begin: int, season: int) -> tuple[Floats, NDArray[np.int64]]:
    """(local days, slots) of the values from step `begin` on, and the days' kinds; days of which nothing is known are
    left out. An hour that a clock change doubles keeps its last value."""
    span = slice(begin, begin + len(values))
    days = local.day[span] - local.day[begin]
    table = np.full((int(days[-1]) + 1, season), np.nan)
    kinds = np.zeros(len(table), dtype=np.int64)
    table[days, local.slot[span]] = values
    kinds[days] = local.kind[span]
    known_days = ~np.asarray(np.isnan(table).all(axis=1))
    return table[known_days], kinds[known_days]


def _profile_of(kind: DayType, table: Floats, kinds: NDArray[np.int64]) -> Floats:
    """Median by slot over the nearest type with enough examples, else over all days; unknown slots are carried on."""
    for nearest in NEAREST[kind]:
        rows = kinds == KINDS.index(nearest)
        if int(rows.sum()) >= MIN_EXAMPLES:
            return _median_by_slot(table[rows])
    return _median_by_slot(table)


def _median_by_slot(rows: Floats) -> Floats:
    """Median of the known values of each column. By sorting: ten times faster than `nanmedian` on small tables."""
    ascending = np.sort(rows, axis=0)  # NaN come last
    count = (~np.isnan(rows)).sum(axis=0)
    column = np.arange(rows.shape[1])
    middle = (
        ascending[np.maximum(count - 1, 0) // 2, column] + ascending[np.minimum(count // 2, len(rows) - 1), column]
    ) / 2
    return fill_gaps(np.where(count > 0, middle, np.nan), season=rows.shape[1])


def _level(values: Floats, expected: Floats, *, hours: int) -> float:
    """Factor that makes the profile agree with the last `hours` steps in which it expects anything."""
    usable = np.flatnonzero(~np.isnan(values) & (expected > 0))[-hours:]
    if len(usable) < hours // 2:
        return 1.0
    return float(np.clip(values[usable].sum() / expected[usable].sum(), *LEVEL_LIMITS))
