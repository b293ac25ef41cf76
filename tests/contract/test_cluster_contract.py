"""What every `Cluster` adapter promises (`providers/ports.py`)."""

from datetime import timedelta

import pytest

from providers.errors import InvalidRequest, NotFound, ProviderError, Throttled, Unreachable
from providers.facts import JobState, NodeState, PendingReason
from tests.builders import NOW
from tests.contract.stands import CLUSTERS

MINUTE_S = 60.0


@pytest.fixture(params=CLUSTERS)
def stand(request):
    return CLUSTERS[request.param]()


def job(stand, job_id):
    return {j.id: j for j in stand.port.read().jobs}[job_id]


def node(stand, node_id):
    return {n.id: n for n in stand.port.read().nodes}[node_id]


def nodes(stand):
    return [n.id for n in stand.port.read().nodes]


def test_a_reading_holds_every_pending_and_running_job_and_every_node(stand):
    for number in range(30):
        stand.submit(f"j{number}", 8)
    stand.play(MINUTE_S)
    reading = stand.port.read()
    assert reading.complete
    assert reading.trouble == ""
    assert [j.state for j in reading.jobs].count(JobState.RUNNING) == 3
    assert [j.state for j in reading.jobs].count(JobState.PENDING) == 27
    assert len(reading.nodes) == 3
    assert all(n.state is NodeState.READY for n in reading.nodes)


def test_what_a_reading_tells_of_a_node_agrees_with_what_it_tells_of_its_jobs(stand):
    stand.submit("a", 3, cpus=12, memory_gib=40.0)
    stand.submit("b", 2, cpus=8, memory_gib=20.0)
    stand.play(MINUTE_S)
    reading = stand.port.read()
    for one in reading.nodes:
        mine = [j for j in reading.jobs if one.id in j.node_ids]
        assert sorted(one.job_ids) == sorted(j.id for j in mine)
        assert one.free_gpus == one.gpus - sum(j.gpus for j in mine)
        assert one.free_cpus == one.cpus - sum(j.cpus for j in mine)
        assert one.free_memory_gib == pytest.approx(one.memory_gib - sum(j.memory_gib for j in mine))
        assert (one.idle_since is None) == bool(mine)


def test_times_are_aware_and_in_utc(stand):
    stand.submit("a", 8)
    stand.play(MINUTE_S)
    found = job(stand, "a")
    assert found.submitted_at.utcoffset() == timedelta(0)
    assert found.started_at.utcoffset() == timedelta(0)
    assert found.submitted_at <= found.started_at


def test_an_ended_job_is_in_no_reading(stand):
    stand.submit("a", 8, duration_s=600.0)
    stand.play(11 * MINUTE_S)
    assert stand.port.read().jobs == ()


@pytest.mark.parametrize("trouble", [Unreachable("no route"), Throttled("slow down")])
def test_a_reading_that_fails_raises_a_kind_we_know(stand, trouble):
    with stand.broken(trouble), pytest.raises(ProviderError) as raised:
        stand.port.read()
    assert raised.value.kind == trouble.kind


def test_a_part_is_never_told_as_the_whole(stand):
    """F024."""
    with stand.broken("page 3 failed"):
        reading = stand.port.read()
    assert not reading.complete
    assert "page 3" in reading.trouble
    assert stand.port.read().complete


def test_a_gang_starts_on_all_its_nodes_at_once_or_not_at_all(stand):
    stand.submit("small", 8)
    stand.play(MINUTE_S)
    stand.submit("gang", 24)
    stand.play(MINUTE_S)
    assert job(stand, "gang").state is JobState.PENDING
    assert job(stand, "gang").node_ids == ()
    stand.play(2 * 3600)
    gang = job(stand, "gang")
    assert gang.state is JobState.RUNNING
    assert len(set(gang.node_ids)) == 3
    assert gang.node_gpus == (8, 8, 8)


# Route


def test_a_job_routed_to_nodes_starts_there_at_once(stand):
    _first, _second, third = nodes(stand)
    stand.submit("a", 8)
    stand.port.route("a", pool="onprem", node_ids=(third,))
    assert job(stand, "a").node_ids == (third,)
    assert job(stand, "a").state is JobState.RUNNING


