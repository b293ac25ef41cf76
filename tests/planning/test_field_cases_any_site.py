"""Any site that can be: the planner makes a plan of it, and the plan can be carried out as it stands."""

from datetime import timedelta

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elastic.codec import body_to_json, record_from_json, snapshot_to_json
from elastic.plan_text import render
from elastic.planning.plan import Displace, Drain, Launch, Move, Route, Terminate
from elastic.planning.planner import make_plan
from elastic.planning.policy import Guard, Headroom, JobClass, Pool
from elastic.planning.state import ControllerState, InFlight, Lease, MoveMemory, PoolMemory, Record
from forecast.forecaster import Forecast, Forecasts
from providers.facts import (
    CapacityType,
    InstanceState,
    Interruption,
    InterruptionKind,
    JobState,
    NodeState,
    PendingReason,
)
from tests.builders import NOW, a_job, a_node, a_policy, a_snapshot, an_instance, an_offering

CPUS, MEMORY_GIB = 64, 512.0
CLASSES = {
    "batch": JobClass(checkpointable=True, may_be_displaced=True),
    "fixed": JobClass(checkpointable=False),
    "home": JobClass(checkpointable=True, may_burst=False, rank=1),
    "urgent": JobClass(checkpointable=False, wait_target="0 s", may_displace=True, rank=10),
}


def site_policy(draw):
    shape = {"cluster": "main", "gpu_model": "gpu", "gpus_per_node": 8, "cpus_per_node": CPUS,
             "memory_gib_per_node": MEMORY_GIB}  # fmt: skip
    burst = {"place": "burst", "cloud": "sim", "lead_time": "240 s", "idle_release": "300 s", "max_nodes": 12}
    headroom = (Headroom(gpus=draw(st.sampled_from([4, 8]))),) if draw(st.booleans()) else ()
    return a_policy(
        classes=CLASSES,
        pools={
            "onprem": Pool(place="on-prem", nodes=4, **shape),
            "burst": Pool(capacity_types=("spot", "on-demand"), headroom=headroom, **burst, **shape),
            "second": Pool(capacity_types=("on-demand",), min_nodes=draw(st.integers(0, 1)), **burst, **shape),
        },
        guard=Guard(removal_ceiling=draw(st.sampled_from([0.1, 1.0]))),
    )


def nodes_of(draw):
    """Nodes at home and rented ones with their machines, in any state."""
    nodes, instances, notices = [], [], []
    for number in range(4):
        state = draw(st.sampled_from([NodeState.READY] * 6 + list(NodeState)))
        nodes.append(a_node(f"n{number}", state=state, **room()))
    for number in range(draw(st.integers(0, 5))):
        pool, zone = draw(st.sampled_from(["burst", "second"])), draw(st.sampled_from("ab"))
        state = draw(st.sampled_from([NodeState.READY] * 5 + [None] + list(NodeState)))
        name = f"c{number}"
        age = timedelta(minutes=draw(st.sampled_from([1, 10, 30, 300])))
        gone = draw(st.sampled_from([False] * 9 + [True]))
        machine = InstanceState.TERMINATING if gone else InstanceState.RUNNING if state else InstanceState.PENDING
        instances.append(
            an_instance(name, pool=pool, zone=zone, node_id=name if state else None, requested_at=NOW - age,
                        state=machine, token=f"t{number}")
        )  # fmt: skip
        if state:
            nodes.append(a_node(name, pool=pool, zone=zone, state=state, instance_id=name, **room()))
        if draw(st.sampled_from([False] * 6 + [True])):
            kind = draw(st.sampled_from(InterruptionKind))
            notices.append(
                Interruption(id=f"n-{name}", cloud="sim", instance_id=name, kind=kind, noticed_at=NOW,
                             ends_at=NOW + timedelta(minutes=2))
            )  # fmt: skip
    return nodes, instances, notices


def room():
    return {"cpus": CPUS, "free_cpus": CPUS, "memory_gib": MEMORY_GIB, "free_memory_gib": MEMORY_GIB,
            "idle_since": NOW - timedelta(minutes=20)}  # fmt: skip


