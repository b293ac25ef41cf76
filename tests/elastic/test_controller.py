"""One tick after another: what is remembered, written, settled and held when something is wrong."""

from dataclasses import replace
from datetime import timedelta

import pytest

import elastic.controller as controller_module
from elastic.ledger_port import LedgerError
from elastic.planning.advance import advance
from elastic.planning.plan import Launch, ResizeCacheGroup
from elastic.planning.policy import CachePolicy, Mode, Team
from elastic.planning.state import ControllerState
from forecast.calendar import Calendar
from providers.errors import Throttled
from providers.sim.caches import CacheSpec, SimCaches
from providers.sim.script import play_script, read_script
from tests.builders import NOW, a_policy
from tests.builders_site import ListLedger, Site, a_market, a_sim_job


class FailingLedger(ListLedger):
    """Cannot be written while `trouble` is set."""

    trouble = ""

    def write_intent(self, launch, at, *, caps=None):
        if self.trouble:
            raise LedgerError(self.trouble)
        super().write_intent(launch, at, caps=caps)

    def append(self, record, state):
        if self.trouble:
            raise LedgerError(self.trouble)
        super().append(record, state)


def overflowing(**changes):
    """Home is full, and one job more is due at once."""
    jobs = [a_sim_job("home", 32, runs_s=1e6, job_class="fixed"), a_sim_job("j", 8, at_s=1, job_class="fixed")]
    return Site(jobs, **changes)


def launches(records):
    return [a for r in records for a in r.plan.actions if isinstance(a, Launch)]


def test_the_memory_is_the_fold_of_the_records_and_nothing_else():
    site = overflowing()
    site.run(60)
    state = ControllerState()
    for record in site.ledger.records:
        state = advance(state, record)
    assert state == site.controller.state


def test_a_policy_that_changes_between_ticks_holds_from_the_next_tick_on():
    site = overflowing(policy=a_policy(mode=Mode.ADVISE))
    held = site.run(15)
    assert launches(held) == []
    assert {w.rule for r in held for w in r.plan.withheld} == {"mode_advise"}
    site.policy = a_policy(content_hash="second")
    record = site.controller.tick()
    assert launches([record])
    assert record.plan.policy_hash == "second"


def test_a_policy_that_cannot_be_told_fails_the_tick_before_anything_is_done():
    site = overflowing()
    site.run(12)
    site.controller._policy = lambda: 1 / 0
    tick = site.controller.state.tick
    with pytest.raises(ZeroDivisionError):
        site.controller.tick()
    assert site.controller.state.tick == tick


# The ledger in trouble


def test_a_ledger_in_trouble_holds_launches_and_everything_is_written_when_it_takes_it_again():
    site = overflowing(ledger=FailingLedger())
    site.ledger.trouble = "disk full"
    held = site.run(20)
    assert launches(held) == []
    assert site.cloud.instances() == ()
    assert site.controller.ledger_trouble == "disk full"
    assert any(w.rule == "protected" and "disk full" in w.detail for r in held for w in r.plan.withheld)
    site.ledger.trouble = ""
    after = site.run(2)
    assert launches(after)
    assert [r.tick for r in site.ledger.records] == list(range(1, 23))


def test_ticks_kept_for_a_ledger_in_trouble_have_a_limit_and_their_effect_stays(monkeypatch):
    monkeypatch.setattr(controller_module, "KEPT_TICKS", 5)
    site = overflowing(ledger=FailingLedger())
    site.run(30)
    usd = site.controller.state.spend.usd_day
    assert usd > 0
    site.ledger.trouble = "disk full"
    site.run(20)
    site.ledger.trouble = ""
    site.run(1)
    kept = [r.tick for r in site.ledger.records]
    assert kept == [*range(1, 31), *range(46, 52)]
    assert site.controller.state.spend.usd_day > usd


