"""What the service learns from its ticks beside deciding: hourly demand for the forecasts, runtimes, the day's sums.

Fed with every record; written to the ledger once an hour of the site's time and at the end.
"""

from collections import deque
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from threading import Lock

from elastic.costs import Meter
from elastic.costs_at_once import BurstAtOnce
from elastic.figures import Day, Figures, add_tick, figures
from elastic.ledger_books import LedgerBooks
from elastic.ledger_port import LedgerError
from elastic.planning.policy import Policy
from elastic.planning.state import ControllerState, Record
from forecast.forecaster import DemandSeries, RuntimeModelLike
from forecast.runtime import RanJob, RuntimeCounts, RuntimeModel
from forecast.series import TOTAL, DemandLog
from providers.facts import Job, JobState, PendingReason

STEP_S = 3600
KEPT_POINTS = 600  # of the page's chart: two days at five minutes
POINT_EVERY = timedelta(minutes=5)
_DEMAND = (PendingReason.RESOURCES, PendingReason.PRIORITY)


@dataclass(frozen=True, slots=True)
class _Running:
    job: Job
    started_at: datetime


class Books:
    """One service's books. `after_tick` is called by the loop, `series` and `runtimes` by the slow beats' thread."""

    def __init__(self, books: LedgerBooks) -> None:
        self._books = books
        self._lock = Lock()
        self._log = DemandLog(step_s=STEP_S)
        self._counts = RuntimeCounts()
        self._runtimes: RuntimeModelLike = RuntimeModel()
        self._running: dict[str, _Running] = {}
        self._hour: datetime | None = None
        self._highest: dict[str, float] = {}
        self._meter: Meter | None = None
        self._at_once = BurstAtOnce()
        self._costs_hour: datetime | None = None
        self.day = Day(day="")
        self.points: deque[Figures] = deque(maxlen=KEPT_POINTS)
        self.trouble = ""

    def remember(self) -> int:
        """Take back from the ledger what earlier runs saw; how many hours that is."""
        hours = 0
        with self._lock:
            for hour, gpus in self._books.demand():
                self._log.observe(hour, gpus)
                hours += 1
        return hours

    def observe_past(self, hour: datetime, gpus: dict[str, float]) -> None:
        """An hour before this service watched, from elsewhere."""
        with self._lock:
            self._log.observe(hour, gpus)

    def after_tick(self, record: Record, state: ControllerState, policy: Policy) -> None:
        """One more tick. A queue that could not be read whole teaches nothing."""
        at = record.snapshot.at
        if not self.points or at - self.points[-1].at >= POINT_EVERY:
            self.points.append(figures(record))
        hour = at.replace(minute=0, second=0, microsecond=0)
        self._count_costs(record, state, hour)
        self._count_day(record, state, policy)
        if record.snapshot.trouble("cluster:"):
            return
        if self._hour is not None and hour != self._hour:
            self.write_down()
            self._highest = {}
        self._hour = hour
        gpus = demand_by_key(record, policy)
        self._highest = {k: max(self._highest.get(k, 0.0), v) for k, v in {**self._highest, **gpus}.items()}
        with self._lock:
            self._log.observe(at, gpus)
        self._learn(record)

    def write_down(self) -> None:
        """The hour, day and costs into the ledger; trouble is kept for the page and tried again an hour later."""
        try:
            if self._hour is not None:
                self._books.put_demand(self._hour, self._highest)
            if self.day.day:
                self._books.put_day(self.day)
            self._write_costs()
            self.trouble = ""
        except LedgerError as trouble:
            self.trouble = str(trouble)

    def series(self, until: datetime) -> dict[str, DemandSeries]:
        """Hourly demand by key up to the last full hour."""
        with self._lock:
            found = {key: self._log.series(key, until=until) for key in self._log.keys}
        return {key: one for key, one in found.items() if one is not None}

    def learn_runtimes(self) -> None:
        """Make a new model of the runs that ended."""
        with self._lock:
            self._runtimes = self._counts.model()

    @property
    def runtimes(self) -> RuntimeModelLike:
        """The newest model."""
        return self._runtimes

    def _count_costs(self, record: Record, state: ControllerState, hour: datetime) -> None:
        """Charge the rented machines, also while the queue cannot be read; written once an hour. A ledger that does not
        tell how far costs are written charges nothing yet: the time is charged when it does."""
        snapshot = record.snapshot
        try:
            if self._meter is None:
                self._meter = self._new_meter(f"{snapshot.at:%Y-%m-%d}")
            self._meter.add(snapshot, guard=record.guard, last_good=state.prices)
            if self._costs_hour not in (None, hour):
                self._write_costs()
        except LedgerError as trouble:
            self.trouble = str(trouble)
        self._costs_hour = hour

    def _new_meter(self, day: str) -> Meter:
        return Meter(self._books.costs.mark(), days={day: self._books.costs.usd_by_team(day)})

    def _write_costs(self) -> None:
        """What is pending, with its mark; days that are over and got more are told again."""
        meter = self._meter
        if meter is None or meter.until is None:
            return
        days = {key.day for key in meter.pending}
        self._books.costs.add(meter.pending, until=meter.until)
        meter.written()
        for day in days - {self.day.day, f"{meter.until:%Y-%m-%d}"}:
            kept = self._books.day(day)
            if kept is not None:
                team_usd = self._books.costs.usd_by_team(day)
                self._books.put_day(replace(kept, usd=sum(team_usd.values()), team_usd=team_usd))

    def _count_day(self, record: Record, state: ControllerState, policy: Policy) -> None:
        day = f"{record.snapshot.at:%Y-%m-%d}"
        if self.day.day != day:
            if self.day.day:
                self._end_day()
            self.day = self._day(day)
        whole = not record.snapshot.trouble("cluster:")
        team_usd = self._meter.usd_by_team(day) if self._meter else state.spend.team_usd_day
        self.day = add_tick(
            self.day,
            record,
            team_usd,
            at_once_gpu_h=self._at_once.gpu_hours(record.snapshot, policy) if whole else 0.0,
            onprem_usd_per_gpu_hour=policy.money.onprem_usd_per_gpu_hour,
        )

    def _end_day(self) -> None:
        """The day that is over, with the cost up to its midnight."""
        if self._meter is not None:
            team_usd = dict(self._meter.usd_by_team(self.day.day))
            self.day = replace(self.day, usd=sum(team_usd.values()), team_usd=team_usd)
        self.write_down()

    def _day(self, day: str) -> Day:
        """A day's sums so far: from the ledger where an earlier run watched a part of it."""
        before = self.day.until
        try:
            return self._books.day(day) or Day(day=day, until=before)
        except LedgerError as trouble:
            self.trouble = str(trouble)
            return Day(day=day, until=before)

    def _learn(self, record: Record) -> None:
        """Runs that are over: they ran at the last tick and are gone now."""
        at = record.snapshot.at
        running = {
            j.id: _Running(j, j.started_at)
            for j in record.snapshot.jobs
            if j.state is JobState.RUNNING and j.started_at is not None
        }
        present = {j.id for j in record.snapshot.jobs}
        with self._lock:
            for job_id, run in self._running.items():
                if job_id not in present:
                    job = run.job
                    self._counts.add(
                        RanJob(
                            team=job.team,
                            job_class=job.job_class,
                            gpus=job.gpus,
                            name=job.name,
                            ran_s=max(0.0, (at - run.started_at).total_seconds()),
                            ended=job.attempt == 0,  # a later attempt shows only a part of the run
                        )
                    )
        self._running = running


