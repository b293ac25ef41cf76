"""Which forecaster speaks for a series, by its losses at past origins; and the forecast it makes. Pure.

The baseline is persistence. A candidate takes over only when it beats the baseline in both its pinball loss and the
error of its median, by more than chance explains (paired one-sided t-tests at 5 % in all), over the last 14 to 28
origins. It hands back as soon as it no longer wins on average. Called by the forecast beat, `elastic forecast` and
the benchmark.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forecast.backtest import Rolled, roll
from forecast.calendar import Calendar
from forecast.combination import Combination
from forecast.forecaster import DemandSeries, Floats, Forecast, Forecaster
from forecast.past import known, steps_per_day
from forecast.peaks import peak_source, peaks_ahead
from forecast.seasonal import DayTypeProfile, LastValue, Yesterday
from forecast.smoothing import Ets, Fits, UnobservedComponents

BASELINES = (LastValue.name, Yesterday.name)
WINDOW = 28  # origins judged by: four weeks
LEAST_ORIGINS = 14  # before that many, winning is luck: on Helios Earth shorter records picked losers
LEAST_FOR_BASELINE = 3  # yesterday against last value: a plain daily rhythm shows in three days
HYSTERESIS = 0.03  # a rival of the champion must be this much better: 3 % of the loss
HISTORY_ORIGINS = 60  # past origins rolled for one forecast: 28 to judge by, each with 30 to calibrate on

# Student's t for 1, 2, 3, ... degrees of freedom: 95th percentile for one test, 99th for the best of five rivals (5 %
# shared among them, Bonferroni).
_STUDENT_95 = (
    *(6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81, 1.80, 1.78, 1.77, 1.76),
    *(1.75, 1.75, 1.74, 1.73, 1.73, 1.72, 1.72, 1.72, 1.71, 1.71, 1.71, 1.71, 1.70),
)
_STUDENT_99 = (
    *(31.82, 6.96, 4.54, 3.75, 3.36, 3.14, 3.00, 2.90, 2.82, 2.76, 2.72, 2.68, 2.65, 2.62),
    *(2.60, 2.58, 2.57, 2.55, 2.54, 2.53, 2.52, 2.51, 2.50, 2.49, 2.49, 2.48, 2.47),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The champion at each origin, and (where it is a baseline) why no candidate speaks: '' if one does."""

    picks: tuple[str, ...]
    reasons: tuple[str, ...]


def default_candidates(*, fits: Fits | None = None, structural: Forecaster | None = None) -> tuple[Forecaster, ...]:
    """All candidates; the combination comes last. `fits` remembers fitted parameters between refreshes."""
    members = [*cheap_members(structural), Ets(), UnobservedComponents(fits)]
    return (*members, Combination(members))


def cheap_candidates(*, structural: Forecaster | None = None) -> tuple[Forecaster, ...]:
    """Those that cost milliseconds: for replays that refresh thousands of times."""
    members = [*cheap_members(structural), Ets()]
    return (*members, Combination(members))


def cheap_members(structural: Forecaster | None) -> list[Forecaster]:
    """The baselines, the profile, and the structural forecast where jobs are known."""
    simple: list[Forecaster] = [LastValue(), Yesterday(), DayTypeProfile()]
    return simple if structural is None else [*simple, structural]


def select(rolled: Rolled) -> Selection:
    """The champion at each origin by what was known there: only windows that had ended count."""
    contest = _Contest(rolled)
    at = np.asarray(rolled.origins)
    ended = np.searchsorted(at + rolled.scored.stop, at, side="right")
    chosen = [contest.judge(int(seen)) for seen in ended]
    return Selection(picks=tuple(name for name, _ in chosen), reasons=tuple(reason for _, reason in chosen))


