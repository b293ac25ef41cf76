"""A replay is the same controller over the simulated world: whole, repeatable and blind to the future."""

from random import Random

import pytest

from elastic.planning.advance import advance
from elastic.planning.state import ControllerState
from elastic.replay import TraceJob, replay, sim_jobs
from tests.builders import a_policy

HOUR_S = 3600.0


def small_trace(seed, jobs=400):
    """Eight nodes' worth of work in waves, heavy-tailed durations, some gangs."""
    random, now_s, rows = Random(seed), 0.0, []
    for number in range(jobs):
        now_s += random.expovariate(1 / 240)
        gpus = random.choice([1, 1, 2, 4, 8, 8, 16, 24])
        rows.append(TraceJob(id=f"j{number}", submit_s=now_s, gpus=gpus, duration_s=60 * random.paretovariate(0.8)))
    return rows


def run(trace, *, share=0.7, seed=1, until_s=None):
    policy = a_policy()
    return replay(
        sim_jobs(trace, policy, checkpointable_share=share, seed=seed), policy, onprem_gpus=64, until_s=until_s
    )


def decisions(done, *, before_s=float("inf")):
    return [r.plan for r in done.ledger.records if r.plan.at.timestamp() < before_s]


@pytest.mark.parametrize("seed", range(5))
def test_no_gpu_is_used_twice_and_no_job_runs_short(seed):
    trace = small_trace(seed)
    done = run(trace, seed=seed)
    wanted = {j.id: j for j in trace}
    use = {}
    for _, _, node, gpus, start_s, end_s in done.world.record.segments:
        end_s = done.until_s if end_s != end_s else end_s
        use.setdefault(node, []).extend([(start_s, gpus), (end_s, -gpus)])
    for node, changes in use.items():
        level = 0
        for _, gpus in sorted(changes):
            level += gpus
            assert level <= 8, node
    by_attempt = {}
    for job_id, attempt, _, gpus, start_s, end_s in done.world.record.segments:
        by_attempt.setdefault((job_id, attempt), []).append((gpus, start_s, end_s))
    ran = {}
    for (job_id, _), parts in by_attempt.items():
        assert sum(p[0] for p in parts) == wanted[job_id].gpus
        assert len({p[1] for p in parts}) == 1
        ran.setdefault(job_id, []).append(parts[0][2] - parts[0][1])
    alive = set(done.world.attempts)
    for job_id, spans in ran.items():
        if job_id not in alive:
            job = wanted[job_id]
            assert sum(spans) >= job.duration_s + 300 * (len(spans) - 1) - 1


def test_rented_nodes_are_used_and_all_given_back():
    done = run(small_trace(3), until_s=2_000 * HOUR_S)
    rented = [row for row in done.world.record.nodes if row[1] == "cloud"]
    assert rented
    assert all(row[5] == row[5] for row in rented), "a machine was kept for ever"


def test_the_same_seed_gives_the_same_bytes():
    first, second = run(small_trace(2)), run(small_trace(2))
    assert repr(first.world.record.segments) == repr(second.world.record.segments)
    assert decisions(first) == decisions(second)


def test_a_trace_cut_at_any_time_gives_the_same_decisions_before_the_cut():
    """No knowledge of the future may leak."""
    trace = small_trace(4)
    whole = run(trace)
    for share in (0.3, 0.6):
        cut_s = trace[int(len(trace) * share)].submit_s
        part = run([j for j in trace if j.submit_s < cut_s], until_s=cut_s)
        assert decisions(part, before_s=cut_s - 60) == decisions(whole, before_s=cut_s - 60)
        assert decisions(part), "nothing was decided before the cut"


def test_longer_durations_after_the_cut_change_nothing_before_it():
    trace = small_trace(5)
    cut_s = trace[200].submit_s
    changed = [
        TraceJob(id=j.id, submit_s=j.submit_s, gpus=j.gpus, duration_s=j.duration_s * 3)
        if j.submit_s + j.duration_s > cut_s else j
        for j in trace
    ]  # fmt: skip
    assert decisions(run(changed), before_s=cut_s) == decisions(run(trace), before_s=cut_s)


def test_folding_the_records_again_gives_the_same_memory():
    done = run(small_trace(6, jobs=150))
    kept = done.ledger.records
    state = ControllerState()
    for record in kept:
        state = advance(state, record)
    assert state.moves == done.state.moves
    assert state.in_flight.keys() <= set(done.ledger.intents)
