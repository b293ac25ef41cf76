"""The slow beats: when they are due, what becomes of those that were missed or failed."""

import threading
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from elastic.beats import RETRY, Beat, Beats, Daily, Every
from elastic.beats_thread import BeatsThread
from elastic.ledger_port import LedgerError
from providers.clock import SystemClock

START = datetime(2026, 12, 1, 6, 59, 55, tzinfo=UTC)


class Store:
    """Where runs are noted; cannot be read or written while `trouble` is set."""

    def __init__(self, **done):
        self.done, self.trouble = dict(done), ""

    def beats_done(self):
        if self.trouble:
            raise LedgerError(self.trouble)
        return self.done

    def beat_done(self, name, *, due_at, done_at, note):
        if self.trouble:
            raise LedgerError(self.trouble)
        self.done[name] = due_at


class Play:
    """Beats under a clock of the test."""

    def __init__(self, *beats, store=None):
        self.alerts, self.store = [], store or Store()
        self.beats = Beats(beats=beats, store=self.store, alert=self.alerts.append)

    def until(self, start, end, *, step_s=5):
        while start <= end:
            self.beats.run_due(start)
            start += timedelta(seconds=step_s)


def a_beat(run, when=None, **changes):
    parts = {"name": "warm", "when": when or Daily(7 * 60, "UTC"), "grace": timedelta(minutes=10)}
    return Beat(run=run, **{**parts, **changes})


# When


def daily(when, start, count):
    found = []
    for _ in range(count):
        start = when.next_after(start)
        found.append(start)
    return found


def test_a_daily_midnight_is_neither_skipped_nor_doubled_across_the_spring_change():
    """F018: Los Angeles changes on 14 March 2027."""
    zone = ZoneInfo("America/Los_Angeles")
    start = datetime(2027, 3, 11, 12, tzinfo=zone).astimezone(UTC)
    runs = [at.astimezone(zone) for at in daily(Daily(0, "America/Los_Angeles"), start, 5)]
    assert [(at.day, at.hour, at.minute) for at in runs] == [(d, 0, 0) for d in (12, 13, 14, 15, 16)]


def test_a_weekly_time_stays_at_its_wall_clock_across_the_change():
    """F018: Brussels changes on 28 March 2027."""
    zone = ZoneInfo("Europe/Brussels")
    weekly = Daily(16 * 60, "Europe/Brussels", weekday=1)
    runs = [at.astimezone(zone) for at in daily(weekly, datetime(2027, 3, 23, 12, tzinfo=UTC), 3)]
    assert [(at.month, at.day, at.hour) for at in runs] == [(3, 23, 16), (3, 30, 16), (4, 6, 16)]


def test_a_time_that_the_change_leaves_out_comes_right_after_it_and_one_it_has_twice_comes_once():
    spring = daily(Daily(2 * 60 + 30, "Europe/London"), datetime(2027, 3, 27, 12, tzinfo=UTC), 2)
    assert spring[0].astimezone(ZoneInfo("Europe/London")).day == 28
    autumn = daily(Daily(60 + 30, "Europe/London"), datetime(2026, 10, 24, 12, tzinfo=UTC), 2)
    assert [at.astimezone(ZoneInfo("Europe/London")).day for at in autumn] == [25, 26]


def test_a_grid_of_seconds_is_kept_whatever_the_start():
    every = Every(3600)
    assert every.next_after(START) == datetime(2026, 12, 1, 7, tzinfo=UTC)
    assert every.next_after(datetime(2026, 12, 1, 7, tzinfo=UTC)) == datetime(2026, 12, 1, 8, tzinfo=UTC)


# What runs


def test_a_beat_runs_once_when_it_is_due():
    ran = []
    play = Play(a_beat(lambda now: ran.append(now) or "warm"))
    play.until(START, START + timedelta(hours=26))
    assert [at.hour for at in ran] == [7, 7]
    assert ran[1] - ran[0] == timedelta(days=1)
    assert play.alerts == []


