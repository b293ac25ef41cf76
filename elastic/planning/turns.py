"""Taking turns on rented nodes: work that is soon over lets the next start in its place, so nothing is rented for that.

Used by `planner` and `scale_out`. A gang whose like runs for seconds would pay minutes of boot for nodes of its own;
on a real queue such gangs come in waves (a crash that is tried again and again) and are the largest part of all boots.
"""

from elastic.planning.desk import Desk, coming_id
from elastic.planning.plan import Route
from providers.facts import Job

# Soon over: so many of its like end within the lead time. Lower would queue work behind what may last for hours.
SHORT_QUANTILE = 0.75

Place = tuple[str, str]  # pool and zone: a gang sits in one


class Turns:
    """Nodes of the burst pools, there or coming, that hold nothing but short work. `_free_in_s`: when the turns taken
    so far are over, as if they came one after the other."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._nodes: dict[Place, dict[str, None]] = {}
        self._free_in_s: dict[Place, float] = {}
        for family in desk.families:
            for pool in family.burst:
                for node_id, slot in desk.floors[pool].slots.items():
                    jobs = desk.node_jobs.get(node_id, ())
                    if all(self.is_short(job, pool) for job in jobs):
                        busy_s = max((desk.time_left_s(job) for job in jobs), default=0.0)
                        self._add((pool, slot.zone), (node_id,), busy_s)

    @property
    def has_nodes(self) -> bool:
        """Whether there is any node to take a turn on."""
        return any(self._nodes.values())

    def is_short(self, job: Job, pool: str) -> bool:
        """Whether nodes for the job alone would likely boot for longer than they work."""
        return self._desk.time_left_s(job, quantile=SHORT_QUANTILE) <= self._desk.pool(pool).lead_time_s

    def add_coming(self, pool: str) -> None:
        """Machines that boot; they are on the pool's floor already."""
        for instance in self._desk.coming.get(pool, ()):
            ready_s = instance.requested_at.timestamp() + self._desk.pool(pool).lead_time_s - self._desk.now_s
            self._add((pool, instance.zone), (coming_id(instance),), max(0.0, ready_s))

    def add_bought(self, job: Job, pool: str) -> None:
        """Nodes that this plan buys for a short job."""
        new = tuple(f"new-{job.id}-{n}" for n in range(job.nodes))
        self._add((pool, "new"), new, self._desk.pool(pool).lead_time_s + self._desk.time_left_s(job))

    def placed(self, job: Job, pool: str, node_ids: tuple[str, ...]) -> None:
        """The job has been given these nodes: a turn if it is short, else they are out of the game."""
        short = self.is_short(job, pool)
        for place, nodes in self._nodes.items():
            mine = [n for n in node_ids if n in nodes]
            if mine and short:
                self._free_in_s[place] += self._desk.time_left_s(job)
            elif mine:
                for node_id in mine:
                    del nodes[node_id]

    def take(self, job: Job) -> str | None:
        """The pool in which a short job may wait for its turn: one that comes within its wait target, or sooner than
        new nodes could. The nodes it counts on are kept. None if there is no such turn."""
        left_s = self._desk.class_of(job).wait_target_s - self._desk.waited_s(job)
        for pool in self._desk.burst_pools(job):
            if not self.is_short(job, pool):
                continue
            latest_s = max(left_s, self._desk.pool(pool).lead_time_s)
            for place, nodes in self._nodes.items():
                if place[0] == pool and len(nodes) >= job.nodes and self._free_in_s[place] <= latest_s:
                    self._desk.wanted_nodes.update(list(nodes)[: job.nodes])
                    self._free_in_s[place] += self._desk.time_left_s(job)
                    return pool
        return None

    def _add(self, place: Place, node_ids: tuple[str, ...], free_in_s: float) -> None:
        self._nodes.setdefault(place, {}).update(dict.fromkeys(node_ids))
        self._free_in_s[place] = max(self._free_in_s.get(place, 0.0), free_in_s)


def queue(job: Job, pool: str) -> list[Route]:
    """The scheduler starts the job on rented nodes as soon as they are free, without waiting for a tick."""
    if job.pool == pool:
        return []
    reason = "likely over soon: takes a turn on rented nodes"
    return [Route(job_id=job.id, cluster=job.cluster, pool=pool, reason=reason)]
