"""F004, F014 and F016: an API in a storm, a quota that is reached, limits of nodes and money."""

from collections import Counter
from datetime import timedelta

import pytest

from elastic.planning.plan import Launch
from elastic.planning.policy import Money
from providers.aws.account import NodeShape
from providers.facts import CapacityType, InstanceState, JobState
from providers.sim.aws.market import GROUP, IMAGE
from providers.sim.aws.trouble import AwsTrouble
from tests.aws.site import P4D, WRITES, ZONES, AwsSite, a_burst, a_job, aws_policy, launches, terminations
from tests.builders import NOW

ON_DEMAND_4_USD = {P4D: 4.0}
SPOT_2_USD = {(P4D, zone): [(NOW - timedelta(days=30), 2.0)] for zone in ZONES}


def withheld(records):
    return Counter(w.rule for r in records for w in r.plan.withheld if isinstance(w.action, Launch))


# F004


def four_pools(user_data):
    """Four pools of which each wants a node whatever the queue says."""
    names = [f"burst{n}" for n in range(4)]
    policy = aws_policy(nodes=1, burst={name: a_burst(min_nodes=1) for name in names})
    shapes = {
        name: NodeShape(image_id=IMAGE, security_group_ids=(GROUP,), user_data=text)
        for name, text in zip(names, user_data, strict=True)
    }
    return AwsSite(policy=policy, shapes=shapes)


@pytest.mark.parametrize("user_data", ["aaaa", "abcd", "aabb"])
def test_in_a_storm_there_is_never_more_than_one_template_for_a_content_and_few_calls(user_data):
    site = four_pools(list(user_data))
    site.trouble.outages["create_fleet"] = "InternalError", NOW + timedelta(minutes=30)
    records = site.run(30, step_s=15)
    assert len(records) == 120
    assert len(site.aws.ec2.templates) == len(set(user_data))
    assert site.calls["create_launch_template"] == len(set(user_data))
    assert site.calls["describe_instances"] == 120, "one listing a tick, whatever the number of pools"
    assert site.calls["create_fleet"] <= 4 * 3, "each pool once in ten minutes while the effect is not known"
    assert site.machines() == []
    site.run(15, step_s=15)
    assert sorted(i.pool for i in site.alive()) == [f"burst{n}" for n in range(4)], "it goes on by itself"
    assert len(site.aws.ec2.templates) == len(set(user_data))


def test_throttled_listings_mark_the_picture_stale_and_nothing_is_scaled_in_or_out_from_it():
    site = AwsSite([a_job("j", runs_s=1200.0)])
    site.run(23, step_s=15)
    assert site.job("j").state is JobState.RUNNING
    site.trouble.outages["describe_instances"] = "RequestLimitExceeded", site.clock.now() + timedelta(hours=1)
    site.world.submit(a_job("more"))
    before = site.calls.copy()
    throttled = site.run(4, step_s=15)
    assert site.job("j") is None, "its node is idle by now"
    assert all("throttled" in r.snapshot.trouble("cloud:")[0].error for r in throttled)
    assert {r.snapshot.readings[-1].read_at for r in throttled} == {throttled[0].snapshot.readings[-1].read_at}
    assert terminations(throttled) == launches(throttled) == []
    assert not [w for w in WRITES if site.calls[w] > before[w]]
    assert site.calls["describe_instances"] - before["describe_instances"] <= 3 * len(throttled)
    del site.trouble.outages["describe_instances"]
    after = site.run(5, step_s=15)
    assert launches(after) or terminations(after) or site.job("more").state is JobState.RUNNING


def test_a_long_throttling_slows_all_callers_down():
    """Six ticks and many more: fewer calls a tick as it goes on, and all of them in turn afterwards."""
    site = AwsSite([a_job("j")])
    site.run(10, step_s=15)
    site.trouble.outages["describe_instances"] = "RequestLimitExceeded", site.clock.now() + timedelta(minutes=30)
    site.run(2, step_s=15)
    before = site.calls["describe_instances"]
    ticks = len(site.run(20, step_s=15))
    assert site.calls["describe_instances"] - before <= 2 * ticks
    site.clock.wait(10 * 60)
    records = site.run(2, step_s=15)
    assert records[-1].snapshot.trouble("cloud:") == ()
    assert site.job("j").state is JobState.RUNNING


# F014


def quota_site(jobs):
    """No spot machine is allowed; on-demand at 4 USD an hour within 50 USD a day."""
    trouble = AwsTrouble(quota_nodes={"spot": 0}, on_demand_prices=ON_DEMAND_4_USD, spot_prices=SPOT_2_USD)
    policy = aws_policy(
        burst={"burst": a_burst(capacity_types=("spot", "on-demand"))}, money=Money(usd_per_day=50.0)
    )  # fmt: skip
    return AwsSite(jobs, policy=policy, trouble=trouble)