def demand_by_key(record: Record, policy: Policy) -> dict[str, float]:
    """GPUs wanted now (running and waiting for capacity) by home pool, by team and in total. Work in a burst pool
    counts for the first on-prem pool of its family: there it would be if there were room."""
    homes = home_pools(policy)
    gpus: dict[str, float] = {TOTAL: 0.0, **dict.fromkeys(homes.values(), 0.0), **dict.fromkeys(policy.teams, 0.0)}
    for job in record.snapshot.jobs:
        if job.state is not JobState.RUNNING and job.pending_reason not in _DEMAND:
            continue
        gpus[TOTAL] += job.gpus
        home = homes.get(job.pool)
        if home is not None:
            gpus[home] += job.gpus
        if job.team in policy.teams:
            gpus[job.team] += job.gpus
    return gpus


def home_pools(policy: Policy) -> dict[str, str]:
    """By pool: the first on-prem pool of its family (same cluster and GPU model), or the first pool of all."""
    families: dict[tuple[str, str], list[str]] = {}
    for name, pool in policy.pools.items():
        families.setdefault((pool.cluster, pool.gpu_model), []).append(name)
    homes: dict[str, str] = {}
    for names in families.values():
        first = next((n for n in names if policy.pools[n].place == "on-prem"), names[0])
        homes |= dict.fromkeys(names, first)
    return homes