def test_a_cache_group_is_woken_on_time_although_the_ledger_fails_just_then():
    """F020: the database fails from 06:59:55 to 07:00:15; the warm-up is due at 07:00."""
    morning = NOW.replace(hour=8)  # the day begins at 09:00 with NOW, the lead is an hour
    opens = ((NOW, NOW + timedelta(hours=8)),)
    calendar = Calendar(name="office", zone="UTC", spans=opens)
    policy = a_policy(
        calendars={"office": calendar},
        teams={"alpha": Team(calendars=("office",), cache_group="g")},
        caches={"g": CachePolicy(service="sim", awake_workers=3, warm_lead="1 h")},
    )
    site = Site(policy=policy, ledger=FailingLedger())
    caches = SimCaches(site.world, [CacheSpec(name="g", team="alpha", workers=1)])
    site.ports = replace(site.ports, caches={"sim": caches})
    site.world.now_s = morning.timestamp() - 120
    site.restart(None)
    resized = []
    for _ in range(30):
        now = site.clock.now()
        bad = morning - timedelta(seconds=5) <= now <= morning + timedelta(seconds=15)
        site.ledger.trouble = "locked" if bad else ""
        record = site.controller.tick()
        resized += [now for a in record.plan.actions if isinstance(a, ResizeCacheGroup)]
        site.clock.wait(10)
    assert resized
    assert resized[0] <= morning + timedelta(seconds=45)
    assert caches.read()[0].workers_wanted == 3
    assert len(site.ledger.records) == 30


# Interruptions


def interrupted(**changes):
    site = overflowing(markets=[a_market(boot_s=60.0)], **changes)
    play_script(read_script([{"at_min": 20, "interrupt": {}}]), site.world, site.cluster, site.cloud)
    return site


class Notices:
    """A cloud that keeps telling a notice until it is acknowledged, also after the machine is gone."""

    def __init__(self, real):
        self.real, self.kept, self.settled, self.fails = real, {}, [], 0

    def __getattr__(self, name):
        return getattr(self.real, name)

    def read(self):
        reading = self.real.read()
        self.kept |= {n.id: n for n in reading.interruptions}
        return replace(reading, interruptions=tuple(self.kept.values()))

    def acknowledge(self, ids):
        if self.fails:
            self.fails -= 1
            raise Throttled("slow down")
        self.settled += ids
        for one in ids:
            self.kept.pop(one, None)


def test_a_notice_is_settled_only_when_its_machine_is_gone_and_the_tick_is_written():
    site = interrupted(ledger=FailingLedger())
    cloud = Notices(site.ports.clouds["sim"])
    site.ports = replace(site.ports, clouds={"sim": cloud})
    site.restart(None)
    site.run(21)
    assert cloud.kept
    assert cloud.settled == [], "the machine still has its two minutes"
    site.ledger.trouble = "disk full"
    site.run(4)
    assert cloud.settled == [], "not written down: it must be told again"
    site.ledger.trouble = ""
    site.run(1)
    assert len(cloud.settled) == 1
    assert cloud.kept == {}


def test_a_notice_that_cannot_be_settled_now_is_settled_later_and_counted_once():
    site = interrupted()
    cloud = Notices(site.ports.clouds["sim"])
    cloud.fails = 3
    site.ports = replace(site.ports, clouds={"sim": cloud})
    site.restart(None)
    site.run(30)
    assert len(cloud.settled) == 1
    assert len(site.controller.state.pools["burst"].losses) == 1


# Paused


def test_a_paused_controller_looks_and_does_nothing_until_its_time_is_over():
    site = overflowing()
    site.controller.pause(NOW + timedelta(minutes=30), "five ticks failed")
    held = site.run(30)
    assert launches(held) == []
    assert {(w.rule, w.detail) for r in held for w in r.plan.withheld} == {("paused", "five ticks failed")}
    assert site.controller.paused_reason
    assert launches(site.run(2))
    assert site.controller.paused_reason == ""
