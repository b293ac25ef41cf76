"""The place that backfill keeps for the first job that has to wait (EASY backfill; Lifka 1995, Slurm's sched/backfill).

Only where the queue's jobs have time limits: without them nobody knows when a place becomes free, and later jobs
simply fill the gaps.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from providers.facts import Job
from providers.sim.floor import PoolFloor, split_gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Nodes kept for a waiting job, from when they are surely free."""

    from_s: float
    node_ids: frozenset[str]

    def is_over_by(self, job: Job, now_s: float) -> bool:
        """Whether a job that starts now has surely ended when the nodes are wanted."""
        return job.time_limit_s is not None and now_s + job.time_limit_s <= self.from_s


def hold_for(job: Job, floor: PoolFloor, running: Sequence[tuple[Job, float | None]]) -> Hold | None:
    """When and where the job can start at the latest, by the time limits of what runs (job, end by its limit); None if
    that is not known: a job without a limit is in the way."""
    shares = split_gpus(job.gpus, nodes=job.nodes, gpus_per_node=floor.gpus_per_node)
    cpus, memory_gib = job.cpus // len(shares), job.memory_gib / len(shares)
    later, from_s = floor.copy(), -1.0
    ends = sorted(((end_s, other) for other, end_s in running if end_s is not None), key=lambda e: (e[0], e[1].id))
    for end_s, other in ends:
        count = len(other.node_ids)
        for node_id, gpus in zip(other.node_ids, other.node_gpus, strict=True):
            later.change(node_id, gpus=-gpus, cpus=-(other.cpus // count), memory_gib=-other.memory_gib / count)
        if later.fit(shares, cpus=cpus, memory_gib=memory_gib):
            from_s = end_s
            break
    if from_s < 0:
        return None
    spared: frozenset[str] = frozenset()
    for node_id, space in floor.spaces.items():  # what is free now serves others meanwhile, as far as it can
        if space.free_gpus and later.fit(shares, cpus=cpus, memory_gib=memory_gib, without=spared | {node_id}):
            spared |= {node_id}
    kept = later.fit(shares, cpus=cpus, memory_gib=memory_gib, without=spared)
    return Hold(from_s=from_s, node_ids=frozenset(kept))
