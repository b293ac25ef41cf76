"""What a model may learn from a series: the past cut at an origin, cleaned causally. Pure; called by every candidate.

Whether a value is believed depends on earlier values only, so cleaning a whole record once and cutting it later gives
the same as cleaning the cut record: rolling origins can share one pass.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from forecast.calendar import Calendar, DayType
from forecast.forecaster import DemandSeries, Floats

DAY_S = 86_400
# Crash-looping jobs asked for 12 times a site's GPUs within an hour (Helios Venus, 2020-09-10); an honest day of a team
# is rarely three times the median of its daily peaks.
WILD_TIMES = 3.0
WILD_FLOOR_GPUS = 8.0  # a first gang of one node is no outlier, whatever came before
WILD_DAYS = 14  # daily peaks the median is taken of
WILD_MIN_DAYS = 3
BELIEVED_AFTER_S = 36 * 3600  # a higher level that lasts a day and a half is the new normal
MARKED_DAYS = 28
MARKED_SHARE = 0.25  # a controller that bursts every day marks most hours; then marks tell nothing


KINDS = tuple(DayType)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LocalSteps:
    """The calendar's view of steps: shape (steps,) each. `day` counts local dates from the first, `slot` is the step
    within the local day, `kind` the number of the day's type in `KINDS`."""

    day: NDArray[np.int64]
    slot: NDArray[np.int64]
    kind: NDArray[np.int64]


def steps_per_day(step_s: int) -> int:
    """Steps of `step_s` in a day. ValueError unless they divide it."""
    if step_s < 1 or DAY_S % step_s:
        raise ValueError(f"a step of {step_s} s does not divide a day")
    return DAY_S // step_s


def cut(series: DemandSeries, steps: int) -> DemandSeries:
    """The first `steps` steps: what was known at that origin."""
    return DemandSeries(
        key=series.key,
        start=series.start,
        step_s=series.step_s,
        gpus=series.gpus[:steps],
        gaps=series.gaps[:steps],
        marked=series.marked[:steps],
    )


def cut_front(series: DemandSeries, steps: int) -> DemandSeries:
    """Without the first `steps` steps."""
    return DemandSeries(
        key=series.key,
        start=series.start + timedelta(seconds=steps * series.step_s),
        step_s=series.step_s,
        gpus=series.gpus[steps:],
        gaps=series.gaps[steps:],
        marked=series.marked[steps:],
    )


def known(series: DemandSeries) -> Floats:
    """Values as observed; NaN where not known. What can't be demand (negative, not finite) is not known either."""
    values = np.array(series.gpus, dtype=np.float64)
    values[series.gaps | ~(values >= 0) | (values == np.inf)] = np.nan
    return values


def learnable(series: DemandSeries) -> Floats:
    """Values a model may learn from; NaN where not known, wild (F025 e) or marked (an outage, or our own change)."""
    values = known(series)
    values[_wild(values, series.step_s)] = np.nan
    values[_distrusted(series)] = np.nan
    return values


def last_known(values: Floats) -> float:
    """The last value that is known. ValueError if none is."""
    rows = np.flatnonzero(~np.isnan(values))
    if len(rows) == 0:
        raise ValueError("needs at least one known value")
    return float(values[rows[-1]])


def fill_gaps(values: Floats, *, season: int) -> Floats:
    """Gaps filled from the same step of earlier seasons, else carried on, else (at the start) carried back.

    ValueError if nothing is known.
    """
    filled = values.copy()
    for begin in range(season, len(filled), season):
        block = filled[begin : begin + season]
        before = filled[begin - season : begin - season + len(block)]
        filled[begin : begin + season] = np.where(np.isnan(block), before, block)
    rows = np.flatnonzero(~np.isnan(filled))
    if len(rows) == 0:
        raise ValueError("needs at least one known value")
    nearest = rows[np.maximum(np.searchsorted(rows, np.arange(len(filled)), side="right") - 1, 0)]
    return filled[nearest]


def local_steps(series: DemandSeries, *, steps: int, calendar: Calendar) -> LocalSteps:
    """Local day, slot and day type of the first `steps` steps from the series' start (may reach past its end)."""
    zone, step = ZoneInfo(calendar.zone), timedelta(seconds=series.step_s)
    local = [(series.start + number * step).astimezone(zone) for number in range(steps)]
    dates = [at.date() for at in local]
    kinds = {day: KINDS.index(calendar.day_type(day)) for day in set(dates)}
    last_slot = steps_per_day(series.step_s) - 1
    return LocalSteps(
        day=np.array([day.toordinal() for day in dates], dtype=np.int64) - dates[0].toordinal(),
        slot=np.array([min(_second(at) // series.step_s, last_slot) for at in local], dtype=np.int64),
        kind=np.array([kinds[day] for day in dates], dtype=np.int64),
    )


def _second(at: datetime) -> int:
    return at.hour * 3600 + at.minute * 60 + at.second


def _wild(values: Floats, step_s: int) -> NDArray[np.bool_]:
    """Steps far above the daily peaks before them, until the higher level has lasted a while."""
    season = max(DAY_S // step_s, 1)
    days = -(-len(values) // season)
    padded = np.pad(values, (0, days * season - len(values)), constant_values=np.nan).reshape(days, season)
    peaks = np.where(np.isnan(padded), -np.inf, padded).max(axis=1)
    wild = np.zeros(len(values), dtype=np.bool_)
    run = 0
    for number in range(WILD_MIN_DAYS, days):
        before = peaks[max(number - WILD_DAYS, 0) : number]
        before = before[np.isfinite(before)]
        if len(before) < WILD_MIN_DAYS or peaks[number] <= WILD_FLOOR_GPUS:
            run = 0
            continue
        limit = max(WILD_TIMES * float(np.median(before)), WILD_FLOOR_GPUS)
        if peaks[number] <= limit:
            run = 0
            continue
        for step in range(number * season, min((number + 1) * season, len(values))):
            run = run + 1 if values[step] > limit else 0
            wild[step] = 0 < run * step_s <= BELIEVED_AFTER_S
    return wild


def _distrusted(series: DemandSeries) -> NDArray[np.bool_]:
    """Marked steps, where marks are rare among the steps up to them."""
    window = MARKED_DAYS * DAY_S // series.step_s
    total = np.cumsum(series.marked)
    recent = total - np.concatenate([np.zeros(min(window, len(total)), dtype=np.int64), total[:-window]])[: len(total)]
    spans = np.minimum(np.arange(1, len(total) + 1), window)
    return np.asarray(series.marked & (recent <= MARKED_SHARE * np.maximum(spans, DAY_S // series.step_s * 7)))
