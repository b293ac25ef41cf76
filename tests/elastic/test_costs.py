"""Costs: every node-second once, at the price that held, to the job that had it; nothing twice."""

from dataclasses import replace
from datetime import timedelta

import pytest

from elastic.books import Books
from elastic.costs import BOOTING, IDLE, JOB, MINIMUM, MORE_JOBS, UNWATCHED, Meter
from elastic.costs_ledger import CostsLedger, total
from elastic.ledger import SqlLedger
from elastic.ledger_books import LedgerBooks
from elastic.planning.cost import ASSUMED, LAST_GOOD, NO_PRICE
from elastic.planning.policy import Guard
from elastic.planning.snapshot import Reading
from providers.facts import CapacityType, InstanceState, NodeState
from tests.builders import NOW, a_node, a_snapshot, an_instance, an_offering, running
from tests.builders_site import Site, a_sim_job
from tests.simulation.desk import DrawnSite

OFFERINGS = (an_offering(),)


def at(seconds):
    return NOW + timedelta(seconds=seconds)


def seen(seconds, *instances, jobs=(), nodes=None, offerings=OFFERINGS):
    """A tick's snapshot; machines that run have a node of their name unless told otherwise."""
    made = [a_node(i.id, pool="burst", instance_id=i.id) for i in instances] if nodes is None else nodes
    return a_snapshot(at=at(seconds), instances=instances, jobs=jobs, nodes=tuple(made), offerings=offerings)


def metered(*snapshots, mark=None, last_good=None, meter=None):
    meter = meter or Meter(mark)
    for snapshot in snapshots:
        meter.add(snapshot, guard=Guard(), last_good=last_good or {})
    return meter


def by(meter, *fields):
    """USD by some fields of the key."""
    sums = {}
    for key, cost in meter.pending.items():
        name = tuple(getattr(key, f) for f in fields)
        name = name[0] if len(fields) == 1 else name
        sums[name] = sums.get(name, 0.0) + cost.usd
    return {name: pytest.approx(usd) for name, usd in sums.items()}


def seconds(meter):
    return sum(cost.seconds for cost in meter.pending.values())


def test_a_machine_that_comes_back_into_the_listings_after_hours_is_not_charged_twice():
    machine = an_instance("i")
    there = [seen(n * 600, machine) for n in range(31)]
    hidden = [seen(18_000 + n * 600) for n in range(1, 11)]
    meter = metered(*there, *hidden, seen(24_600, machine))
    assert seconds(meter) <= 24_600
    assert total(meter.pending.items()).usd <= 4.0 * 24_600 / 3600 + 1e-9


def test_nothing_is_charged_on_an_old_listing_and_the_next_whole_one_says_when_a_machine_ended():
    """F007: the cost stops when the machine does, also during an outage of the listing."""
    machine = an_instance("i")
    trouble = (Reading(source="cloud:sim", read_at=at(600), error="unreachable: down"),)
    old = [replace(seen(n * 60, machine), readings=trouble) for n in range(11, 60)]
    ended = replace(machine, state=InstanceState.TERMINATED, terminated_at=at(720))
    meter = metered(*[seen(n * 60, machine) for n in range(11)], *old, seen(3600, ended))
    assert seconds(meter) == 720
    assert total(meter.pending.items()).usd == pytest.approx(4.0 * 720 / 3600)


def test_a_machine_costs_the_price_of_each_reading_since_the_reading_before():
    """Four dollars an hour for the first minute, eight for the second."""
    machine = an_instance("i")
    meter = metered(seen(0, machine), seen(60, machine), seen(120, replace(machine, price_usd_per_hour=8.0)))
    assert total(meter.pending.items()).usd == pytest.approx(4 / 60 + 8 / 60)
    assert seconds(meter) == 120


def test_a_nodes_cost_goes_to_its_jobs_by_their_gpus_and_the_rest_is_idle():
    machine = an_instance("i")
    jobs = (running("two", 2, ("i",), NOW), running("four", 12, ("i", "home"), NOW, node_gpus=(4, 8)))
    meter = metered(seen(0, machine), seen(3600, machine, jobs=jobs, nodes=[a_node("i", instance_id="i")]))
    assert by(meter, "job", "spent_on") == {("two", JOB): 1.0, ("four", JOB): 2.0, ("", UNWATCHED): 1.0}
    meter = metered(*(seen(60 * n, machine, jobs=jobs) for n in range(61)))
    assert by(meter, "job", "spent_on") == {("two", JOB): 1.0, ("four", JOB): 2.0, ("", IDLE): 1.0}