def test_a_run_that_fails_is_tried_again_until_it_works():
    """F020: trouble from 06:59:55 to 07:00:15, due at 07:00: done by 07:00:45, told once, and the others ran."""
    ran, others = [], []

    def warm(now):
        if now <= START + timedelta(seconds=20):
            raise LedgerError("database is locked")
        ran.append(now)
        return ""

    play = Play(a_beat(warm), a_beat(lambda now: others.append(now) or "", name="other"))
    play.until(START, START + timedelta(minutes=5))
    assert len(ran) == 1
    assert ran[0] <= datetime(2026, 12, 1, 7, 0, 45, tzinfo=UTC)
    assert len(others) == 1
    assert len(play.alerts) == 1
    assert "database is locked" in play.alerts[0]
    assert play.beats.trouble == {}, "it works again"


@pytest.mark.parametrize("trouble", [ValueError("bad"), KeyError("x"), ZeroDivisionError("y"), OSError("z")])
def test_the_loop_lives_on_after_any_exception(trouble):
    """F020."""
    ran = []

    def breaks(now):
        raise trouble

    play = Play(a_beat(breaks), a_beat(lambda now: ran.append(now) or "", name="other", when=Every(60)))
    play.until(START, START + timedelta(minutes=10))
    assert len(ran) == 10
    assert type(trouble).__name__ in play.beats.trouble["warm"]


def test_a_run_that_never_worked_within_its_grace_is_told_as_missed():
    """F020: a planned action that did not run in time raises an alert of its own."""

    def breaks(now):
        raise ValueError("bad")

    play = Play(a_beat(breaks))
    play.until(START, START + timedelta(minutes=15))
    assert "did not run in time" in play.alerts[-1]
    tries = len(play.alerts) - 1
    assert tries <= timedelta(minutes=10) / RETRY + 1


def test_several_missed_runs_are_one_the_newest():
    ran = []
    play = Play(a_beat(lambda now: ran.append(now) or "", when=Every(60)))
    play.beats.run_due(START)
    play.beats.run_due(START + timedelta(minutes=7))
    assert len(ran) == 1
    assert play.store.done["warm"] == datetime(2026, 12, 1, 7, 6, tzinfo=UTC)


def test_after_a_restart_a_run_missed_within_its_grace_is_made_up_for():
    ran = []
    store = Store(warm=datetime(2026, 11, 30, 7, tzinfo=UTC))
    Play(a_beat(lambda now: ran.append(now) or ""), store=store).beats.run_due(START + timedelta(minutes=5))
    assert len(ran) == 1
    again = Play(a_beat(lambda now: ran.append(now) or ""), store=store)
    again.beats.run_due(START + timedelta(minutes=6))
    assert len(ran) == 1, "it is not run twice"


def test_after_a_restart_a_run_missed_long_ago_is_told_and_not_run():
    ran = []
    store = Store(warm=datetime(2026, 11, 30, 7, tzinfo=UTC))
    play = Play(a_beat(lambda now: ran.append(now) or ""), store=store)
    play.beats.run_due(START + timedelta(hours=3))
    assert ran == []
    assert "did not run in time" in play.alerts[0]


def test_a_store_that_cannot_be_read_or_written_stops_no_beat():
    ran, store = [], Store()
    store.trouble = "locked"
    play = Play(a_beat(lambda now: ran.append(now) or "", at_start=True), store=store)
    play.until(START, START + timedelta(minutes=1))
    assert len(ran) == 2, "at the start, and at seven"
    assert play.beats.trouble == {"ledger": "locked"}
    store.trouble = ""
    play.until(START + timedelta(days=1), START + timedelta(days=1, minutes=1))
    assert play.beats.trouble == {}


def test_a_beat_that_never_ran_may_be_due_at_the_start():
    ran = []
    Play(a_beat(lambda now: ran.append(now) or "", at_start=True)).beats.run_due(START)
    Play(a_beat(lambda now: ran.append(now) or "")).beats.run_due(START)
    assert len(ran) == 1


# The thread


def test_the_thread_looks_and_its_end_waits_for_no_beat():
    """Ctrl-C must not wait for a forecast that is being made."""
    begun, free = threading.Event(), threading.Event()

    def look():
        begun.set()
        free.wait(30)

    thread = BeatsThread(look)
    thread.start()
    assert begun.wait(10)
    clock = SystemClock()
    before = clock.now()
    thread.stop()
    assert clock.now() - before < timedelta(seconds=1)
    free.set()


def test_a_thread_that_was_never_started_can_be_ended():
    BeatsThread(lambda: None).stop()
