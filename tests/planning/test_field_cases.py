"""Failures that users of public software for this job met (F0xx), played against the controller on the simulated world
or against the planner's facts."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from elastic.planning.advance import advance
from elastic.planning.cost import price_usd_per_hour
from elastic.planning.flights import JOIN_DEADLINE_S
from elastic.planning.plan import Cordon, Displace, Launch, Move, Plan, Route, Terminate
from elastic.planning.planner import make_plan
from elastic.planning.policy import Guard, JobClass, Money, Pool
from elastic.planning.snapshot import Reading
from elastic.planning.state import ControllerState, Outcome, Record, Result
from forecast.forecaster import Forecast, Forecasts
from providers.facts import CapacityType, InstanceState, Interruption, InterruptionKind, NodeState
from providers.sim.script import play_script, read_script
from tests.builders import NOW, a_job, a_node, a_policy, a_snapshot, an_instance, an_offering, running
from tests.builders_site import Site, a_market, a_sim_job

LONG_AGO = NOW - timedelta(hours=2)
AT_ONCE = {
    "batch": JobClass(checkpointable=True, wait_target="0 s"),
    "fixed": JobClass(checkpointable=False, wait_target="0 s"),
}


def burst_pool(**changes):
    parts = {
        "place": "burst", "cluster": "main", "cloud": "sim", "gpu_model": "gpu", "gpus_per_node": 8, "max_nodes": 100,
        "lead_time": "240 s", "idle_release": "600 s", "capacity_types": ("spot",),
    }  # fmt: skip
    return Pool(**{**parts, **changes})


def home_pool(nodes=1):
    return Pool(place="on-prem", cluster="main", gpu_model="gpu", gpus_per_node=8, nodes=nodes)


def of(kind, records):
    return [(r.tick, a) for r in records for a in r.plan.actions if isinstance(a, kind)]


def script(site, *entries):
    play_script(read_script(entries), site.world, site.cluster, site.cloud)


# Capacity storm


def test_f003_a_dry_pool_is_set_aside_the_next_serves_and_the_first_is_used_again_by_itself():
    """F003: pool 1 is dry in all its zones for half an hour, pool 2 works; later pool 1 is used again."""
    policy = a_policy(
        classes=AT_ONCE,
        pools={
            "onprem": home_pool(),
            "first": burst_pool(instance_types=("cheap",)),
            "second": burst_pool(instance_types=("dear",)),
        },
    )
    markets = [a_market(instance_type="cheap", zone=zone) for zone in "abc"]
    markets.append(a_market(instance_type="dear", zone="a", price_usd_per_hour=9.0))
    jobs = [
        a_sim_job("home", 8, runs_s=1e6, job_class="fixed"),
        a_sim_job("one", 4, at_s=1, runs_s=1200, job_class="fixed"),
        a_sim_job("two", 4, at_s=2700, runs_s=1200, job_class="fixed"),
    ]
    site = Site(jobs, nodes=1, policy=policy, markets=markets)
    script(site, {"at_min": 0, "dry": {"instance_type": "cheap"}, "for_min": 30})
    site.clock.wait(1)
    records = site.run(60)
    launches = of(Launch, records)
    assert [a.pool for _, a in launches] == ["first", "second", "first"]
    assert launches[1][0] - launches[0][0] <= 2, "served within two ticks"
    failed = [o for r in records for o in r.outcomes if o.error_kind == "insufficient_capacity"]
    assert len(failed) == 1, "no call storm"
    assert launches[2][0] in range(44, 48), "pool 1 again, with no human action"


def test_f003_one_zone_after_another_is_tried_within_one_call():
    """F003: what has none now is told beside what was found, and is set aside alone."""
    site = Site(
        [a_sim_job("home", 32, runs_s=1e6, job_class="fixed"), a_sim_job("one", 8, at_s=1, job_class="fixed")],
        policy=a_policy(classes=AT_ONCE),
        markets=[a_market(zone="a"), a_market(zone="b", price_usd_per_hour=5.0)],
    )
    script(site, {"at_min": 0, "dry": {"zone": "a"}, "for_min": 30})
    site.clock.wait(1)
    site.run(3)
    assert [i.zone for i in site.cloud.instances()] == ["b"]
    assert set(site.controller.state.unavailable) == {"x/a/spot"}


# Never joins


def joining_tick(state, at_s, node_state, *, jobs, policy):
    """One tick of facts: the machine asked for at 0 s is a node in this state (None: not known to the cluster)."""
    at = NOW + timedelta(seconds=at_s)
    nodes = [a_node("home", used=8, job_ids=("h",))]
    if node_state is not None:
        nodes.append(
            a_node("m1", pool="burst", instance_id="m1", state=node_state, gpus=8 if node_state == "ready" else 0,
                   free_gpus=8 if node_state == "ready" else 0)
        )  # fmt: skip
    token = next(iter(state.in_flight), "t")
    machine = an_instance("m1", token=token, node_id="m1" if node_state else None)
    snapshot = a_snapshot(at=at, jobs=jobs, nodes=tuple(nodes), instances=(machine,) if at_s else ())
    plan = make_plan(snapshot, Forecasts(), policy, state)
    outcomes = tuple(
        Outcome(action_key=a.key, result=Result.DONE, provider_ids=("m1",) if isinstance(a, Launch) else ())
        for a in plan.actions
    )
    record = Record(tick=state.tick + 1, snapshot=snapshot, plan=plan, outcomes=outcomes)
    return plan, advance(state, record)


def test_f008_a_node_that_is_ready_without_its_gpus_is_counted_as_coming_until_the_boot_deadline():
    """F008: known at 60 s, GPUs missing until 150 s, a taint until 240 s, a short flip to down at 100 s; one job."""
    jobs = (running("h", 8, ("home",), LONG_AGO, job_class="fixed"), a_job("j", 1, job_class="fixed"))
    policy, state, launches = a_policy(classes=AT_ONCE), ControllerState(), []
    story = [
        (0, None),
        (30, None),
        (60, "joining"),
        (100, "down"),
        (120, "joining"),
        (150, "joining"),
        (200, "joining"),
    ]
    for at_s, node_state in story:
        plan, state = joining_tick(state, at_s, NodeState(node_state) if node_state else None, jobs=jobs, policy=policy)
        launches += [(at_s, a) for a in plan.actions if isinstance(a, Launch)]
        assert not [a for a in plan.actions if isinstance(a, Terminate)], at_s
    assert [at_s for at_s, _ in launches] == [0], "exactly one launch"


def test_f008_past_the_deadline_it_is_a_boot_failure_and_is_replaced():
    """F008: with no GPUs after the deadline the machine is given back and another is asked for."""
    jobs = (running("h", 8, ("home",), LONG_AGO, job_class="fixed"), a_job("j", 1, job_class="fixed"))
    policy, state = a_policy(classes=AT_ONCE), ControllerState()
    _, state = joining_tick(state, 0, None, jobs=jobs, policy=policy)
    _, state = joining_tick(state, 60, NodeState.JOINING, jobs=jobs, policy=policy)
    plan, state = joining_tick(state, JOIN_DEADLINE_S + 60, NodeState.JOINING, jobs=jobs, policy=policy)
    assert [a.instance_id for a in plan.actions if isinstance(a, Terminate)] == ["m1"]
    assert state.pools["burst"].boots == (False,)


def test_f008_one_machine_of_four_never_registers_and_the_others_serve_on():
    """F008, second run."""
    jobs = [a_sim_job("home", 32, runs_s=1e6, job_class="fixed")]
    jobs += [a_sim_job(f"j{n}", 8, at_s=1, runs_s=7200, job_class="fixed") for n in range(4)]
    site = Site(jobs, policy=a_policy(classes=AT_ONCE))
    script(site, {"at_min": 0, "never_join": 1})
    site.clock.wait(1)
    records = site.run(20)
    assert [a.nodes for _, a in of(Launch, records)] == [4]
    assert len([j for j in site.world.job_facts() if j.pool == "burst" and j.node_ids]) == 3
    later = site.run(30)
    assert [a.reason.split(" within")[0] for _, a in of(Terminate, later)] == ["never joined"]
    assert [a.nodes for _, a in of(Launch, later)] == [1]
    assert not [j for j in site.world.job_facts() if not j.node_ids]


# Killed or half placed


def test_f012_five_of_eight_are_never_kept_and_the_gang_stays_pending():
    """F012: all or nothing; what could be had in part is left to others."""
    jobs = [
        a_sim_job("home", 32, runs_s=1e6, job_class="fixed"),
        a_sim_job("gang", 64, at_s=1, runs_s=3600, job_class="fixed"),
    ]
    site = Site(jobs, policy=a_policy(classes=AT_ONCE), markets=[a_market(limit_nodes=5)])
    site.clock.wait(1)
    site.run(40)
    assert site.world.jobs["gang"].node_ids == ()
    assert site.world.record.nodes == [r for r in site.world.record.nodes if r[1] != "cloud"], "nothing was rented"
    assert site.controller.state.spend.usd_day == 0


def test_f012_a_gang_in_the_cloud_that_loses_a_node_is_requeued_whole_and_the_rest_does_not_run_on():
    """F012, second half: within one tick, and the idle nodes serve its next attempt or go."""
    jobs = [
        a_sim_job("home", 32, runs_s=1e6, job_class="fixed"),
        a_sim_job("gang", 32, at_s=1, runs_s=1800, job_class="fixed", checkpointable=False),
    ]
    site = Site(jobs, policy=a_policy(classes=AT_ONCE, pools={"onprem": home_pool(4), "burst": burst_pool()}))
    site.clock.wait(1)
    site.run(10)
    broken = site.world.jobs["gang"].node_ids[1]
    site.world.fail_node(broken)
    (first, *_) = records = site.run(60)
    assert [a.job_id for a in first.plan.actions if isinstance(a, Displace)] == ["gang"]
    assert "gang" not in site.world.jobs, "it ran to its end"
    assert site.run(20)
    assert len(of(Terminate, records)) >= 1
    assert {i.id for i in site.cloud.instances()} <= {broken}


def test_f012_a_rented_node_that_broke_is_given_back_and_not_paid_for_ever():
    """F012: after the gang has left it nothing runs there any more."""
    jobs = [a_sim_job("home", 32, runs_s=1e6, job_class="fixed"), a_sim_job("a", 8, at_s=1, runs_s=3600)]
    site = Site(jobs, policy=a_policy(classes=AT_ONCE, pools={"onprem": home_pool(4), "burst": burst_pool()}))
    site.clock.wait(1)
    site.run(10)
    (node_id,) = site.world.jobs["a"].node_ids
    site.world.fail_node(node_id)
    site.world.requeue("a")
    site.run(60)
    assert node_id not in {i.id for i in site.cloud.instances()}


# Flapping


def test_f013_demand_that_swings_over_a_node_boundary_does_not_swing_the_nodes():
    """F013: 15 and 17 GPUs in turn every five minutes for two hours: one launch more at most, one removal at most."""
    jobs = [a_sim_job("home", 8, runs_s=1e6, job_class="fixed"), a_sim_job("a", 8, at_s=1, runs_s=8000)]
    jobs += [a_sim_job(f"b{n}", 1, at_s=1, runs_s=8000) for n in range(7)]
    jobs += [a_sim_job(f"p{n}", 2, at_s=600 * n + 300, runs_s=280) for n in range(12)]
    policy = a_policy(classes=AT_ONCE, default_class="batch", pools={"onprem": home_pool(1), "burst": burst_pool()})
    site = Site(jobs, nodes=1, policy=policy)
    site.clock.wait(1)
    records = site.run(120)
    assert sum(a.nodes for _, a in of(Launch, records)) <= 3
    assert len(of(Terminate, records)) <= 1
    assert len(of(Move, records)) <= 2


# Price


def test_f015_a_price_a_thousand_times_too_low_is_refused_and_the_higher_counts():
    """F015 (a)."""
    told = an_offering(price_usd_per_hour=0.0328)
    price = price_usd_per_hour(told, at=NOW, guard=Guard(), last_good={told.key: 32.77})
    assert price == 32.77


def test_f015_prices_a_day_old_count_as_on_demand_or_stop_the_offering_by_policy():
    """F015 (b): the feed has timed out for 26 h."""
    old = an_offering(price_usd_per_hour=4.0, priced_at=NOW - timedelta(hours=26))
    last_good = {old.key: 4.0, "x/b/on-demand": 12.0, "y/a/on-demand": 99.0}
    assert price_usd_per_hour(old, at=NOW, guard=Guard(), last_good=last_good) == 12.0
    assert price_usd_per_hour(old, at=NOW, guard=Guard(price_stale_rule="stop"), last_good=last_good) is None
    fresh = replace(old, priced_at=NOW - timedelta(hours=5))
    assert price_usd_per_hour(fresh, at=NOW, guard=Guard(price_stale_rule="stop"), last_good=last_good) == 4.0


@pytest.mark.parametrize("price", [None, 0.0])
def test_f015_no_price_is_not_a_price_of_zero(price):
    """F015 (c): nothing is bought at a price nobody knows, whatever the money allows."""
    home = running("h", 8, ("home",), LONG_AGO, job_class="fixed")
    snapshot = a_snapshot(
        jobs=(home, a_job("j", 8, job_class="fixed")), nodes=(a_node("home", used=8, job_ids=("h",)),),
        offerings=(an_offering(price_usd_per_hour=price),),
    )  # fmt: skip
    plan = make_plan(snapshot, Forecasts(), a_policy(classes=AT_ONCE), ControllerState())
    assert not [a for a in plan.actions if isinstance(a, Launch)]


# Budget


def test_f016_an_image_that_never_joins_keeps_at_most_the_ceiling_alive():
    """F016, second run: limit 5, and every machine is a boot failure; 40 ticks and many more."""
    policy = a_policy(classes=AT_ONCE, pools={"onprem": home_pool(4), "burst": burst_pool(max_nodes=5)})
    jobs = [a_sim_job("home", 32, runs_s=1e6, job_class="fixed")]
    jobs += [a_sim_job(f"j{n}", 8, at_s=1, runs_s=3600, job_class="fixed") for n in range(25)]
    site = Site(jobs, policy=policy, markets=[a_market(boot_failure_share=1.0)])
    site.clock.wait(1)
    most = 0
    for _ in range(200):
        site.run(1)
        most = max(most, len(site.cloud.instances()))
    assert most == 5
    rented = len([r for r in site.world.record.nodes if r[1] == "cloud"]) + len(site.cloud.instances())
    assert rented <= 10, "the breaker ends the buying: five, then one probe at a time"


def test_f016_launches_side_by_side_do_not_each_see_the_budget_as_free():
    """F016: two pools and a gang in one tick share one cap; what a listing does not show yet counts as well."""
    policy = a_policy(
        classes=AT_ONCE,
        money=Money(usd_per_hour=40.0),
        pools={"onprem": home_pool(4), "burst": burst_pool(), "more": burst_pool()},
    )
    jobs = [a_sim_job("home", 32, runs_s=1e6, job_class="fixed")]
    jobs += [a_sim_job(f"g{n}", 24, at_s=1 + 60 * n, runs_s=1e5, job_class="fixed") for n in range(8)]
    site = Site(jobs, policy=policy)
    script(site, {"at_min": 0, "hide_new_s": 200, "for_min": 60})
    site.clock.wait(1)
    for _ in range(40):
        site.run(1)
        assert sum(i.price_usd_per_hour for i in site.cloud._instances.values()) <= 40.0
    assert len(site.cloud._instances) == 9


# An outage is not zero


def test_f024_jobs_that_a_broken_reading_lacks_are_not_gone():
    """F024 (b): page 3 failed; the busy machines of the jobs it would have shown stay."""
    policy = a_policy(classes=AT_ONCE, pools={"onprem": home_pool(4), "burst": burst_pool()})
    jobs = [a_sim_job("home", 32, runs_s=1e6, job_class="fixed"), a_sim_job("j", 16, at_s=1, runs_s=1e5)]
    site = Site(jobs, policy=policy)
    site.clock.wait(1)
    site.run(10)

    class Partial:
        """Tells a part and says so."""

        def __getattr__(self, name):
            return getattr(site.cluster, name)

        def read(self):
            whole = site.cluster.read()
            return replace(whole, jobs=(), nodes=whole.nodes[:2], complete=False, trouble="page 3 failed")

    site.ports = replace(site.ports, clusters={"main": Partial()})
    site.restart(site.controller.state)  # a new process: it has no last good reading either
    records = site.run(30)
    assert not [a for r in records for a in r.plan.actions]
    assert len(site.cloud.instances()) == 2
    assert site.world.is_running("j")
    assert all(r.plan.notes == ("cluster:main: incomplete: page 3 failed",) for r in records)


# Forecasts


def zeros():
    """A forecast that says there will be no demand at all."""
    quantiles = {q: np.zeros(48) for q in (0.1, 0.5, 0.9)}
    one = Forecast(key="onprem", cutoff=NOW, made_at=NOW, step_s=3600, gpus=quantiles, forecaster="test")
    return Forecasts(demand={"onprem": one})


def test_f026_a_forecast_of_zero_removes_no_busy_node_and_does_not_lower_the_live_demand():
    """F026."""
    job = running("a", 8, ("c1",), LONG_AGO, pool="burst", job_class="fixed")
    home = running("h", 8, ("n0",), LONG_AGO, job_class="fixed")
    busy = a_node("c1", used=8, pool="burst", job_ids=("a",), instance_id="c1")
    snapshot = a_snapshot(
        jobs=(job, home, a_job("w", 8, job_class="fixed")), nodes=(a_node("n0", used=8, job_ids=("h",)), busy),
        instances=(an_instance("c1"),),
    )  # fmt: skip
    with_zero = make_plan(snapshot, zeros(), a_policy(classes=AT_ONCE), ControllerState())
    without = make_plan(snapshot, Forecasts(), a_policy(classes=AT_ONCE), ControllerState())
    assert not [a for a in with_zero.actions if isinstance(a, Terminate)]
    assert with_zero.actions == without.actions
    assert [t.gpus_wanted for t in with_zero.targets] == [24]


def test_a_lost_answer_is_not_asked_again_until_the_listing_has_told():
    """F002, F006: unknown is neither done nor failed; the machine is adopted when it shows."""
    jobs = [a_sim_job("home", 32, runs_s=1e6, job_class="fixed"), a_sim_job("j", 8, at_s=1, job_class="fixed")]
    site = Site(jobs, policy=a_policy(classes=AT_ONCE))
    script(site, {"at_min": 0, "lost_reply": 1}, {"at_min": 0, "hide_new_s": 130, "for_min": 5})
    site.clock.wait(1)
    records = site.run(15)
    assert len(of(Launch, records)) == 1
    assert next(o.error_kind for r in records for o in r.outcomes) == "unreachable"
    assert len(site.cloud.instances()) == 1
    assert site.world.jobs["j"].pool == "burst"


def test_a_plan_over_facts_of_a_reading_in_trouble_says_so():
    readings = (Reading(source="cloud:sim", read_at=LONG_AGO, error="throttled: slow down"),)
    plan: Plan = make_plan(a_snapshot(readings=readings), Forecasts(), a_policy(), ControllerState())
    assert plan.notes == ("cloud:sim: throttled: slow down",)


def test_an_interrupted_machine_that_still_boots_is_not_waited_for():
    """F007: what the cloud takes back is no capacity any more."""
    home = running("h", 8, ("n0",), LONG_AGO, job_class="fixed")
    dying = an_instance("c1", state=InstanceState.TERMINATING, capacity_type=CapacityType.SPOT, node_id=None)
    snapshot = a_snapshot(
        jobs=(home, a_job("w", 8, job_class="fixed")), nodes=(a_node("n0", used=8, job_ids=("h",)),), instances=(dying,)
    )
    plan = make_plan(snapshot, Forecasts(), a_policy(classes=AT_ONCE), ControllerState())
    assert [a.nodes for a in plan.actions if isinstance(a, Launch)] == [1]


def test_work_that_need_not_give_way_after_all_keeps_its_place_in_the_picture():
    """Found by the seeded weeks: the small job is tried first and is no help; a second urgent job must not be sent onto
    its GPUs as if they were free."""
    jobs = (
        running("s", 2, ("n3",), LONG_AGO),
        running("f", 4, ("n3",), LONG_AGO, job_class="fixed"),
        *(running(f"b{n}", 8, (f"n{n}",), LONG_AGO) for n in range(3)),
        a_job("u1", 24, job_class="urgent", priority=2),
        a_job("u2", 4, job_class="urgent", priority=1),
    )
    nodes = (a_node("n3", used=6, job_ids=("s", "f")), *(a_node(f"n{n}", used=8, job_ids=(f"b{n}",)) for n in range(3)))
    plan = make_plan(a_snapshot(jobs=jobs, nodes=nodes), Forecasts(), a_policy(), ControllerState())
    displaced = {a.job_id for a in plan.actions if isinstance(a, Displace)}
    free = {
        n.id: (n.free_gpus or 0) + sum(j.gpus for j in jobs if j.id in displaced and n.id in j.node_ids) for n in nodes
    }
    for route in [a for a in plan.actions if isinstance(a, Route)]:
        (job,) = [j for j in jobs if j.id == route.job_id]
        for node_id in route.node_ids:
            free[node_id] -= job.gpus // len(route.node_ids)
    assert min(free.values()) >= 0, free
    assert {a.job_id for a in plan.actions if isinstance(a, Route)} == {"u1", "u2"}


def test_no_work_is_sent_onto_a_machine_in_the_tick_that_hears_of_its_end():
    """F007, found by the seeded weeks: the node is still open when the plan is made."""
    home = running("h", 8, ("n0",), LONG_AGO, job_class="fixed")
    rented = a_node("c1", pool="burst", instance_id="c1")
    notice = Interruption(id="n1", cloud="sim", instance_id="c1", kind=InterruptionKind.SPOT_INTERRUPTION,
                          noticed_at=NOW, ends_at=NOW + timedelta(minutes=2))  # fmt: skip
    snapshot = a_snapshot(
        jobs=(home, a_job("w", 8, job_class="fixed")), nodes=(a_node("n0", used=8, job_ids=("h",)), rented),
        instances=(an_instance("c1"),), interruptions=(notice,),
    )  # fmt: skip
    plan = make_plan(snapshot, Forecasts(), a_policy(classes=AT_ONCE), ControllerState())
    assert [a.node_id for a in plan.actions if isinstance(a, Cordon)] == ["c1"]
    assert not [a for a in plan.actions if isinstance(a, Route)]
    assert [a.nodes for a in plan.actions if isinstance(a, Launch)] == [1]


def test_a_launch_that_never_took_effect_does_not_keep_its_jobs_waiting_for_half_an_hour():
    """F002: the call was lost on its way; whole listings do not show it, so it is asked again after ten minutes."""
    jobs = [a_sim_job("home", 32, runs_s=1e6, job_class="fixed"), a_sim_job("j", 8, at_s=1, job_class="fixed")]
    site = Site(jobs, policy=a_policy(classes=AT_ONCE))
    script(site, {"at_min": 0, "launch_error": "unreachable"})
    site.clock.wait(1)
    records = site.run(20)
    launches = of(Launch, records)
    assert [tick for tick, _ in launches] == [1, 12]
    assert launches[0][1].token != launches[1][1].token
    assert site.world.jobs["j"].pool == "burst"


def test_while_the_cloud_cannot_be_read_a_lost_launch_stays_in_flight():
    """No facts, no action: a listing that lacks a part proves nothing."""
    jobs = [a_sim_job("home", 32, runs_s=1e6, job_class="fixed"), a_sim_job("j", 8, at_s=1, job_class="fixed")]
    site = Site(jobs, policy=a_policy(classes=AT_ONCE))
    script(
        site,
        {"at_min": 0, "lost_reply": 1},
        {"at_min": 0.5, "cloud_gap": "second page throttled", "for_min": 20},
    )
    site.clock.wait(1)
    site.run(15)
    assert len(site.controller.state.in_flight) == 1
    records = site.run(15)
    assert of(Launch, records) == []
    assert len(site.cloud.instances()) == 1


def test_machines_of_a_pool_that_the_policy_no_longer_names_end_with_their_work():
    """F001: a policy edit leaves no machine behind that nobody owns, and takes none from under its work."""
    jobs = [a_sim_job("home", 32, runs_s=1e6, job_class="fixed"), a_sim_job("j", 8, at_s=1, runs_s=3600)]
    site = Site(jobs, policy=a_policy(classes=AT_ONCE, pools={"onprem": home_pool(4), "burst": burst_pool()}))
    site.clock.wait(1)
    site.run(10)
    site.policy = a_policy(
        content_hash="renamed", classes=AT_ONCE, pools={"onprem": home_pool(4), "cloud": burst_pool()}
    )
    site.run(40)
    assert site.world.is_running("j")
    assert len(site.cloud.instances()) == 1
    site.run(60)
    assert "j" not in site.world.jobs
    assert site.cloud.instances() == ()
