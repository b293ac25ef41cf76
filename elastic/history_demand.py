"""A history as the forecasters want it: demand series by team and in total, and job columns. pandas ends here."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from forecast.forecaster import DemandSeries, Floats
from forecast.runtime import RanJob
from forecast.series import (
    TOTAL,
    JobArrays,
    collapses,
    demand_series,
    mark,
    resample,
    series_from_steps,
    sum_of,
    team_series,
)

if TYPE_CHECKING:
    import pandas as pd

    from providers.history import History

NEVER_ELIGIBLE = ("held", "dependency", "begin_time", "limit", "impossible")


def job_arrays(jobs: "pd.DataFrame") -> JobArrays:
    """Canonical jobs as columns. Jobs that never started and waited for no capacity are never eligible."""
    eligible, start = _floats(jobs, "eligible_s"), _floats(jobs, "start_s")
    never = jobs["pending_reason"].isin(NEVER_ELIGIBLE).to_numpy(dtype=np.bool_) & np.isnan(start)
    return JobArrays(
        gpus=_floats(jobs, "gpus"),
        submit_s=_floats(jobs, "submit_s"),
        eligible_s=np.where(never & np.isnan(eligible), np.inf, eligible),
        start_s=start,
        end_s=_floats(jobs, "end_s"),
    )


def ran_jobs(jobs: "pd.DataFrame", *, until_s: float) -> list[RanJob]:
    """What was known of runtimes at an instant (Unix seconds): jobs ended by then, and those still running, for as long
    as they had run. Nothing of what came later is looked at."""
    start, end = _floats(jobs, "start_s"), _floats(jobs, "end_s")
    begun = start <= until_s
    ended = end <= until_s  # NaN: False, so still running
    ran = np.where(ended, end, until_s) - start
    told = (jobs[name][begun] for name in ("team", "job_class", "gpus", "name"))
    columns = zip(*told, ran[begun], ended[begun], strict=True)
    return [
        RanJob(team=team, job_class=job_class, gpus=int(gpus), name=name, ran_s=float(ran_s), ended=bool(done))
        for team, job_class, gpus, name, ran_s, done in columns
    ]


def span_of(history: "History") -> tuple[datetime, datetime]:
    """First and last instant the history tells of. ValueError for an empty one."""
    if history.series is not None:
        times = history.series["time_utc"]
        if times.empty:
            raise ValueError("the history is empty")
        step_s = history.step_s or 3600
        return _utc(times.min().timestamp()), _utc(times.max().timestamp() + step_s)
    if history.jobs.empty:
        raise ValueError("the history is empty")
    known = history.jobs[["submit_s", "start_s", "end_s"]].to_numpy(dtype=np.float64)
    first, last = float(np.nanmin(known)), float(np.nanmax(known))
    return _utc(first), _utc(max(last, first + 1))


def demand_of(
    history: "History", *, step_s: int = 3600, teams: bool = True, outages: bool = False
) -> dict[str, DemandSeries]:
    """Demand by team and under `total`. An empty history gives no series. `outages`: mark the steps in which the whole
    site collapsed. ValueError when a ready-made series is coarser than `step_s` or does not divide it."""
    demand = _demand_of(history, step_s=step_s, teams=teams)
    if not outages or TOTAL not in demand:
        return demand
    spans = collapses(demand[TOTAL])
    return {key: mark(series, spans) for key, series in demand.items()}


def _demand_of(history: "History", *, step_s: int, teams: bool) -> dict[str, DemandSeries]:
    if history.series is not None:
        return _ready_made(history.series, have_s=history.step_s or 3600, step_s=step_s, teams=teams)
    if history.jobs.empty:
        return {}
    start, end = span_of(history)
    arrays = job_arrays(history.jobs)
    total = demand_series(arrays, key=TOTAL, step_s=step_s, start=start, end=end)
    names = history.jobs["team"].to_numpy(dtype=object)
    by_team = team_series(arrays, names, step_s=step_s, start=start, end=end) if teams else {}
    return {**by_team, TOTAL: total}


def _ready_made(rows: "pd.DataFrame", *, have_s: int, step_s: int, teams: bool) -> dict[str, DemandSeries]:
    fine: dict[str, DemandSeries] = {}
    for key, part in rows.groupby("key", sort=True, observed=True):
        times_s = part["time_utc"].dt.as_unit("us").astype("int64").to_numpy() / 1e6
        fine[str(key)] = series_from_steps(str(key), times_s=times_s, gpus=_floats(part, "gpus"), step_s=have_s)
    if fine and TOTAL not in fine:
        fine[TOTAL] = sum_of(list(fine.values()))
    return {key: resample(series, step_s) for key, series in fine.items() if teams or key == TOTAL}


def _floats(frame: "pd.DataFrame", column: str) -> Floats:
    return np.array(frame[column], dtype=np.float64)


def _utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
