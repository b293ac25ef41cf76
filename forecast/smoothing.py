"""State-space candidates: ETS(A,N,A) filtered over a grid of its parameters, and UnobservedComponents of statsmodels.

Both hand out all rolling origins of a record in one filter pass, and give at each exactly what `predict` gives on the
record cut there. Called by `backtest` and `champion`.
"""

import hashlib
import warnings
from collections.abc import MutableMapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from forecast.calendar import Calendar
from forecast.forecaster import DemandSeries, Floats
from forecast.past import fill_gaps, learnable, steps_per_day

# Exponential smoothing, additive error and season, no trend (Hyndman et al. 2008, chapter 2). A grid in place of an
# optimiser: 60 models cost 20 ms over half a year, always converge, and pass through gaps. Trends were left out:
# day-ahead they extrapolate bursts.
LEVEL_GAINS = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 0.95, 1.0)
SEASON_GAINS = (0.0, 0.01, 0.03, 0.07, 0.15, 0.3)

FIT_DAYS = 28
REFIT_DAYS = 7  # variances of a queue change slowly; the state is filtered up to each origin all the same
DAILY_HARMONICS = 3
WEEKLY_HARMONICS = 2
WEEKLY_NEEDS_DAYS = 28  # with less, weekly terms hurt (measured on Helios Earth)
# A fit from scratch takes 0.2-0.3 s; weeks between begin where the week before ended and need half as many steps.
FRESH_EVERY_WEEKS = 4
FRESH_ITERATIONS = 30
MORE_ITERATIONS = 15
WEEKLY_PLACE = 3  # of the weekly season's variance among the parameters

Fits = MutableMapping[str, Floats]


class Ets:
    """ETS(A,N,A) with a daily season; level and season gains are those with the least one-step error so far."""

    name = "ets"

    def predict(self, series: DemandSeries, *, horizon: int, calendar: Calendar) -> Floats:
        """Shape (horizon,). ValueError for less than two days, or steps longer than six hours."""
        return self.paths(series, origins=[len(series.gpus)], horizon=horizon, calendar=calendar)[0]

    def paths(self, series: DemandSeries, *, origins: Sequence[int], horizon: int, calendar: Calendar) -> list[Floats]:
        """A path for each origin, in the order given."""
        season = _season(self.name, series, origins, days=2)
        values = learnable(series)
        start = _first_two_days(self.name, values, season=season, origins=origins)
        at_origins = _ets_filter(
            values[: max(origins)], start=start, season=season, origins=set(origins), ahead=horizon
        )
        return [at_origins[origin] for origin in origins]


def _season(name: str, series: DemandSeries, origins: Sequence[int], *, days: int) -> int:
    season = steps_per_day(series.step_s)
    if season < 4:
        raise ValueError(f"{name} needs steps of at most six hours, these are of {series.step_s} s")
    if min(origins) < days * season:
        raise ValueError(f"{name} needs {days} days of history, there are {min(origins)} steps")
    return season


def _first_two_days(name: str, values: Floats, *, season: int, origins: Sequence[int]) -> int:
    """The step with which the first two days begin that are at least half known."""
    for start in range(0, min(origins) - 2 * season + 1, season):
        if int(np.sum(~np.isnan(values[start : start + 2 * season]))) >= season:
            return start
    raise ValueError(f"{name} needs two days that are at least half known")


def _ets_filter(values: Floats, *, start: int, season: int, origins: set[int], ahead: int) -> dict[int, Floats]:
    """Run every model of the grid over the record; at each origin the best one so far looks ahead."""
    first = fill_gaps(values[start : start + 2 * season], season=season).reshape(2, season)
    level_gain, season_gain = np.array(list(product(LEVEL_GAINS, SEASON_GAINS))).T
    pull = season_gain * (1 - level_gain)  # the smoothing form keeps the season's share below what the level leaves
    level = np.full(len(level_gain), first[0].mean())
    shape = (first - first.mean(axis=1, keepdims=True)).mean(axis=0)
    seasonal = np.tile(shape[:, None], (1, len(level_gain)))
    squared = np.zeros(len(level_gain))
    paths: dict[int, Floats] = {}
    for step in range(start, len(values) + 1):
        if step in origins:
            best = int(np.argmin(squared))
            turns = (step - start + np.arange(ahead)) % season
            paths[step] = np.maximum(level[best] + seasonal[turns, best], 0.0)
        if step == len(values) or np.isnan(values[step]):
            continue
        turn = (step - start) % season
        error = values[step] - level - seasonal[turn]
        level = level + level_gain * error
        seasonal[turn] += pull * error
        if step >= start + 2 * season:
            squared += error * error
    return paths