def test_a_gang_without_told_gpus_is_spread_evenly_over_its_nodes():
    machines = an_instance("i"), an_instance("k")
    jobs = (running("gang", 16, ("i", "k"), NOW),)
    meter = metered(*(seen(60 * n, *machines, jobs=jobs) for n in range(11)))
    assert by(meter, "job") == {"gang": 8 * 600 / 3600}


def test_a_job_pays_from_its_start_and_before_it_the_node_was_idle_or_booted():
    machine = an_instance("i")
    jobs = (running("j", 8, ("i",), at(90)),)
    node = a_node("i", pool="burst", instance_id="i", ready_at=at(75))
    meter = metered(
        seen(0, machine, nodes=[]), seen(60, machine, nodes=[]), seen(120, machine, jobs=jobs, nodes=[node])
    )
    per_s = 4.0 / 3600
    assert by(meter, "job", "spent_on") == {
        ("", BOOTING): 75 * per_s, ("", IDLE): 15 * per_s, ("j", JOB): 30 * per_s,
    }  # fmt: skip


def test_a_node_that_joins_but_takes_no_work_yet_is_booting():
    machine = an_instance("i")
    joining = [a_node("i", pool="burst", instance_id="i", state=NodeState.JOINING)]
    meter = metered(seen(0, machine), seen(60, machine, nodes=joining))
    assert list(by(meter, "spent_on")) == [BOOTING]


def test_cost_stops_when_the_cloud_says_terminated_whatever_the_node_still_claims():
    """F007: terminated at 120 s, its job has a grace period of two hours."""
    machine = an_instance("i")
    gone = replace(machine, state=InstanceState.TERMINATED, terminated_at=at(120))
    jobs = (running("j", 8, ("i",), NOW),)
    ticks = [seen(0, machine, jobs=jobs), seen(60, machine, jobs=jobs)]
    ticks += [seen(60 * n, gone, jobs=jobs) for n in range(3, 60)]
    assert seconds(metered(*ticks)) == 120


def test_a_machine_that_lived_ten_seconds_costs_its_minute_and_not_more():
    machine = an_instance("i", requested_at=at(5))
    gone = replace(machine, state=InstanceState.TERMINATED, terminated_at=at(15))
    meter = metered(seen(0), seen(30, gone), seen(60, gone), seen(90, gone), seen(3000, gone))
    assert seconds(meter) == 60
    assert by(meter, "spent_on") == {IDLE: 10 * 4 / 3600, MINIMUM: 50 * 4 / 3600}


def test_a_machine_that_listings_lose_costs_until_it_was_seen_and_at_least_its_minute():
    machine = an_instance("i", requested_at=at(10))
    meter = metered(seen(0), seen(30, machine), seen(60), seen(90), seen(120))
    assert seconds(meter) == 60
    assert by(meter, "spent_on")[MINIMUM] == 40 * 4 / 3600


def test_a_machine_that_a_listing_lacks_once_costs_the_time_between_too():
    machine = an_instance("i")
    assert seconds(metered(seen(0, machine), seen(120, machine), seen(180), seen(240, machine))) == 240


def test_a_machine_first_listed_late_costs_from_its_request():
    machine = an_instance("i", requested_at=at(10))
    assert seconds(metered(seen(0), seen(60), seen(120), seen(180, machine))) == 170


def test_an_interval_over_midnight_belongs_to_both_days():
    machine = an_instance("i")
    eve = 15 * 3600 - 30  # NOW is nine in the morning
    meter = metered(seen(eve, machine), seen(eve + 60, machine), mark=at(eve))
    assert by(meter, "day") == {"2026-12-01": 30 * 4 / 3600, "2026-12-02": 30 * 4 / 3600}
    assert meter.usd_by_team("2026-12-02") == {"": pytest.approx(30 * 4 / 3600)}


# Prices


def priced(machine, last_good):
    meter = metered(seen(0, machine), seen(3600 / 4, machine), last_good=last_good)
    ((key, cost),) = meter.pending.items()
    return key.source, key.estimated, pytest.approx(cost.usd * 4)


def test_a_price_keeps_its_source():
    assert priced(an_instance("i", price_source="EC2 spot price history"), {}) == ("EC2 spot price history", False, 4.0)


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_no_price_is_not_zero_but_the_last_good_one_or_the_types_on_demand_price(bad):
    """F015 (c)."""
    machine = an_instance("i", price_usd_per_hour=bad)
    assert priced(machine, {"x/a/spot": 3.5, "x/b/on-demand": 12.0}) == (LAST_GOOD, True, 3.5)
    of_the_type = {"x/b/on-demand": 12.0, "x/c/on-demand": 13.0, "y/a/on-demand": 99.0}
    assert priced(machine, of_the_type) == (ASSUMED, True, 13.0)