def test_a_job_routed_to_a_pool_starts_in_that_pool_only(stand):
    stand.submit("a", 8)
    stand.port.route("a", pool="burst")
    stand.port.route("a", pool="burst")
    stand.play(MINUTE_S)
    assert (job(stand, "a").state, job(stand, "a").pool) == (JobState.PENDING, "burst")
    stand.port.route("a", pool="onprem")
    stand.play(MINUTE_S)
    assert (job(stand, "a").state, job(stand, "a").pool) == (JobState.RUNNING, "onprem")


def test_a_job_that_is_not_pending_cannot_be_routed(stand):
    stand.submit("a", 8)
    stand.play(MINUTE_S)
    before = job(stand, "a")
    for name in ("a", "nobody"):
        with pytest.raises(NotFound):
            stand.port.route(name, pool="onprem")
    assert job(stand, "a") == before


def test_a_job_routed_to_nodes_that_cannot_take_it_waits_on(stand):
    first, second, third = nodes(stand)
    stand.submit("b", 4)
    stand.port.route("b", pool="onprem", node_ids=(first,))
    stand.submit("a", 16)
    for bad in ((first, second), (second,), (second, second), (second, "nobody"), (second, third, first)):
        with pytest.raises(InvalidRequest):
            stand.port.route("a", pool="onprem", node_ids=bad)
    assert job(stand, "a").state is JobState.PENDING
    stand.play(MINUTE_S)
    assert set(job(stand, "a").node_ids) == {second, third}


def test_a_held_job_is_started_by_nobody(stand):
    stand.submit("a", 8, pending_reason=PendingReason.HELD)
    with pytest.raises(InvalidRequest):
        stand.port.route("a", pool="onprem", node_ids=(nodes(stand)[0],))
    stand.play(MINUTE_S)
    assert job(stand, "a").state is JobState.PENDING


# Move and displace


def test_a_moved_job_runs_on_the_new_nodes_at_once_and_pays_its_restart(stand):
    first, second, _ = nodes(stand)
    stand.submit("a", 8, duration_s=3600.0, restart_cost_s=300.0)
    stand.port.route("a", pool="onprem", node_ids=(first,))
    stand.play(1800)
    stand.port.move("a", to_pool="onprem", to_node_ids=(second,))
    moved = job(stand, "a")
    assert (moved.state, moved.node_ids, moved.attempt) == (JobState.RUNNING, (second,), 1)
    assert node(stand, first).free_gpus == 8
    stand.play(1800 + 299)
    assert job(stand, "a").state is JobState.RUNNING
    stand.play(2)
    assert stand.port.read().jobs == ()


@pytest.mark.parametrize(
    "why", ["gpus", "cpus", "memory", "too few nodes", "twice the same", "unknown", "cordoned", "no such pool"]
)
def test_a_move_to_nodes_that_cannot_take_the_job_leaves_it_where_it_runs(stand, why):
    first, second, third = nodes(stand)
    stand.submit("a", 16, cpus=120, memory_gib=1200.0)
    stand.port.route("a", pool="onprem", node_ids=(first, second))
    small = {"gpus": {"gpus": 1}, "cpus": {"gpus": 0, "cpus": 40}, "memory": {"gpus": 0, "memory_gib": 400.0}}
    if why in small:
        stand.submit("b", **small[why])
        stand.port.route("b", pool="onprem", node_ids=(third,))
    if why == "cordoned":
        stand.port.cordon(third, reason="test")
    to = {"too few nodes": (third,), "twice the same": (third, third), "unknown": (third, "nobody")}
    before = job(stand, "a")
    pool = "nowhere" if why == "no such pool" else "onprem"
    with pytest.raises(InvalidRequest):
        stand.port.move("a", to_pool=pool, to_node_ids=to.get(why, (first, third)))
    assert job(stand, "a") == before
    stand.play(7200)
    assert "a" not in {j.id for j in stand.port.read().jobs}, "it ended when it should"


def test_a_gang_may_keep_some_of_its_nodes_when_it_moves(stand):
    first, second, third = nodes(stand)
    stand.submit("a", 16, cpus=160, memory_gib=1600.0)
    stand.port.route("a", pool="onprem", node_ids=(first, second))
    stand.port.move("a", to_pool="onprem", to_node_ids=(second, third))
    assert set(job(stand, "a").node_ids) == {second, third}


def test_only_running_jobs_are_moved(stand):
    stand.submit("a", 8, pending_reason=PendingReason.HELD)
    for name in ("a", "nobody"):
        with pytest.raises(InvalidRequest):
            stand.port.move(name, to_pool="onprem", to_node_ids=(nodes(stand)[0],))


