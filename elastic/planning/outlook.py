"""What the on-prem queue will do: when each pending job is predicted to start at home.

A fluid estimate: running work ends after its median time left, freed GPUs go to the queue in its order. Fragments
make it a lower bound for gangs. Used by routing and by the words given to waiting people.
"""

import heapq

from elastic.planning.desk import Desk
from elastic.planning.family import Family
from providers.facts import Job


def predicted_starts_s(desk: Desk, family: Family, waiting: list[Job], *, horizon_s: float) -> dict[str, float]:
    """Seconds from now until each waiting job (in queue order) starts on-prem; without those that start after the
    horizon, or never.

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
            continue
        if now_s > horizon_s:
            break
        while free < job.gpus and ends:
            now_s, gpus = heapq.heappop(ends)
            free += gpus
        if free < job.gpus:
            continue
        free -= job.gpus
        starts[job.id] = now_s
        heapq.heappush(ends, (now_s + max(desk.time_left_s(job), 1.0), job.gpus))
    return starts
