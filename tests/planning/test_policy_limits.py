"""Every limit a policy can name has its effect."""

from datetime import timedelta

import numpy as np
import pytest

from elastic.planning.plan import Launch, Move, Terminate
from elastic.planning.planner import make_plan
from elastic.planning.policy import Budget, Guard, JobClass, Money, Pool, Team
from elastic.planning.snapshot import Reading
from elastic.planning.state import ControllerState, Lease, Spend
from forecast.forecaster import Forecast, Forecasts
from providers.facts import CapacityType, InstanceState
from tests.builders import NOW, a_job, a_node, a_policy, a_snapshot, an_instance, an_offering, running

LONG_AGO = NOW - timedelta(hours=5)
DUE = NOW - timedelta(minutes=11)
LATE = NOW - timedelta(minutes=16)


def plan(snapshot, policy=None, state=None):
    return make_plan(snapshot, Forecasts(), policy or a_policy(), state or ControllerState())


def of(kind, made):
    return [a for a in made.actions if isinstance(a, kind)]


def pools(**burst):
    parts = {
        "place": "burst", "cluster": "main", "cloud": "sim", "gpu_model": "gpu", "gpus_per_node": 8, "max_nodes": 100,
        "lead_time": "240 s", "idle_release": "0 s", "capacity_types": ("spot", "on-demand"),
    }  # fmt: skip
    home = Pool(place="on-prem", cluster="main", gpu_model="gpu", gpus_per_node=8, nodes=4)
    return {"onprem": home, "burst": Pool(**{**parts, **burst})}


def a_forecast(key, gpus):
    """The same demand for two hours ahead."""
    steps = np.full(2, float(gpus))
    return Forecast(
        key=key, cutoff=NOW, made_at=NOW, step_s=3600, gpus={0.5: steps, 0.9: steps}, forecaster="test", score=0.0,
        fallback="", peaks=(), clipped=False,
    )  # fmt: skip


def full_home():
    jobs = tuple(running(f"r{i}", 8, (f"n{i}",), LONG_AGO, job_class="fixed") for i in range(4))
    return jobs, tuple(a_node(f"n{i}", used=8, job_ids=(f"r{i}",)) for i in range(4))


def rented(count, **changes):
    """Rented nodes with a checkpointable job each, and their machines."""
    jobs = tuple(running(f"c{i}", 8, (f"m{i}",), LONG_AGO, pool="burst") for i in range(count))
    nodes = tuple(a_node(f"m{i}", used=8, pool="burst", job_ids=(f"c{i}",), instance_id=f"m{i}") for i in range(count))
    return jobs, nodes, tuple(an_instance(f"m{i}", **changes) for i in range(count))


@pytest.mark.parametrize(("budget", "emptied"), [(0.1, 1), (0.5, 2), (1.0, 4)])
def test_moves_empty_no_more_nodes_in_a_tick_than_the_disruption_budget(budget, emptied):
    jobs, nodes, machines = rented(4)
    home = tuple(a_node(f"n{i}") for i in range(4))
    policy = a_policy(pools=pools(disruption_budget=budget))
    made = plan(a_snapshot(jobs=jobs, nodes=(*home, *nodes), instances=machines), policy)
    assert len(of(Move, made)) == emptied


def test_with_a_deadline_fallback_on_demand_comes_in_only_after_the_wait_target():
    jobs, nodes = full_home()
    policy = a_policy(classes={"batch": JobClass(checkpointable=True, deadline_fallback=True), "fixed": JobClass()})
    both = (an_offering(), an_offering(capacity_type=CapacityType.ON_DEMAND, price_usd_per_hour=9.0))
    due = plan(a_snapshot(jobs=(*jobs, a_job("p", 8, submitted_at=DUE)), nodes=nodes, offerings=both), policy)
    late = plan(a_snapshot(jobs=(*jobs, a_job("p", 8, submitted_at=LATE)), nodes=nodes, offerings=both), policy)
    assert [[o.capacity_type.value for o in launch.offerings] for launch in of(Launch, due)] == [["spot"]]
    assert [[o.capacity_type.value for o in launch.offerings] for launch in of(Launch, late)] == [["spot", "on-demand"]]


def test_facts_older_than_the_limit_are_not_acted_on_and_a_person_is_told():
    jobs, nodes = full_home()
    old = tuple(Reading(source=name, read_at=NOW - timedelta(minutes=6)) for name in ("cluster:main", "cloud:sim"))
    snapshot = a_snapshot(jobs=(*jobs, a_job("p", 8, submitted_at=DUE)), nodes=nodes, readings=old)
    held = plan(snapshot)
    patient = plan(snapshot, a_policy(guard=Guard(removal_ceiling=1.0, stale_after="10 min")))
    assert [w.rule for w in held.withheld] == ["source_unreadable"]
    assert any("cluster:main: read 6 min ago" in note for note in held.notes)
    assert len(of(Launch, patient)) == 1


def test_ready_nodes_wait_for_the_rest_of_their_gang_only_so_long():
    jobs, nodes = full_home()
    there = tuple(
        a_node(f"m{i}", pool="burst", instance_id=f"m{i}", idle_since=NOW - timedelta(minutes=10)) for i in range(2)
    )
    asked = NOW - timedelta(minutes=10)
    machines = (
        *(an_instance(f"m{i}", requested_at=asked) for i in range(2)),
        an_instance("m2", state=InstanceState.PENDING, node_id=None, requested_at=asked),
    )
    snapshot = a_snapshot(
        jobs=(*jobs, a_job("g", 24, job_class="fixed", submitted_at=LATE)), nodes=(*nodes, *there), instances=machines
    )
    released = plan(snapshot)
    patient = plan(snapshot, a_policy(guard=Guard(removal_ceiling=1.0, gang_wait="10 min")))
    assert [t.instance_id for t in of(Terminate, released)] == ["m0", "m1"]
    assert all("gang" in t.reason for t in of(Terminate, released))
    assert not of(Terminate, patient)