class _Contest:
    """Walks through the origins with the champion and baseline of the last one: hysteresis needs to know them."""

    def __init__(self, rolled: Rolled) -> None:
        self._losses = {name: rolled.losses(name) for name in rolled.paths}
        self._misses = {name: rolled.misses(name) for name in rolled.paths}
        self._usable = rolled.usable
        self._baseline = self._champion = LastValue.name

    def judge(self, seen: int) -> tuple[str, str]:
        """Champion and reason at an origin that knows the outcome of the first `seen` ones."""
        rows = np.flatnonzero(self._usable[:seen])[-WINDOW:]
        before = self._champion
        self._choose_baseline(rows)
        if before in BASELINES or not self._beats(before, rows):
            self._champion = self._baseline
        self._let_rivals_in(rows)
        return self._champion, self._reason(before, rows)

    def _choose_baseline(self, rows: NDArray[Any]) -> None:
        """Persistence, or yesterday: it comes in by more than luck and stays only while it wins on average."""
        held = self._baseline
        self._baseline = LastValue.name
        student = () if held == Yesterday.name else _STUDENT_95
        if len(rows) >= LEAST_FOR_BASELINE and self._beats(
            Yesterday.name, rows, student=student, least=LEAST_FOR_BASELINE
        ):
            self._baseline = Yesterday.name

    def _let_rivals_in(self, rows: NDArray[Any]) -> None:
        rivals = [n for n in self._losses if n not in BASELINES and self._beats(n, rows, student=_STUDENT_99)]
        if not rivals:
            return
        means = {name: float(np.nanmean(self._losses[name][rows])) for name in {*rivals, self._champion}}
        best = min(rivals, key=lambda name: means[name])
        if self._champion in BASELINES or means[best] < means[self._champion] * (1 - HYSTERESIS):
            self._champion = best

    def _beats(
        self, name: str, rows: NDArray[Any], *, student: tuple[float, ...] = (), least: int = LEAST_ORIGINS
    ) -> bool:
        """Whether `name` beats the baseline in both losses: on average, or (`student`) by more than chance explains."""
        if name not in self._losses:
            return False
        for table in (self._losses, self._misses):
            won = (table[self._baseline] - table[name])[rows]
            won = won[~np.isnan(won)]
            if len(won) < least or not won.mean() > (_chance(won, student) if student else 0.0):
                return False
        return True

    def _reason(self, before: str, rows: NDArray[Any]) -> str:
        if self._champion not in BASELINES:
            return ""
        if before not in BASELINES:
            return f"{before} no longer beats {self._baseline} over the last {len(rows)} days"
        if len(rows) < LEAST_ORIGINS:
            return f"{len(rows)} past days can be scored, candidates are trusted after {LEAST_ORIGINS}"
        return f"no candidate beats {self._baseline} with confidence over the last {len(rows)} days"


def _chance(won: Floats, student: tuple[float, ...]) -> float:
    """What the mean of paired wins must exceed to be no luck."""
    spread = float(won.std(ddof=1)) / float(np.sqrt(len(won)))
    return student[min(len(won) - 1, len(student)) - 1] * spread


def forecast_series(
    series: DemandSeries,
    *,
    calendar: Calendar,
    made_at: datetime,
    horizon: int,
    candidates: Sequence[Forecaster] | None = None,
    history_origins: int = HISTORY_ORIGINS,
) -> Forecast:
    """The forecast of `horizon` steps after the series' end, by its champion, with the peak of each local day.

    ValueError if the series has no known value: there is nothing to forecast from, the plan must be reactive.
    """
    rolled = roll_to_end(
        series, candidates or default_candidates(), horizon=horizon, calendar=calendar, history_origins=history_origins
    )
    return forecast_of(rolled, calendar=calendar, made_at=made_at)


def roll_to_end(
    series: DemandSeries,
    candidates: Sequence[Forecaster],
    *,
    horizon: int,
    calendar: Calendar,
    history_origins: int = HISTORY_ORIGINS,
) -> Rolled:
    """Origins at the series' end and at the same hour of up to `history_origins` days before."""
    season = steps_per_day(series.step_s)
    if horizon < 1:
        raise ValueError(f"a forecast of {horizon} steps says nothing")
    if len(series.gpus) == 0 or np.isnan(known(series)).all():
        raise ValueError(f"{series.key}: no demand is known yet, so nothing can be forecast")
    end = len(series.gpus)
    days = min(history_origins, (end - 1) // season)
    origins = [end - season * back for back in range(days, -1, -1)]
    return roll(series, candidates, origins=origins, horizon=horizon, calendar=calendar)


def forecast_of(rolled: Rolled, *, calendar: Calendar, made_at: datetime) -> Forecast:
    """The champion's forecast at the last origin."""
    selection = select(rolled)
    name, reason = selection.picks[-1], selection.reasons[-1]
    if np.isnan(rolled.paths[name][-1]).any():  # it refused this very origin
        reason = f"{name}: {rolled.refusals.get(name, 'silent here')}"
        name = LastValue.name
    said = rolled.quantiles[name]
    if not said.calibrated[-1]:
        reason = f"{reason}; its spread is a rule of thumb" if reason else "its spread is a rule of thumb"
    losses = rolled.losses(name)[-WINDOW - 1 :]
    return Forecast(
        key=rolled.series.key,
        cutoff=rolled.series.end,
        made_at=made_at,
        step_s=rolled.series.step_s,
        gpus={q: values[-1].copy() for q, values in said.gpus.items()},
        forecaster=name,
        score=float(np.nanmean(losses)) if not np.isnan(losses).all() else float("nan"),
        fallback=reason,
        peaks=peaks_ahead(rolled, name=peak_source(rolled, name), calendar=calendar),
        clipped=bool(said.clipped[-1]),
    )