def running_jobs(draw, nodes):
    """Jobs on nodes that have room for them, and the nodes with what is left."""
    jobs, left = [], {n.id: n for n in nodes if n.state is not NodeState.JOINING}
    for number in range(draw(st.integers(0, 10))):
        parts = draw(st.sampled_from([1, 1, 1, 2, 3]))
        gpus = draw(st.sampled_from([1, 2, 4, 8])) if parts == 1 else 8
        fits = [n for n in left.values() if n.free_gpus >= gpus]
        pools = sorted({(n.pool, n.zone) for n in fits})
        if not pools:
            continue
        pool, zone = draw(st.sampled_from(pools))
        chosen = [n for n in fits if (n.pool, n.zone) == (pool, zone)][:parts]
        if len(chosen) < parts:
            continue
        name = f"r{number}"
        jobs.append(
            a_job(
                name, gpus * parts, nodes=parts, state=JobState.RUNNING, node_ids=tuple(n.id for n in chosen),
                node_gpus=(gpus,) * parts, pool=pool, job_class=draw(st.sampled_from(sorted(CLASSES))),
                started_at=NOW - timedelta(minutes=draw(st.sampled_from([2, 30, 600]))),
                submitted_at=NOW - timedelta(hours=11), cpus=4 * gpus * parts, memory_gib=16.0 * gpus * parts,
            )
        )  # fmt: skip
        for node in chosen:
            left[node.id] = type(node)(
                **{f: getattr(node, f) for f in node.__slots__}
                | {"free_gpus": node.free_gpus - gpus, "free_cpus": node.free_cpus - 4 * gpus, "idle_since": None,
                   "free_memory_gib": node.free_memory_gib - 16.0 * gpus, "job_ids": (*node.job_ids, name)}
            )  # fmt: skip
    return jobs, [left.get(n.id, n) for n in nodes]


