"""The always-on controller: the loop, its hourly line, its health, and the page it shows. Started by `elastic run`."""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from elastic.controller import Controller
from elastic.ledger import outcome_line
from elastic.ledger_port import LedgerError
from elastic.planning.plan import Launch, Move, Terminate
from elastic.planning.state import Record
from providers.facts import InstanceState, JobState
from providers.ports import Clock

TICK_S = 60.0
# Health turns bad when no tick ended within this many intervals (F020).
LATE_TICKS = 3
KEPT_LINES = 48
MAX_PAUSE_S = 300.0


@dataclass(slots=True)
class Hour:
    """What happened in one hour of the site's time."""

    launched: int = 0
    released: int = 0
    moved: int = 0
    last_reason: str = ""

    def add(self, record: Record) -> None:
        """Count a tick's actions."""
        for action in record.plan.actions:
            if isinstance(action, Launch):
                self.launched += action.nodes
                self.last_reason = action.reason
            elif isinstance(action, Terminate):
                self.released += 1
            elif isinstance(action, Move):
                self.moved += 1


@dataclass(slots=True)
class Service:
    """The loop over a controller. `say` gets the hourly line; `stop` ends it between two ticks."""

    controller: Controller
    clock: Clock  # the site's time, simulated or real
    real_clock: Clock
    say: Callable[[str], None]
    interval_real_s: float = TICK_S
    stop: threading.Event = field(default_factory=threading.Event)
    record: Record | None = None
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT_LINES))
    trouble: str = ""
    failures: int = 0
    _hour: Hour = field(default_factory=Hour)
    _next_line_at: datetime | None = None
    _last_end: datetime | None = None

    def run(self) -> None:
        """Tick until stopped. A ledger that cannot be written, or a broken promise in a tick, slows the loop down
        and shows on the page; the loop lives on."""
        self._last_end = self.real_clock.now()
        while not self.stop.is_set():
            try:
                self._tick()
                self.trouble, self.failures = "", 0
            except (LedgerError, ValueError, AssertionError, KeyError) as trouble:
                self.failures += 1
                self.trouble = f"{type(trouble).__name__}: {trouble}"
                self.say(f"tick failed ({self.failures} in a row): {self.trouble}")
                self.real_clock.wait(min(MAX_PAUSE_S, 2.0**self.failures), until=self.stop.is_set)
            self.clock.wait(TICK_S, until=self.stop.is_set)

    def _tick(self) -> None:
        self.record = self.controller.tick()
        self._last_end = self.real_clock.now()
        self._hour.add(self.record)
        at = self.record.snapshot.at
        if self._next_line_at is None or at >= self._next_line_at:
            line = hour_line(self.record, self._hour)
            self.lines.appendleft(line)
            self.say(line)
            self._hour = Hour()
            self._next_line_at = at.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)

    def is_healthy(self) -> bool:
        """Whether a tick ended lately and the last one was whole."""
        if self._last_end is None:
            return not self.stop.is_set()
        limit_s = max(10.0, LATE_TICKS * self.interval_real_s)
        return not self.trouble and (self.real_clock.now() - self._last_end).total_seconds() < limit_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The site at a glance."""

    running_gpus: int
    waiting_gpus: int
    waiting_jobs: int
    onprem_gpus: int
    rented_gpus: int
    usd_per_hour: float


def figures(record: Record) -> Figures:
    """Demand, supply and money of a tick."""
    snapshot = record.snapshot
    rented = [i for i in snapshot.instances if i.state is not InstanceState.TERMINATED]
    waiting = [j for j in snapshot.jobs if j.state is JobState.PENDING]
    return Figures(
        running_gpus=sum(j.gpus for j in snapshot.jobs if j.state is JobState.RUNNING),
        waiting_gpus=sum(j.gpus for j in waiting),
        waiting_jobs=len(waiting),
        onprem_gpus=sum(n.gpus for n in snapshot.nodes if n.instance_id is None),
        rented_gpus=sum(i.gpus for i in rented),
        usd_per_hour=sum(i.price_usd_per_hour for i in rented),
    )


def hour_line(record: Record, hour: Hour) -> str:
    """What the last hour did and why, for a person."""
    now = figures(record)
    done = [
        f"launched {hour.launched} node(s) ({hour.last_reason})" if hour.launched else "",
        f"gave back {hour.released}" if hour.released else "",
        f"moved {hour.moved} job(s)" if hour.moved else "",
    ]
    did = ", ".join(part for part in done if part) or "nothing to do: home carries it"
    return (
        f"{record.snapshot.at:%a %d %b %H:%M} UTC  {now.running_gpus} GPUs run, {now.waiting_gpus} wait"
        f" ({now.waiting_jobs} jobs) | home {now.onprem_gpus}, rented {now.rented_gpus}"
        f" at {now.usd_per_hour:.2f} USD/h | {did}"
    )


def last_action(record: Record) -> str:
    """The newest tick in one line."""
    return outcome_line(record)
