"""Job records or live observations -> demand series. Pure; called by the forecast beat, backtest and replay.

Demand is GPUs wanted: running + resource-pending, from when a job may start (not from when it was submitted, if held
or waiting for another) until it ends. What is not known is a gap (NaN), never zero. Outliers are kept as they were
observed (F025: 5,000 GPUs of crash-looping jobs did happen); the forecasters, not the record, weigh them down.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from forecast.forecaster import DemandSeries, Floats

TOTAL = "total"  # the key of the sum over all teams
Span = tuple[datetime, datetime]
# 400 days of 10-minute steps: a year and its holidays; older steps make room.
MAX_LOG_STEPS = 57_600
# 38 years of minutes: a longer grid is a wrong date that cleaning let through, not a history.
MAX_STEPS = 20_000_000
WEEK_S = 7 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobArrays:
    """Jobs as columns, all of shape (jobs,). Times in Unix seconds.

    `eligible_s` NaN: from its submission; inf: it never became eligible (held, its dependency failed), so no demand.
    `start_s` NaN: it never started. `end_s` NaN: still running (or pending) at the end of the record.
    """

    gpus: Floats
    submit_s: Floats
    eligible_s: Floats
    start_s: Floats
    end_s: Floats

    def __post_init__(self) -> None:
        lengths = {len(self.gpus), len(self.submit_s), len(self.eligible_s), len(self.start_s), len(self.end_s)}
        if len(lengths) != 1:
            raise ValueError(f"job columns differ in length: {sorted(lengths)}")

    def of(self, rows: NDArray[np.bool_]) -> "JobArrays":
        """Some of the jobs."""
        return JobArrays(
            gpus=self.gpus[rows],
            submit_s=self.submit_s[rows],
            eligible_s=self.eligible_s[rows],
            start_s=self.start_s[rows],
            end_s=self.end_s[rows],
        )

    def wanted_spans(self) -> tuple[Floats, Floats]:
        """When each job's demand begins and ends, Unix seconds; end is inf while it goes on. A running job is demand
        whatever its eligibility says."""
        begin = np.where(np.isnan(self.eligible_s), self.submit_s, np.maximum(self.eligible_s, self.submit_s))
        begin = np.where(np.isnan(self.start_s), begin, np.minimum(begin, self.start_s))
        return begin, np.where(np.isnan(self.end_s), np.inf, self.end_s)


def demand_series(
    jobs: JobArrays,
    *,
    key: str,
    step_s: int,
    start: datetime,
    end: datetime,
    gaps: Iterable[Span] = (),
) -> DemandSeries:
    """Highest demand inside each step of [start, end), both put on the step grid (start down, end up).

    Exact: every change of level is swept, a level held over the step's beginning counts in it. `gaps` are spans in
    which the record is known to be missing. ValueError for a naive time, an empty span or a step below 1 s.
    """
    first, steps = _grid(start, end, step_s)
    begin, finish = jobs.wanted_spans()
    horizon = first + steps * step_s
    rows = (finish > begin) & (finish > first) & (begin < horizon) & (jobs.gpus > 0)
    times = np.concatenate([np.maximum(begin[rows], first), np.minimum(finish[rows], horizon)])
    changes = np.concatenate([jobs.gpus[rows], -jobs.gpus[rows]])
    gpus = _step_maxima(times, changes, first=first, step_s=step_s, steps=steps)
    known = DemandSeries(
        key=key,
        start=datetime.fromtimestamp(first, UTC),
        step_s=step_s,
        gpus=gpus,
        gaps=np.zeros(steps, dtype=np.bool_),
        marked=np.zeros(steps, dtype=np.bool_),
    )
    return with_gaps(known, gaps)


def _grid(start: datetime, end: datetime, step_s: int) -> tuple[int, int]:
    if start.tzinfo is None or end.tzinfo is None:
        raise ValueError("a series needs aware times")
    if step_s < 1:
        raise ValueError(f"a step of {step_s} s is too short")
    first = int(start.timestamp() // step_s) * step_s
    steps = -int(-(end.timestamp() - first) // step_s)
    if steps > MAX_STEPS:
        raise ValueError(f"{steps} steps of {step_s} s are more than {MAX_STEPS}: is a date wrong?")
    if steps < 1:
        raise ValueError(f"nothing lies between {start:%Y-%m-%d %H:%M} and {end:%Y-%m-%d %H:%M}")
    return first, steps


def _step_maxima(times: Floats, changes: Floats, *, first: int, step_s: int, steps: int) -> Floats:
    """Maximum of the running sum of `changes` within each step. A change exactly at a step's start belongs to it."""
    order = np.argsort(times, kind="stable")
    at, level = _levels(times[order], changes[order])
    carried = np.searchsorted(at, first + np.arange(steps) * step_s, side="right") - 1
    maxima = np.where(carried >= 0, level[np.maximum(carried, 0)], 0.0) if len(level) else np.zeros(steps)
    step_of = ((at - first) // step_s).astype(np.int64)
    inside = (step_of >= 0) & (step_of < steps)
    np.maximum.at(maxima, step_of[inside], level[inside])
    return np.maximum(maxima, 0.0)


def _levels(times: Floats, changes: Floats) -> tuple[Floats, Floats]:
    """Sorted distinct times, and the level from each on: changes of one instant are one change."""
    if len(times) == 0:
        return times, changes
    last = np.append(np.diff(times) > 0, True)
    return times[last], np.cumsum(changes)[last]


def team_series(
    jobs: JobArrays,
    teams: Sequence[str] | NDArray[np.object_],
    *,
    step_s: int,
    start: datetime,
    end: datetime,
    gaps: Iterable[Span] = (),
) -> dict[str, DemandSeries]:
    """The series of each team, by name; jobs of no team ('') only count in the total, which is not among them."""
    names = np.asarray(teams, dtype=object)
    spans = tuple(gaps)
    return {
        team: demand_series(jobs.of(names == team), key=team, step_s=step_s, start=start, end=end, gaps=spans)
        for team in sorted({str(name) for name in names} - {""})
    }


def resample(series: DemandSeries, step_s: int) -> DemandSeries:
    """The maximum over longer steps. A long step is a gap only if all of its short ones are; it is marked if any is.
    ValueError unless the new step is a multiple of the old one."""
    if step_s % series.step_s:
        raise ValueError(f"{step_s} s is no multiple of {series.step_s} s")
    first = int(series.start.timestamp())
    begin = first // step_s * step_s
    before = (first - begin) // series.step_s
    ratio = step_s // series.step_s
    rows = -(-(before + len(series.gpus)) // ratio)
    after = rows * ratio - before - len(series.gpus)
    known = np.pad(np.where(series.gaps, -np.inf, series.gpus), (before, after), constant_values=-np.inf)
    highest = known.reshape(rows, ratio).max(axis=1)
    gaps = np.isneginf(highest)
    marked = np.logical_or.reduce(np.pad(series.marked, (before, after)).reshape(rows, ratio), axis=1)
    return DemandSeries(
        key=series.key,
        start=datetime.fromtimestamp(begin, UTC),
        step_s=step_s,
        gpus=np.where(gaps, np.nan, highest),
        gaps=gaps,
        marked=marked,
    )


def _touched(series: DemandSeries, spans: Iterable[Span]) -> NDArray[np.bool_]:
    touched = np.zeros(len(series.gpus), dtype=np.bool_)
    for begin, end in spans:
        low = int((begin - series.start).total_seconds() // series.step_s)
        high = -int(-(end - series.start).total_seconds() // series.step_s)
        touched[max(low, 0) : max(high, 0)] = True
    return touched


def mark(series: DemandSeries, spans: Iterable[Span]) -> DemandSeries:
    """Mark the steps that a span touches: an outage, or capacity that the controller itself changed."""
    return replace(series, marked=series.marked | _touched(series, spans))


def with_gaps(series: DemandSeries, spans: Iterable[Span]) -> DemandSeries:
    """Make the steps that a span touches unknown."""
    gaps = series.gaps | _touched(series, spans)
    return replace(series, gpus=np.where(gaps, np.nan, series.gpus), gaps=gaps)


def collapses(series: DemandSeries, *, floor: float = 0.1, usual_gpus: float = 50.0) -> tuple[Span, ...]:
    """Spans in which demand nearly vanished though it never does at that hour of the week: an outage of the site.

    Below `floor` of the median of the same hour in the up to eight weeks before (three at least must be known), where
    that median is at least `usual_gpus`. Quiet weekends are usual, so no outage. Only the past is looked at. ValueError
    if the step does not divide a week.
    """
    if WEEK_S % series.step_s:
        raise ValueError(f"a step of {series.step_s} s does not divide a week")
    week, count = WEEK_S // series.step_s, len(series.gpus)
    before = np.full((8, count), np.nan)
    for weeks in range(1, 9):
        before[weeks - 1, weeks * week :] = series.gpus[: max(count - weeks * week, 0)]
    known = np.sum(~np.isnan(before), axis=0) >= 3
    usual = np.zeros(count)
    usual[known] = np.nanmedian(before[:, known], axis=0)
    low = known & (usual >= usual_gpus) & (series.gpus < floor * usual)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], low, [False]])))
    step = timedelta(seconds=series.step_s)
    return tuple(
        (series.start + int(begin) * step, series.start + int(end) * step)
        for begin, end in zip(edges[::2], edges[1::2], strict=True)
    )


