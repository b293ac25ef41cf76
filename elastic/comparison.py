"""The same trace under several policies and baselines, side by side: same world, same controller, same judge."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from elastic.baselines import BASELINES, Baseline
from elastic.controller import Planner
from elastic.planning.planner import make_plan
from elastic.planning.policy import Policy
from elastic.replay import Replay, TraceJob, replay, sim_jobs
from elastic.replay_files import score

Progress = Callable[[str, float], None]  # which contender, share of all that is done

# What the table shows: figure, heading, digits.
COLUMNS = (
    ("paid_gpu_h", "paid GPU-h", 0),
    ("paid_usd", "paid USD", 0),
    ("ratio", "paid / unavoidable", 2),
    ("wait_min_mean", "wait, mean", 2),
    ("wait_min_p95", "wait, p95", 1),
    ("wait_min_p99", "wait, p99", 1),
    ("wait_min_gpu_weighted", "wait, by GPUs", 1),
    ("restarts_p99", "restarts, p99", 0),
    ("restarts_max", "restarts, most", 0),
    ("restart_gpu_h", "restarts, GPU-h", 0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One way to run the site."""

    name: str
    title: str
    policy: Policy
    planner: Planner = make_plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is played: on-prem GPUs, which seeded share of the jobs may be moved."""

    onprem_gpus: int
    checkpointable: float = 1.0
    seed: int = 0


def contender_of(baseline: Baseline, policy: Policy) -> Contender:
    """A baseline on the pools of a policy."""
    mine = baseline.policy(policy)
    return Contender(name=baseline.name, title=baseline.title, policy=mine, planner=baseline.planner)


def baselines_of(policy: Policy) -> list[Contender]:
    """All of them on the pools of a policy."""
    return [contender_of(one, policy) for one in BASELINES]


def play(
    trace: Sequence[TraceJob],
    contender: Contender,
    case: Case,
    *,
    progress: Callable[[float], None] | None = None,
) -> Replay:
    """One replay."""
    jobs = sim_jobs(trace, contender.policy, checkpointable_share=case.checkpointable, seed=case.seed)
    return replay(jobs, contender.policy, onprem_gpus=case.onprem_gpus, progress=progress, planner=contender.planner)


def compare(
    trace: Sequence[TraceJob],
    contenders: Sequence[Contender],
    case: Case,
    *,
    progress: Progress = lambda name, share: None,
) -> dict[str, dict[str, float]]:
    """Figures (as of `replay_files.score`) by contender, in the given order."""
    figures: dict[str, dict[str, float]] = {}
    for number, contender in enumerate(contenders):
        done = play(trace, contender, case, progress=_part_of(progress, contender.name, number, len(contenders)))
        figures[contender.name] = score(trace, done, onprem_gpus=case.onprem_gpus)
    return figures


def _part_of(progress: Progress, name: str, number: int, of: int) -> Callable[[float], None]:
    progress(name, number / of)
    return lambda share: progress(name, (number + share) / of)
