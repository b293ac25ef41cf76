"""The always-on controller: the loop, its hourly line, its health. Started by `elastic run`, shown by `web`.

A tick may fail in any way: it is counted, the pause before the next grows, and after some in a row the controller
only looks for a while. The loop itself ends only when it is told to.
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from elastic.beats import Beats
from elastic.books import Books
from elastic.controller import Controller
from elastic.figures import Hour, hour_line
from elastic.log import EventLog
from elastic.metrics import Metrics
from elastic.planning.policy import Policy
from elastic.planning.state import Record
from elastic.settings import TICK_S
from providers.ports import Clock

# Health turns bad when no tick ended within this many intervals (F020), and never sooner than some seconds.
LATE_TICKS, SOONEST_LATE_S = 3, 10.0
KEPT_LINES = 48
KEPT_PLANS = 8
MAX_PAUSE_S = 300.0
# So many failed ticks in a row pause the controller for so long of the site's time: a bug that acts wrongly and then
# breaks must not act every minute.
PAUSE_AFTER, PAUSE = 5, timedelta(minutes=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """`trouble` is empty when all is well; `notes` are things a person should know that need no alarm."""

    ok: bool
    trouble: tuple[str, ...]
    notes: tuple[str, ...]
    since_tick_s: float | None


class Service:
    """The loop over a controller. `say` gets lines for people; `stop` ends it between two ticks, `wake` hurries it.
    Ticks are `interval_s` of the site's time apart, which runs `speed` times as fast as the real one."""

    def __init__(
        self,
        controller: Controller,
        *,
        clock: Clock,
        real_clock: Clock,
        policy: Callable[[], Policy],
        books: Books,
        beats: Beats,
        say: Callable[[str], None],
        interval_s: float = TICK_S,
        speed: float = 1.0,
        policy_notes: Callable[[], tuple[str, ...]] = tuple,
        log: EventLog | None = None,
        adopt: Callable[[Record], None] = lambda record: None,
        beat: Callable[[datetime], None] = lambda at: None,
    ) -> None:
        self.log, self._adopt, self._beat = log or EventLog(), adopt, beat
        self.controller, self.books, self.beats, self.metrics = controller, books, beats, Metrics()
        self.policy, self._policy_notes = policy, policy_notes
        self._clock, self._real_clock, self._say = clock, real_clock, say
        self._interval_s, self._interval_real_s = interval_s, interval_s / speed
        self.stop, self.wake = threading.Event(), threading.Event()
        self.record: Record | None = None
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        self.acted: deque[Record] = deque(maxlen=KEPT_PLANS)
        self.failure, self.failures = "", 0
        self._hour = Hour()
        self._next_line_at: datetime | None = None
        self._last_end: datetime | None = None

    def run(self) -> None:
        """Tick until stopped."""
        self._last_end = self._real_clock.now()
        while not self.stop.is_set():
            self.wake.clear()  # before the tick: news that comes while it runs hurries the next one
            self.step()
            self._clock.wait(self._interval_s, until=self._is_hurried)

    def step(self) -> None:
        """One tick, whatever becomes of it."""
        began = self._real_clock.now()
        try:
            record = self.controller.tick()
            self._keep(record, tick_s=(self._real_clock.now() - began).total_seconds())
            self.failure, self.failures = "", 0
            self._last_end = self._real_clock.now()
            self._beat(self._last_end)
        except Exception as trouble:  # noqa: BLE001 - the loop outlives any tick; the failure is counted and shown
            self._failed(trouble)

    def say(self, line: str) -> None:
        """A line for people: on the terminal and on the page."""
        self.lines.appendleft(line)
        self._say(line)

    def health(self) -> Health:
        """Whether ticks end, in time and whole, and are written down."""
        trouble, since_s = [], None
        if self._last_end is not None:
            since_s = (self._real_clock.now() - self._last_end).total_seconds()
            if since_s > max(SOONEST_LATE_S, LATE_TICKS * self._interval_real_s):
                trouble.append(f"no tick has ended for {since_s:.0f} s")
        if self.failure:
            trouble.append(f"{self.failures} tick(s) failed in a row: {self.failure}")
        if self.controller.ledger_trouble:
            trouble.append(self.controller.ledger_trouble)
        if self.controller.paused_reason:
            trouble.append(f"paused: {self.controller.paused_reason}")
        return Health(ok=not trouble, trouble=tuple(trouble), notes=self._notes(), since_tick_s=since_s)

    def _notes(self) -> tuple[str, ...]:
        sources = self.record.snapshot.trouble() if self.record else ()
        notes = [f"{r.source} read last at {r.read_at:%H:%M:%S}: {r.error}" for r in sources]
        notes += self.beats.trouble.values()
        return (*notes, *self._policy_notes(), *([self.books.trouble] if self.books.trouble else []))

    def _is_hurried(self) -> bool:
        return self.stop.is_set() or self.wake.is_set()

    def _keep(self, record: Record, *, tick_s: float) -> None:
        self.record = record
        self.books.after_tick(record, self.controller.state, self.policy())
        self.metrics.after_tick(record, self.controller.state, tick_s=tick_s)
        self.log.after_tick(record)
        if not self.controller.ledger_trouble:
            self._adopt(record)
        self._hour.add(record)
        if record.outcomes:
            self.acted.appendleft(record)
        at = record.snapshot.at
        if self._next_line_at is None or at >= self._next_line_at:
            self.say(hour_line(record, self._hour, self.controller.state.spend))
            self._hour = Hour()
            self._next_line_at = at.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)

    def _failed(self, trouble: Exception) -> None:
        self.failures += 1
        self.failure = f"{type(trouble).__name__}: {trouble}"
        self.metrics.tick_failed()
        self.log.event("tick_failed", at=self._clock.now().isoformat(), in_a_row=self.failures, error=self.failure)
        self.say(f"tick failed ({self.failures} in a row): {self.failure}")
        if self.failures == PAUSE_AFTER:
            until = self._clock.now() + PAUSE
            self.controller.pause(until, f"{self.failures} ticks failed in a row, the last with {self.failure}")
        self._real_clock.wait(min(MAX_PAUSE_S, 2.0**self.failures), until=self.stop.is_set)