def test_a_team_over_its_budget_cannot_ride_on_the_launch_of_another():
    jobs, nodes = full_home()
    policy = a_policy(teams={"poor": Team(budget=Budget(usd_per_day=10)), "rich": Team()})
    state = ControllerState(spend=Spend(day=f"{NOW:%Y-%m-%d}", month=f"{NOW:%Y-%m}", team_usd_day={"poor": 10.0}))
    waiting = (a_job("p", 8, team="poor", submitted_at=DUE), a_job("r", 8, team="rich", submitted_at=DUE))
    made = plan(a_snapshot(jobs=(*jobs, *waiting), nodes=nodes), policy, state)
    assert [launch.job_ids for launch in of(Launch, made)] == [("r",)]
    assert [(w.rule, w.action.job_ids) for w in made.withheld] == [("team_budget_day", ("p",))]


def test_money_that_runs_out_is_told_at_four_fifths():
    spend = Spend(day=f"{NOW:%Y-%m-%d}", month=f"{NOW:%Y-%m}", usd_day=80.0, usd_month=80.0)
    policy = a_policy(money=Money(usd_per_day=100, usd_per_month=1000))
    made = plan(a_snapshot(), policy, ControllerState(spend=spend))
    assert made.notes == ("80.00 of 100.00 USD of the day are spent",)
    tomorrow = plan(a_snapshot(at=NOW + timedelta(days=1), offerings=()), policy, ControllerState(spend=spend))
    assert tomorrow.notes == ()


def test_a_price_that_is_not_believed_is_told():
    made = plan(
        a_snapshot(offerings=(an_offering(price_usd_per_hour=0.01),)),
        state=ControllerState(prices={an_offering().key: 4.0}),
    )
    assert [note for note in made.notes if "not believed" in note]


def test_a_lease_needs_no_approval_of_its_own():
    lease = Lease(
        id="l1", team="alpha", pool="burst", gpus=16, starts_at=NOW, ends_at=NOW + timedelta(hours=2),
        requested_by="a", approved_by="b", note="",
    )  # fmt: skip
    policy = a_policy(money=Money(approval_above_usd=1.0))
    made = plan(a_snapshot(), policy, ControllerState(leases={"l1": lease}))
    assert [(launch.nodes, launch.lease_id, launch.team) for launch in of(Launch, made)] == [(2, "l1", "alpha")]


def test_only_work_that_can_neither_wait_nor_displace_is_bought_ahead():
    """Half of the demand is of that kind, so half of what the forecast says home will lack."""
    ahead = a_forecast("onprem", 64)
    jobs = (running("u", 8, ("n0",), LONG_AGO, job_class="urgent"), running("b", 8, ("n1",), LONG_AGO))
    nodes = tuple(a_node(f"n{i}", used=8 if i < 2 else 0) for i in range(4))
    meek = JobClass(checkpointable=False, wait_target="0 s")
    classes = {"batch": JobClass(checkpointable=True), "urgent": meek}
    bold = {**classes, "urgent": meek.model_copy(update={"may_displace": True})}
    snapshot = a_snapshot(jobs=jobs, nodes=nodes)
    made = make_plan(snapshot, Forecasts(demand={"onprem": ahead}), a_policy(classes=classes), ControllerState())
    displacing = make_plan(snapshot, Forecasts(demand={"onprem": ahead}), a_policy(classes=bold), ControllerState())
    assert [launch.nodes for launch in of(Launch, made)] == [2]
    assert not of(Launch, displacing)


def test_a_job_larger_than_its_teams_ceiling_waits_at_home_and_holds_no_rented_node():
    jobs, nodes = full_home()
    idle = a_node("m0", pool="burst", instance_id="m0", idle_since=NOW - timedelta(minutes=1))
    policy = a_policy(teams={"alpha": Team(burst_ceiling_gpus=16)})
    snapshot = a_snapshot(
        jobs=(*jobs, a_job("g", 32, team="alpha", submitted_at=LATE)),
        nodes=(*nodes, idle),
        instances=(an_instance("m0"),),
    )
    made = plan(snapshot, policy)
    assert not of(Launch, made)
    assert not made.withheld
    assert [t.instance_id for t in of(Terminate, made)] == ["m0"]
    assert [(w.rule, w.job_ids) for w in made.waits] == [("too_large_to_burst", ("g",))]


def test_work_goes_home_again_when_a_due_job_has_been_held_for_long():
    jobs, nodes, machines = rented(1)
    home = (a_node("n0"), a_node("n1", used=8, job_ids=("f",)))
    stuck = running("f", 8, ("n1",), LONG_AGO, job_class="fixed")
    broke = ControllerState(spend=Spend(day=f"{NOW:%Y-%m-%d}", month=f"{NOW:%Y-%m}", usd_day=100.0))
    policy = a_policy(money=Money(usd_per_day=100))
    for submitted_at, moves in ((DUE, 0), (NOW - timedelta(hours=1), 1)):
        waiting = a_job("g", 32, job_class="fixed", submitted_at=submitted_at)
        made = plan(a_snapshot(jobs=(*jobs, stuck, waiting), nodes=(*home, *nodes), instances=machines), policy, broke)
        assert len(of(Move, made)) == moves, submitted_at
