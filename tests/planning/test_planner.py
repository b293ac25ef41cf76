"""The planner's decisions, one case a rule."""

from dataclasses import replace
from datetime import timedelta

import pytest

from elastic.planning.plan import Displace, Launch, Move, Purpose, Route, Terminate
from elastic.planning.planner import make_plan
from elastic.planning.policy import Guard, Mode, Money
from elastic.planning.snapshot import Reading
from elastic.planning.state import ControllerMode, ControllerState, InFlight, MoveMemory, UnavailableOffering
from forecast.forecaster import Forecasts
from providers.facts import CapacityType, InstanceState, PendingReason
from tests.builders import NOW, a_job, a_node, a_policy, a_snapshot, an_instance, an_offering, running

LONG_AGO = NOW - timedelta(hours=5)
DUE = NOW - timedelta(minutes=11)


def plan(snapshot, policy=None, state=None):
    return make_plan(snapshot, Forecasts(), policy or a_policy(), state or ControllerState())


def of(kind, made):
    return [a for a in made.actions if isinstance(a, kind)]


def full_site(**changes):
    """Four on-prem nodes, each full with one job that runs for hours."""
    names = [f"n{i}" for i in range(4)]
    jobs = tuple(running(f"r{i}", 8, (n,), LONG_AGO, **changes) for i, n in enumerate(names))
    nodes = tuple(a_node(n, used=8, job_ids=(f"r{i}",)) for i, n in enumerate(names))
    return jobs, nodes


def test_a_job_waits_at_home_until_its_wait_target_is_near():
    jobs, nodes = full_site()
    fresh = plan(a_snapshot(jobs=(*jobs, a_job("p", 8)), nodes=nodes))
    due = plan(a_snapshot(jobs=(*jobs, a_job("p", 8, submitted_at=DUE)), nodes=nodes))
    assert not of(Launch, fresh)
    assert [launch.nodes for launch in of(Launch, due)] == [1]
    assert fresh.next_look_at == NOW + timedelta(minutes=10)


def test_an_urgent_job_takes_the_place_of_lower_classes_at_once():
    jobs, nodes = full_site()
    made = plan(a_snapshot(jobs=(*jobs, a_job("u", 16, job_class="urgent")), nodes=nodes))
    assert len(of(Displace, made)) == 2
    assert [r.job_id for r in of(Route, made)] == ["u"]
    assert not of(Launch, made)


def test_an_urgent_job_displaces_nobody_unless_it_then_starts_whole():
    jobs, nodes = full_site(job_class="fixed")
    made = plan(a_snapshot(jobs=(*jobs, a_job("u", 16, job_class="urgent")), nodes=nodes))
    assert not of(Displace, made)
    assert [launch.nodes for launch in of(Launch, made)] == [2]


def test_gang_is_launched_whole_or_not_at_all():
    jobs, nodes = full_site()
    due = a_job("g", 40, submitted_at=DUE)
    small = a_policy(guard=Guard(launch_ceiling_nodes=4, removal_ceiling=1.0))
    whole = plan(a_snapshot(jobs=(*jobs, due), nodes=nodes))
    held = plan(a_snapshot(jobs=(*jobs, due), nodes=nodes), small)
    assert [(launch.nodes, launch.gang) for launch in of(Launch, whole)] == [(5, True)]
    assert not of(Launch, held)
    assert [w.rule for w in held.withheld] == ["launch_ceiling"]


def test_capacity_that_comes_is_not_bought_twice():
    """F008: a node that boots is counted for the job it was bought for."""
    jobs, nodes = full_site()
    booting = an_instance("i1", state=InstanceState.PENDING, node_id=None)
    made = plan(a_snapshot(jobs=(*jobs, a_job("p", 8, submitted_at=DUE)), nodes=nodes, instances=(booting,)))
    assert not of(Launch, made)
    assert [w.rule for w in made.waits] == ["coming"]


def test_a_launch_no_listing_shows_yet_is_not_repeated():
    """F006: listings are eventually consistent."""
    jobs, nodes = full_site()
    snapshot = a_snapshot(jobs=(*jobs, a_job("p", 8, submitted_at=DUE)), nodes=nodes)
    launch = of(Launch, plan(snapshot))[0]
    state = ControllerState(in_flight={launch.token: InFlight(launch=launch, asked_at=NOW)})
    assert not of(Launch, plan(snapshot, state=state))


