"""The always-on loop: it outlives any tick, tells people every hour, and its health turns bad when it should."""

from datetime import timedelta

import pytest

from elastic.beats import Beats
from elastic.books import Books
from elastic.ledger import SqlLedger
from elastic.ledger_books import LedgerBooks
from elastic.planning.plan import Launch
from elastic.service import PAUSE, PAUSE_AFTER, Service
from tests.builders import NOW
from tests.builders_site import Site, a_sim_job


class HandClock:
    """A clock of the test: waiting moves it on, and is written down."""

    def __init__(self):
        self.at, self.waits = NOW, []

    def now(self):
        return self.at

    def wait(self, seconds, *, until=None):
        self.waits.append(seconds)
        if until is None or not until():
            self.at += timedelta(seconds=seconds)


class Desk:
    """A service over a small site, with a hand clock for the real time."""

    def __init__(self, folder, jobs=()):
        self.ledger = SqlLedger(f"sqlite:///{folder / 'ledger.sqlite'}")
        self.site = Site(jobs, ledger=self.ledger)
        self.real, self.said = HandClock(), []
        books = LedgerBooks(self.ledger)
        self.service = Service(
            self.site.controller,
            clock=self.site.clock,
            real_clock=self.real,
            policy=lambda: self.site.policy,
            books=Books(books),
            beats=Beats(beats=[], store=books, alert=self.said.append),
            say=self.said.append,
            interval_s=60.0,
        )

    def steps(self, count):
        for _ in range(count):
            self.service.step()
            self.site.clock.wait(60)
            self.real.at += timedelta(seconds=60)

    def break_ticks(self, trouble):
        def broken():
            raise trouble

        self.real_tick, self.site.controller.tick = self.site.controller.tick, broken

    def mend_ticks(self):
        self.site.controller.tick = self.real_tick


@pytest.fixture
def desk(tmp_path):
    jobs = [a_sim_job("home", 32, runs_s=1e6, job_class="fixed"), a_sim_job("j", 8, at_s=1, job_class="fixed")]
    made = Desk(tmp_path, jobs)
    yield made
    made.ledger.close()


@pytest.mark.parametrize("trouble", [ValueError("bad"), KeyError("node"), AssertionError("promise"), RuntimeError()])
def test_the_loop_lives_on_after_any_exception_and_says_so(desk, trouble):
    """F020."""
    desk.steps(2)
    desk.break_ticks(trouble)
    desk.steps(1)
    health = desk.service.health()
    assert not health.ok
    assert type(trouble).__name__ in health.trouble[0]
    assert any("tick failed (1 in a row)" in line for line in desk.said)
    desk.mend_ticks()
    desk.steps(1)
    assert desk.service.health().ok
    assert desk.service.controller.state.tick == 3


def test_the_pause_before_the_next_tick_grows_with_failures_and_has_a_limit(desk):
    desk.break_ticks(ValueError("bad"))
    desk.steps(12)
    assert desk.real.waits[:4] == [2.0, 4.0, 8.0, 16.0]
    assert max(desk.real.waits) == 300.0


def test_after_some_failures_in_a_row_it_only_looks_for_a_while(desk):
    desk.steps(5)
    desk.break_ticks(ValueError("bad"))
    desk.steps(PAUSE_AFTER)
    desk.mend_ticks()
    minutes = int(PAUSE.total_seconds() / 60)
    desk.steps(minutes - 1)
    assert desk.site.cloud.instances() == ()
    assert any("paused" in line for line in desk.service.health().trouble)
    desk.steps(5)
    assert desk.service.health().ok
    assert desk.site.cloud.instances()


def test_health_is_bad_when_no_tick_has_ended_within_three_intervals(desk):
    """F020: a loop that hangs is seen from outside."""
    desk.steps(1)
    desk.real.at += timedelta(seconds=110)
    assert desk.service.health().ok
    desk.real.at += timedelta(seconds=30)
    health = desk.service.health()
    assert not health.ok
    assert "no tick has ended for" in health.trouble[0]


def test_a_source_in_trouble_is_a_note_and_no_alarm(desk):
    desk.site.cluster.trouble = "page 3 failed"
    desk.steps(1)
    health = desk.service.health()
    assert health.ok
    assert any("page 3 failed" in note for note in health.notes)


def test_it_tells_one_line_an_hour_of_what_it_did_and_why(desk):
    desk.steps(181)
    lines = [line for line in desk.said if "GPUs run" in line]
    assert len(lines) == 4
    assert "launched 1 node(s)" in " ".join(lines)
    assert "ago, to start within" in " ".join(lines)


def test_what_acted_is_kept_for_the_page_and_no_more_than_a_few(desk):
    desk.steps(120)
    assert desk.service.acted
    assert len(desk.service.acted) <= 8
    assert any(isinstance(a, Launch) for r in desk.service.acted for a in r.plan.actions)


def test_the_end_comes_between_two_ticks(desk):
    def stop_at_three():
        record = desk.real_tick()
        if record.tick == 3:
            desk.service.stop.set()
        return record

    desk.real_tick, desk.site.controller.tick = desk.site.controller.tick, stop_at_three
    desk.service.run()
    assert desk.service.controller.state.tick == 3
    assert desk.ledger.rebuild_state() == desk.service.controller.state


def test_books_that_cannot_be_written_do_not_stop_the_ticks(desk):
    desk.steps(30)
    with desk.ledger.engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
    desk.steps(600)
    assert desk.service.controller.state.tick == 630
    health = desk.service.health()
    assert not health.ok
    assert any("free space" in line for line in health.trouble)


def test_news_that_comes_while_a_tick_runs_hurries_the_next_one(tmp_path):
    """From a notice to the cordon must be seconds, whatever the pause between two ticks."""
    desk = Desk(tmp_path)
    began, tick = [], desk.service.controller.tick

    def ticking():
        began.append(desk.site.clock.now())
        if len(began) == 1:
            desk.service.wake.set()  # a notice, after the snapshot was taken
        if len(began) == 3:
            desk.service.stop.set()
        return tick()

    desk.service.controller.tick = ticking
    desk.service.run()
    assert began[1] - began[0] < timedelta(seconds=60)
    assert began[2] - began[1] >= timedelta(seconds=60)


def test_every_tick_that_ended_well_is_a_heartbeat_and_a_broken_one_is_not(tmp_path):
    desk, beats = Desk(tmp_path), []
    desk.service._beat = beats.append
    desk.steps(2)
    desk.break_ticks(KeyError("x"))
    desk.steps(1)
    assert len(beats) == 2