def series_from_steps(key: str, *, times_s: Floats, gpus: Floats, step_s: int) -> DemandSeries:
    """A ready-made series: Unix seconds of step starts (any order) and their demand; NaN or missing steps are gaps.
    Negative values are gaps too: demand can't be negative, so the source did not know. ValueError without any row."""
    if len(times_s) == 0:
        raise ValueError("a series needs at least one step")
    first = int(times_s.min() // step_s) * step_s
    slots = ((times_s - first) // step_s).astype(np.int64)
    if slots.max() >= MAX_STEPS:
        raise ValueError(f"more than {MAX_STEPS} steps of {step_s} s: is a date wrong?")
    values = np.full(int(slots.max()) + 1, -np.inf)
    usable = np.isfinite(gpus) & (gpus >= 0)
    np.maximum.at(values, slots[usable], gpus[usable])
    gaps = np.isneginf(values)
    return DemandSeries(
        key=key,
        start=datetime.fromtimestamp(first, UTC),
        step_s=step_s,
        gpus=np.where(gaps, np.nan, values),
        gaps=gaps,
        marked=np.zeros(len(values), dtype=np.bool_),
    )


def sum_of(series: Sequence[DemandSeries], *, key: str = TOTAL) -> DemandSeries:
    """Sum of series of one step over their common span; a gap in one is a gap in the sum. The sum of maxima is an upper
    limit of the maximum of the sum: build totals from jobs where there are any. ValueError for none or mixed steps."""
    if not series or len({one.step_s for one in series}) != 1:
        raise ValueError("needs series of one step")
    step_s = series[0].step_s
    start, end = max(one.start for one in series), min(one.end for one in series)
    steps = int((end - start).total_seconds() // step_s)
    if steps < 1:
        raise ValueError("the series have no common span")
    offsets = [int((start - one.start).total_seconds() // step_s) for one in series]
    cut = [(one.gpus[o : o + steps], one.marked[o : o + steps]) for one, o in zip(series, offsets, strict=True)]
    gpus = np.sum([values for values, _ in cut], axis=0)
    return DemandSeries(
        key=key,
        start=start,
        step_s=step_s,
        gpus=gpus,
        gaps=np.isnan(gpus),
        marked=np.any([marked for _, marked in cut], axis=0),
    )


class DemandLog:
    """Live observations, one a tick, folded into steps: the maximum seen in each. Steps without a tick are gaps.

    Memory is bounded: at most `max_steps` steps a key, the oldest go first. A key that a tick does not name had no
    demand then (0), from the tick that first named it on; a tick that could not read the queue must not be observed.
    """

    def __init__(self, *, step_s: int, max_steps: int = MAX_LOG_STEPS) -> None:
        if step_s < 1 or max_steps < 1:
            raise ValueError("a log needs a step and room for one")
        self.step_s, self.max_steps = step_s, max_steps
        self._steps: dict[str, dict[int, float]] = {}
        self._marked: dict[int, None] = {}

    @property
    def keys(self) -> tuple[str, ...]:
        """Everything observed so far, sorted."""
        return tuple(sorted(self._steps))

    def observe(self, at: datetime, gpus: Mapping[str, float], *, marked: bool = False) -> None:
        """One tick's demand by key. ValueError for a naive time or a demand that is negative or not finite."""
        if at.tzinfo is None:
            raise ValueError("an observation needs an aware time")
        if any(not 0 <= value < float("inf") for value in gpus.values()):
            raise ValueError("demand is finite and not negative")
        slot = int(at.timestamp() // self.step_s)
        for key in gpus:
            self._steps.setdefault(key, {})
        for key, steps in self._steps.items():
            steps[slot] = max(steps.get(slot, 0.0), float(gpus.get(key, 0.0)))
            while len(steps) > self.max_steps:
                del steps[min(steps)]
        if marked:
            self._marked[slot] = None
            while len(self._marked) > self.max_steps:
                del self._marked[next(iter(self._marked))]

    def series(self, key: str, *, until: datetime | None = None) -> DemandSeries | None:
        """From the first observation to the last (or to `until`, whose step is left out as unfinished). None: none."""
        steps = self._steps.get(key, {})
        last = max(steps, default=-1) if until is None else int(until.timestamp() // self.step_s) - 1
        first = max(min(steps, default=last + 1), last + 1 - self.max_steps)
        if not steps or last < first:
            return None
        gpus = np.full(last - first + 1, np.nan)
        marked = np.zeros(len(gpus), dtype=np.bool_)
        for slot, value in steps.items():
            if first <= slot <= last:
                gpus[slot - first] = value
        for slot in self._marked:
            if first <= slot <= last:
                marked[slot - first] = True
        return DemandSeries(
            key=key,
            start=datetime.fromtimestamp(0, UTC) + timedelta(seconds=first * self.step_s),
            step_s=self.step_s,
            gpus=gpus,
            gaps=np.isnan(gpus),
            marked=marked,
        )
