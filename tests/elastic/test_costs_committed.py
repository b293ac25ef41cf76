"""Committed money: the minute begun, launches in flight, reserved capacity to its end; nothing that can be stopped."""

from dataclasses import replace
from datetime import timedelta

import pytest

from elastic.costs_committed import COMING, RESERVED, YOUNG, commitments
from elastic.costs_report import By, cost_lines
from elastic.planning.plan import Launch
from elastic.planning.policy import Guard
from elastic.planning.state import ControllerState, InFlight
from providers.facts import CapacityType, InstanceState
from tests.builders import NOW, a_snapshot, an_instance, an_offering

DAY, NEXT = "2026-12-01", "2026-12-02"


def committed(*instances, flights=(), at=NOW):
    state = ControllerState(in_flight={f.launch.token: f for f in flights})
    return commitments(a_snapshot(at=at, instances=instances), state, Guard())


def in_flight(nodes, *, ids=(), listed=()):
    dear = replace(an_offering(), capacity_type=CapacityType.ON_DEMAND, price_usd_per_hour=12.0)
    launch = Launch(
        pool="burst", nodes=nodes, gang=False, offerings=(an_offering(), dear), token="one", needed_by=NOW, reason="",
        team="alpha",
    )  # fmt: skip
    return InFlight(launch=launch, asked_at=NOW, instance_ids=ids, listed_ids=listed)


def usd(found, first=DAY, last=DAY):
    return sum(c.usd(first, last) for c in found)


def test_a_machine_commits_the_rest_of_its_first_minute_and_then_nothing():
    young = an_instance("i", requested_at=NOW - timedelta(seconds=20))
    (found,) = committed(young)
    assert (found.why, found.usd(DAY, DAY)) == (YOUNG, pytest.approx(40 * 4 / 3600))
    assert committed(an_instance("i", requested_at=NOW - timedelta(seconds=60))) == []


def test_a_machine_that_ended_young_still_owes_its_minute():
    ended = an_instance("i", requested_at=NOW - timedelta(seconds=20), state=InstanceState.TERMINATED)
    assert usd(committed(ended)) == pytest.approx(40 * 4 / 3600)


def test_a_launch_in_flight_commits_a_minute_of_each_machine_not_listed_at_the_dearest_price():
    (found,) = committed(flights=[in_flight(3)])
    assert (found.why, found.team, found.pool) == (COMING, "alpha", "burst")
    assert found.usd(DAY, DAY) == pytest.approx(3 * 12 / 60)
    old = an_instance("a", token="one", requested_at=NOW - timedelta(minutes=5))
    assert usd(committed(old, flights=[in_flight(3)])) == pytest.approx(2 * 12 / 60)
    assert usd(committed(old, flights=[in_flight(2, ids=("a", "b"))])) == pytest.approx(12 / 60)
    assert committed(old, flights=[in_flight(1, ids=("b",), listed=("b",))]) == []


def test_reserved_capacity_is_committed_until_its_end_each_day_its_part():
    block = an_instance(
        "i", capacity_type=CapacityType.RESERVED, price_usd_per_hour=10.0, requested_at=NOW - timedelta(hours=1),
        ends_at=NOW + timedelta(hours=20),
    )  # fmt: skip
    (found,) = committed(block)
    assert found.why == RESERVED
    assert (found.usd(DAY, DAY), found.usd(NEXT, NEXT)) == (pytest.approx(150.0), pytest.approx(50.0))
    assert found.usd("2026-12-01", "2026-12-31") == pytest.approx(200.0)
    assert committed(replace(block, state=InstanceState.TERMINATED)) == []


def test_the_hard_lease_of_other_machines_commits_nothing_for_they_can_be_given_back():
    leased = an_instance("i", requested_at=NOW - timedelta(hours=1), ends_at=NOW + timedelta(hours=20))
    assert committed(leased) == []


@pytest.mark.parametrize(
    ("by", "names"),
    [
        (By.TEAM, {"alpha", "(no team)"}), (By.POOL, {"burst"}), (By.JOB, {f"({COMING})", f"({YOUNG})"}),
        (By.DAY, {DAY}), (By.OFFERING, {"x/a/spot"}),
    ],
)  # fmt: skip
def test_committed_money_is_in_the_lines_and_the_total_whatever_the_lines_are(by, names):
    found = committed(an_instance("i"), flights=[in_flight(1)])
    lines, total = cost_lines([], found, by=by, first=DAY, last="2026-12-31")
    assert {line.name for line in lines} == names
    assert sum(line.committed_usd for line in lines) == pytest.approx(total.committed_usd)
    assert total.committed_usd == pytest.approx((4 + 12) / 60)


def test_commitments_outside_the_days_asked_for_are_no_lines():
    lines, total = cost_lines([], committed(an_instance("i")), by=By.TEAM, first="2026-11-01", last="2026-11-30")
    assert (lines, total.committed_usd) == ([], 0.0)
