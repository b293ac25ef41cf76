"""The words of forecasting: a demand series, a forecast, and what every forecaster must do.

Called by `backtest` and `champion`; planning only reads `Forecast`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from forecast.calendar import Calendar

Floats = NDArray[np.float64]
QUANTILES: tuple[float, ...] = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DemandSeries:
    """GPUs wanted (running + resource-pending) per step of `step_s` from `start` (aware, UTC, on the step grid).

    `gpus[i]` is the value of [start + i*step, start + (i+1)*step): the maximum inside the step. `gaps[i]` True: not
    known (then gpus[i] is NaN, never 0). `marked[i]` True: the controller or an outage changed capacity then.
    """

    key: str
    start: datetime
    step_s: int
    gpus: Floats
    gaps: NDArray[np.bool_]
    marked: NDArray[np.bool_]

    @property
    def end(self) -> datetime:
        """The end of the last step: the cutoff of a forecast made on all of it."""
        return self.start + timedelta(seconds=self.step_s * len(self.gpus))


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """A day's highest demand: a forecast of its own. `day` is the local date's midnight in UTC.

    Nine peaks of ten lie in [low_gpus, high_gpus]; eight of ten begin in [earliest, latest] (None: not known).
    """

    day: datetime
    at: datetime
    gpus: float
    low_gpus: float
    high_gpus: float
    earliest: datetime | None = None
    latest: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Forecast:
    """Quantiles of demand after `cutoff` (the last observation seen). `gpus[q]` has shape (horizon steps,).

    Quantiles never cross, are finite and never negative. `fallback` says why a simpler forecaster speaks, '' if none.
    """

    key: str
    cutoff: datetime
    made_at: datetime
    step_s: int
    gpus: Mapping[float, Floats]
    forecaster: str
    score: float = float("nan")
    fallback: str = ""
    peaks: tuple[Peak, ...] = ()
    clipped: bool = False

    @property
    def id(self) -> str:
        """Names this forecast in a plan."""
        return f"{self.key}@{self.cutoff:%Y%m%dT%H%M}/{self.forecaster}"

    def at(self, when: datetime, *, quantile: float) -> float | None:
        """Demand at an instant by the nearest quantile at or above the wanted one; None outside the horizon."""
        step = int((when - self.cutoff).total_seconds() // self.step_s)
        level = min((q for q in self.gpus if q >= quantile), default=max(self.gpus))
        values = self.gpus[level]
        return float(values[step]) if 0 <= step < len(values) else None


class Forecaster(Protocol):
    """One candidate. Stateless: fitting and forecasting are one call on the past only."""

    name: str

    def predict(self, series: DemandSeries, *, horizon: int, calendar: Calendar) -> Floats:
        """Median path of shape (horizon,) for the steps right after `series.end`. ValueError if the series is too
        short for this forecaster (the message says what it needs)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Forecasts:
    """All that a plan may look ahead with: demand by key (pool or team) and the runtimes of jobs."""

    demand: Mapping[str, Forecast] = field(default_factory=dict)
    runtimes: "RuntimeModelLike | None" = None


class RuntimeModelLike(Protocol):
    """What planning asks about runtimes; `forecast.runtime.RuntimeModel` answers."""

    def time_left_s(self, *, team: str, job_class: str, gpus: int, name: str, age_s: float, quantile: float) -> float:
        """Quantile of the time a job of this kind still runs, given that it has run `age_s`."""
        ...