def pending_jobs(draw):
    return [
        a_job(
            f"p{number}", gpus, job_class=draw(st.sampled_from(sorted(CLASSES))),
            submitted_at=NOW - timedelta(minutes=draw(st.sampled_from([0, 5, 14, 100]))),
            cpus=draw(st.sampled_from([0, 4 * gpus, 64 * max(1, gpus // 8)])), memory_gib=16.0 * gpus,
            priority=draw(st.integers(0, 2)),
            pending_reason=draw(st.sampled_from([PendingReason.RESOURCES] * 6 + list(PendingReason))),
        )
        for number in range(draw(st.integers(0, 8)))
        for gpus in [draw(st.sampled_from([1, 2, 4, 8, 8, 16, 24, 64]))]
    ]  # fmt: skip


def a_memory(draw, jobs):
    asked = Launch(
        pool="burst", nodes=2, gang=False, offerings=(an_offering(),), token="lost", needed_by=NOW, reason="r"
    )
    lease = Lease(id="l", team="alpha", pool="burst", gpus=16, starts_at=NOW, ends_at=NOW + timedelta(hours=1),
                  requested_by="ann")  # fmt: skip
    tired = {j.id: MoveMemory(day=f"{NOW:%Y-%m-%d}", count=4, last_at=NOW) for j in jobs if draw(st.booleans())}
    return ControllerState(
        tick=draw(st.integers(0, 5)),
        in_flight={"lost": InFlight(launch=asked, asked_at=NOW)} if draw(st.booleans()) else {},
        leases={"l": lease} if draw(st.booleans()) else {},
        moves=tired,
        pools={"burst": PoolMemory(boots=(False,) * 3, paused_until=NOW)} if draw(st.booleans()) else {},
    )


def a_forecast(draw):
    if draw(st.booleans()):
        return Forecasts()
    level = float(draw(st.sampled_from([0, 30, 90])))
    gpus = {q: np.full(48, level) for q in (0.1, 0.5, 0.9)}
    one = Forecast(key="onprem", cutoff=NOW, made_at=NOW, step_s=3600, gpus=gpus, forecaster="test")
    return Forecasts(demand={"onprem": one})


@st.composite
def sites(draw):
    """(snapshot, forecasts, policy, memory) of a site whose facts agree with each other."""
    policy = site_policy(draw)
    nodes, instances, notices = nodes_of(draw)
    jobs, nodes = running_jobs(draw, nodes)
    offerings = tuple(
        an_offering(zone=zone, capacity_type=kind, cpus=CPUS, memory_gib=MEMORY_GIB, price_usd_per_hour=price)
        for zone in "ab"
        for kind, price in ((CapacityType.SPOT, 4.0), (CapacityType.ON_DEMAND, 12.0))
        if draw(st.sampled_from([True, True, False]))
    )  # fmt: skip
    snapshot = a_snapshot(
        jobs=(*jobs, *pending_jobs(draw)), nodes=tuple(nodes), instances=tuple(instances), offerings=offerings,
        interruptions=tuple(notices),
    )  # fmt: skip
    return snapshot, a_forecast(draw), policy, a_memory(draw, jobs)


class Book:
    """What is free on each node, by the facts alone; acts are carried out one after another."""

    def __init__(self, snapshot):
        self.jobs = {j.id: j for j in snapshot.jobs}
        self.nodes = {n.id: n for n in snapshot.nodes}
        self.free = {n.id: n.free_gpus for n in snapshot.nodes}
        self.on = {j.id: dict(zip(j.node_ids, j.node_gpus, strict=True)) for j in snapshot.jobs}

    def leave(self, job_id):
        for node_id, gpus in self.on[job_id].items():
            self.free[node_id] += gpus
        self.on[job_id] = {}

    def enter(self, job_id, pool, node_ids):
        job = self.jobs[job_id]
        assert len(set(node_ids)) == len(node_ids) == job.nodes
        assert {self.nodes[n].pool for n in node_ids} == {pool}
        assert len({self.nodes[n].zone for n in node_ids}) == 1
        assert {self.nodes[n].state for n in node_ids} == {NodeState.READY}
        share = job.gpus // job.nodes
        for node_id in node_ids:
            self.free[node_id] -= share
            self.on[job_id][node_id] = share


def carry_out(snapshot, policy, plan):
    """All moves and displacements first, then starts: the end must fit. Returns the book after it."""
    book = Book(snapshot)
    for action in plan.actions:
        if isinstance(action, Move | Displace):
            book.leave(action.job_id)
    for action in plan.actions:
        if isinstance(action, Move):
            book.enter(action.job_id, action.to_pool, action.to_node_ids)
        elif isinstance(action, Route) and action.node_ids:
            book.enter(action.job_id, action.pool, action.node_ids)
    assert min(book.free.values(), default=0) >= 0, book.free
    return book


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(sites())
def test_any_site_gets_a_plan_that_can_be_carried_out_as_it_stands(site):
    snapshot, forecasts, policy, state = site
    plan = make_plan(snapshot, forecasts, policy, state)
    book = carry_out(snapshot, policy, plan)
    jobs, given_back = {j.id: j for j in snapshot.jobs}, set()
    for action in plan.actions:
        assert action.reason
        if isinstance(action, Move):
            assert policy.job_class(jobs[action.job_id].job_class).checkpointable
            assert jobs[action.job_id].state is JobState.RUNNING
        elif isinstance(action, Displace) and action.for_job_id:
            assert policy.job_class(jobs[action.job_id].job_class).may_be_displaced
        elif isinstance(action, Route):
            assert jobs[action.job_id].state is JobState.PENDING
        elif isinstance(action, Terminate):
            given_back.add(action.node_id)
            assert action.node_id is None or not any(action.node_id in on for on in book.on.values())
        elif isinstance(action, Drain):
            assert action.node_id in {i.instance_id for i in snapshot.interruptions}
    touched = [a.job_id for a in plan.actions if isinstance(a, Move | Displace | Route)]
    assert len(touched) == len(set(touched)), "a job is touched once"
    assert all(a.offerings for a in plan.actions if isinstance(a, Launch))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(sites())
def test_the_same_facts_give_the_same_plan_which_can_be_read_and_kept(site):
    snapshot, forecasts, policy, state = site
    plan = make_plan(snapshot, forecasts, policy, state)
    assert make_plan(snapshot, forecasts, policy, state) == plan
    assert render(plan)
    record = Record(tick=1, snapshot=snapshot, plan=plan, outcomes=())
    kept = record_from_json(tick=1, body=body_to_json(record), snapshot=snapshot_to_json(snapshot))
    assert kept.plan == plan
    assert kept.snapshot == snapshot
