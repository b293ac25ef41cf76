"""A history's forecasts and backtests, by team and in total: what `elastic forecast`, `elastic backtest` and the
benchmark share. The total may be forecast directly or as the sum of its teams; its champion is chosen by score."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from elastic.history_demand import demand_of, job_arrays
from forecast.backtest import Rolled, origin_time
from forecast.calendar import Calendar
from forecast.champion import Selection, default_candidates, forecast_of, roll_to_end, select
from forecast.combination import Prepared
from forecast.forecaster import DemandSeries, Forecast, Forecaster
from forecast.past import cut
from forecast.scores import Backtest, backtest, champion_paths
from forecast.series import TOTAL
from forecast.structural import JobPast, Structural

if TYPE_CHECKING:
    from providers.history import History

SUM_OF_TEAMS = "sum of teams"
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyForecast:
    """One key's forecast, the whole record (it may reach past the cutoff), and what was rolled to choose by."""

    record: DemandSeries
    forecast: Forecast
    rolled: Rolled
    selection: Selection


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HistoryDemand:
    """Hourly demand by key and the jobs behind it where the history has any.

    `ends`: by key, when its last job was submitted; empty for a ready-made series.
    """

    series: Mapping[str, DemandSeries]
    jobs: JobPast | None
    ends: Mapping[str, datetime] = field(default_factory=dict)

    @property
    def teams(self) -> tuple[str, ...]:
        """Keys other than the total, sorted."""
        return tuple(sorted(set(self.series) - {TOTAL}))

    def candidates(self) -> tuple[Forecaster, ...]:
        """All candidates; the structural one where jobs are known."""
        return default_candidates(structural=Structural(self.jobs.inputs_at) if self.jobs else None)


def history_demand(history: "History", *, step_s: int = 3600) -> HistoryDemand:
    """Demand with outages marked. A job record is cut at its last submission: what is missing after it would look like
    demand that goes away. ValueError for an empty history or a step its series does not divide."""
    series = demand_of(history, step_s=step_s, outages=True)
    if not series:
        raise ValueError("the history is empty")
    if len(series) == 2:  # a single team is its own total
        series = {TOTAL: series[TOTAL]}
    if history.series is not None:
        return HistoryDemand(series=series, jobs=None)
    submitted = history.jobs["submit_s"].to_numpy(dtype=np.float64)
    teams = history.jobs["team"].to_numpy(dtype=object)
    last = {key: float(submitted[teams == key].max()) for key in series if key != TOTAL}
    last[TOTAL] = float(submitted.max())
    ends = {key: datetime.fromtimestamp(last_s, UTC) for key, last_s in last.items()}
    step = timedelta(seconds=step_s)  # the step of the last submission counts: demand is a maximum
    known = {key: _until(one, ends[TOTAL] + step) for key, one in series.items()}
    return HistoryDemand(series=known, jobs=JobPast(job_arrays(history.jobs), teams), ends=ends)


def _until(series: DemandSeries, at: datetime) -> DemandSeries:
    """Whole steps before `at`."""
    steps = int((at - series.start).total_seconds() // series.step_s)
    return cut(series, min(max(steps, 0), len(series.gpus)))


def forecast_history(
    demand: HistoryDemand,
    *,
    calendar: Calendar,
    horizon_h: int,
    at: datetime | None = None,
    progress: Progress = lambda done, of: None,
) -> dict[str, KeyForecast]:
    """Every key's forecast from its record up to `at` (None: all of it). Keys without a known value are left out.

    ValueError if nothing can be forecast at all.
    """
    made: dict[str, KeyForecast] = {}
    keys = [*demand.teams, TOTAL]
    for number, key in enumerate(keys):
        record = demand.series[key]
        known = record if at is None else _until(record, at)
        candidates = demand.candidates()
        if key == TOTAL and made:
            candidates = _with_sum(candidates, [(one.rolled, one.selection) for one in made.values()])
        try:
            horizon = horizon_h * 3600 // record.step_s
            rolled = roll_to_end(known, candidates, horizon=horizon, calendar=calendar)
        except ValueError:
            if key == TOTAL:
                raise
            continue  # a team that has not begun yet at `at`
        forecast = forecast_of(rolled, calendar=calendar, made_at=known.end)
        made[key] = KeyForecast(record=record, forecast=forecast, rolled=rolled, selection=select(rolled))
        progress(number + 1, len(keys))
    return made


def backtest_history(
    demand: HistoryDemand,
    *,
    calendar: Calendar,
    days: int | None = None,
    stopwatch: Callable[[], float] | None = None,
    progress: Progress = lambda done, of: None,
) -> tuple[dict[str, Backtest], dict[str, str]]:
    """Every key's backtest, and by key why there is none."""
    done: dict[str, Backtest] = {}
    refused: dict[str, str] = {}
    keys = [*demand.teams, TOTAL]
    for number, key in enumerate(keys):
        series, candidates = demand.series[key], demand.candidates()
        if key in demand.ends:  # after a team's last job there is nothing to be right or wrong about
            series = _until(series, demand.ends[key] + timedelta(seconds=series.step_s))
        if key == TOTAL and done:
            candidates = _with_sum(candidates, [(one.rolled, one.selection) for one in done.values()])
        try:
            done[key] = backtest(series, candidates, calendar=calendar, days=days, stopwatch=stopwatch)
        except ValueError as needs:
            refused[key] = str(needs)
        progress(number + 1, len(keys))
    return done, refused


def _with_sum(candidates: Sequence[Forecaster], teams: Sequence[tuple[Rolled, Selection]]) -> tuple[Forecaster, ...]:
    """The sum of what the teams' champions said, at the cutoffs that all of them share, as one more candidate.

    It stays out of the combination, which is over forecasts of the total itself.
    """
    by_team = []
    for rolled, selection in teams:
        paths = champion_paths(rolled, selection)
        by_team.append({origin_time(rolled, i): path for i, path in enumerate(paths)})
    shared = set.intersection(*(set(paths) for paths in by_team))
    by_cutoff = {cutoff: np.sum([paths[cutoff] for paths in by_team], axis=0) for cutoff in shared}
    return (*candidates, Prepared(SUM_OF_TEAMS, by_cutoff))
