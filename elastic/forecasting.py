"""Where forecasts are made: in worker processes under a time limit, the last good one serving meanwhile with its age.

The forecast beat calls `refresh`, replays call `refresh_now`; a tick asks `newest`. What is forecast and by whom is
`forecast.champion`; here is only what may fail: processes, time.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from multiprocessing.pool import Pool
from threading import Event, Lock

from forecast.calendar import Calendar
from forecast.champion import HISTORY_ORIGINS, cheap_candidates, default_candidates, forecast_series
from forecast.forecaster import DemandSeries, Floats, Forecast, Forecaster
from forecast.past import DAY_S, cut_front

HORIZON_S = 48 * 3600
TIME_LIMIT_S = 120.0  # of one refresh; fifty teams took 20 s on two cores
# What a forecast looks at: 60 origins, and the four weeks before the first of them that models are fitted on.
KEEP_DAYS = HISTORY_ORIGINS + 31
KEEP_FITS = 64  # a record of thirteen weeks needs thirteen
CHEAP_ORIGINS = 28
WEEK_DAYS = 7

Made = tuple[str, Forecast | str, dict[str, Floats]]
Make = Callable[[DemandSeries, Calendar, datetime, int, dict[str, Floats]], Made]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Served:
    """The newest good forecast of a key and how old it is; `trouble`: why the last refresh brought none, '' if fine."""

    forecast: Forecast
    age_s: float
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """One refresh: the keys with a new forecast, and by key why there is none."""

    made: tuple[str, ...]
    trouble: Mapping[str, str]


class ForecastDesk:
    """Keeps the newest good forecast of every key. Safe to ask from one thread while another refreshes."""

    def __init__(
        self,
        *,
        horizon_s: int = HORIZON_S,
        workers: int = 2,
        time_limit_s: float = TIME_LIMIT_S,
        make: Make | None = None,
    ) -> None:
        """`make` is what a worker runs; it must be a function of a module, for processes are spawned."""
        self.time_limit_s = time_limit_s
        self._horizon_s, self._workers = horizon_s, workers
        self._make = make or make_forecast
        self._good: dict[str, Forecast] = {}
        self._trouble: dict[str, str] = {}
        self._fits: dict[str, dict[str, Floats]] = {}
        self._lock = Lock()
        self._pool: Pool | None = None

    def refresh(
        self, series: Mapping[str, DemandSeries], *, calendar_of: Callable[[str], Calendar], at: datetime
    ) -> Refreshed:
        """Forecast every series in the workers; returns when all are done or the time limit is over.

        What is late is stopped with its worker; its key keeps the last good forecast. One refresh at a time.
        """
        if not series:
            return Refreshed(made=(), trouble={})
        inbox = _Inbox(len(series))
        pool = self._pool = self._pool or _spawn(self._workers)
        for key, record in series.items():
            job = (recent(record), calendar_of(key), at, self._steps(record), self._fits.get(key, {}))
            pool.apply_async(self._make, job, callback=inbox.take, error_callback=inbox.failure_of(key))
        if not inbox.all_in.wait(self.time_limit_s):
            self.close()  # a stuck fit can't be stopped otherwise
        late = dict.fromkeys(series, f"not done after {self.time_limit_s:g} s")
        return self._keep(list(series), {**late, **inbox.failures()}, inbox.made())

    def refresh_now(
        self,
        series: Mapping[str, DemandSeries],
        *,
        calendar_of: Callable[[str], Calendar],
        at: datetime,
        candidates: Sequence[Forecaster] | None = None,
    ) -> Refreshed:
        """The same in this process, at once, without a limit, by the cheap candidates: for replays."""
        chosen = tuple(candidates or cheap_candidates())
        made = []
        for key, record in series.items():
            short = recent(record, days=CHEAP_ORIGINS * 2)
            made.append(
                _made(key, short, calendar_of(key), at, self._steps(record), chosen, history_origins=CHEAP_ORIGINS)
            )
        return self._keep(list(series), {}, made)

    def newest(self, at: datetime, *, max_age_s: float = float("inf")) -> dict[str, Served]:
        """The newest good forecast of every key with its age; without those older than `max_age_s`."""
        with self._lock:
            served = {
                key: Served(
                    forecast=forecast,
                    age_s=(at - forecast.made_at).total_seconds(),
                    trouble=self._trouble.get(key, ""),
                )
                for key, forecast in self._good.items()
            }
        return {key: one for key, one in served.items() if one.age_s <= max_age_s}

    def forecasts(self, at: datetime, *, max_age_s: float = float("inf")) -> dict[str, Forecast]:
        """What `Forecasts.demand` takes."""
        return {key: one.forecast for key, one in self.newest(at, max_age_s=max_age_s).items()}

    @property
    def trouble(self) -> dict[str, str]:
        """By key, why the last refresh brought no forecast."""
        with self._lock:
            return dict(self._trouble)

    def close(self) -> None:
        """Stop the workers. The forecasts stay; the next refresh starts new workers."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.terminate()
            pool.join()

    def _steps(self, series: DemandSeries) -> int:
        return max(self._horizon_s // series.step_s, 1)

    def _keep(self, keys: list[str], trouble: Mapping[str, str], made: Sequence[Made]) -> Refreshed:
        left = dict(trouble)
        with self._lock:
            for key, result, fits in made:
                left.pop(key, None)
                if isinstance(result, str):
                    left[key] = result
                else:
                    self._good[key] = result
                    self._fits[key] = dict(list(fits.items())[-KEEP_FITS:])
            for key in keys:
                self._trouble.pop(key, None)
            self._trouble.update(left)
        return Refreshed(made=tuple(key for key in keys if key not in left), trouble=left)


class _Inbox:
    """Collects what workers send back; `all_in` is set when every key has answered. Written by the pool's thread."""

    def __init__(self, expected: int) -> None:
        self.all_in = Event()
        self._expected = expected
        self._made: list[Made] = []
        self._failures: dict[str, str] = {}

    def take(self, made: Made) -> None:
        self._made.append(made)
        self._check()

    def failure_of(self, key: str) -> Callable[[BaseException], None]:
        def note(error: BaseException) -> None:
            self._failures[key] = f"{type(error).__name__}: {error}"
            self._check()

        return note

    def _check(self) -> None:
        if len(self._made) + len(self._failures) >= self._expected:
            self.all_in.set()

    def made(self) -> list[Made]:
        return list(self._made)

    def failures(self) -> dict[str, str]:
        return dict(self._failures)


def make_forecast(
    series: DemandSeries, calendar: Calendar, made_at: datetime, horizon: int, fits: dict[str, Floats]
) -> Made:
    """What a worker does for one key: all candidates. Returns the fits as well, so that the next refresh is quicker."""
    candidates = default_candidates(fits=fits)
    made = _made(series.key, series, calendar, made_at, horizon, candidates, history_origins=HISTORY_ORIGINS)
    return made[0], made[1], fits


def recent(series: DemandSeries, *, days: int = KEEP_DAYS) -> DemandSeries:
    """At least the last `days`, begun a whole number of weeks after the record: fits of whole weeks stay the same."""
    week = WEEK_DAYS * DAY_S // series.step_s
    spare = len(series.gpus) - days * DAY_S // series.step_s
    return cut_front(series, max(spare // week, 0) * week)


def _made(
    key: str,
    series: DemandSeries,
    calendar: Calendar,
    made_at: datetime,
    horizon: int,
    candidates: Sequence[Forecaster],
    *,
    history_origins: int,
) -> Made:
    try:
        made: Forecast | str = forecast_series(
            series,
            calendar=calendar,
            made_at=made_at,
            horizon=horizon,
            candidates=candidates,
            history_origins=history_origins,
        )
    except ValueError as needs:
        made = str(needs)
    return key, made, {}


def _spawn(workers: int) -> Pool:
    """Fresh interpreters: a fork of a process with threads may hang."""
    # Workers inherit the mask: one that still starts must not be told to stop by a signal for its parent either.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        return multiprocessing.get_context("spawn").Pool(workers, initializer=_stand_alone)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _stand_alone() -> None:
    """Ctrl-C and a SIGTERM to the whole group are for the parent: a worker that dies of them while it holds the queue's
    lock would hang the parent's own end. Workers end when their parent says so."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def calendar_for_all(calendar: Calendar) -> Callable[[str], Calendar]:
    """One calendar for every key."""

    def same(key: str) -> Calendar:
        return calendar

    return same
