"""What a backtest prints: errors of the middle, of the peak, of the levels capacity is bought at. Pure.

All are over the first day of the horizon at every scored origin. Naive forecasts come along as the bar: beating
yesterday alone proves little.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecast.backtest import SCORED_QUANTILES, Rolled, daily_origins, roll
from forecast.calendar import Calendar
from forecast.champion import BASELINES, Selection, select
from forecast.combination import NAME as COMBINATION
from forecast.conformal import pinball
from forecast.forecaster import DemandSeries, Floats, Forecaster
from forecast.past import steps_per_day
from forecast.peaks import segment_peaks

WARM_UP_DAYS = 8  # a week and a day: every candidate has spoken and the first errors are known
ROLLED_FROM_DAYS = 1  # origins before the warm-up calibrate quantiles and are not scored


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Of one forecaster on one series. Shares of demand: `wape`, `peak_error`, `bias` (positive: too high).

    `peak_time_h`: mean distance of the peak's hour. `pinball`: mean over the scored quantiles and hours, GPUs.
    `coverage_q90`: share of hours at or below q90; `width_q90`: mean q90 minus median, GPUs. `mase_*`: error of the
    median over that of the naive one. `origins`: windows scored.
    """

    wape: float
    peak_error: float
    peak_time_h: float
    bias: float
    pinball: float
    pinball_by_quantile: Mapping[str, float]
    coverage_q90: float
    width_q90: float
    mase_last: float
    mase_yesterday: float
    origins: int
    seconds_per_fit: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Backtest:
    """A series' backtest. `rows`: numbers of the origins scored; `excluded`: windows left out for outages or gaps."""

    key: str
    rolled: Rolled
    selection: Selection
    rows: NDArray[np.int64]
    excluded: int
    candidates: Mapping[str, Scores]
    champion: Scores
    best_naive: str


def backtest(
    series: DemandSeries,
    candidates: Sequence[Forecaster],
    *,
    calendar: Calendar,
    horizon: int | None = None,
    warm_up_days: int = WARM_UP_DAYS,
    days: int | None = None,
    stopwatch: Callable[[], float] | None = None,
) -> Backtest:
    """Daily origins at six local over the whole record (`days`: scored on the last so many). ValueError if none can be
    scored: the message says how much history is needed."""
    ahead = horizon or steps_per_day(series.step_s)
    origins = daily_origins(series, calendar=calendar, horizon=ahead, warm_up_days=ROLLED_FROM_DAYS)
    if not origins:
        raise ValueError(f"{series.key}: a backtest needs more than {warm_up_days} days of history")
    rolled = roll(series, candidates, origins=origins, horizon=ahead, calendar=calendar, stopwatch=stopwatch)
    warm = np.asarray(origins) >= warm_up_days * steps_per_day(series.step_s)
    if days is not None:
        warm &= np.arange(len(origins)) >= len(origins) - days
    rows = np.flatnonzero(warm & rolled.usable)
    if len(rows) == 0:
        raise ValueError(f"{series.key}: no day after {warm_up_days} days of warm-up is known and free of outages")
    selection = select(rolled)
    scores = {name: _scores_of(rolled, name, rows) for name in rolled.paths}
    naive = [name for name in BASELINES if name in scores]
    return Backtest(
        key=series.key,
        rolled=rolled,
        selection=selection,
        rows=rows,
        excluded=int((warm & ~rolled.usable).sum()),
        candidates=scores,
        champion=_scores_of_picks(rolled, selection, rows),
        best_naive=min(naive, key=lambda name: scores[name].wape),
    )


def champion_paths(rolled: Rolled, selection: Selection, *, quantile: float = 0.5) -> Floats:
    """(origins, horizon): the chosen forecasters' quantile at each origin."""
    return np.array([rolled.quantiles[name].gpus[quantile][i] for i, name in enumerate(selection.picks)])


def champion_peaks(rolled: Rolled, selection: Selection) -> Floats:
    """(origins,) height of the first day's peak as a forecast would give it: the combination's, corrected, else that of
    the champion."""
    sources = {
        name: segment_peaks(rolled, name, rolled.scored).gpus
        for name in {COMBINATION, *selection.picks}
        if name in rolled.paths
    }
    combined = sources.get(COMBINATION, np.full(len(selection.picks), np.nan))
    own = np.array([sources[name][i] for i, name in enumerate(selection.picks)])
    return np.where(np.isnan(combined), own, combined)


def _scores_of(rolled: Rolled, name: str, rows: NDArray[np.int64]) -> Scores:
    quantiles = {q: rolled.quantiles[name].gpus[q] for q in SCORED_QUANTILES}
    peaks = rolled.paths[name][:, rolled.scored].max(axis=1)
    return _scores(rolled, quantiles, peaks, rows, seconds=rolled.seconds.get(name, 0.0))


def _scores_of_picks(rolled: Rolled, selection: Selection, rows: NDArray[np.int64]) -> Scores:
    quantiles = {q: champion_paths(rolled, selection, quantile=q) for q in SCORED_QUANTILES}
    return _scores(rolled, quantiles, champion_peaks(rolled, selection), rows, seconds=sum(rolled.seconds.values()))


def _scores(
    rolled: Rolled, quantiles: Mapping[float, Floats], peaks: Floats, rows: NDArray[np.int64], *, seconds: float
) -> Scores:
    """Over the rows in which this forecaster spoke."""
    rows = rows[~np.isnan(quantiles[0.5][rows]).any(axis=1)]
    day, nan = rolled.scored, float("nan")
    if len(rows) == 0:
        nothing = {f"q{round(q * 100)}": nan for q in quantiles}
        return Scores(
            wape=nan,
            peak_error=nan,
            peak_time_h=nan,
            bias=nan,
            pinball=nan,
            pinball_by_quantile=nothing,
            coverage_q90=nan,
            width_q90=nan,
            mase_last=nan,
            mase_yesterday=nan,
            origins=0,
            seconds_per_fit=seconds,
        )
    came = rolled.actuals[rows, day]
    said = {q: values[rows, day] for q, values in quantiles.items()}
    middle, total = said[0.5], max(float(came.sum()), 1e-9)
    highest = came.max(axis=1)
    hours_off = np.abs(middle.argmax(axis=1) - came.argmax(axis=1)) * rolled.series.step_s / 3600
    by_quantile = {q: float(pinball(came, values, quantile=q).mean()) for q, values in said.items()}
    missed = float(np.abs(came - middle).sum())
    return Scores(
        wape=missed / total,
        peak_error=float(np.abs(peaks[rows] - highest).sum() / max(float(highest.sum()), 1e-9)),
        peak_time_h=float(hours_off.mean()),
        bias=float((middle - came).sum()) / total,
        pinball=float(np.mean(list(by_quantile.values()))),
        pinball_by_quantile={f"q{round(q * 100)}": loss for q, loss in by_quantile.items()},
        coverage_q90=float((came <= said[0.9]).mean()),
        width_q90=float((said[0.9] - middle).mean()),
        mase_last=_against(rolled, BASELINES[0], rows, missed),
        mase_yesterday=_against(rolled, BASELINES[1], rows, missed),
        origins=len(rows),
        seconds_per_fit=seconds,
    )


def _against(rolled: Rolled, naive: str, rows: NDArray[np.int64], missed: float) -> float:
    """Absolute error over that of a naive forecaster on the same windows; NaN where that is silent or never wrong."""
    if naive not in rolled.paths:
        return float("nan")
    errors = np.abs(rolled.actuals - rolled.paths[naive])[rows, rolled.scored]
    return missed / float(errors.sum()) if errors.sum() > 0 else float("nan")