def test_a_quota_sets_the_whole_spot_market_aside_and_on_demand_serves_within_the_daily_cap():
    site = quota_site([a_job(f"j{n}", runs_s=2700.0) for n in range(30)])
    first, _ = site.run(2)
    assert len(site.alive()) == 12, "50 USD are 12 nodes for an hour, and the dearer market came in the next tick"
    assert {i.capacity_type for i in site.alive()} == {CapacityType.ON_DEMAND}
    spot = {o.key for o in first.snapshot.offerings if o.capacity_type is CapacityType.SPOT}
    aside = site.controller.state.unavailable
    assert spot == {key for key, u in aside.items() if u.error_kind == "quota_exceeded"}, "every type and zone"
    assert all(aside[key].until - NOW >= timedelta(minutes=10) for key in spot)
    records = site.run(58)
    fleets = site.calls["create_fleet"]
    assert launches(records) == [], "what runs is all that the cap carries"
    assert fleets == 2, "spot was asked once, on-demand once"
    assert withheld(records)["budget_day"] > 0, "the rest waits for money, and says so"
    site.world.submit(a_job("after", runs_s=600.0, submit_s=site.world.now_s))
    late = site.run(180)
    assert site.alive() == []
    assert site.calls["create_fleet"] == fleets, "the cap is reached: not one call more"
    assert launches(late) == []


def test_a_spot_quota_with_nothing_else_allowed_is_asked_once_an_hour():
    trouble = AwsTrouble(quota_nodes={"spot": 0})
    site = AwsSite([a_job(f"j{n}") for n in range(10)], trouble=trouble)
    site.run(120, step_s=30)
    assert site.alive() == []
    assert site.calls["create_fleet"] <= 3


def test_a_quota_that_leaves_some_room_is_used_up_to_it():
    site = AwsSite([a_job(f"j{n}") for n in range(10)], trouble=AwsTrouble(quota_nodes={"spot": 4}))
    site.run(15)
    assert len(site.alive()) == 4
    assert site.calls["create_fleet"] <= 3


# F016


def test_twenty_five_jobs_under_a_limit_of_ten_nodes_and_40_usd_rent_ten_and_fifteen_wait():
    trouble = AwsTrouble(spot_prices={(P4D, z): [(NOW - timedelta(days=30), 4.0)] for z in ZONES}, pending_s=40.0)
    policy = aws_policy(burst={"burst": a_burst(max_nodes=10)}, money=Money(usd_per_hour=40.0))
    site = AwsSite([a_job(f"j{n}", runs_s=7200.0) for n in range(25)], policy=policy, trouble=trouble)
    most = 0
    for _ in range(40):
        site.run(0.5, step_s=15)
        most = max(most, len([i for i in site.machines() if i.state is not InstanceState.TERMINATED]))
    assert most == 10
    assert site.calls["create_fleet"] == 1, "one call, and none that only finds the limit"
    waiting = [n for n in range(25) if site.job(f"j{n}").state is JobState.PENDING]
    assert len(waiting) == 15
    assert set(withheld(site.records)) <= {"budget_hour", "pool_ceiling"}
    assert withheld(site.records).total() > 0


@pytest.mark.parametrize("trouble", [{"hide_new_s": 150.0}, {"lost_replies": {"create_fleet": 1}}, {"bare_s": 300.0}])
def test_machines_no_listing_shows_yet_count_against_the_limits(trouble):
    prices = {(P4D, z): [(NOW - timedelta(days=30), 4.0)] for z in ZONES}
    policy = aws_policy(burst={"burst": a_burst(max_nodes=10)}, money=Money(usd_per_hour=40.0))
    site = AwsSite(
        [a_job(f"j{n}") for n in range(25)], policy=policy, trouble=AwsTrouble(spot_prices=prices, **trouble)
    )  # fmt: skip
    site.run(10, step_s=15)
    assert len(site.machines()) == 10
    assert site.calls["create_fleet"] == 1


def test_an_image_that_never_joins_never_has_more_than_its_limit_alive():
    """F016, second run: limit 5, 40 ticks."""
    site = AwsSite([a_job(f"j{n}") for n in range(8)], policy=aws_policy(burst={"burst": a_burst(max_nodes=5)}))
    site.joiner.never_joins = lambda instance: True
    for _ in range(40):
        site.run(1)
        assert len(site.alive()) <= 5
    assert len(site.machines()) <= 6, "five failures open the breaker; then one probe at a time"
