"""F001 and F002: a launch that is called off in flight, and a controller that dies around its launch call."""

from dataclasses import replace
from datetime import timedelta

import pytest

from elastic.ledger import SqlLedger
from elastic.planning.state import Lease
from providers.aws.account import ENDS_AT_TAG, OWNER_TAG, TOKEN_TAG
from providers.aws.cloud import AwsCloud
from providers.aws.records import tags_of
from providers.errors import NotFound, Unreachable
from providers.facts import CapacityType, InstanceState, JobState, LaunchRequest
from providers.sim.aws.trouble import AwsTrouble
from tests.aws.site import AwsSite, a_job, launches, terminations, without_leases
from tests.builders import NOW
from tests.simulation.desk import Crash, CrashableLedger


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'ledger.sqlite'}"


def rows(site):
    return [
        row
        for part in site.aws.clients("ec2").describe_instances()["Reservations"]
        for row in part["Instances"]
    ]  # fmt: skip


def a_lease():
    return Lease(
        id="l", team="alpha", pool="burst", gpus=16, starts_at=NOW, ends_at=NOW + timedelta(hours=4), requested_by="me"
    )


def one_job(**changes):
    """Home is full, and one job more needs a node."""
    return AwsSite([a_job("j")], **changes)


# F001


def test_a_launch_whose_burst_is_called_off_while_its_call_is_in_flight_ends_terminated():
    site = AwsSite(trouble=AwsTrouble(delay_s={"create_fleet": 10.0}))
    site.controller.state = replace(site.controller.state, leases={"l": a_lease()})

    def call_off():
        site.controller.state = without_leases(site.controller.state)

    site.world.at(site.world.now_s + 3, call_off)
    site.tick()
    assert len(site.alive()) == 2, "the call took effect after the burst was called off"
    site.run(3, step_s=15)
    assert site.alive() == []
    assert site.controller.state.in_flight == {}
    assert {i.state for i in site.machines()} == {InstanceState.TERMINATED}
    assert site.calls["create_fleet"] == 1
    assert site.calls["terminate_instances"] == 1


def test_owner_token_and_end_of_life_are_set_by_the_call_that_rents_and_by_no_later_one():
    site = one_job()
    site.tick()
    (row,) = rows(site)
    tags = tags_of(row)
    assert tags[OWNER_TAG] == "research"
    assert tags[TOKEN_TAG] == launches(site.records)[0].token
    assert tags[ENDS_AT_TAG] == (NOW + timedelta(days=1)).isoformat(timespec="seconds")
    assert site.calls["create_tags"] == 0


# F002: the controller dies


def crashed(url, crash, *, runs=0):
    """A site whose controller has died at a place during its first launch."""
    site = one_job(ledger=CrashableLedger(url))
    site.run(runs)
    site.ledger.crash = site.aws.crash = crash
    with pytest.raises(Crash):
        site.run(5)
    site.ledger.close()
    return site


def assert_served_by_one_machine(site):
    site.run(15)
    assert site.job("j").state is JobState.RUNNING
    assert len(site.alive()) == 1
    assert len(site.machines()) == 1, "exactly one launch took effect"


def test_killed_between_reply_and_commit_the_machine_is_adopted_by_its_token(url):
    """F002 (a)."""
    site = crashed(url, "before the record")
    assert len(site.alive()) == 1
    state = site.restart(SqlLedger(url))
    assert [f.instance_ids for f in state.in_flight.values()] == [()], "the ledger knows the token only"
    assert_served_by_one_machine(site)
    assert site.calls["create_fleet"] == 1
    assert site.controller.state.in_flight == {}
    assert site.controller.state.pools["burst"].boots == (True,), "it is followed as a launch of ours"
    site.ledger.close()


def test_killed_between_intent_and_reply_after_the_call_took_effect_it_is_adopted_too(url):
    site = crashed(url, "after the call")
    assert len(site.alive()) == 1
    site.restart(SqlLedger(url))
    assert_served_by_one_machine(site)
    assert site.calls["create_fleet"] == 1
    site.ledger.close()


@pytest.mark.parametrize("lag_s", [90.0, 300.0])
def test_killed_while_listings_lag_nothing_is_bought_a_second_time(url, lag_s):
    site = crashed(url, "after the call")
    site.trouble.hide_new_s = lag_s
    site.restart(SqlLedger(url))
    assert_served_by_one_machine(site)
    assert site.calls["create_fleet"] == 1
    site.ledger.close()


def test_killed_between_intent_and_call_nothing_was_rented_and_the_job_gets_its_machine_later(url):
    site = crashed(url, "before the call")
    assert site.machines() == []
    state = site.restart(SqlLedger(url))
    assert len(state.in_flight) == 1, "its effect is not known to the new process"
    site.run(9)
    assert site.calls["create_fleet"] == 0, "looked for in whole listings before it is asked again"
    assert_served_by_one_machine(site)
    assert site.calls["create_fleet"] == 1
    site.ledger.close()


