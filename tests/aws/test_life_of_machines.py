"""F005 to F008: ids that are gone, listings that lag, machines that are taken away or never join."""

from dataclasses import replace
from datetime import timedelta

import pytest

from providers.aws.instances import MISSED_LISTINGS, UNKNOWN_LIMIT
from providers.errors import Throttled, Unreachable
from providers.facts import CapacityType, InstanceState, JobState, LaunchRequest, NodeState
from providers.sim.aws.trouble import AwsTrouble
from tests.aws.site import P4D, ZONES, AwsSite, a_burst, a_job, aws_policy, launches, terminations
from tests.builders import NOW


def rented(site, nodes, *, token="t"):
    """Machines that were launched through the adapter and have been there for an hour."""
    offerings = tuple(o for o in site.cloud.read().offerings if o.capacity_type is CapacityType.SPOT)
    request = LaunchRequest(token=token, pool="burst", cluster="main", nodes=nodes, gang=False, offerings=offerings)
    ids = [i.id for i in site.cloud.launch(request).instances]
    site.clock.wait(3600)
    site.cloud.read()
    return ids


# F005


def test_ids_that_are_gone_do_not_keep_the_others_of_a_batch_alive():
    site = AwsSite()
    ids = rented(site, 5)
    for gone in (ids[1], ids[3]):
        site.aws.ec2.forget(gone)
    assert set(site.cloud.terminate(ids)) == set(ids), "three end, two are gone already"
    assert site.calls["terminate_instances"] == 3, "EC2 names one a call"
    found = {i.id: i.state for i in site.cloud.read().instances}
    assert set(found.values()) == {InstanceState.TERMINATED}
    assert set(found) == set(ids), "those that were gone are closed, not forgotten"
    assert site.alive() == []


def test_a_batch_with_more_gone_ids_than_tries_is_repeated_a_few_times_only():
    site = AwsSite()
    ids = rented(site, 8)
    for gone in ids[:6]:
        site.aws.ec2.forget(gone)
    assert set(site.cloud.terminate(ids)) == set(ids[:4])
    assert site.calls["terminate_instances"] == 4
    assert set(site.cloud.terminate(ids)) == set(ids), "the next tick does the rest"


def test_a_call_that_is_refused_does_not_hide_what_the_others_of_a_long_list_ended():
    site = AwsSite()
    ids = rented(site, 600)
    site.trouble.errors["terminate_instances"] = [("RequestLimitExceeded", "slow down", 503)]
    assert set(site.cloud.terminate(ids)) == set(ids[500:])
    site.trouble.errors["terminate_instances"] = [("RequestLimitExceeded", "slow down", 503)] * 2
    with pytest.raises(Throttled):
        site.cloud.terminate(ids[:500])
    site.clock.wait(60)
    site.trouble.errors.clear()
    assert set(site.cloud.terminate(ids)) == set(ids)
    assert site.alive() == []


def test_an_id_of_somebody_else_is_never_ended():
    site = AwsSite()
    mine = rented(site, 1)
    other = AwsSite()
    other.account = replace(other.account, controller="another")
    (foreign,) = rented(other, 1, token="x")
    row = other.aws.ec2.truth()[foreign]
    site.aws.ec2.truth()["i-foreign"] = {**row, "InstanceId": "i-foreign", "Tags": [{"Key": "Name", "Value": "theirs"}]}
    assert site.cloud.terminate(["i-foreign", *mine]) == tuple(mine)
    assert site.aws.ec2.truth()["i-foreign"]["State"]["Name"] == "running"


def test_a_machine_launched_a_moment_ago_that_ec2_does_not_know_yet_is_not_counted_as_gone():
    site = AwsSite(trouble=AwsTrouble(unknown_new_s=90.0))
    offerings = tuple(o for o in site.cloud.read().offerings if o.capacity_type is CapacityType.SPOT)
    request = LaunchRequest(token="t", pool="burst", cluster="main", nodes=1, gang=False, offerings=offerings)
    (machine,) = site.cloud.launch(request).instances
    with pytest.raises(Unreachable):
        site.cloud.terminate([machine.id])
    site.clock.wait(100)
    assert site.cloud.terminate([machine.id]) == (machine.id,)
    assert site.alive() == []


# F006


def forty(trouble):
    jobs = [a_job(f"j{n}", runs_s=4 * 3600.0) for n in range(40)]
    return AwsSite(jobs, trouble=trouble)


