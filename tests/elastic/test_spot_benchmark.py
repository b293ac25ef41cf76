"""What the benchmark of spot counts: lost work by its definition, a week out of a trace, ways that differ as named."""

import pandas as pd
import pytest

from benchmarks.spot import week_of
from benchmarks.spot_score import lost_work_gpu_h
from benchmarks.spot_ways import ways, without_ages, without_memory
from elastic.policy_file import default_policy_path, load_policy
from elastic.replay import TraceJob
from providers.facts import CapacityType
from providers.sim.spot_markets import Loss
from tests.builders import NOW
from tests.builders_site import a_sim_job

DAY_S = 86400.0


def lost(*, end_s, checkpointable, attempt=0, gpus=8, nodes=("n0",), taken_s=10_000.0):
    """GPU-hours lost by one attempt that began at 0 on machines that were taken at `taken_s`."""
    share = gpus // len(nodes)
    segments = pd.DataFrame(
        [("j", attempt, node, share, 0.0, end_s) for node in nodes],
        columns=["job_id", "attempt", "node_id", "gpus", "start_s", "end_s"],
    )
    cloud = pd.DataFrame([(node, taken_s) for node in nodes], columns=["node_id", "released_s"])
    job = a_sim_job("j", gpus, checkpointable=checkpointable)
    return lost_work_gpu_h(segments, cloud, {"j": job}, [Loss(at_s=taken_s - 120, key="k", instance_ids=nodes)])


@pytest.mark.parametrize(
    ("case", "gpu_h"),
    [
        ({"end_s": 10_000.0, "checkpointable": False}, 8 * 10_000 / 3600),
        ({"end_s": 10_000.0, "checkpointable": True}, 8 * 1_000 / 3600),  # the last checkpoint was at 9,000 s
        ({"end_s": 9_950.0, "checkpointable": True}, 0.0),  # left within the notice
        ({"end_s": 10_000.0, "checkpointable": False, "attempt": 1}, 8 * 9_700 / 3600),  # less its restart
        ({"end_s": 10_000.0, "checkpointable": False, "gpus": 16, "nodes": ("n0", "n1")}, 16 * 10_000 / 3600),
        ({"end_s": 100.0, "checkpointable": False, "attempt": 2, "taken_s": 100.0}, 0.0),  # it was still restarting
    ],
)
def test_lost_work_is_what_must_be_done_again(case, gpu_h):
    assert lost(**case) == pytest.approx(gpu_h)


def test_a_week_starts_with_the_rest_of_what_runs_then():
    start_s = 10 * DAY_S
    trace = [
        TraceJob(id="over", submit_s=start_s - 500, gpus=1, duration_s=400),
        TraceJob(id="runs", submit_s=start_s - 500, gpus=2, duration_s=800),
        TraceJob(id="in", submit_s=start_s + 5, gpus=3, duration_s=9 * DAY_S),
        TraceJob(id="later", submit_s=start_s + 7 * DAY_S, gpus=4, duration_s=1),
    ]
    assert [(j.id, j.submit_s - start_s, j.duration_s) for j in week_of(trace, start_s=start_s)] == [
        ("runs", 0, 300),
        ("in", 5, 9 * DAY_S),
    ]


def test_ways_differ_in_what_their_names_say():
    base = load_policy(default_policy_path().with_name("replay.yaml"), at=NOW, data_may_end=True)
    found = {way.name: way for way in ways(base, ("a", "b"))}
    both = (CapacityType.SPOT, CapacityType.ON_DEMAND)
    assert found["on-demand only"].policy.classes["batch"].capacity_types == (CapacityType.ON_DEMAND,)
    assert [name for name, way in found.items() if not way.uses_spot] == ["on-demand only"]
    assert found["spot in b alone"].policy.pools["burst"].zones == ("b",)
    ours = found["three zones and pool age (ours)"]
    assert ours.view is None
    assert ours.policy.classes["fixed"].capacity_types == both
    assert found["ours, fixed jobs on demand"].policy.classes["batch"].capacity_types == both
    assert found["ours, fixed jobs on demand"].policy.classes["fixed"].capacity_types == (CapacityType.ON_DEMAND,)
    assert found["three zones, cheapest first"].policy == ours.policy
    assert found["three zones, cheapest first"].view is without_ages
    assert found["ours, no stop, none set aside"].view is without_memory
    assert ours.policy.guard.losses_per_hour < found["ours, no stop after losses"].policy.guard.losses_per_hour
