"""What the on-prem queue will do: when each pending job is predicted to start at home, and when it must go out.

A fluid estimate: running work ends after its median time left, freed GPUs go to the queue in its order. Fragments
make it a lower bound for gangs. Used by routing and by the words given to waiting people.
"""

import heapq

from elastic.planning.desk import Desk, Family
from providers.facts import Job

NEVER_S = float("inf")
# The decision is taken this long before the last moment: one tick to notice, one for the start itself.
DUE_MARGIN_S = 60.0


def lead_time_s(desk: Desk, family: Family) -> float:
    """The shortest time from decision to a node that runs jobs, over the family's burst pools."""
    return min((desk.pool(p).lead_time_s for p in family.burst), default=0.0)


def is_due(desk: Desk, job: Job, family: Family) -> bool:
    """Whether the job must be sent out now to start within its wait target."""
    latest_s = desk.class_of(job).wait_target_s - lead_time_s(desk, family) - DUE_MARGIN_S
    return desk.waited_s(job) >= latest_s


def due_in_s(desk: Desk, job: Job, family: Family) -> float:
    """Seconds until the job becomes due."""
    return desk.class_of(job).wait_target_s - lead_time_s(desk, family) - DUE_MARGIN_S - desk.waited_s(job)


def predicted_starts_s(desk: Desk, family: Family, waiting: list[Job]) -> dict[str, float]:
    """Seconds from now until each waiting job (in queue order) starts on-prem; infinite if the site never could.

    Jobs behind it do not delay a job, those before it do. O((running + waiting) log running).
    """
    site_gpus = sum(s.gpus for p in family.onprem for s in desk.floors[p].slots.values())
    free = sum(desk.floors[p].free_gpus for p in family.onprem)
    ends = [(desk.time_left_s(j), j.gpus) for j in desk.running.values() if j.pool in family.onprem]
    heapq.heapify(ends)
    now_s = 0.0
    starts: dict[str, float] = {}
    for job in waiting:
        if job.gpus > site_gpus:
            starts[job.id] = NEVER_S
            continue
        while free < job.gpus and ends:
            now_s, gpus = heapq.heappop(ends)
            free += gpus
        if free < job.gpus:
            starts[job.id] = NEVER_S
            continue
        free -= job.gpus
        starts[job.id] = now_s
        heapq.heappush(ends, (now_s + max(desk.time_left_s(job), 1.0), job.gpus))
    return starts
