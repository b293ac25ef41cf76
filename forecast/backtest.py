"""Rolling origins: what every candidate would have said at each, and how well it did. Pure; feeds `champion`.

At each origin a candidate sees the past only; parameters are fitted on the past only. Windows with outages, gaps or
hours that the controller changed are not scored, and counted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from forecast.calendar import Calendar
from forecast.combination import Combination, combined
from forecast.conformal import BLOCK_S, Calibrated, calibrate, pinball
from forecast.forecaster import DemandSeries, Floats, Forecaster
from forecast.past import DAY_S, cut, known, steps_per_day

SCORED_QUANTILES = (0.5, 0.9, 0.95)  # the middle, and the levels that capacity is bought at
PEAK_DAYS = 14  # the recent peak that quantiles are clipped to
ORIGIN_HOUR = 6  # the night's low, before the first office opens


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rolled:
    """What was said at every origin and what came.

    `origins` (steps known at each, ascending); `actuals`, `paths[name]` (origins, horizon), NaN where not known or not
    said; `usable` (origins,): the first day ahead, which is what is scored, is known and without an outage;
    `refusals[name]`: why a candidate was silent somewhere; `seconds[name]`: per origin, 0 without a stopwatch.
    """

    series: DemandSeries
    horizon: int
    origins: tuple[int, ...]
    actuals: Floats
    usable: NDArray[np.bool_]
    paths: Mapping[str, Floats]
    quantiles: Mapping[str, Calibrated]
    refusals: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def scored(self) -> slice:
        """The steps of the horizon that are scored: the first day."""
        return slice(0, min(steps_per_day(self.series.step_s), self.horizon))

    @property
    def excluded(self) -> int:
        """Windows whose actuals are known but not scored: an outage or our own change of capacity lies in them."""
        came = ~np.isnan(self.actuals[:, self.scored]).all(axis=1)
        return int((came & ~self.usable).sum())

    def losses(self, name: str) -> Floats:
        """(origins,) mean pinball loss in GPUs over the scored quantiles; NaN where not usable or not said."""
        gpus = self.quantiles[name].gpus
        came = self.actuals[:, self.scored]
        by_level = [pinball(came, gpus[q][:, self.scored], quantile=q).mean(axis=1) for q in SCORED_QUANTILES]
        return np.where(self.usable, np.mean(by_level, axis=0), np.nan)

    def misses(self, name: str) -> Floats:
        """(origins,) mean absolute error in GPUs of the median path; NaN where not usable or not said."""
        errors = np.abs(self.actuals - self.paths[name])[:, self.scored]
        return np.where(self.usable, errors.mean(axis=1), np.nan)


def daily_origins(
    series: DemandSeries, *, calendar: Calendar, horizon: int, warm_up_days: int, hour: int = ORIGIN_HOUR
) -> tuple[int, ...]:
    """Steps known at `hour` local on each day after the warm-up, as far as a whole horizon of actuals follows."""
    season = steps_per_day(series.step_s)
    zone, step = ZoneInfo(calendar.zone), timedelta(seconds=series.step_s)
    first = max(warm_up_days * season, 1)
    candidates = range(first, len(series.gpus) - horizon + 1)
    marks = [(number, (series.start + number * step).astimezone(zone)) for number in candidates]
    return tuple(number for number, at in marks if at.hour == hour and at.minute * 60 + at.second < series.step_s)


def roll(
    series: DemandSeries,
    candidates: Sequence[Forecaster],
    *,
    origins: Sequence[int],
    horizon: int,
    calendar: Calendar,
    stopwatch: Callable[[], float] | None = None,
) -> Rolled:
    """Every candidate at every origin. `stopwatch` (seconds) is read around each, for the table only.

    ValueError without origins, or for a step that does not divide a day.
    """
    if not origins or min(origins) < 1:
        raise ValueError("a backtest needs origins with at least one known step")
    steps_per_day(series.step_s)
    paths: dict[str, Floats] = {}
    refusals: dict[str, str] = {}
    seconds: dict[str, float] = {}
    for candidate in candidates:
        begun = stopwatch() if stopwatch else 0.0
        if isinstance(candidate, Combination):
            said, refusal = _combined(candidate, paths)
        else:
            said, refusal = _rolling(candidate, series, tuple(origins), horizon=horizon, calendar=calendar)
        seconds[candidate.name] = ((stopwatch() if stopwatch else 0.0) - begun) / len(origins)
        if refusal:
            refusals[candidate.name] = refusal
        if said is not None:
            paths[candidate.name] = said
    actuals, marked = _actuals(series, origins, horizon)
    peaks = recent_peaks(series, origins)
    block_steps = max(BLOCK_S // series.step_s, 1)
    believed = np.where(marked, np.nan, actuals)  # an outage says nothing about errors in ordinary hours
    quantiles = {
        name: calibrate(said, believed, origins=origins, peaks=peaks, block_steps=block_steps)
        for name, said in paths.items()
    }
    return Rolled(
        series=series,
        horizon=horizon,
        origins=tuple(origins),
        actuals=actuals,
        usable=_usable(actuals, marked, day_steps=steps_per_day(series.step_s)),
        paths=paths,
        quantiles=quantiles,
        refusals=refusals,
        seconds=seconds,
    )


def recent_peaks(series: DemandSeries, origins: Sequence[int]) -> Floats:
    """(origins,) highest known value of the fortnight before each; 0 where nothing is known."""
    values = np.nan_to_num(known(series), nan=0.0)
    window = PEAK_DAYS * DAY_S // series.step_s
    return np.array([values[max(origin - window, 0) : origin].max(initial=0.0) for origin in origins])


def _combined(candidate: Combination, paths: Mapping[str, Floats]) -> tuple[Floats | None, str]:
    said = [paths[member.name] for member in candidate.members if member.name in paths]
    if not said:
        return None, "no member can speak"
    try:
        return combined(np.array(said)), ""
    except ValueError as needs:
        return None, str(needs)


def _rolling(
    candidate: Forecaster, series: DemandSeries, origins: tuple[int, ...], *, horizon: int, calendar: Calendar
) -> tuple[Floats | None, str]:
    """All origins in one pass where the candidate can; halved where it refuses some; None if it refuses all."""
    shared = getattr(candidate, "paths", None)
    refusal = ""

    def say(part: tuple[int, ...]) -> list[Floats]:
        nonlocal refusal
        try:
            if shared is not None:
                return list(shared(series, origins=part, horizon=horizon, calendar=calendar))
            if len(part) == 1:
                return [candidate.predict(cut(series, part[0]), horizon=horizon, calendar=calendar)]
        except ValueError as needs:
            refusal = str(needs)
            if len(part) == 1:
                return [np.full(horizon, np.nan)]
        half = len(part) // 2
        return say(part[:half]) + say(part[half:])

    said = np.array(say(origins))
    return (None if np.isnan(said).all() else said), refusal


def _actuals(series: DemandSeries, origins: Sequence[int], horizon: int) -> tuple[Floats, NDArray[np.bool_]]:
    values = np.append(known(series), np.full(horizon, np.nan))
    marked = np.append(series.marked, np.zeros(horizon, dtype=np.bool_))
    rows = np.asarray(origins)[:, None] + np.arange(horizon)
    return values[rows], marked[rows]


def _usable(actuals: Floats, marked: NDArray[np.bool_], *, day_steps: int) -> NDArray[np.bool_]:
    return ~np.asarray((np.isnan(actuals) | marked)[:, :day_steps].any(axis=1))


def origin_time(rolled: Rolled, number: int) -> datetime:
    """The instant of an origin."""
    return rolled.series.start + timedelta(seconds=rolled.series.step_s * rolled.origins[number])
