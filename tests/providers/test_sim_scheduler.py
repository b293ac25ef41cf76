"""The simulated batch scheduler: priorities, gangs, backfill, checkpoints and restarts."""

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from providers.facts import JobState, PendingReason
from providers.sim.adapters import SimClock, site_world
from providers.sim.world import World
from tests.builders import NOW
from tests.builders_site import a_sim_job

START_S = NOW.timestamp()


def a_world(jobs=(), *, nodes=3, pools=None) -> World:
    ordered = sorted(jobs, key=lambda j: j.submit_s)
    return site_world(ordered, start_s=START_S, pools=pools or [("onprem", nodes, 8, "gpu", 0, 0.0)])


def play(world, seconds):
    world.advance_to(START_S + seconds)


def starts(world):
    """First start of each job, in seconds from the beginning."""
    found = {}
    for job_id, attempt, _, _, start_s, _ in world.record.segments:
        if attempt == 0:
            found[job_id] = start_s - START_S
    for job_id, attempt in world.attempts.items():
        if attempt.parts and attempt.number == 0:
            found[job_id] = attempt.started_s - START_S
    return found


def test_higher_priority_goes_first_and_then_who_came_first():
    jobs = [
        a_sim_job("first", 24, runs_s=600),
        a_sim_job("late", 24, at_s=20, runs_s=600),
        a_sim_job("early", 24, at_s=10, runs_s=600),
        a_sim_job("urgent", 24, at_s=30, runs_s=600, priority=5),
    ]
    world = a_world(jobs)
    play(world, 4000)
    assert starts(world) == {"first": 0, "urgent": 600, "early": 1200, "late": 1800}


def test_held_and_dependent_jobs_never_start_by_themselves():
    reasons = [PendingReason.HELD, PendingReason.DEPENDENCY, PendingReason.BEGIN_TIME, PendingReason.LIMIT]
    world = a_world([a_sim_job(r.value, 1, pending_reason=r) for r in reasons])
    play(world, 86400)
    assert {j.id for j in world.job_facts() if j.state is JobState.PENDING} == {r.value for r in reasons}


def test_without_time_limits_later_jobs_fill_every_gap():
    jobs = [a_sim_job("runs", 16, runs_s=3600), a_sim_job("gang", 24, at_s=1), a_sim_job("small", 8, at_s=2)]
    world = a_world(jobs)
    play(world, 10)
    assert set(starts(world)) == {"runs", "small"}


def test_with_time_limits_a_job_fills_a_gap_only_if_it_ends_before_the_gang_may_start():
    jobs = [
        a_sim_job("runs", 16, runs_s=3600, time_limit_s=3600.0),
        a_sim_job("gang", 24, at_s=1, time_limit_s=3600.0),
        a_sim_job("long", 8, at_s=2, runs_s=7000, time_limit_s=7200.0),
        a_sim_job("short", 8, at_s=3, runs_s=1000, time_limit_s=1800.0),
    ]
    world = a_world(jobs)
    play(world, 12000)
    assert starts(world)["short"] == 3
    assert starts(world)["gang"] == 3600
    assert starts(world)["long"] == 7200


def test_a_job_may_fill_nodes_that_the_gang_does_not_need():
    jobs = [
        a_sim_job("runs", 16, runs_s=3600, time_limit_s=3600.0),
        a_sim_job("gang", 32, at_s=1, time_limit_s=3600.0),
        a_sim_job("long", 8, at_s=2, runs_s=7000, time_limit_s=7200.0),
    ]
    world = a_world(jobs, nodes=5)
    play(world, 12000)
    assert starts(world)["long"] == 2
    assert starts(world)["gang"] == 3600


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_backfill_never_delays_the_head_job(seed):
    """The first job that has to wait starts no later, for all the lower work after it, than it would alone if what runs
    used its time limits up: more than the limits nobody can promise."""
    random = Random(seed)

    def job(name, at_s, sizes, **changes):
        gpus = random.choice(sizes)
        limit_s = random.choice([600.0, 1800.0, 3600.0, 7200.0])
        return a_sim_job(
            name, gpus, at_s=at_s, runs_s=limit_s * random.uniform(0.1, 1.0), time_limit_s=limit_s, **changes
        )

    before = [job(f"r{n}", n, [2, 4, 8, 8], priority=9) for n in range(4)]
    head = a_sim_job("head", random.choice([16, 24, 32]), at_s=10, runs_s=600, time_limit_s=600.0, priority=5)
    lower = [job(f"s{n}", 11 + 97 * n, [1, 2, 4, 8, 8, 16, 24]) for n in range(40)]
    whole = [replace(j, duration_s=j.time_limit_s) for j in before]
    alone, crowded = a_world([*whole, head], nodes=4), a_world([*before, head, *lower], nodes=4)
    for world in (alone, crowded):
        play(world, 60_000)
    assert starts(crowded)["head"] <= starts(alone)["head"]