def test_machines_listed_without_an_address_are_pending_and_no_boot_failures():
    site = forty(AwsTrouble(bare_s=170.0, pending_s=60.0))
    site.run(3)
    bare = site.aws.clients("ec2").describe_instances()["Reservations"][0]["Instances"]
    assert len(bare) == 40
    site.run(12)
    assert len(site.alive()) == 40
    assert site.calls["create_fleet"] == 1
    assert terminations(site.records) == []
    memory = site.controller.state.pools["burst"]
    assert memory.paused_until is None, "the breaker stays closed"
    assert False not in memory.boots
    assert all(site.job(f"j{n}").state is JobState.RUNNING for n in range(40))


def test_a_listing_that_leaves_out_a_machine_with_a_job_costs_nothing():
    """One poll in a hundred, and then three times in a row."""
    site = forty(AwsTrouble())
    site.run(10)
    (victim,) = [i.id for i in site.alive()][7:8]
    attempts = {n: site.job(f"j{n}").attempt for n in range(40)}
    hidden = [20, 120, 150, 151, 152, 153, 154, 155]
    for poll in range(160):
        site.trouble.hidden_ids = {victim} if poll in hidden else set()
        record = site.tick()
        assert len([i for i in record.snapshot.instances if i.state is InstanceState.RUNNING]) == 40
        site.clock.wait(15)
    assert {n: site.job(f"j{n}").attempt for n in range(40)} == attempts
    assert all(site.job(f"j{n}").state is JobState.RUNNING for n in range(40))
    assert site.controller.state.pools["burst"].boots.count(False) == 0
    assert launches(site.records[10:]) == terminations(site.records) == []


def test_a_machine_is_gone_after_several_whole_listings_without_it_and_a_look_up_by_its_id():
    site = AwsSite()
    gone, kept = rented(site, 2)
    site.aws.ec2.forget(gone)
    before = site.calls["describe_instances"]
    for _ in range(MISSED_LISTINGS - 1):
        assert {i.state for i in site.cloud.read().instances} == {InstanceState.RUNNING}
    states = {i.id: i.state for i in site.cloud.read().instances}
    assert states == {gone: InstanceState.TERMINATED, kept: InstanceState.RUNNING}
    assert site.calls["describe_instances"] - before == MISSED_LISTINGS + 1


def test_listings_that_fail_do_not_count_as_listings_without_a_machine():
    site = AwsSite()
    (gone,) = rented(site, 1)
    site.aws.ec2.forget(gone)
    for _ in range(5):
        site.trouble.errors["describe_instances"] = [("InternalError", "down", 500)] * 3
        with pytest.raises(Unreachable):
            site.cloud.read()
        site.clock.wait(60)
    assert [i.state for i in site.cloud.read().instances] == [InstanceState.RUNNING]


def test_a_machine_that_no_listing_shows_yet_is_there_for_two_minutes_at_least():
    site = AwsSite([a_job("j")], trouble=AwsTrouble(hide_new_s=UNKNOWN_LIMIT.total_seconds() - 5))
    for record in site.run(3, step_s=15)[1:]:
        assert len(record.snapshot.instances) == 1
    assert site.calls["create_fleet"] == 1


# F007


def interrupted():
    """Four jobs on four spot machines; one of them is announced to go."""
    site = AwsSite([a_job(f"j{n}", checkpointable=True) for n in range(4)])
    site.run(12)
    (job,) = [j for j in site.cluster.read().jobs if j.id == "j2"]
    victim = job.node_ids[0]
    site.aws.interrupt(victim)
    return site, victim


def test_an_interrupted_machine_is_out_of_capacity_at_once_and_gone_when_ec2_says_so():
    site, victim = interrupted()
    announced = site.clock.now()
    records = site.run(2.25, step_s=10)
    cordoned = [r for r in records if r.snapshot.at - announced <= timedelta(seconds=10)]
    assert any("Cordon" in type(a).__name__ for r in cordoned for a in r.plan.actions), "within ten seconds"
    last = records[-1]
    assert last.snapshot.at - announced <= timedelta(seconds=130)
    states = {i.id: i.state for i in last.snapshot.instances}
    assert states[victim] is InstanceState.TERMINATED
    assert victim not in {n.id for n in last.snapshot.nodes}
    assert victim not in site.job("j2").node_ids
    site.run(10)
    assert site.job("j2").state is JobState.RUNNING
    assert len(launches(site.records)) == 2, "the replacement is bought once"
    assert sum(a.nodes for a in launches(site.records)) == 5
    assert len(site.alive()) == 4


