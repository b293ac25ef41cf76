"""The day's peak: a forecast of its own, height and time, each with an interval. Pure; called by `champion`.

A median path runs below the peaks (last value called them 7 to 12 % low on published traces): the height is the path's
highest step plus the median of what such heights missed at past origins; the interval comes from the same errors.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from forecast.backtest import Rolled, origin_time, recent_peaks
from forecast.calendar import Calendar
from forecast.combination import NAME as COMBINATION
from forecast.conformal import CLIP_TIMES, MIN_ORIGINS, PRIOR_FACTORS, WINDOW_ORIGINS
from forecast.forecaster import Floats, Peak
from forecast.past import DAY_S, known

LEVELS = (0.05, 0.95)  # a 90 % interval
TIME_LEVELS = (0.1, 0.9)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SegmentPeaks:
    """Peaks of one stretch of the horizon at every origin: (origins,) each; steps count from the stretch's begin."""

    gpus: Floats
    low_gpus: Floats
    high_gpus: Floats
    step: NDArray[Any]
    first_step: NDArray[Any]
    last_step: NDArray[Any]
    actual_gpus: Floats
    actual_step: NDArray[Any]


def peak_source(rolled: Rolled, champion: str) -> str:
    """Whose path the peak is taken from: the combination's (least peak error on every trace measured), else the
    champion's."""
    path = rolled.paths.get(COMBINATION)
    return COMBINATION if path is not None and not np.isnan(path[-1]).any() else champion


def segment_peaks(rolled: Rolled, name: str, segment: slice) -> SegmentPeaks:
    """Peak of `segment` (steps of the horizon) at each origin, corrected by the errors known there."""
    paths, actuals = rolled.paths[name][:, segment], rolled.actuals[:, segment]
    said = ~np.asarray(np.isnan(paths).any(axis=1))
    came = ~np.asarray(np.isnan(actuals).any(axis=1)) & said
    raw = np.where(said, np.where(said[:, None], paths, 0.0).max(axis=1), np.nan)
    safe = np.where(np.isnan(actuals), -1.0, actuals)
    actual, actual_step = np.where(came, safe.max(axis=1), np.nan), safe.argmax(axis=1)
    own_step = np.where(said[:, None], paths, 0.0).argmax(axis=1)
    at, recent = np.asarray(rolled.origins), recent_peaks(rolled.series, rolled.origins)
    lately = _two_day_peaks(rolled)
    seen = np.searchsorted(at + segment.stop, at, side="right")
    scored = came & _unmarked(rolled, segment)
    rows = [
        _one_peak(raw, actual, actual_step, scored, seen=int(seen[i]), i=i, own=int(own_step[i]), lately=lately[i])
        for i in range(len(raw))
    ]
    table = np.array(rows, dtype=np.float64)
    limit = np.maximum(CLIP_TIMES * recent, table[:, 0])
    return SegmentPeaks(
        gpus=table[:, 0],
        low_gpus=table[:, 1],
        high_gpus=np.minimum(table[:, 2], limit),
        step=own_step,
        first_step=table[:, 3],
        last_step=table[:, 4],
        actual_gpus=actual,
        actual_step=actual_step,
    )


def _one_peak(
    raw: Floats,
    actual: Floats,
    actual_step: NDArray[Any],
    scored: NDArray[Any],
    *,
    seen: int,
    i: int,
    own: int,
    lately: float,
) -> tuple[float, float, float, float, float]:
    """Height, its low and high, the first and last step of the time's interval, at origin `i`."""
    rows = np.flatnonzero(scored[:seen])[-WINDOW_ORIGINS:]
    if len(rows) < MIN_ORIGINS:  # too little to correct by: the recent peak is the rule (F025 c)
        height = max(float(raw[i]), lately)
        return height, height * PRIOR_FACTORS[LEVELS[0]], height * PRIOR_FACTORS[LEVELS[1]], own, own
    errors = np.sort(actual[rows] - raw[rows])
    height = max(float(raw[i]) + float(np.median(errors)), 0.0)
    count = len(errors)
    low_rank, high_rank = (int(np.clip(np.ceil((count + 1) * level) - 1, 0, count - 1)) for level in LEVELS)
    low, high = float(raw[i]) + errors[low_rank], float(raw[i]) + errors[high_rank]
    first, last = np.quantile(actual_step[rows], TIME_LEVELS)
    return height, min(max(low, 0.0), height), max(high, height), min(first, own), max(last, own)


def _unmarked(rolled: Rolled, segment: slice) -> NDArray[Any]:
    rows = np.asarray(rolled.origins)[:, None] + np.arange(rolled.horizon)[segment]
    marked = np.append(rolled.series.marked, np.zeros(rolled.horizon, dtype=np.bool_))
    return ~np.asarray(marked[rows].any(axis=1))


def _two_day_peaks(rolled: Rolled) -> Floats:
    values = np.nan_to_num(known(rolled.series), nan=0.0)
    window = max(2 * DAY_S // rolled.series.step_s, 4)  # of daily steps, the last four
    return np.array([values[max(at - window, 0) : at].max(initial=0.0) for at in rolled.origins])


def day_segments(rolled: Rolled, calendar: Calendar) -> list[tuple[datetime, slice]]:
    """Local days of the last origin's horizon, each with its midnight in UTC and its steps: what is left of today, and
    whole days. A last day that is only begun has no peak to speak of (unless the horizon has nothing else)."""
    zone, step = ZoneInfo(calendar.zone), timedelta(seconds=rolled.series.step_s)
    cutoff = origin_time(rolled, len(rolled.origins) - 1)
    days = [(cutoff + number * step).astimezone(zone).date() for number in range(rolled.horizon + 1)]
    ended = sorted(set(days[:-1]) - {days[-1]}) or [days[0]]
    segments = []
    for day in ended:
        begin, count = days.index(day), days[: rolled.horizon].count(day)
        midnight = datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)
        segments.append((midnight, slice(begin, begin + count)))
    return segments


def peaks_ahead(rolled: Rolled, *, name: str, calendar: Calendar) -> tuple[Peak, ...]:
    """The peak of each local day after the last origin."""
    step = timedelta(seconds=rolled.series.step_s)
    cutoff = origin_time(rolled, len(rolled.origins) - 1)
    peaks = []
    for midnight, segment in day_segments(rolled, calendar):
        found = segment_peaks(rolled, name, segment)
        begin = cutoff + segment.start * step
        peaks.append(
            Peak(
                day=midnight,
                at=begin + int(found.step[-1]) * step,
                gpus=float(found.gpus[-1]),
                low_gpus=float(found.low_gpus[-1]),
                high_gpus=float(found.high_gpus[-1]),
                earliest=begin + int(found.first_step[-1]) * step,
                latest=begin + int(np.ceil(found.last_step[-1])) * step,
            )
        )
    return tuple(peaks)