def test_hours_without_any_price_are_counted_and_named_not_hidden():
    meter = metered(
        seen(0, an_instance("i", price_usd_per_hour=0.0)), seen(60, an_instance("i", price_usd_per_hour=0.0))
    )
    ((key, cost),) = meter.pending.items()
    assert (key.source, key.estimated, cost) == (NO_PRICE, True, (60.0, 0.0))


def test_a_price_a_thousand_times_too_low_is_not_believed():
    """F015 (a): 32.77 that turns 0.0328."""
    machine = an_instance("i", price_usd_per_hour=0.0328)
    source, estimated, usd = priced(machine, {"x/a/spot": 32.77})
    assert (estimated, usd) == (True, 32.77)
    assert LAST_GOOD in source


def test_a_capacity_block_is_paid_in_advance():
    block = an_instance("i", capacity_type=CapacityType.RESERVED, price_usd_per_hour=0.0, price_source="prepaid")
    assert priced(block, {"x/a/on-demand": 12.0}) == ("prepaid", False, 0.0)


def test_a_price_from_a_source_whose_offerings_are_estimates_is_one():
    machine = an_instance("i", price_source="bundled table")
    offering = replace(an_offering(), price_source="bundled table", estimated=True)
    meter = metered(seen(0, machine), seen(60, machine, offerings=(offering,)))
    assert [key.estimated for key in meter.pending] == [True]


# Bounds, gaps and restarts


def test_more_jobs_than_may_be_kept_lose_their_names_and_not_their_money(monkeypatch):
    monkeypatch.setattr("elastic.costs.MOST_KEYS", 3)
    machine = an_instance("i")
    jobs = tuple(running(f"j{n}", 1, ("i",), NOW) for n in range(8))
    meter = metered(seen(0, machine, jobs=jobs), seen(1200, machine, jobs=jobs))
    assert total(meter.pending.items()).usd == pytest.approx(4 / 3)
    assert len(meter.pending) <= 5
    assert MORE_JOBS in by(meter, "job")


def test_the_time_while_the_service_was_down_is_estimated_and_from_then_on_it_is_not():
    machine = an_instance("i")
    meter = metered(seen(7200, machine), seen(7260, machine), mark=at(3600))
    assert by(meter, "estimated", "spent_on") == {(True, UNWATCHED): 4.0, (False, IDLE): 4 / 60}


def test_a_long_silence_within_a_run_is_estimated_too():
    machine = an_instance("i")
    meter = metered(seen(0, machine), seen(60, machine), seen(7260, machine))
    assert by(meter, "estimated") == {False: 4 / 60, True: 8.0}


def test_without_a_mark_nothing_before_the_first_tick_is_charged():
    machine = an_instance("i", requested_at=at(-86400))
    assert seconds(metered(seen(0, machine), seen(60, machine), mark=None)) == 60


def test_time_that_runs_back_is_not_charged_again():
    machine = an_instance("i")
    meter = metered(seen(0, machine), seen(120, machine), seen(60, machine), seen(180, machine))
    assert seconds(meter) == 180
    assert seconds(metered(seen(60, machine), seen(120, machine), mark=at(600))) == 0


def test_a_machine_that_ended_and_was_charged_costs_nothing_after_a_restart():
    gone = an_instance("i", state=InstanceState.TERMINATED, terminated_at=at(10))
    before = metered(seen(0), seen(30, gone), mark=NOW)
    after = metered(seen(60, gone), seen(90, gone), mark=at(30))
    assert seconds(before) + seconds(after) == 60


# Books and ledger


@pytest.fixture
def ledger(tmp_path):
    opened = SqlLedger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    yield opened
    opened.close()


def run_with_books(site, books, ticks, policy, step_s=60.0):
    for _ in range(ticks):
        record = site.controller.tick()
        books.after_tick(record, site.controller.state, policy)
        site.clock.wait(step_s)


def overflowing():
    """Home is full for good, and one job more needs a machine for good."""
    return [a_sim_job(name, gpus, runs_s=1e6, job_class="fixed") for name, gpus in (("home", 32), ("j", 8))]