def test_killed_before_the_intent_was_written_nothing_was_called(url):
    site = crashed(url, "before the token")
    assert site.calls["create_fleet"] == 0
    assert site.restart(SqlLedger(url)).in_flight == {}
    assert_served_by_one_machine(site)
    site.ledger.close()


def test_killed_again_and_again_there_is_still_one_machine(url):
    site = crashed(url, "after the call")
    for crash in ("before the record", "after the record", "before the record"):
        site.restart(CrashableLedger(url))
        site.ledger.crash = crash
        with pytest.raises(Crash):
            site.run(2)
        site.ledger.close()
    site.restart(SqlLedger(url))
    assert_served_by_one_machine(site)
    assert site.calls["create_fleet"] == 1
    site.ledger.close()


def test_a_machine_reclaimed_before_the_restart_closes_the_attempt_and_one_new_one_follows(url):
    """F002 (b)."""
    site = crashed(url, "before the record")
    (lost,) = site.alive()
    site.aws.ec2.end_later(lost.id, site.clock.now() + timedelta(seconds=30))
    site.clock.wait(60)
    site.restart(SqlLedger(url))
    site.run(15)
    assert site.job("j").state is JobState.RUNNING
    tokens = [i.token for i in site.machines()]
    assert len(tokens) == len(set(tokens)) == 2, "one new attempt with a token of its own"
    assert lost.token in tokens
    assert len(site.alive()) == 1
    assert site.calls["create_fleet"] == 2
    assert lost.token not in site.controller.state.in_flight
    site.ledger.close()


def a_request(site, *, token="t", nodes=1, **changes):
    offerings = tuple(o for o in site.cloud.read().offerings if o.capacity_type is CapacityType.SPOT)
    return LaunchRequest(
        token=token, pool="burst", cluster="main", nodes=nodes, gang=False, offerings=offerings, **changes
    )


@pytest.mark.parametrize(
    ("ends_at", "kind", "words"),
    [
        (NOW + timedelta(hours=3), NotFound, "IdempotentInstanceTerminated"),
        (None, Unreachable, "IdempotentParameterMismatch"),
    ],
)
def test_the_token_of_machines_that_have_ended_never_rents_again(ends_at, kind, words):
    """F002 (b), the error itself: a process that knows nothing asks with the token of machines that have ended and that
    no listing shows any more; with the same end of life, or with a later one, which EC2 takes for another wish."""
    site = AwsSite()
    request = a_request(site, ends_at=ends_at)
    (machine,) = site.cloud.launch(request).instances
    site.cloud.terminate([machine.id])
    site.clock.wait(90 * 60)
    fresh = AwsCloud(site.account, site.aws.clients, site.clock)
    for _ in range(3):
        with pytest.raises(kind, match=words):
            fresh.launch(request)
    assert site.alive() == []


@pytest.mark.parametrize("later_s", [0, 45])
def test_a_token_asked_again_after_a_restart_brings_the_same_machines(later_s):
    site = AwsSite()
    request = a_request(site, nodes=3)
    first = site.cloud.launch(request)
    fresh = AwsCloud(site.account, site.aws.clients, site.clock)
    site.clock.wait(later_s)
    again = fresh.launch(request)
    assert {i.id for i in again.instances} == {i.id for i in first.instances}
    assert len(site.alive()) == 3


def test_a_token_asked_again_before_any_listing_shows_its_machines_is_an_unknown_effect_and_no_second_launch():
    site = AwsSite(trouble=AwsTrouble(hide_new_s=120.0))
    request = a_request(site, nodes=3)
    site.trouble.lost_replies["create_fleet"] = 1
    with pytest.raises(Unreachable):
        site.cloud.launch(request)
    site.clock.wait(30)
    with pytest.raises(Unreachable):
        site.cloud.launch(request)
    site.clock.wait(120)
    assert len(site.cloud.launch(request).instances) == 3
    assert len(site.alive()) == 3


def test_nothing_is_bought_twice_for_a_reply_that_was_lost():
    site = one_job(trouble=AwsTrouble(lost_replies={"create_fleet": 1}))
    site.run(15)
    assert site.job("j").state is JobState.RUNNING
    assert len(site.machines()) == 1
    assert site.calls["create_fleet"] == 1
    assert terminations(site.records) == []


def test_a_quiet_tick_makes_one_listing_and_changes_nothing():
    site = one_job()
    site.run(10)
    before = site.calls.copy()
    site.run(2, step_s=15)
    more = site.calls - before
    assert more["describe_instances"] == 8
    assert set(more) <= {"describe_instances", "receive_message", "describe_spot_price_history"} | {
        "describe_capacity_reservations"
    }
