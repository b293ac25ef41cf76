"""A research desk's queue, made up from published shapes: for people without a file, and for the simulated site.

Pure and endless: each day has its own seed (the world's seed and the day's number), so any day can be made alone.
Shapes: arrivals peak after the office opens, night low about 0.2 of the mean, weekends 0.25 to 0.7 (Helios, SC'21);
half of the jobs want one GPU, gangs are few but take most GPU-hours; runtimes are heavy-tailed, minutes to days; a few
users send most jobs (Philly, ATC'19; Helios).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import count
from zoneinfo import ZoneInfo

import numpy as np

NODE_GPUS = 8
CPUS_PER_GPU = 12
MEMORY_GIB_PER_GPU = 100.0
# Relative arrivals by local hour: night low, morning peak as the office opens, lunch dip, long afternoon.
HOURS = (3, 2, 2, 2, 2, 2, 3, 5, 11, 18, 17, 14, 9, 13, 16, 16, 15, 13, 10, 8, 7, 6, 5, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadJob:
    """One job as it is submitted, and how long it will run (known to the world only)."""

    job_id: str
    submit_s: float
    team: str
    user: str
    job_class: str
    name: str
    gpus: int
    nodes: int
    cpus: int
    memory_gib: float
    duration_s: float
    priority: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobShape:
    """What jobs of a class look like: chances of sizes, log-normal runtime (`spread` of the log), share of all jobs."""

    share: float
    sizes: Mapping[int, float]
    median_s: float
    spread: float
    longest_s: float
    priority: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeskTeam:
    """One team: where it works, how many jobs it sends on a workday, how many people it has."""

    name: str
    zone: str
    jobs_per_day: float
    users: int
    weekend_share: float = 0.35


SHAPES: Mapping[str, JobShape] = {
    "interactive": JobShape(
        share=0.4, sizes={1: 0.85, 2: 0.15}, median_s=600, spread=1.2, longest_s=8 * 3600, priority=200,
        names=("notebook", "debug", "plot"),
    ),
    "batch": JobShape(
        share=0.52, sizes={1: 0.55, 2: 0.2, 4: 0.17, 8: 0.08}, median_s=900, spread=1.9, longest_s=2 * 86_400,
        priority=100, names=("backtest", "features", "sweep", "calibrate"),
    ),
    "training": JobShape(
        share=0.08, sizes={4: 0.2, 8: 0.46, 16: 0.2, 32: 0.1, 64: 0.035, 128: 0.005}, median_s=5400, spread=1.6,
        longest_s=7 * 86_400, priority=100, names=("train_signal", "train_text", "finetune"),
    ),
}  # fmt: skip
TEAMS = (
    DeskTeam(name="rates", zone="Europe/London", jobs_per_day=130, users=9),
    DeskTeam(name="equities", zone="Europe/London", jobs_per_day=170, users=14),
    DeskTeam(name="futures", zone="Asia/Shanghai", jobs_per_day=140, users=10),
    DeskTeam(name="language", zone="Asia/Shanghai", jobs_per_day=60, users=5, weekend_share=0.7),
)
# A whole-cluster gang is sent about once in two months, and only where `largest_nodes` lets it.
GIANT_CHANCE_PER_DAY = 1 / 60


def generate_workload(
    *, start: datetime, seed: int, teams: tuple[DeskTeam, ...] = TEAMS, scale: float = 1.0, largest_nodes: int = 16
) -> Iterator[WorkloadJob]:
    """Jobs from the UTC day of `start` (aware) on, without end, by submission. `scale` multiplies the number of jobs;
    no gang takes more than `largest_nodes` nodes of 8 GPUs (above 16: now and then one takes up to all of them)."""
    first = start.astimezone(UTC).date()
    begin_s = start.timestamp()
    for number in count():
        for job in _day(first + timedelta(days=number), seed, teams, scale, largest_nodes):
            if job.submit_s >= begin_s:
                yield job


def desk_workload(
    *,
    start: datetime,
    days: int,
    seed: int,
    teams: tuple[DeskTeam, ...] = TEAMS,
    scale: float = 1.0,
    largest_nodes: int = 16,
) -> list[WorkloadJob]:
    """The jobs of `days` days from `start`, by submission. ValueError for no days."""
    if days < 1:
        raise ValueError("a workload needs at least one day")
    end_s = start.timestamp() + days * 86_400
    jobs = []
    for job in generate_workload(start=start, seed=seed, teams=teams, scale=scale, largest_nodes=largest_nodes):
        if job.submit_s >= end_s:
            break
        jobs.append(job)
    return jobs


def _day(day: date, seed: int, teams: tuple[DeskTeam, ...], scale: float, largest_nodes: int) -> list[WorkloadJob]:
    rng = np.random.default_rng([seed, day.toordinal()])
    drafts = [job for team in teams for job in _team_day(team, day, rng, scale, largest_nodes)]
    if largest_nodes > 16 and teams and rng.random() < GIANT_CHANCE_PER_DAY:
        drafts.append(_giant(teams[-1], day, rng, largest_nodes))
    drafts.sort(key=lambda job: (job.submit_s, job.team, job.job_id))
    return drafts


def _team_day(
    team: DeskTeam, day: date, rng: np.random.Generator, scale: float, largest_nodes: int
) -> Iterator[WorkloadJob]:
    """One team's jobs of a UTC day, each hour by the team's own wall clock."""
    zone = ZoneInfo(team.zone)
    sum_hours = sum(HOURS)
    number = 0
    for hour in range(24):
        begin = datetime(day.year, day.month, day.day, hour, tzinfo=UTC)
        local = begin.astimezone(zone)
        weekend = team.weekend_share if local.weekday() >= 5 else 1.0
        expected = team.jobs_per_day * scale * weekend * HOURS[local.hour] / sum_hours
        for offset in sorted(rng.uniform(0, 3600, size=rng.poisson(expected)).tolist()):
            number += 1
            yield _job(team, f"{day:%y%m%d}-{team.name}-{number:04d}", begin.timestamp() + offset, rng, largest_nodes)


def _job(team: DeskTeam, job_id: str, submit_s: float, rng: np.random.Generator, largest_nodes: int) -> WorkloadJob:
    names = list(SHAPES)
    job_class = names[int(rng.choice(len(names), p=[SHAPES[name].share for name in names]))]
    shape = SHAPES[job_class]
    sizes = list(shape.sizes)
    gpus = min(sizes[int(rng.choice(len(sizes), p=list(shape.sizes.values())))], largest_nodes * NODE_GPUS)
    duration_s = float(np.clip(shape.median_s * np.exp(shape.spread * rng.standard_normal()), 10, shape.longest_s))
    user = min(int(rng.zipf(1.6)), team.users)  # a few people send most
    name = shape.names[int(rng.integers(len(shape.names)))]
    return _made(
        job_id, submit_s, team.name, f"{team.name}{user:02d}", job_class, f"{name}_{rng.integers(1000):03d}", gpus,
        round(duration_s, 1), shape.priority,
    )  # fmt: skip


def _giant(team: DeskTeam, day: date, rng: np.random.Generator, largest_nodes: int) -> WorkloadJob:
    nodes = int(rng.integers(largest_nodes // 2, largest_nodes + 1))
    at = datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() + float(rng.uniform(0, 86_400))
    hours = float(np.clip(np.exp(rng.normal(np.log(2), 0.5)), 0.5, 12))
    return _made(
        f"{day:%y%m%d}-{team.name}-all", at, team.name, f"{team.name}01", "training", "pretrain", nodes * NODE_GPUS,
        round(hours * 3600, 1), 150,
    )  # fmt: skip


def _made(
    job_id: str, submit_s: float, team: str, user: str, job_class: str, name: str, gpus: int, duration_s: float,
    priority: int,
) -> WorkloadJob:  # fmt: skip
    return WorkloadJob(
        job_id=job_id,
        submit_s=round(submit_s, 1),
        team=team,
        user=user,
        job_class=job_class,
        name=name,
        gpus=gpus,
        nodes=-(-gpus // NODE_GPUS),
        cpus=gpus * CPUS_PER_GPU,
        memory_gib=gpus * MEMORY_GIB_PER_GPU,
        duration_s=duration_s,
        priority=priority,
    )