def test_costs_of_a_simulated_day_are_the_days_and_the_budgets_money(tmp_path):
    """Two drawn days with interruptions, dry markets and boots that fail: what is costed by job, what the day tells and
    what the caps are held against are one sum. Only `Spend` gives an interval over midnight to the new day whole; and
    where listings hide a machine, it misses time that the costs have.
    """
    site = DrawnSite(seed=3, url=f"sqlite:///{tmp_path / 'site.sqlite'}", days=2, faults=[])
    books = Books(LedgerBooks(site.ledger))
    spent = {}
    for _ in range(42 * 60):
        record = site.controller.tick()
        books.after_tick(record, site.controller.state, site.policy)
        spend = site.controller.state.spend
        spent[spend.day] = spend.usd_day
        site.clock.wait(60)
    books.write_down()
    costs = CostsLedger(site.ledger.engine)
    days = costs.days()
    assert set(days) == {day for day, usd in spent.items() if usd}
    assert len(days) >= 2
    for day in days:
        usd = total(costs.rows(day, day)).usd
        kept = LedgerBooks(site.ledger).day(day)
        assert kept.usd == pytest.approx(usd, rel=1e-9)
        assert sum(kept.team_usd.values()) == pytest.approx(usd, rel=1e-9)
        assert spent[day] == pytest.approx(usd, abs=60 / 60)  # one minute of the hourly cap, at midnight
    assert sum(spent.values()) == pytest.approx(total(costs.rows(days[0], days[-1])).usd, rel=1e-9)
    site.ledger.close()


def test_a_crash_loses_at_most_the_unwritten_hour_and_counts_nothing_twice(ledger):
    """The machine's whole time is in the books after a restart; what nobody had written is an estimate."""
    site = Site(overflowing(), ledger=ledger)
    run_with_books(site, Books(LedgerBooks(ledger)), 150, site.policy)  # and it dies, half an hour after the last hour
    site.restart(ledger.rebuild_state())
    site.clock.wait(600)
    books = Books(LedgerBooks(ledger))
    run_with_books(site, books, 50, site.policy)
    books.write_down()
    rows = CostsLedger(ledger.engine).rows("2026-12-01", "2026-12-01")
    (machine,) = site.cloud.instances()
    lived_s = (site.controller.state.at - machine.requested_at).total_seconds()
    assert total(rows).seconds == pytest.approx(lived_s)
    estimated = total([r for r in rows if r[0].estimated])
    assert 600 <= estimated.seconds <= 3600 + 660
    assert LedgerBooks(ledger).day("2026-12-01").usd == pytest.approx(total(rows).usd)


def test_a_ledger_that_cannot_be_written_keeps_the_costs_until_it_can(ledger):
    site = Site(overflowing())  # the ticks' own ledger is another
    books = Books(LedgerBooks(ledger))
    run_with_books(site, books, 30, site.policy)
    with ledger.engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
    run_with_books(site, books, 200, site.policy)
    with ledger.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count=1000000")
    books.write_down()
    assert books.trouble == ""
    (machine,) = site.cloud.instances()
    lived_s = (site.controller.state.at - machine.requested_at).total_seconds()
    assert total(CostsLedger(ledger.engine).rows("2026-12-01", "2026-12-01")).seconds == pytest.approx(lived_s)


def test_costs_and_their_mark_are_written_together_and_added_to_what_is_there(ledger):
    costs, machine = CostsLedger(ledger.engine), an_instance("i", team="alpha")
    assert costs.mark() is None
    meter = metered(seen(0, machine), seen(60, machine))
    for minute in (2, 3):
        costs.add(meter.pending, until=meter.until)
        meter.written()
        assert costs.mark() == at(60 * (minute - 1))
        metered(seen(60 * minute, machine), meter=meter)
    costs.add(meter.pending, until=meter.until)
    rows = costs.rows("2026-12-01", "2026-12-01")
    assert len(rows) == 1
    assert rows[0][1].seconds == pytest.approx(180)
    assert costs.usd_by_team("2026-12-01") == {"alpha": pytest.approx(180 * 4 / 3600)}


def test_old_days_forget_their_jobs_and_keep_their_money(ledger):
    costs, machine = CostsLedger(ledger.engine), an_instance("i")
    jobs = (running("a", 4, ("i",), NOW), running("b", 4, ("i",), NOW))
    meter = metered(seen(0, machine, jobs=jobs), seen(600, machine, jobs=jobs))
    costs.add(meter.pending, until=meter.until)
    before = total(costs.rows("2026-12-01", "2026-12-01"))
    assert costs.merge_jobs("2026-12-01") == 0
    assert costs.merge_jobs("2026-12-02") == 1
    rows = costs.rows("2026-12-01", "2026-12-01")
    assert [(key.job, key.spent_on) for key, _ in rows] == [("", JOB)]
    assert total(rows) == pytest.approx(before)
