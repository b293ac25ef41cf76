"""Taking turns on rented nodes, renting the shortfall only, and the way home."""

from datetime import timedelta

from elastic.planning.plan import Launch, Move, Purpose, Route, Terminate
from elastic.planning.planner import make_plan
from elastic.planning.state import ControllerState, MoveMemory
from forecast.forecaster import Forecasts
from forecast.runtime import RanJob, RuntimeModel
from providers.facts import InstanceState
from tests.builders import NOW, a_job, a_node, a_policy, a_snapshot, an_instance, an_offering, running

LONG_AGO = NOW - timedelta(hours=5)
DUE = NOW - timedelta(minutes=11)

# Gangs of 32 GPUs crash within seconds, jobs of up to 8 GPUs run for hours.
KNOWN = Forecasts(
    runtimes=RuntimeModel.learn(
        [RanJob(team="", job_class="batch", gpus=32, name="", ran_s=5.0 + n) for n in range(40)]
        + [RanJob(team="", job_class="batch", gpus=8, name="", ran_s=20_000.0 + n) for n in range(40)]
    )
)


def plan(snapshot, forecasts=KNOWN, state=None):
    return make_plan(snapshot, forecasts, a_policy(), state or ControllerState())


def of(kind, made):
    return [a for a in made.actions if isinstance(a, kind)]


def full_home(**changes):
    jobs = tuple(running(f"r{i}", 8, (f"n{i}",), LONG_AGO, **changes) for i in range(4))
    return jobs, tuple(a_node(f"n{i}", used=8, job_ids=(f"r{i}",)) for i in range(4))


def test_gangs_that_are_soon_over_share_the_nodes_of_one_launch():
    jobs, nodes = full_home()
    just_due = NOW - timedelta(minutes=10)
    waiting = tuple(a_job(f"g{i}", 32, submitted_at=just_due) for i in range(3))
    made = plan(a_snapshot(jobs=(*jobs, *waiting), nodes=nodes))
    assert [launch.nodes for launch in of(Launch, made)] == [4]
    assert [(r.job_id, r.pool, r.node_ids) for r in of(Route, made)] == [(f"g{i}", "burst", ()) for i in range(3)]


def test_gangs_of_unknown_length_get_nodes_of_their_own():
    jobs, nodes = full_home()
    waiting = tuple(a_job(f"g{i}", 32, submitted_at=DUE) for i in range(3))
    made = plan(a_snapshot(jobs=(*jobs, *waiting), nodes=nodes), forecasts=Forecasts())
    assert [launch.nodes for launch in of(Launch, made)] == [4, 4, 4]


def test_nobody_queues_behind_work_that_turned_out_long():
    jobs, nodes = full_home()
    rented = tuple(a_node(f"c{i}", used=8, pool="burst", job_ids=("long",), instance_id=f"c{i}") for i in range(4))
    machines = tuple(an_instance(f"c{i}") for i in range(4))
    long = running("long", 32, tuple(f"c{i}" for i in range(4)), LONG_AGO, pool="burst")
    made = plan(
        a_snapshot(jobs=(*jobs, long, a_job("g", 32, submitted_at=DUE)), nodes=(*nodes, *rented), instances=machines)
    )
    assert [launch.nodes for launch in of(Launch, made)] == [4]


def test_a_turn_that_would_come_too_late_is_not_taken():
    jobs, nodes = full_home()
    crowd = tuple(a_job(f"g{i:03}", 32, submitted_at=DUE) for i in range(60))  # 60 turns of some 25 s
    made = plan(a_snapshot(jobs=(*jobs, *crowd), nodes=nodes))
    assert len(of(Launch, made)) > 1


def test_nodes_that_a_waiting_turn_counts_on_are_kept_and_the_others_go():
    jobs, nodes = full_home()
    rented = tuple(
        a_node(f"c{i}", pool="burst", instance_id=f"c{i}", idle_since=NOW - timedelta(minutes=1)) for i in range(6)
    )
    machines = tuple(an_instance(f"c{i}", requested_at=NOW - timedelta(minutes=9)) for i in range(6))
    made = plan(a_snapshot(jobs=(*jobs, a_job("g", 32)), nodes=(*nodes, *rented), instances=machines))
    assert [(r.job_id, r.pool) for r in of(Route, made)] == [("g", "burst")]
    assert [t.instance_id for t in of(Terminate, made)] == ["c4", "c5"]


def test_work_that_queues_for_rented_nodes_starts_at_home_when_home_has_room():
    nodes = tuple(a_node(f"n{i}") for i in range(4))
    made = plan(a_snapshot(jobs=(a_job("g", 32, pool="burst", submitted_at=DUE),), nodes=nodes))
    assert [(r.job_id, r.pool, len(r.node_ids)) for r in of(Route, made)] == [("g", "onprem", 4)]
    assert not of(Launch, made)