def test_the_offering_of_an_interrupted_machine_is_set_aside_and_its_replacement_comes_from_another():
    site, victim = interrupted()
    lost = next(i for i in site.machines() if i.id == victim)
    site.run(12)
    (fresh,) = [i for i in site.alive() if i.requested_at > lost.requested_at]
    assert fresh.offering_key != lost.offering_key
    aside = site.controller.state.unavailable[lost.offering_key]
    assert aside.until - site.clock.now() > timedelta(minutes=15), "30 min from the notice"


def test_a_cluster_that_would_keep_the_node_of_an_interrupted_machine_is_told_to_forget_it():
    site, victim = interrupted()
    site.joiner.leaves_ghosts = True
    site.run(2.25, step_s=10)
    assert victim not in {n.id for n in site.cluster.read().nodes}
    site.run(10)
    assert site.job("j2").state is JobState.RUNNING
    assert sum(a.nodes for a in launches(site.records)) == 5


def test_the_cost_of_an_interrupted_machine_stops_when_ec2_ends_it():
    site, _ = interrupted()
    site.policy = aws_policy(burst={"burst": a_burst(max_nodes=3)})  # nothing comes in its place
    (usd_per_hour,) = {i.price_usd_per_hour for i in site.cloud.read().instances}
    site.run(2.25, step_s=15)
    spent = site.controller.state.spend.usd_day
    site.run(10)
    usd = site.controller.state.spend.usd_day - spent
    assert usd / usd_per_hour * 3600 == pytest.approx(3 * (15 + 9 * 60))


def test_a_notice_is_deleted_from_the_queue_only_when_its_machine_is_gone():
    site, _ = interrupted()
    site.run(1.5, step_s=15)
    assert len(site.aws.queue) == 1
    site.run(2, step_s=15)
    assert len(site.aws.queue) == 0
    assert len(site.controller.state.pools["burst"].losses) == 1


def test_a_machine_that_goes_without_a_notice_is_replaced_once():
    site = AwsSite([a_job("j", checkpointable=True)])
    site.run(10)
    (machine,) = site.alive()
    site.aws.ec2.end_later(machine.id, site.clock.now())
    site.run(15)
    assert site.job("j").state is JobState.RUNNING
    assert len(site.machines()) == 2
    assert len(site.alive()) == 1


# F008, second run


def test_one_of_four_that_never_joins_is_ended_at_its_deadline_and_the_pool_goes_on():
    site = AwsSite([a_job(f"j{n}", runs_s=4 * 3600.0) for n in range(4)])
    site.run(1)
    lame = site.alive()[1].id
    site.joiner.never_joins = lambda instance: instance.id == lame
    site.run(19)
    assert len([n for n in range(4) if site.job(f"j{n}").state is JobState.RUNNING]) == 3
    assert terminations(site.records) == [], "it has until its deadline"
    site.run(3)
    (end,) = terminations(site.records)
    assert end.instance_id == lame
    assert "never joined" in end.reason
    site.run(10)
    assert all(site.job(f"j{n}").state is JobState.RUNNING for n in range(4))
    memory = site.controller.state.pools["burst"]
    assert memory.boots.count(False) == 1
    assert memory.paused_until is None
    assert site.calls["create_fleet"] == 2
    assert len(site.alive()) == 4


def test_a_slow_boot_within_the_deadline_is_no_failure_and_nothing_is_bought_twice():
    site = AwsSite([a_job("j")], boot_s=900.0, trouble=AwsTrouble(pending_s=120.0))
    site.run(22)
    assert site.job("j").state is JobState.RUNNING
    assert site.calls["create_fleet"] == 1
    assert site.controller.state.pools["burst"].boots == (True,)


def test_what_the_stories_rest_on_zones_nodes_and_states():
    site = AwsSite([a_job("j")])
    site.run(10)
    node = next(n for n in site.cluster.read().nodes if n.pool == "burst")
    assert (node.state, node.zone in ZONES, node.capacity_type) == (NodeState.READY, True, CapacityType.SPOT)
    assert site.alive()[0].instance_type == P4D
    assert site.records[0].snapshot.at == NOW