def test_a_gang_starts_whole_and_ends_whole():
    random = Random(4)
    jobs = [a_sim_job(f"j{n}", random.choice([8, 12, 16, 20, 24]), at_s=60 * n, runs_s=900) for n in range(60)]
    world = a_world(jobs)
    play(world, 200_000)
    spans = {}
    for job_id, attempt, node_id, gpus, start_s, end_s in world.record.segments:
        spans.setdefault((job_id, attempt), []).append((node_id, gpus, start_s, end_s))
    gpus = {j.id: j.gpus for j in jobs}
    assert len(spans) == 60
    for (job_id, _), parts in spans.items():
        assert sum(p[1] for p in parts) == gpus[job_id]
        assert len({p[2:] for p in parts}) == 1
        assert len({p[0] for p in parts}) == len(parts)


def test_a_gang_never_spans_two_zones():
    world = a_world([a_sim_job("gang", 16)], nodes=1)
    for number, zone in enumerate("ab"):
        world.add_node(replace(world.nodes["onprem-0000"], id=f"x{number}", zone=zone))
    play(world, 60)
    assert starts(world) == {}
    world.add_node(replace(world.nodes["x0"], id="x2"))
    play(world, 120)
    assert set(world.jobs["gang"].node_ids) == {"x0", "x2"}


# What a restart costs


def end_of(world, job_id, *, seconds=100_000.0):
    play(world, seconds)
    return next(end_s for job, end_s in world.ended if job.id == job_id) - START_S


def test_a_job_told_to_stop_keeps_its_work_and_pays_the_restart():
    world = a_world([a_sim_job("a", 8, runs_s=7200, restart_cost_s=300.0)])
    play(world, 2000)
    world.requeue("a")
    assert end_of(world, "a") == 7200 + 300


def test_a_job_that_cannot_checkpoint_begins_again():
    world = a_world([a_sim_job("a", 8, runs_s=7200, restart_cost_s=300.0, checkpointable=False)])
    play(world, 2000)
    world.requeue("a")
    assert end_of(world, "a") == 2000 + 300 + 7200


def test_a_machine_that_goes_without_a_word_costs_the_work_since_the_last_checkpoint():
    world = a_world([a_sim_job("a", 8, runs_s=7200, restart_cost_s=300.0, checkpoint_every_s=1800.0)])
    play(world, 2000)
    world.remove_node(world.jobs["a"].node_ids[0])
    assert end_of(world, "a") == 2000 + 300 + (7200 - 1800)


def test_work_of_a_job_on_a_broken_node_stops_until_somebody_requeues_it():
    """F012: the queue still says that the gang runs."""
    world = a_world([a_sim_job("gang", 16, runs_s=7200, restart_cost_s=300.0)])
    play(world, 2000)
    world.fail_node(world.jobs["gang"].node_ids[1])
    play(world, 20_000)
    assert world.jobs["gang"].state is JobState.RUNNING
    world.requeue("gang")
    assert end_of(world, "gang") == 20_000 + 300 + (7200 - 1800)


def test_a_restart_that_is_stopped_again_before_it_worked_loses_nothing_more():
    world = a_world([a_sim_job("a", 8, runs_s=7200, restart_cost_s=300.0)])
    play(world, 2000)
    world.requeue("a")
    play(world, 2100)
    world.requeue("a")
    assert end_of(world, "a") == 2100 + 300 + 5200


# One seed, one history


def test_the_clock_of_the_world_stops_where_a_condition_becomes_true():
    world = a_world([a_sim_job("a", 8, at_s=90)])
    clock = SimClock(world)
    clock.wait(3600, until=lambda: "a" in world.jobs)
    assert (clock.now() - NOW).total_seconds() == 90
    clock.wait(3600, until=lambda: False)
    assert (clock.now() - NOW).total_seconds() == 3690


def test_playing_in_one_step_or_in_many_is_the_same_world():
    jobs = [a_sim_job(f"j{n}", 1 + n % 16, at_s=70 * n, runs_s=900 + 13 * n) for n in range(100)]
    one, many = a_world(jobs), a_world(jobs)
    play(one, 50_000)
    for seconds in range(0, 50_001, 50):
        play(many, seconds)
    assert one.record.segments == many.record.segments


def test_pools_are_scheduled_in_the_same_order_in_every_process():
    """A set's own order differs from process to process: the world must not follow it."""
    names = [f"pool{n}" for n in range(6)]
    world = a_world([a_sim_job(f"j-{name}", 8, pool=name, runs_s=600) for name in names])
    play(world, 60)
    node = world.nodes["onprem-0000"]
    for name in ("pool4", "pool0", "pool5", "pool2", "pool1", "pool3"):
        world.add_node(replace(node, id=f"{name}-0", pool=name))
    play(world, 1000)
    assert [s[0] for s in world.record.segments] == [f"j-{name}" for name in names]