def test_small_work_is_packed_together_so_that_waiting_work_starts_at_home():
    jobs = (running("a", 2, ("n0",), LONG_AGO), running("b", 6, ("n1",), LONG_AGO))
    nodes = (a_node("n0", used=2, job_ids=("a",)), a_node("n1", used=6, job_ids=("b",)))
    made = plan(a_snapshot(jobs=(*jobs, a_job("p", 8)), nodes=nodes))
    assert [(m.job_id, m.to_node_ids, m.purpose) for m in of(Move, made)] == [("a", ("n1",), Purpose.MAKE_ROOM)]
    assert [(r.job_id, r.node_ids) for r in of(Route, made)] == [("p", ("n0",))]


def test_work_that_cannot_move_takes_a_place_at_home_and_movable_work_goes_out():
    jobs, nodes = full_site()
    cloud = a_node("c1", pool="burst", instance_id="c1")
    waiting = a_job("f", 8, job_class="fixed", submitted_at=DUE)
    snapshot = a_snapshot(jobs=(*jobs, waiting), nodes=(*nodes, cloud), instances=(an_instance("c1"),))
    made = plan(snapshot)
    assert [(m.purpose, m.to_node_ids) for m in of(Move, made)] == [(Purpose.SWAP, ("c1",))]
    assert [(r.job_id, r.pool) for r in of(Route, made)] == [("f", "onprem")]


def test_cloud_work_goes_home_when_it_fits_and_its_node_is_given_back_the_tick_after():
    job = running("a", 8, ("c1",), LONG_AGO, pool="burst")
    busy = a_node("c1", used=8, pool="burst", job_ids=("a",), instance_id="c1")
    made = plan(a_snapshot(jobs=(job,), nodes=(a_node("n0"), busy), instances=(an_instance("c1"),)))
    assert [(m.purpose, m.to_node_ids) for m in of(Move, made)] == [(Purpose.HOME, ("n0",))]
    idle = replace(busy, free_gpus=8, job_ids=(), idle_since=NOW)
    after = plan(a_snapshot(nodes=(a_node("n0", used=8), idle), instances=(an_instance("c1"),)))
    assert [t.instance_id for t in of(Terminate, after)] == ["c1"]


def test_work_without_checkpoints_is_never_moved():
    job = running("a", 8, ("c1",), LONG_AGO, pool="burst", job_class="fixed")
    busy = a_node("c1", used=8, pool="burst", job_ids=("a",), instance_id="c1")
    assert not plan(a_snapshot(jobs=(job,), nodes=(a_node("n0"), busy), instances=(an_instance("c1"),))).actions


def test_a_job_moved_often_enough_today_stays():
    job = running("a", 8, ("c1",), LONG_AGO, pool="burst")
    busy = a_node("c1", used=8, pool="burst", job_ids=("a",), instance_id="c1")
    tired = ControllerState(moves={"a": MoveMemory(day="2026-12-01", count=4, last_at=LONG_AGO)})
    snapshot = a_snapshot(jobs=(job,), nodes=(a_node("n0"), busy), instances=(an_instance("c1"),))
    assert of(Move, plan(snapshot))
    assert not of(Move, plan(snapshot, state=tired))


def test_a_node_whose_use_is_not_known_is_not_idle():
    """F011: a missing reading is unknown, not idle."""
    node = a_node("c1", pool="burst", instance_id="c1", free_gpus=None, idle_since=None)
    assert not plan(a_snapshot(nodes=(node,), instances=(an_instance("c1"),))).actions


def test_removals_of_a_tick_have_a_ceiling_whatever_the_cause():
    """F011: at most a share of the pool, at least one."""
    nodes = tuple(a_node(f"c{i}", pool="burst", instance_id=f"c{i}") for i in range(20))
    instances = tuple(an_instance(f"c{i}") for i in range(20))
    made = plan(a_snapshot(nodes=nodes, instances=instances), a_policy(guard=Guard(removal_ceiling=0.1)))
    assert len(of(Terminate, made)) == 2
    assert {w.rule for w in made.withheld} == {"removal_ceiling"}


@pytest.mark.parametrize("source", ["cluster:main", "cloud:sim"])
def test_nothing_is_bought_or_removed_on_an_unreadable_source(source):
    """F024: no facts, no action."""
    jobs, nodes = full_site()
    idle = a_node("c1", pool="burst", instance_id="c1")
    readings = (Reading(source=source, read_at=LONG_AGO, error="incomplete: page 3 failed"),)
    snapshot = a_snapshot(
        jobs=(*jobs, a_job("p", 40, submitted_at=DUE)),
        nodes=(*nodes, idle), instances=(an_instance("c1"),), readings=readings,
    )  # fmt: skip
    made = plan(snapshot)
    assert not of(Launch, made)
    assert not of(Terminate, made)
    assert {w.rule for w in made.withheld} == {"source_unreadable"}


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ADVISE])
def test_a_policy_that_does_not_act_withholds_everything(mode):
    jobs, nodes = full_site()
    made = plan(a_snapshot(jobs=(*jobs, a_job("p", 8, submitted_at=DUE)), nodes=nodes), a_policy(mode=mode))
    assert not made.actions
    assert [w.rule for w in made.withheld] == [f"mode_{mode.value}"]