class UnobservedComponents:
    """Local level, a daily (and with 28 days a weekly) trigonometric season, AR(1): statsmodels, fitted weekly.

    `fits` remembers parameters by a digest of the data they were fitted on: the same answers, sooner.
    """

    name = "unobserved components"

    def __init__(self, fits: Fits | None = None) -> None:
        self.fits: Fits = {} if fits is None else fits

    def predict(self, series: DemandSeries, *, horizon: int, calendar: Calendar) -> Floats:
        """Shape (horizon,). ValueError for less than a week or too many gaps."""
        return self.paths(series, origins=[len(series.gpus)], horizon=horizon, calendar=calendar)[0]

    def paths(self, series: DemandSeries, *, origins: Sequence[int], horizon: int, calendar: Calendar) -> list[Floats]:
        """A path for each origin, in the order given. Origins of one week share a fit and a filter pass."""
        season = _season(self.name, series, origins, days=REFIT_DAYS)
        values = learnable(series)
        found: dict[int, Floats] = {}
        by_fit: dict[int, list[int]] = {}
        for origin in origins:
            by_fit.setdefault(_fit_end(origin, season=season), []).append(origin)
        for end, group in by_fit.items():
            found.update(self._week(values, end, group, horizon, season))
        return [found[origin] for origin in origins]

    def _week(self, values: Floats, end: int, origins: Sequence[int], horizon: int, season: int) -> dict[int, Floats]:
        """Paths of the origins whose parameters come from the values up to step `end`."""
        begin = max(end - FIT_DAYS * season, 0)
        whole, learnt, values = values, values[begin:end], values[begin : max(origins)]
        if int(np.sum(~np.isnan(learnt))) < 2 * season:
            raise ValueError(f"{self.name} needs two days of known values")
        centre, spread = _scale(learnt)
        if spread == 0.0:
            if np.nanmax(np.abs(values - centre)) == 0.0:
                return {origin: np.full(horizon, centre) for origin in origins}
            spread = 1.0
        weekly = len(learnt) >= WEEKLY_NEEDS_DAYS * season
        parameters = self._parameters(whole, end, season=season)
        model = _model((values - centre) / spread, season=season, weekly=weekly)
        states = model.filter(parameters, cov_type="none").filtered_state
        step, look = model.ssm["transition"], model.ssm["design"][0]
        paths = {}
        for origin in origins:
            state = states[:, origin - begin - 1]
            ahead = np.empty(horizon)
            for number in range(horizon):
                state = step @ state
                ahead[number] = look @ state
            if not np.isfinite(ahead).all():
                raise ValueError(f"{self.name} did not stay finite")
            paths[origin] = np.maximum(centre + spread * ahead, 0.0)
        return paths

    def _parameters(self, values: Floats, end: int, *, season: int) -> Floats:
        """Parameters of the four weeks before `end`: from scratch every fourth week, else from those a week before."""
        week = REFIT_DAYS * season
        fresh = (end // week - 1) % FRESH_EVERY_WEEKS == 0
        before = None if fresh else self._parameters(values, end - week, season=season)
        learnt = values[max(end - FIT_DAYS * season, 0) : end]
        weekly = len(learnt) >= WEEKLY_NEEDS_DAYS * season
        seed = b"" if before is None else before.tobytes()
        digest = hashlib.blake2b(learnt.tobytes() + seed + bytes([season % 256, weekly]), digest_size=12).hexdigest()
        if digest not in self.fits:
            centre, spread = _scale(learnt)
            self.fits[digest] = _fit((learnt - centre) / (spread or 1.0), season=season, weekly=weekly, before=before)
        return self.fits[digest]


def _scale(learnt: Floats) -> tuple[float, float]:
    if np.isnan(learnt).all():
        return 0.0, 0.0
    return float(np.nanmean(learnt)), float(np.nanstd(learnt))


def _fit_end(origin: int, *, season: int) -> int:
    """Where the record ends that an origin's parameters are fitted on: the last whole week since its start."""
    return origin // (REFIT_DAYS * season) * REFIT_DAYS * season


def _model(values: Floats, *, season: int, weekly: bool) -> Any:
    from statsmodels.tsa.statespace.structural import UnobservedComponents as Components

    terms = [{"period": season, "harmonics": min(DAILY_HARMONICS, season // 2)}]
    if weekly:
        terms.append({"period": 7 * season, "harmonics": WEEKLY_HARMONICS})
    return Components(values, level="llevel", freq_seasonal=terms, autoregressive=1)


def _fit(values: Floats, *, season: int, weekly: bool, before: Floats | None) -> Floats:
    """Likelihood by some steps of L-BFGS; not converging is usual and scores well all the same."""
    model = _model(values, season=season, weekly=weekly)  # its import switches its own warnings on: first
    start = np.asarray(model.start_params, dtype=np.float64)
    steps = FRESH_ITERATIONS if before is None else MORE_ITERATIONS
    if before is not None:  # the weekly term comes in with the fourth week: its variance begins at its default
        start = before if len(before) == len(start) else np.insert(before, WEEKLY_PLACE, start[WEEKLY_PLACE])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            fitted = model.fit(start_params=start, disp=0, maxiter=steps, cov_type="none")
        except np.linalg.LinAlgError as trouble:
            raise ValueError(f"unobserved components could not be fitted: {trouble}") from trouble
    return np.asarray(fitted.params, dtype=np.float64)
