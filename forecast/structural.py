"""Demand from its parts: how long the jobs of now will still want GPUs, by age, plus those that will arrive.

Needs jobs, not only a series: `Structural` asks a callable for what was known of them at the cutoff. `JobPast` answers
from a job history without ever looking past the cutoff. Called by `champion` where jobs are known.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from forecast.calendar import Calendar
from forecast.forecaster import DemandSeries, Floats, RuntimeModelLike
from forecast.past import DAY_S, KINDS, learnable, local_steps, steps_per_day
from forecast.runtime import RanJob, RuntimeCounts, RuntimeModel
from forecast.seasonal import MIN_EXAMPLES, NEAREST, PROFILE_DAYS
from forecast.series import TOTAL, JobArrays

LEVELS = (0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95)
LIFT_DAYS = 7
LEAST_JOBS = 50  # with fewer arrivals in the profile's weeks, an hour's expectation is noise


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StructuralInputs:
    """What is known of jobs at a cutoff.

    `gpus` (jobs,): running and waiting jobs; `left_s` (jobs, levels): quantiles at `LEVELS` of the seconds each will
    still want them. `arrivals`: GPUs asked for by new jobs per step, up to the cutoff. `fresh_gpus` (sizes,) and
    `fresh_left_s` (sizes, levels): how many GPUs of each size arrived, and quantiles of the time a new job wants them.
    `lift_gpus`: how far a step's maximum lies above its mean (short jobs); sums of expectations are means.
    """

    gpus: Floats
    left_s: Floats
    arrivals: DemandSeries
    fresh_gpus: Floats
    fresh_left_s: Floats
    lift_gpus: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentJob:
    """A job that wants GPUs now; `age_s` is how long it has run, 0 if it waits."""

    team: str
    job_class: str
    gpus: int
    name: str
    age_s: float


class Structural:
    """Expected demand: the jobs of now by the share that will still run, plus arrivals by hour and day type."""

    name = "structural"

    def __init__(self, inputs_at: Callable[[DemandSeries], StructuralInputs]) -> None:
        self._inputs_at = inputs_at

    def predict(self, series: DemandSeries, *, horizon: int, calendar: Calendar) -> Floats:
        """Shape (horizon,). ValueError without enough jobs to expect arrivals from."""
        inputs = self._inputs_at(series)
        if len(series.gpus) < 2 * steps_per_day(series.step_s) or len(inputs.fresh_gpus) == 0:
            raise ValueError(f"{self.name} needs two days of jobs")
        middle_s: Floats = np.asarray((np.arange(horizon) + 0.5) * series.step_s, dtype=np.float64)
        staying = np.sum(inputs.gpus[:, None] * _share_left(inputs.left_s, middle_s), axis=0)
        weights = inputs.fresh_gpus / inputs.fresh_gpus.sum()
        lasting = np.sum(weights[:, None] * _share_left(inputs.fresh_left_s, middle_s), axis=0)
        arriving = expected_arrivals(inputs.arrivals, horizon=horizon, calendar=calendar)
        return np.asarray(staying + np.convolve(arriving, lasting)[:horizon] + inputs.lift_gpus)


def present_quantiles(jobs: Sequence[PresentJob], runtimes: RuntimeModelLike) -> Floats:
    """(jobs, levels) quantiles of the time each job will still want its GPUs. A waiting job is taken to start at once:
    until it does it wants them all the same, so its time is a lower estimate."""
    rows = [
        [
            runtimes.time_left_s(
                team=job.team, job_class=job.job_class, gpus=job.gpus, name=job.name, age_s=job.age_s, quantile=level
            )
            for level in LEVELS
        ]
        for job in jobs
    ]
    return np.array(rows, dtype=np.float64).reshape(len(jobs), len(LEVELS))


def _share_left(left_s: Floats, after_s: Floats) -> Floats:
    """(jobs, steps) share of each job's kind that still wants its GPUs after so long, between the quantiles linearly;
    beyond the last one the share halves as the time doubles."""
    shares = np.empty((len(left_s), len(after_s)))
    levels = np.array((0.0, *LEVELS))
    for row, quantiles in enumerate(left_s):
        times = np.concatenate([[0.0], np.maximum.accumulate(quantiles)])
        inside = 1.0 - np.interp(after_s, times, levels)
        tail = (1.0 - LEVELS[-1]) * times[-1] / np.maximum(after_s, 1e-9)
        shares[row] = np.where(after_s > times[-1], np.minimum(tail, 1.0 - LEVELS[-1]), inside)
    return shares


def expected_arrivals(arrivals: DemandSeries, *, horizon: int, calendar: Calendar) -> Floats:
    """(horizon,) mean GPUs asked for per step, by slot and day type over four weeks. Means, for sums are wanted; bursts
    of broken jobs are left out."""
    season = steps_per_day(arrivals.step_s)
    count = len(arrivals.gpus)
    begin = max(count - PROFILE_DAYS * season, 0)
    local = local_steps(arrivals, steps=count + horizon, calendar=calendar)
    values, slots, kinds = learnable(arrivals)[begin:], local.slot[begin:count], local.kind[begin:count]
    usable = ~np.isnan(values)
    profiles: dict[int, Floats] = {}
    for kind in {int(one) for one in local.kind[count:]}:
        rows = usable & _rows_like(kind, kinds, usable, season=season)
        totals = np.bincount(slots[rows], weights=values[rows], minlength=season)
        seen = np.bincount(slots[rows], minlength=season)
        overall = float(values[usable].mean()) if usable.any() else 0.0
        profiles[kind] = np.where(seen > 0, totals / np.maximum(seen, 1), overall)
    return np.array(
        [profiles[int(kind)][slot] for kind, slot in zip(local.kind[count:], local.slot[count:], strict=True)]
    )


def _rows_like(kind: int, kinds: NDArray[np.int64], usable: NDArray[np.bool_], *, season: int) -> NDArray[np.bool_]:
    """Steps of the nearest day type that fills at least three days."""
    for nearest in NEAREST[KINDS[kind]]:
        rows = kinds == KINDS.index(nearest)
        if int((rows & usable).sum()) >= MIN_EXAMPLES * season:
            return np.asarray(rows)
    return np.ones(len(kinds), dtype=np.bool_)


def _integral(times: Floats, gpus: Floats, until: Floats) -> Floats:
    """GPU-seconds up to each of `until` of demand that begins at `times` and never ends."""
    order = np.argsort(times, kind="stable")
    at, rising = times[order], np.append(0.0, np.cumsum(gpus[order]))
    weighted = np.append(0.0, np.cumsum(gpus[order] * at))
    count = np.searchsorted(at, until, side="right")
    return np.asarray(rising[count] * until - weighted[count])


@dataclass(slots=True)
class JobPast:
    """A job history that can be asked what was known at a cutoff: what ends or starts later is not looked at.

    `teams` (jobs,): of each job; a series named `TOTAL` is over all. Models are kept by cutoff, so that the series of
    all teams share them.
    """

    jobs: JobArrays
    teams: NDArray[np.object_]
    _order: NDArray[np.int64] = field(init=False)
    _added: int = 0
    _counts: RuntimeCounts = field(default_factory=RuntimeCounts)
    _models: dict[float, RuntimeModel] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._order = np.argsort(np.where(np.isnan(self.jobs.end_s), np.inf, self.jobs.end_s), kind="stable")

    def inputs_at(self, series: DemandSeries) -> StructuralInputs:
        """What `Structural` needs at the series' end."""
        cutoff_s = series.end.timestamp()
        mine = np.ones(len(self.teams), dtype=np.bool_) if series.key == TOTAL else self.teams == series.key
        model = self._model_at(cutoff_s)
        present = self._present(mine, cutoff_s)
        arrivals, sizes, weights = self._arrivals(series, mine, cutoff_s)
        fresh = [PresentJob(team="", job_class="", gpus=int(size), name="", age_s=0.0) for size in sizes]
        return StructuralInputs(
            gpus=np.array([job.gpus for job in present], dtype=np.float64),
            left_s=present_quantiles(present, model),
            arrivals=arrivals,
            fresh_gpus=weights,
            fresh_left_s=present_quantiles(fresh, model),
            lift_gpus=self._lift(series, mine),
        )

    def _lift(self, series: DemandSeries, mine: NDArray[np.bool_]) -> float:
        """Mean of the step maximum less the step mean over the last week, from the demand that was known then."""
        steps = min(LIFT_DAYS * steps_per_day(series.step_s), len(series.gpus))
        edges = series.end.timestamp() - series.step_s * np.arange(steps, -1, -1, dtype=np.float64)
        begin, end = self.jobs.wanted_spans()
        rows = mine & (begin < edges[-1]) & (end > begin)
        gpus = self.jobs.gpus[rows]
        demanded = _integral(begin[rows], gpus, edges) - _integral(np.minimum(end[rows], edges[-1]), gpus, edges)
        above = learnable(series)[-steps:] - np.diff(demanded) / series.step_s
        return max(float(np.nanmean(above)), 0.0) if not np.isnan(above).all() else 0.0

    def _present(self, mine: NDArray[np.bool_], cutoff_s: float) -> list[PresentJob]:
        begin, end = self.jobs.wanted_spans()
        rows = np.flatnonzero(mine & (begin < cutoff_s) & (end > cutoff_s))
        started = self.jobs.start_s[rows]
        ages = np.where(started < cutoff_s, cutoff_s - started, 0.0)  # NaN: waiting
        return [
            PresentJob(team="", job_class="", gpus=int(gpus), name="", age_s=float(age))
            for gpus, age in zip(self.jobs.gpus[rows], ages, strict=True)
        ]

    def _arrivals(
        self, series: DemandSeries, mine: NDArray[np.bool_], cutoff_s: float
    ) -> tuple[DemandSeries, Floats, Floats]:
        """GPUs asked for per step of the series, and of the last four weeks the sizes and GPUs of each."""
        begin, _ = self.jobs.wanted_spans()
        start_s, steps = series.start.timestamp(), len(series.gpus)
        rows = mine & (begin >= start_s) & (begin < cutoff_s)
        slots = ((begin[rows] - start_s) // series.step_s).astype(np.int64)
        gpus = np.bincount(slots, weights=self.jobs.gpus[rows], minlength=steps)[:steps]
        arrivals = DemandSeries(
            key=series.key,
            start=series.start,
            step_s=series.step_s,
            gpus=np.where(series.gaps, np.nan, gpus),
            gaps=series.gaps,
            marked=series.marked,
        )
        late = self.jobs.gpus[rows & (begin >= cutoff_s - PROFILE_DAYS * DAY_S)]
        if len(late) < LEAST_JOBS:
            return arrivals, np.zeros(0), np.zeros(0)
        sizes, count = np.unique(late, return_counts=True)
        return arrivals, sizes, sizes * count

    def _model_at(self, cutoff_s: float) -> RuntimeModel:
        """Runtimes of the jobs ended by then, and of those still running for as long as they had run."""
        if cutoff_s not in self._models:
            if self._models and cutoff_s < max(self._models):
                self._added, self._counts = 0, RuntimeCounts()
            self._add_ended(cutoff_s)
            counts = deepcopy(self._counts)
            start, end = self.jobs.start_s, self.jobs.end_s
            running = (start < cutoff_s) & ~(end <= cutoff_s)
            for gpus, ran_s in zip(self.jobs.gpus[running], cutoff_s - start[running], strict=True):
                counts.add(RanJob(team="", job_class="", gpus=int(gpus), name="", ran_s=float(ran_s), ended=False))
            self._models[cutoff_s] = counts.model()
        return self._models[cutoff_s]

    def _add_ended(self, cutoff_s: float) -> None:
        start, end, gpus = self.jobs.start_s, self.jobs.end_s, self.jobs.gpus
        while self._added < len(self._order) and end[self._order[self._added]] <= cutoff_s:
            row = self._order[self._added]
            self._added += 1
            if start[row] <= end[row]:  # NaN: it never ran
                ran_s = float(end[row] - start[row])
                self._counts.add(RanJob(team="", job_class="", gpus=int(gpus[row]), name="", ran_s=ran_s))