def test_a_displaced_job_waits_in_its_pool_and_saying_so_twice_is_harmless(stand):
    for name in ("a", "b", "c"):
        stand.submit(name, 8)
    stand.play(MINUTE_S)
    stand.submit("urgent", 8, priority=100)
    stand.port.displace("a", reason="gives way")
    stand.port.displace("a", reason="gives way")
    assert (job(stand, "a").state, job(stand, "a").node_ids) == (JobState.PENDING, ())
    stand.play(MINUTE_S)
    assert job(stand, "urgent").state is JobState.RUNNING
    assert job(stand, "a").state is JobState.PENDING
    stand.port.displace("nobody", reason="is gone already")


# Cordon, drain, forget


def test_a_cordoned_node_keeps_its_work_and_takes_nothing_new(stand):
    first, _second, _third = nodes(stand)
    stand.submit("a", 4)
    stand.port.route("a", pool="onprem", node_ids=(first,))
    stand.port.cordon(first, reason="repair")
    stand.port.cordon(first, reason="repair")
    assert (node(stand, first).state, node(stand, first).cordon_reason) == (NodeState.CORDONED, "repair")
    assert job(stand, "a").state is JobState.RUNNING
    stand.submit("b", 4)
    with pytest.raises(InvalidRequest):
        stand.port.route("b", pool="onprem", node_ids=(first,))
    for name in ("c", "d", "e", "f"):
        stand.submit(name, 4)
    stand.play(MINUTE_S)
    assert node(stand, first).job_ids == ("a",)
    stand.port.uncordon(first)
    stand.port.uncordon(first)
    stand.play(MINUTE_S)
    assert node(stand, first).state is NodeState.READY
    assert len(node(stand, first).job_ids) == 2


def test_a_node_that_is_not_known_is_told_as_such(stand):
    for call in (
        lambda: stand.port.cordon("nobody", reason="x"),
        lambda: stand.port.uncordon("nobody"),
        lambda: stand.port.drain("nobody", deadline=None, reason="x"),
    ):
        with pytest.raises(NotFound):
            call()


def test_a_drained_node_takes_nothing_new_and_its_work_is_off_it_by_the_deadline(stand):
    first, *_ = nodes(stand)
    for name, changes in (("a", {}), ("fixed", {"checkpointable": False})):
        stand.submit(name, 4, **changes)
        stand.port.route(name, pool="onprem", node_ids=(first,))
    stand.port.drain(first, deadline=NOW + timedelta(minutes=10), reason="notice")
    stand.port.drain(first, deadline=NOW + timedelta(minutes=10), reason="notice")
    stand.play(5 * MINUTE_S)
    assert set(node(stand, first).job_ids) == {"a", "fixed"}, "they may run until the deadline nears"
    stand.play(5 * MINUTE_S)
    assert node(stand, first).job_ids == ("fixed",), "what may not be requeued stays"
    assert job(stand, "a").node_ids != (first,)
    assert job(stand, "a").attempt == 1


def test_a_drain_without_a_deadline_waits_for_the_jobs_own_end(stand):
    first, *_ = nodes(stand)
    stand.submit("a", 4, duration_s=36000.0)
    stand.port.route("a", pool="onprem", node_ids=(first,))
    stand.port.drain(first, deadline=None, reason="upkeep")
    stand.play(9 * 3600)
    assert node(stand, first).job_ids == ("a",)
    stand.play(3601)
    assert node(stand, first).job_ids == ()


def test_a_drain_that_is_called_off_requeues_nothing(stand):
    first, *_ = nodes(stand)
    stand.submit("a", 4)
    stand.port.route("a", pool="onprem", node_ids=(first,))
    stand.port.drain(first, deadline=NOW + timedelta(minutes=10), reason="upkeep")
    stand.port.uncordon(first)
    stand.play(20 * MINUTE_S)
    assert (job(stand, "a").attempt, job(stand, "a").node_ids) == (0, (first,))


def test_a_forgotten_node_is_gone_and_what_it_ran_waits_again(stand):
    first, second, third = nodes(stand)
    stand.submit("gang", 16)
    stand.port.route("gang", pool="onprem", node_ids=(first, second))
    stand.port.forget(first)
    stand.port.forget(first)
    assert nodes(stand) == [second, third]
    assert job(stand, "gang").state is JobState.PENDING
    assert node(stand, second).free_gpus == 8
    stand.play(MINUTE_S)
    assert set(job(stand, "gang").node_ids) == {second, third}
