"""F003 and F012: pools without capacity, and gangs of which a zone has only a part."""

from datetime import timedelta

import pytest

from elastic.planning.state import Result
from providers.errors import Unreachable
from providers.facts import CapacityType, InstanceState, JobState, LaunchRequest
from providers.sim.aws.trouble import AwsTrouble, refused
from tests.aws.site import P4D, P4DE, ZONES, AwsSite, CrashableAws, a_burst, a_job, aws_policy, launches
from tests.builders import NOW


def fleets_without_machines(records):
    """Launches of these ticks that brought nothing."""
    return [o for r in records for o in r.outcomes if o.action_key.startswith("launch") and o.result is Result.FAILED]


def two_pools(jobs):
    """Pool `first` of p4d, dry in every zone, and pool `second` of p4de, which has enough."""
    policy = aws_policy(burst={"first": a_burst(), "second": a_burst(instance_types=(P4DE,))})
    return AwsSite(jobs, policy=policy, trouble=AwsTrouble(stock={(P4D, zone, "spot"): 0 for zone in ZONES}))


# F003


def test_a_dry_pool_is_set_aside_the_second_serves_and_the_first_is_used_again_when_it_is_back():
    site = two_pools([a_job("now"), a_job("later", at_s=45 * 60)])
    first_half = site.run(2)
    assert {i.pool for i in site.alive()} == {"second"}, "the second pool serves within two ticks"
    first_half += site.run(28)
    assert len(fleets_without_machines(first_half)) <= 3, "30 min are more than two set-aside periods"
    assert site.job("now").state is JobState.RUNNING
    for zone in ZONES:
        site.trouble.stock[(P4D, zone, "spot")] = 5
    site.run(20)
    assert [i.pool for i in site.alive()] == ["second", "first"]
    assert {i.instance_type for i in site.alive() if i.pool == "first"} == {P4D}
    site.run(10)
    assert site.job("later").state is JobState.RUNNING
    assert site.calls["create_fleet"] == len(launches(site.records)) <= 5


def test_a_pool_that_is_dry_and_has_no_other_beside_it_is_asked_a_few_times_an_hour():
    trouble = AwsTrouble(stock={(P4D, zone, "spot"): 0 for zone in ZONES})
    site = AwsSite([a_job("j")], trouble=trouble)
    site.run(60)
    assert site.alive() == []
    failed_at = [o.snapshot.at for o in site.records if fleets_without_machines([o])]
    assert len(failed_at) == site.calls["create_fleet"] >= 2
    for begin in failed_at:
        period = [at for at in failed_at if begin <= at < begin + timedelta(minutes=10)]
        assert len(period) <= 3, "zones come back one by one: once each"
    assert len(failed_at) <= 9, "0, 10, 30 min: three periods"
    assert site.calls["create_launch_template"] == 1
    for zone in ZONES:
        trouble.stock[(P4D, zone, "spot")] = 5
    site.run(60)
    assert site.job("j").state is JobState.RUNNING


def test_what_a_dry_pool_said_is_remembered_by_type_zone_and_market():
    site = two_pools([a_job("now")])
    site.tick()
    aside = site.controller.state.unavailable
    assert set(aside) == {f"{P4D}/{zone}/spot" for zone in ZONES}
    assert {u.error_kind for u in aside.values()} == {"insufficient_capacity"}
    assert all(timedelta(minutes=10) <= u.until - NOW <= timedelta(minutes=12) for u in aside.values())


def two_markets(site):
    """Spot first, of which there are three nodes; then on-demand."""
    found = [o for o in site.cloud.read().offerings if o.instance_type == P4D and o.zone == ZONES[0]]
    ranked = tuple(sorted(found, key=lambda o: o.capacity_type is CapacityType.ON_DEMAND))
    return LaunchRequest(token="t", pool="burst", cluster="main", nodes=5, gang=False, offerings=ranked)


class RefusesOnDemand(CrashableAws):
    """Every on-demand launch ends with this code."""

    code = ""

    def call(self, service, action, asked):
        if action == "create_fleet" and "OnDemandOptions" in asked:
            raise refused(self.code, "no", status=400)
        return super().call(service, action, asked)


@pytest.mark.parametrize("code", ["RequestLimitExceeded", "UnauthorizedOperation", "SomethingNew"])
def test_what_the_first_market_brought_is_told_although_the_second_is_refused(code):
    site = AwsSite(trouble=AwsTrouble(stock={(P4D, ZONES[0], "spot"): 3}), aws=RefusesOnDemand)
    site.aws.code = code
    reply = site.cloud.launch(two_markets(site))
    assert [i.capacity_type for i in reply.instances] == [CapacityType.SPOT] * 3
    assert [(f.offering_key, code in f.detail) for f in reply.failures] == [(f"{P4D}/{ZONES[0]}/on-demand", True)]
    assert site.calls["create_fleet"] == 1


