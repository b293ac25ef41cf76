"""The slow beats: when each is due, what happens to runs that were missed or failed. Nothing here decides capacity.

"Due" is told by the site's clock, real or simulated, so that a simulated day has its daily summary too. apscheduler
(`beats_thread`) only wakes us often enough, on real time. Its own cron trigger is not used: across a clock change it
leaves out a midnight (F018), ours asks the wall clock of each day.

Missed runs: several are one (the newest); one that is later than its grace is not run but told. A run that fails is
tried again until its grace is over (F020).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol
from zoneinfo import ZoneInfo

from elastic.calendar_windows import instant_of
from elastic.ledger_port import LedgerError

RETRY = timedelta(seconds=30)
_MAX_MISSED = 10_000  # occurrences looked through after a long sleep; more are taken as one as well


class When(Protocol):
    """When something is due."""

    def next_after(self, at: datetime) -> datetime:
        """The first due instant after `at`."""
        ...


@dataclass(frozen=True, slots=True)
class Every:
    """On a fixed grid of seconds since 1970."""

    seconds: float

    def next_after(self, at: datetime) -> datetime:
        """See `When`."""
        slot = int(at.timestamp() // self.seconds) + 1
        return datetime.fromtimestamp(slot * self.seconds, at.tzinfo)


@dataclass(frozen=True, slots=True)
class Daily:
    """Once a local day (or only on one weekday, 0 = Monday) at a wall-clock time, whatever the clock change does."""

    minute: int  # of the day
    zone: str
    weekday: int | None = None

    def next_after(self, at: datetime) -> datetime:
        """See `When`. A time that the day leaves out comes right after the gap, one it has twice comes once."""
        zone = ZoneInfo(self.zone)
        day = at.astimezone(zone).date() - timedelta(days=1)
        for step in range(10):
            today = day + timedelta(days=step)
            due = instant_of(today, self.minute, zone, fold=0)
            if due > at and self.weekday in (None, today.weekday()):
                return due
        raise ValueError(f"no {self} within ten days after {at}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """One slow job. `run` gets the instant and returns a line for people ('' for none)."""

    name: str
    when: When
    run: Callable[[datetime], str]
    grace: timedelta
    at_start: bool = False  # due at once when it has never run


class BeatStore(Protocol):
    """Where the last run of each beat is kept over restarts."""

    def beats_done(self) -> dict[str, datetime]:
        """By name: which occurrence ran last."""
        ...

    def beat_done(self, name: str, *, due_at: datetime, done_at: datetime, note: str) -> None:
        """An occurrence ran."""
        ...


@dataclass(slots=True)
class _Next:
    due: datetime
    try_at: datetime


@dataclass(slots=True)
class Beats:
    """Runs what is due. `alert` gets a line whenever a run failed or was missed; `trouble` holds what is wrong now."""

    beats: Sequence[Beat]
    store: BeatStore
    alert: Callable[[str], None]
    trouble: dict[str, str] = field(default_factory=dict)
    _next: dict[str, _Next] = field(default_factory=dict)

    def run_due(self, now: datetime) -> list[str]:
        """Run everything that is due, one after another; the lines they return. Never raises for a beat."""
        lines: list[str] = []
        for beat in self.beats:
            coming = self._next.get(beat.name) or self._first(beat, now)
            self._next[beat.name] = coming
            if now >= coming.try_at:
                self._coalesce(beat, coming, now)
                line = self._try(beat, coming, now)
                if line:
                    lines.append(line)
        return lines

    def _first(self, beat: Beat, now: datetime) -> _Next:
        """From the last run before the restart; one never run is due at its next time, or at once."""
        try:
            last = self.store.beats_done().get(beat.name)
        except LedgerError as trouble:
            self.trouble["ledger"] = str(trouble)
            last = None
        due = now if last is None and beat.at_start else beat.when.next_after(last or now)
        return _Next(due=due, try_at=due)

    def _coalesce(self, beat: Beat, coming: _Next, now: datetime) -> None:
        """Several missed runs are one: the newest."""
        for _ in range(_MAX_MISSED):
            following = beat.when.next_after(coming.due)
            if following > now:
                return
            coming.due = following

    def _try(self, beat: Beat, coming: _Next, now: datetime) -> str:
        if now - coming.due > beat.grace:
            self._tell(beat, f"{beat.name}, due at {coming.due:%Y-%m-%d %H:%M} UTC, did not run in time")
            self._move_on(beat, coming)
            return ""
        try:
            line = beat.run(now)
        except Exception as trouble:  # noqa: BLE001 - a beat may fail in any way; the others and the loop live on
            self._tell(beat, f"{beat.name} failed: {type(trouble).__name__}: {trouble}")
            coming.try_at = now + RETRY
            return ""
        self.trouble.pop(beat.name, None)
        try:
            self.store.beat_done(beat.name, due_at=coming.due, done_at=now, note=line)
            self.trouble.pop("ledger", None)
        except LedgerError as trouble:
            self.trouble["ledger"] = str(trouble)
        self._move_on(beat, coming)
        return line

    def _move_on(self, beat: Beat, coming: _Next) -> None:
        coming.due = coming.try_at = beat.when.next_after(coming.due)

    def _tell(self, beat: Beat, line: str) -> None:
        self.trouble[beat.name] = line
        self.alert(line)
