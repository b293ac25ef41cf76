"""What the forecasters would have said a day ahead over a replay's own demand, against what came."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd

from elastic.history_forecast import HistoryDemand, backtest_history
from forecast.calendar import Calendar
from forecast.forecaster import DemandSeries, Floats
from forecast.past import cut, cut_front
from forecast.scores import champion_paths
from forecast.series import TOTAL, JobArrays, demand_series

# The newest weeks only: a report must not last longer than its replay, and two months teach a forecaster enough.
SHOWN_DAYS, LEARNT_DAYS = 28, 56
QUANTILES = (0.05, 0.5, 0.9, 0.95)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DayAhead:
    """Hourly, from `start`: what came, and by quantile what was said at six on the morning before (NaN: nothing)."""

    start: datetime
    actual_gpus: Floats
    said_gpus: dict[float, Floats]
    days: int
    wape: float
    peak_error: float
    coverage_q90: float
    picks: str


def day_ahead(jobs: pd.DataFrame, *, zone: str, start_s: float, until_s: float) -> DayAhead | str:
    """The forecasts of the newest days, or why there are none. `jobs` as of `replay_files.job_table`."""
    series = _series(jobs, start_s=start_s, until_s=until_s)
    if len(series.gpus) < 24:
        return "the replay is shorter than a day"
    whole = cut(series, len(series.gpus) - 1)  # the last hour may be a part of one
    recent = cut_front(whole, max(0, len(whole.gpus) - 24 * LEARNT_DAYS))
    demand = HistoryDemand(series={TOTAL: recent}, jobs=None)
    done, refused = backtest_history(demand, calendar=Calendar(name=zone, zone=zone), days=SHOWN_DAYS)
    if TOTAL not in done:
        return refused[TOTAL].removeprefix(f"{TOTAL}: ")
    one = done[TOTAL]
    rolled, day = one.rolled, one.rolled.scored
    first, last = rolled.origins[int(one.rows[0])], rolled.origins[int(one.rows[-1])] + day.stop - day.start
    said = {q: np.full(last - first, np.nan) for q in QUANTILES}
    for q, values in said.items():
        paths = champion_paths(rolled, one.selection, quantile=q)
        for row in one.rows:
            begin = rolled.origins[int(row)] - first
            values[begin : begin + day.stop - day.start] = paths[int(row), day]
    picks = [one.selection.picks[int(row)] for row in one.rows]
    return DayAhead(
        start=rolled.series.start + timedelta(seconds=rolled.series.step_s * first),
        actual_gpus=rolled.series.gpus[first:last],
        said_gpus=said,
        days=len(one.rows),
        wape=one.champion.wape,
        peak_error=one.champion.peak_error,
        coverage_q90=one.champion.coverage_q90,
        picks=", ".join(f"{name} {picks.count(name)}" for name in dict.fromkeys(picks)),
    )


def _series(jobs: pd.DataFrame, *, start_s: float, until_s: float) -> DemandSeries:
    """Hourly demand as the replay saw it: a job wants its GPUs from its submission until it is over."""
    arrays = JobArrays(
        gpus=jobs.gpus.to_numpy(dtype=np.float64),
        submit_s=jobs.submit_s.to_numpy(dtype=np.float64),
        eligible_s=np.full(len(jobs), np.nan),
        start_s=jobs.start_s.to_numpy(dtype=np.float64),
        end_s=jobs.end_s.to_numpy(dtype=np.float64),
    )
    start, end = datetime.fromtimestamp(start_s, UTC), datetime.fromtimestamp(max(until_s, start_s + 1), UTC)
    return demand_series(arrays, key=TOTAL, step_s=3600, start=start, end=end)