def test_a_second_market_whose_effect_is_not_known_makes_the_launch_unknown():
    site = AwsSite(trouble=AwsTrouble(stock={(P4D, ZONES[0], "spot"): 3}), aws=RefusesOnDemand)
    site.aws.code = "InternalError"
    request = two_markets(site)
    with pytest.raises(Unreachable):
        site.cloud.launch(request)
    assert len(site.cloud.launch(request).instances) == 3, "found by its token"
    assert len(site.machines()) == 3


# F012


def gang_request(site, *, nodes=8, token="g"):
    offerings = tuple(
        sorted(
            (o for o in site.cloud.read().offerings if o.capacity_type is CapacityType.SPOT and o.instance_type == P4D),
            key=lambda o: o.zone,
        )
    )
    return LaunchRequest(token=token, pool="burst", cluster="main", nodes=nodes, gang=True, offerings=offerings)


def five_in_the_first_zone(**changes):
    return AwsTrouble(stock={(P4D, ZONES[0], "spot"): 5, (P4D, ZONES[1], "spot"): 8}, **changes)


def test_a_gang_of_which_the_first_zone_has_a_part_comes_whole_from_the_next_in_the_same_call():
    site = AwsSite(trouble=five_in_the_first_zone())
    reply = site.cloud.launch(gang_request(site))
    assert [i.zone for i in reply.instances] == [ZONES[1]] * 8
    assert [f.offering_key for f in reply.failures] == [f"{P4D}/{ZONES[0]}/spot"]
    assert len(site.machines()) == 8, "nothing was rented in the first zone"
    assert site.calls["create_fleet"] == 2
    assert site.trouble.stock[(P4D, ZONES[0], "spot")] == 5


def test_a_part_that_comes_all_the_same_is_given_back_before_the_next_zone_is_asked():
    site = AwsSite(trouble=five_in_the_first_zone(keeps_minimum=False))
    request = gang_request(site)
    reply = site.cloud.launch(request)
    assert [i.zone for i in reply.instances] == [ZONES[1]] * 8
    assert len(site.machines()) == 13
    assert {i.zone for i in site.alive()} == {ZONES[1]}, "5 of 8 never stay"
    assert (site.calls["create_fleet"], site.calls["terminate_instances"]) == (2, 1)
    again = site.cloud.launch(request)
    assert {i.id for i in again.instances} == {i.id for i in reply.instances}, "those that were given back are no reply"


def test_a_part_that_ec2_does_not_know_everywhere_yet_is_not_taken_for_gone():
    """Its ids are answered with `InvalidInstanceID.NotFound` for a minute: they are there, and end a little later."""
    trouble = five_in_the_first_zone(keeps_minimum=False, unknown_new_s=45.0)
    site = AwsSite([a_job("g", 64)], trouble=trouble)
    with pytest.raises(Unreachable, match="too lately"):
        site.cloud.launch(gang_request(site, token="by hand"))
    site.clock.wait(60)
    assert len(site.alive()) == 5
    trouble.unknown_new_s, trouble.keeps_minimum = 0.0, True
    site.run(20)
    assert {i.token for i in site.alive()} == {launches(site.records)[-1].token}
    assert site.job("g").state is JobState.RUNNING


def test_a_gang_that_fits_nowhere_stays_pending_and_nothing_runs_for_it():
    stock = {(P4D, zone, "spot"): 5 for zone in ZONES}
    site = AwsSite([a_job("g", 64)], trouble=AwsTrouble(stock=stock, keeps_minimum=False))
    site.run(30)
    assert site.job("g").state is JobState.PENDING
    assert site.alive() == []
    assert len(site.machines()) == 5 * site.calls["create_fleet"], "five each time a zone was tried"
    assert 1 <= len(launches(site.records)) <= 6, "three zones, two set-aside periods"
    assert all(i.state is InstanceState.TERMINATED for i in site.machines())


def test_a_gang_is_served_by_the_controller_from_the_zone_that_holds_it_whole():
    site = AwsSite([a_job("g", 64)], trouble=five_in_the_first_zone())
    site.run(10)
    assert site.job("g").state is JobState.RUNNING
    assert {i.zone for i in site.alive()} == {ZONES[1]}
    assert len(launches(site.records)) == 1


def test_a_gang_of_more_than_one_call_comes_whole_or_not_at_all():
    stock = {(P4D, ZONES[0], "spot"): 700, (P4D, ZONES[1], "spot"): 900, (P4D, ZONES[2], "spot"): 0}
    site = AwsSite(trouble=AwsTrouble(stock=stock))
    reply = site.cloud.launch(gang_request(site, nodes=800))
    assert {i.zone for i in reply.instances} == {ZONES[1]}
    assert len(reply.instances) == 800
    assert len(site.alive()) == 800
    assert site.calls["create_fleet"] == 4