def test_protected_mode_holds_launches_and_lets_idle_nodes_go():
    """Also one that a gang counts on, when the rest of its nodes does not come."""
    jobs, nodes = full_site()
    idle = a_node("c1", pool="burst", instance_id="c1", idle_since=NOW - timedelta(minutes=10))
    state = ControllerState(mode=ControllerMode.PROTECTED)
    snapshot = a_snapshot(
        jobs=(*jobs, a_job("p", 40, submitted_at=DUE)), nodes=(*nodes, idle), instances=(an_instance("c1"),)
    )
    made = plan(snapshot, state=state)
    assert not of(Launch, made)
    assert of(Terminate, made)


def test_the_hourly_cap_counts_what_runs_and_what_this_tick_buys():
    """F016: 40 USD an hour at 4 USD a node: ten nodes, fifteen jobs wait with the rule's name."""
    jobs, nodes = full_site()
    waiting = tuple(a_job(f"p{i}", 8, submitted_at=DUE) for i in range(25))
    made = plan(a_snapshot(jobs=(*jobs, *waiting), nodes=nodes), a_policy(money=Money(usd_per_hour=40)))
    assert sum(launch.nodes for launch in of(Launch, made)) == 10
    assert [(w.rule, w.action.nodes) for w in made.withheld] == [("budget_hour", 15)]


def test_an_offering_set_aside_gives_way_to_the_next_one():
    """F003: react to the capacity error; the next capacity type serves the demand."""
    jobs, nodes = full_site()
    offerings = (an_offering(), an_offering(capacity_type=CapacityType.ON_DEMAND, price_usd_per_hour=10.0))
    aside = UnavailableOffering(
        key="x/a/spot", until=NOW + timedelta(minutes=5), strikes=1, error_kind="insufficient_capacity"
    )
    snapshot = a_snapshot(jobs=(*jobs, a_job("p", 8, submitted_at=DUE)), nodes=nodes, offerings=offerings)
    first = of(Launch, plan(snapshot))[0]
    second = of(Launch, plan(snapshot, state=ControllerState(unavailable={aside.key: aside})))[0]
    assert [o.key for o in first.offerings] == ["x/a/spot", "x/a/on-demand"]
    assert [o.key for o in second.offerings] == ["x/a/on-demand"]


@pytest.mark.parametrize(("price", "chosen"), [(None, False), (0.0, False), (4.0, True)])
def test_no_price_is_not_zero(price, chosen):
    """F015 (c)."""
    jobs, nodes = full_site()
    offerings = (an_offering(price_usd_per_hour=price),)
    made = plan(a_snapshot(jobs=(*jobs, a_job("p", 8, submitted_at=DUE)), nodes=nodes, offerings=offerings))
    assert bool(of(Launch, made)) is chosen


def test_work_that_capacity_would_not_cure_is_no_demand():
    held = a_job("h", 8, submitted_at=DUE, pending_reason=PendingReason.HELD)
    made = plan(a_snapshot(jobs=(held,), nodes=()))
    assert not made.actions
    assert [(w.rule, w.job_ids) for w in made.waits] == [("held", ("h",))]


def test_a_gang_that_lost_a_node_goes_back_into_the_queue_whole():
    """F012, second half."""
    job = running("g", 16, ("n0", "gone"), LONG_AGO)
    made = plan(a_snapshot(jobs=(job,), nodes=(a_node("n0", used=8, job_ids=("g",)),)))
    assert [d.job_id for d in of(Displace, made)] == ["g"]


def test_a_machine_that_never_joined_is_given_back_at_its_deadline():
    """F008, second half."""
    lost = an_instance("i1", node_id=None, requested_at=NOW - timedelta(minutes=21))
    made = plan(a_snapshot(instances=(lost,)))
    assert [t.reason for t in of(Terminate, made)] == ["never joined within 20 min of the request"]


def test_the_same_inputs_give_the_same_plan():
    jobs, nodes = full_site()
    snapshot = a_snapshot(jobs=(*jobs, a_job("p", 40, submitted_at=DUE)), nodes=nodes)
    assert plan(snapshot) == plan(snapshot)