def test_only_what_home_lacks_is_rented_for_a_gang_when_home_work_can_give_way():
    """24 of 32 GPUs are free in fragments: one node for the work on them, not four for the gang."""
    small = tuple(running(f"s{i}", 2, (f"n{i}",), LONG_AGO, job_class="batch") for i in range(4))
    nodes = tuple(a_node(f"n{i}", used=2, job_ids=(f"s{i}",)) for i in range(4))
    made = plan(
        a_snapshot(jobs=(*small, a_job("g", 32, job_class="fixed", submitted_at=DUE)), nodes=nodes),
        forecasts=Forecasts(),
    )
    assert [(launch.nodes, launch.gang) for launch in of(Launch, made)] == [(1, False)]
    assert not of(Move, made)  # they move when the node is there
    assert [w.rule for w in made.waits] == ["coming"]
    there = a_node("c1", pool="burst", instance_id="c1")
    later = plan(
        a_snapshot(
            jobs=(*small, a_job("g", 32, job_class="fixed", submitted_at=DUE)), nodes=(*nodes, there),
            instances=(an_instance("c1"),),
        ),
        forecasts=Forecasts(),
    )  # fmt: skip
    assert sorted((m.job_id, m.to_pool, m.purpose) for m in of(Move, later)) == [
        (f"s{i}", "burst", Purpose.SWAP) for i in range(4)
    ]
    assert [(r.job_id, r.pool) for r in of(Route, later)] == [("g", "onprem")]


def test_work_without_a_move_left_for_its_way_home_does_not_go_out():
    jobs, nodes = full_home(job_class="batch")
    cloud = a_node("c1", pool="burst", instance_id="c1")
    spent = {f"r{i}": MoveMemory(day=f"{NOW:%Y-%m-%d}", count=3, last_at=NOW) for i in range(4)}
    snapshot = a_snapshot(
        jobs=(*jobs, a_job("f", 8, job_class="fixed", submitted_at=DUE)), nodes=(*nodes, cloud),
        instances=(an_instance("c1"),),
    )  # fmt: skip
    fresh = plan(snapshot, forecasts=Forecasts())
    tired = plan(snapshot, forecasts=Forecasts(), state=ControllerState(moves=spent))
    assert [m.purpose for m in of(Move, fresh)] == [Purpose.SWAP]
    assert not of(Move, tired)
    assert [(r.job_id, r.pool) for r in of(Route, tired)] == [("f", "burst")]


def test_a_whole_gang_gives_way_when_no_smaller_work_can():
    gang = running("gang", 16, ("n0", "n1"), LONG_AGO, job_class="batch")
    others = tuple(running(f"f{i}", 8, (f"n{i}",), LONG_AGO, job_class="fixed") for i in (2, 3))
    nodes = tuple(a_node(f"n{i}", used=8, job_ids=("gang" if i < 2 else f"f{i}",)) for i in range(4))
    rented = tuple(a_node(f"c{i}", pool="burst", instance_id=f"c{i}") for i in range(2))
    made = plan(
        a_snapshot(
            jobs=(gang, *others, a_job("f", 16, job_class="fixed", submitted_at=DUE)), nodes=(*nodes, *rented),
            instances=(an_instance("c0"), an_instance("c1")),
        ),
        forecasts=Forecasts(),
    )  # fmt: skip
    assert [(m.job_id, m.purpose) for m in of(Move, made)] == [("gang", Purpose.SWAP)]
    assert [(r.job_id, r.pool) for r in of(Route, made)] == [("f", "onprem")]


def test_a_machine_that_comes_for_nobody_goes_while_those_still_wanted_stay():
    jobs, nodes = full_home()
    booting = tuple(an_instance(f"i{n}", state=InstanceState.PENDING, node_id=None) for n in range(3))
    made = plan(
        a_snapshot(jobs=(*jobs, a_job("p", 8, submitted_at=DUE)), nodes=nodes, instances=booting),
        forecasts=Forecasts(),
    )
    assert len(of(Terminate, made)) == 2
    assert not of(Launch, made)


def test_a_gang_gets_only_the_nodes_it_lacks_in_the_zone_where_some_are_free():
    jobs, nodes = full_home(job_class="fixed")
    free = tuple(a_node(f"c{i}", pool="burst", instance_id=f"c{i}", zone="b") for i in range(3))
    machines = tuple(an_instance(f"c{i}", zone="b") for i in range(3))
    offers = (an_offering(zone="a"), an_offering(zone="b", price_usd_per_hour=5.0))
    gang = a_job("g", 40, job_class="fixed", submitted_at=DUE)
    made = plan(
        a_snapshot(jobs=(*jobs, gang), nodes=(*nodes, *free), instances=machines, offerings=offers),
        forecasts=Forecasts(),
    )
    assert [(x.nodes, x.gang, [o.zone for o in x.offerings]) for x in of(Launch, made)] == [(2, True, ["b"])]
    assert not of(Terminate, made)


def test_a_gang_is_bought_whole_where_its_zone_has_nothing_more():
    jobs, nodes = full_home(job_class="fixed")
    free = a_node("c0", pool="burst", instance_id="c0", zone="b")
    gang = a_job("g", 40, job_class="fixed", submitted_at=DUE)
    made = plan(
        a_snapshot(jobs=(*jobs, gang), nodes=(*nodes, free), instances=(an_instance("c0", zone="b"),)),
        forecasts=Forecasts(),
    )
    assert [(x.nodes, [o.zone for o in x.offerings]) for x in of(Launch, made)] == [(5, ["a"])]
    assert [t.instance_id for t in of(Terminate, made)] == ["c0"]
