"""The simulated world: a batch scheduler over nodes, a cloud that boots machines, and time. One seed, one history.

Driven by events: `advance_to` plays everything up to an instant, `next_event_s` tells when something happens next.
Adapters (`adapters.py`) are the ports to it. Acts take effect at once; the scheduler looks at the queue on the next
`advance_to`, so that the acts of one tick are one step for it.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache

from providers.errors import InvalidRequest, NotFound
from providers.facts import Job, JobState, Node, NodeState, PendingReason
from providers.sim.backfill import Hold, hold_for
from providers.sim.floor import Part, PoolFloor, split_gpus
from providers.sim.jobs import Attempt, SimJob
from providers.sim.record import WorldRecord

# A requeue at a drain's deadline begins so much before it: the job gets its signal and writes its checkpoint first
# (Slurm's default KillWait).
DRAIN_SIGNAL_S = 30.0
_STARTABLE = (PendingReason.RESOURCES, PendingReason.PRIORITY)


@lru_cache(maxsize=4096)
def instant(seconds: float) -> datetime:
    """Unix seconds as an aware UTC datetime."""
    return datetime.fromtimestamp(seconds, UTC)


class World:
    """Jobs, nodes and time of one simulated site. Jobs come from an iterator sorted by `submit_s`."""

    def __init__(self, jobs: Iterable[SimJob], *, start_s: float) -> None:
        self.now_s = start_s
        self.record = WorldRecord()
        self.jobs: dict[str, Job] = {}
        self.nodes: dict[str, Node] = {}
        self.attempts: dict[str, Attempt] = {}
        self.floors: dict[str, PoolFloor] = {}
        self.ended: list[tuple[Job, float]] = []  # (job, end) since somebody last took them
        self._running_on: dict[str, dict[str, int]] = {}
        self._pending: dict[str, dict[str, None]] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0
        self._coming: Iterator[SimJob] = iter(jobs)
        self._next_job = next(self._coming, None)
        self._dirty: set[str] = set()
        self._has_limits = False
        self._job_tuple: tuple[Job, ...] | None = ()
        self._node_tuple: tuple[Node, ...] | None = ()

    # Time

    def at(self, seconds: float, event: Callable[[], None]) -> int:
        """Play `event` at an instant; returns its number."""
        self._sequence += 1
        heapq.heappush(self._events, (seconds, self._sequence, event))
        return self._sequence

    def next_event_s(self) -> float | None:
        """When something happens next; None if nothing ever will."""
        times = [self._events[0][0]] if self._events else []
        if self._next_job is not None:
            times.append(self._next_job.submit_s)
        return min(times, default=None)

    def advance_to(self, seconds: float) -> None:
        """Play all events up to and including `seconds`."""
        self._schedule()
        while (due := self.next_event_s()) is not None and due <= seconds:
            self.now_s = max(self.now_s, due)
            job = self._next_job
            if job is not None and job.submit_s <= due:
                self._next_job = next(self._coming, None)
                self.submit(job)
            else:
                heapq.heappop(self._events)[2]()
            self._schedule()
        self.now_s = max(self.now_s, seconds)

    # Nodes

    def add_node(self, node: Node) -> None:
        """A node that is ready joins its pool."""
        floor = self.floors.setdefault(node.pool, PoolFloor(node.gpus))
        floor.add(node)
        self._running_on[node.id] = {}
        self._set_node(replace(node, idle_since=instant(self.now_s), ready_at=instant(self.now_s)))
        self._dirty.add(node.pool)

    def cordon(self, node_id: str, *, reason: str | None) -> None:
        """Close (or with None open) a node for new work."""
        node = self._node(node_id)
        closed = self.floors[node.pool].closed
        if reason is None:
            closed.discard(node_id)
            self._set_node(replace(node, state=NodeState.READY, cordon_reason=None))
            self._dirty.add(node.pool)
        else:
            closed.add(node_id)
            self._set_node(replace(node, state=NodeState.CORDONED, cordon_reason=reason))

    def remove_node(self, node_id: str) -> None:
        """The machine is gone: what it ran goes back into the queue, from its last checkpoint on."""
        node = self._node(node_id)
        for job_id in list(self._running_on[node_id]):
            self.requeue(job_id, lose_work=True)
        self.floors[node.pool].remove(node_id)
        del self.nodes[node_id], self._running_on[node_id]
        self._node_tuple = None

    def fail_node(self, node_id: str) -> None:
        """A node breaks while the queue still calls its jobs running: they do not get on until they are requeued."""
        node = self._node(node_id)
        self.floors[node.pool].closed.add(node_id)
        self._set_node(replace(node, state=NodeState.DOWN))
        for job_id in self._running_on[node_id]:
            attempt = self.attempts[job_id]
            attempt.hung_s = self.now_s if attempt.hung_s is None else attempt.hung_s

    def drain(self, node_id: str, *, deadline_s: float | None, reason: str) -> None:
        """Take nothing new; what still runs shortly before the deadline and may restart is requeued then."""
        self.cordon(node_id, reason=reason)
        if deadline_s is not None:
            self.at(max(self.now_s, deadline_s - DRAIN_SIGNAL_S), lambda: self._requeue_all(node_id))

    def _requeue_all(self, node_id: str) -> None:
        node = self.nodes.get(node_id)
        if node is None or node_id not in self.floors[node.pool].closed:
            return  # gone, or open again: the drain was called off
        for job_id in list(self._running_on[node_id]):
            if self.attempts[job_id].job.checkpointable:
                self.requeue(job_id)

    # Jobs

    def submit(self, job: SimJob) -> None:
        """A job enters its pool's queue."""
        self.attempts[job.id] = Attempt(job, job.duration_s, pool=job.pool)
        fact = Job(
            id=job.id,
            cluster="main",
            state=JobState.PENDING,
            gpus=job.gpus,
            submitted_at=instant(self.now_s),
            pool=job.pool,
            team=job.team,
            user=job.user,
            name=job.name,
            job_class=job.job_class,
            pending_reason=job.pending_reason,
            nodes=job.nodes,
            cpus=job.cpus,
            memory_gib=job.memory_gib,
            gpu_model=job.gpu_model,
            priority=job.priority,
            time_limit_s=job.time_limit_s,
            checkpointable=job.checkpointable,
        )
        self._has_limits = self._has_limits or job.time_limit_s is not None
        self._set_job(fact)
        self._enqueue(fact)

    def route(self, job_id: str, *, pool: str, node_ids: tuple[str, ...]) -> None:
        """A pending job may start in `pool` only; with nodes: it starts there now, or InvalidRequest."""
        fact = self.jobs.get(job_id)
        if fact is None or fact.state is not JobState.PENDING:
            raise NotFound(f"job {job_id} is not pending")
        if node_ids and fact.pending_reason not in _STARTABLE:
            raise InvalidRequest(f"job {job_id} may not start: {fact.pending_reason.value}")
        if node_ids:
            self._start(job_id, pool, node_ids)
            return
        self._pending.get(fact.pool, {}).pop(job_id, None)
        self._set_job(replace(fact, pool=pool))
        self._enqueue(self.jobs[job_id])

    def move(self, job_id: str, pool: str, node_ids: tuple[str, ...]) -> None:
        """Stop a running job and start it on other nodes now; InvalidRequest (and nothing changed) without room."""
        self._assign(self.jobs[job_id], pool, node_ids, own=dict(self.attempts[job_id].parts))
        self._stop(job_id)
        self._start(job_id, pool, node_ids)

    def requeue(self, job_id: str, *, lose_work: bool = False) -> None:
        """A running job goes back into its home pool's queue."""
        self._stop(job_id, lose_work=lose_work)
        attempt = self.attempts[job_id]
        self._set_job(
            replace(self.jobs[job_id], state=JobState.PENDING, pool=attempt.job.pool, node_ids=(), node_gpus=(),
                    started_at=None)
        )  # fmt: skip
        self._enqueue(self.jobs[job_id])

    def is_running(self, job_id: str) -> bool:
        """Whether the job runs now."""
        fact = self.jobs.get(job_id)
        return fact is not None and fact.state is JobState.RUNNING

    def job_facts(self) -> tuple[Job, ...]:
        """Pending and running jobs; the same tuple while nothing changed."""
        if self._job_tuple is None:
            self._job_tuple = tuple(self.jobs.values())
        return self._job_tuple

    def node_facts(self) -> tuple[Node, ...]:
        """All nodes; the same tuple while nothing changed."""
        if self._node_tuple is None:
            self._node_tuple = tuple(self.nodes.values())
        return self._node_tuple

    # The scheduler

    def _enqueue(self, fact: Job) -> None:
        if fact.pending_reason in _STARTABLE:
            self._pending.setdefault(fact.pool, {})[fact.id] = None
            self._dirty.add(fact.pool)

    def _schedule(self) -> None:
        """Start whatever fits, in order of priority and submission; later jobs fill the gaps. Where jobs have
        time limits, they do not delay the first that has to wait (`backfill`)."""
        while self._dirty:
            pool = min(self._dirty)  # a set's own order differs from process to process
            self._dirty.discard(pool)
            floor, queue = self.floors.get(pool), self._pending.get(pool)
            if floor is None or not queue:
                continue
            facts = [self.jobs[job_id] for job_id in queue]
            facts.sort(key=lambda j: (-j.priority, j.submitted_at, j.id))
            self._schedule_pool(pool, floor, facts)

    def _schedule_pool(self, pool: str, floor: PoolFloor, facts: list[Job]) -> None:
        refused: set[tuple[int, int, int, float]] = set()
        hold: Hold | None = None
        for fact in facts:
            if floor.free_gpus == 0:
                break
            shape = (fact.gpus, fact.nodes, fact.cpus, fact.memory_gib)
            if shape in refused:
                continue
            without = frozenset() if hold is None or hold.is_over_by(fact, self.now_s) else hold.node_ids
            node_ids = self._fit(fact, floor, without)
            if node_ids:
                self._start(fact.id, pool, node_ids)
                continue
            if not without:
                refused.add(shape)
            if self._has_limits and hold is None:
                hold = hold_for(fact, floor, self._running_in(pool))

    def _running_in(self, pool: str) -> list[tuple[Job, float | None]]:
        """Jobs that run in a pool, and when their time limit ends them."""
        return [
            (self.jobs[job_id], None if a.job.time_limit_s is None else a.started_s + a.job.time_limit_s)
            for job_id, a in self.attempts.items()
            if a.parts and a.pool == pool
        ]

    def _fit(self, fact: Job, floor: PoolFloor, without: frozenset[str]) -> tuple[str, ...]:
        shares = split_gpus(fact.gpus, nodes=fact.nodes, gpus_per_node=floor.gpus_per_node)
        return floor.fit(
            shares, cpus=fact.cpus // len(shares), memory_gib=fact.memory_gib / len(shares), without=without
        )

    def _assign(self, fact: Job, pool: str, node_ids: tuple[str, ...], *, own: dict[str, int]) -> tuple[Part, ...]:
        """The job's GPUs on each of the nodes, as if it had left those it holds (`own`); InvalidRequest if one is
        unknown, closed or has no room."""
        floor = self.floors.get(pool)
        if floor is None:
            raise InvalidRequest(f"pool {pool} has no nodes")
        shares = split_gpus(fact.gpus, nodes=fact.nodes, gpus_per_node=floor.gpus_per_node)
        parts = floor.assign(shares, node_ids, cpus=fact.cpus, memory_gib=fact.memory_gib, own=own)
        if not parts:
            raise InvalidRequest(f"job {fact.id} does not fit on {', '.join(node_ids)}")
        return parts

    def _start(self, job_id: str, pool: str, node_ids: tuple[str, ...]) -> None:
        fact, attempt = self.jobs[job_id], self.attempts[job_id]
        parts = self._assign(fact, pool, node_ids, own={})
        floor, cpus, memory_gib = self.floors[pool], fact.cpus // len(parts), fact.memory_gib / len(parts)
        self._pending.get(fact.pool, {}).pop(job_id, None)
        attempt.number, attempt.started_s, attempt.pool, attempt.parts = attempt.number + 1, self.now_s, pool, parts
        for node_id, gpus in parts:
            floor.change(node_id, gpus=gpus, cpus=cpus, memory_gib=memory_gib)
            self._running_on[node_id][job_id] = gpus
            self._refresh_node(node_id)
        run_s = attempt.left_s + attempt.restart_s
        limit_s = attempt.job.time_limit_s
        end_s = self.now_s + (run_s if limit_s is None else min(run_s, limit_s))
        attempt.end_event = self.at(end_s, lambda number=attempt.number: self._end(job_id, number))  # type: ignore[misc]
        self._set_job(
            replace(fact, state=JobState.RUNNING, pool=pool, node_ids=tuple(n for n, _ in parts),
                    node_gpus=tuple(g for _, g in parts), started_at=instant(self.now_s), attempt=attempt.number)
        )  # fmt: skip

    def _end(self, job_id: str, number: int) -> None:
        """A job is done, unless this attempt was stopped before."""
        attempt = self.attempts.get(job_id)
        if attempt is None or attempt.number != number or not attempt.parts or attempt.hung_s is not None:
            return
        fact = self.jobs[job_id]
        self._free(job_id, attempt)
        del self.attempts[job_id], self.jobs[job_id]
        self._job_tuple = None
        self.ended.append((fact, self.now_s))

    def _stop(self, job_id: str, *, lose_work: bool = False) -> None:
        attempt = self.attempts[job_id]
        attempt.stop(self.now_s, lose_work=lose_work)
        self._free(job_id, attempt)

    def _free(self, job_id: str, attempt: Attempt) -> None:
        floor, fact = self.floors[attempt.pool], self.jobs[job_id]
        count = len(attempt.parts)
        for node_id, gpus in attempt.parts:
            floor.change(node_id, gpus=-gpus, cpus=-(fact.cpus // count), memory_gib=-fact.memory_gib / count)
            del self._running_on[node_id][job_id]
            self._refresh_node(node_id)
            self.record.segment(job_id, attempt.number, node_id, gpus, attempt.started_s, self.now_s)
        attempt.parts = ()
        self._dirty.add(attempt.pool)

    # Facts

    def _node(self, node_id: str) -> Node:
        node = self.nodes.get(node_id)
        if node is None:
            raise NotFound(f"node {node_id} is not known")
        return node

    def _refresh_node(self, node_id: str) -> None:
        node, running = self.nodes[node_id], self._running_on[node_id]
        space = self.floors[node.pool].spaces[node_id]
        idle = node.idle_since if node.idle_since and not running else (None if running else instant(self.now_s))
        self._set_node(
            replace(node, free_gpus=space.free_gpus, free_cpus=space.free_cpus,
                    free_memory_gib=space.free_memory_gib, job_ids=tuple(running), idle_since=idle)
        )  # fmt: skip

    def _set_node(self, node: Node) -> None:
        self.nodes[node.id] = node
        self._node_tuple = None

    def _set_job(self, job: Job) -> None:
        self.jobs[job.id] = job
        self._job_tuple = None
