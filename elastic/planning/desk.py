"""The planner's desk: one snapshot laid out for a decision, and the picture as it would be after the steps so far.

Every step reads it and writes its own decisions into the picture (`start`, `move`), so that the next step sees them.
It lives for one `make_plan` and is never kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from operator import attrgetter

from elastic.planning.family import Family, families
from elastic.planning.flights import JOIN_DEADLINE_S
from elastic.planning.placement import Floor, Journal, gang_shares, roll_back
from elastic.planning.policy import JobClass, Policy, Pool
from elastic.planning.rented import alive_by_pool, is_spent, unseen_by_pool
from elastic.planning.snapshot import Reading, Snapshot
from elastic.planning.state import ControllerState, Lease
from forecast.forecaster import Forecasts
from providers.facts import (
    CapacityType,
    Instance,
    InstanceState,
    Job,
    JobState,
    Node,
    NodeState,
    Offering,
    PendingReason,
)

DEMAND_REASONS = frozenset({PendingReason.RESOURCES, PendingReason.PRIORITY})
# A job goes out this long before the last moment: one tick to notice, one for the start itself.
DUE_MARGIN_S = 60.0
NEVER_S = float("inf")
# Without any history of its like a job is taken to run on for as long as it has run: the heavy tail's own rule
# (a Pareto lifetime of index 2 has mean time left = age; Harchol-Balter & Downey 1997).
MIN_TIME_LEFT_S = 300.0


@dataclass(frozen=True, slots=True)
class Terms:
    """What class and pool say about a waiting job: kept by both, for queues hold a hundred thousand of few kinds."""

    rules: JobClass
    family: Family
    burst_pools: tuple[str, ...]
    due_after_s: float  # having waited so long it must go out to start within its target; infinite if it may not burst


def leases_now(desk: "Desk", pool: str) -> tuple[Lease, ...]:
    """Manual bursts in a pool that hold now, or start within its lead time."""
    soon = desk.at + timedelta(seconds=desk.pool(pool).lead_time_s)
    leases = desk.state.leases.values()
    return tuple(x for x in leases if x.pool == pool and x.starts_at <= soon and desk.at < x.ends_at)


def coming_id(instance: Instance) -> str:
    """The name under which a machine that is not a node yet lies on its pool's floor."""
    return f"coming-{instance.id}"


class Desk:
    """One decision's working picture. `at` is the only time it knows."""

    def __init__(self, snapshot: Snapshot, forecasts: Forecasts, policy: Policy, state: ControllerState) -> None:
        self.snapshot, self.forecasts, self.policy, self.state = snapshot, forecasts, policy, state
        self.at: datetime = snapshot.at
        self.now_s = snapshot.at.timestamp()
        self.families = families(policy)
        self.family_of_pool = {p: f for f in self.families for p in (*f.onprem, *f.burst)}
        self.jobs: dict[str, Job] = {}
        self.pending: list[Job] = []
        self.not_demand: list[Job] = []
        self.running: dict[str, Job] = {}
        self.nodes: dict[str, Node] = {node.id: node for node in snapshot.nodes}
        self.placed: dict[str, tuple[str, ...]] = {}  # started, moved or reserved by this plan
        self._terms: dict[tuple[str, str], Terms] = {}
        self.refused: set[tuple[object, ...]] = set()  # what `clearing` found impossible in this plan
        self.wanted_nodes: set[str] = set()  # idle or coming, and counted on by waiting work
        self.journal: Journal = []
        self.ranked_cache: dict[tuple[str, tuple[CapacityType, ...], bool], tuple[Offering, ...]] = {}
        self._sort_jobs()
        self.floors: dict[str, Floor] = self._lay_floors()

    def _sort_jobs(self) -> None:
        running = JobState.RUNNING
        for job in self.snapshot.jobs:
            if job.state is running:
                self.running[job.id] = job
            elif job.pending_reason in DEMAND_REASONS and job.pool in self.policy.pools:
                self.pending.append(job)
            else:
                self.not_demand.append(job)
        classes = {name: c.rank for name, c in self.policy.classes.items()}
        default = classes[self.policy.default_class]
        # One key at a time, the last first: a hundred thousand key tuples would cost the collector a third of a plan.
        self.pending.sort(key=attrgetter("id"))
        self.pending.sort(key=attrgetter("submitted_at"))
        self.pending.sort(key=attrgetter("priority"), reverse=True)
        self.pending.sort(key=lambda j: classes.get(j.job_class, default), reverse=True)

    def _lay_floors(self) -> dict[str, Floor]:
        by_pool: dict[str, list[Node]] = {name: [] for name in self.policy.pools}
        for node in self.snapshot.nodes:
            if node.state is NodeState.READY and node.pool in by_pool:
                by_pool[node.pool].append(node)
        return {
            name: Floor(by_pool[name], gpus_per_node=pool.gpus_per_node, journal=self.journal)
            for name, pool in self.policy.pools.items()
        }

    # What things are

    def class_of(self, job: Job) -> JobClass:
        """The policy's class of a job."""
        return self.policy.job_class(job.job_class)

    def pool(self, name: str) -> Pool:
        return self.policy.pools[name]

    def family(self, job: Job) -> Family:
        """The pools a job may use: those of the pool it is in (the adapter has put it into one that fits)."""
        return self.family_of_pool[job.pool]

    def may_move(self, job: Job) -> bool:
        """Whether running work may be stopped and started elsewhere now: checkpointable, has run a while, not moved
        too often today, and not touched by this plan yet."""
        rules = self.class_of(job)
        checkpointable = rules.checkpointable if job.checkpointable is None else job.checkpointable
        if not checkpointable or job.id in self.placed or job.started_at is None:
            return False
        if self.now_s - job.started_at.timestamp() < rules.min_run_before_move_s:
            return False
        return self.moves_left(job) > 0

    def moves_left(self, job: Job) -> int:
        """How often the job may still be moved today."""
        most, memory = self.class_of(job).max_moves_per_day, self.state.moves.get(job.id)
        return most if memory is None or memory.day != f"{self.at:%Y-%m-%d}" else most - memory.count

    def is_checkpointable(self, job: Job) -> bool:
        """The job's own word, or its class's."""
        return self.class_of(job).checkpointable if job.checkpointable is None else job.checkpointable

    def terms(self, job: Job) -> Terms:
        """What its class and pool say about going out."""
        known = self._terms.get((job.job_class, job.pool))
        if known is None:
            rules, family = self.class_of(job), self.family(job)
            pools = tuple(p for p in family.burst if self.allowed_types(job, p)) if rules.may_burst else ()
            due_after_s = rules.wait_target_s - family.lead_time_s - DUE_MARGIN_S if pools else NEVER_S
            known = self._terms[job.job_class, job.pool] = Terms(rules, family, pools, due_after_s)
        return known

    def burst_pools(self, job: Job) -> tuple[str, ...]:
        """Burst pools whose capacity types the job's class allows; () if it may not burst."""
        return self.terms(job).burst_pools

    def too_large_to_burst(self, job: Job) -> str:
        """Why no launch could ever carry the job, whatever is free; '' if one could."""
        team = self.policy.teams.get(job.team)
        if team is not None and team.burst_ceiling_gpus is not None and job.gpus > team.burst_ceiling_gpus:
            return f"more than the {team.burst_ceiling_gpus} burst GPUs of team {job.team}"
        most = max((self.pool(p).max_nodes for p in self.burst_pools(job)), default=0)
        return f"more than the {most} nodes its burst pools may have" if job.nodes > most else ""

    def allowed_types(self, job: Job, pool: str) -> tuple[CapacityType, ...]:
        """Capacity types for a job in a pool, in the pool's order. With `deadline_fallback` on-demand comes in only
        when its wait target has passed (after Uniform Progress, NSDI'24)."""
        rules = self.class_of(job)
        types = tuple(c for c in self.pool(pool).capacity_types if c in rules.capacity_types)
        if rules.deadline_fallback and self.waited_s(job) < rules.wait_target_s:
            return tuple(c for c in types if c is not CapacityType.ON_DEMAND) or types
        return types

    def waited_s(self, job: Job) -> float:
        """How long a pending job has waited."""
        return self.now_s - job.submitted_at.timestamp()

    def time_left_s(self, job: Job, *, quantile: float = 0.5) -> float:
        """How long a running job will still run, from the history of its like, or from its age alone."""
        age_s = self.now_s - job.started_at.timestamp() if job.started_at else 0.0
        model = self.forecasts.runtimes
        if model is None:
            return max(MIN_TIME_LEFT_S, age_s)
        return model.time_left_s(
            team=job.team, job_class=job.job_class, gpus=job.gpus, name=job.name, age_s=age_s, quantile=quantile
        )

    # What is where

    @cached_property
    def stale_readings(self) -> tuple[Reading, ...]:
        """Readings without an error whose facts are older than the policy lets anyone act on."""
        limit_s = self.policy.guard.stale_after_s
        return tuple(
            r for r in self.snapshot.readings if not r.error and (self.at - r.read_at).total_seconds() > limit_s
        )

    @cached_property
    def node_jobs(self) -> Mapping[str, list[Job]]:
        """Running jobs by node, as they are before this plan."""
        found: dict[str, list[Job]] = {}
        for job in self.running.values():
            for node_id in job.node_ids:
                found.setdefault(node_id, []).append(job)
        return found

    @cached_property
    def movable_gpus(self) -> Mapping[str, int]:
        """By node: GPUs of work that could be moved before this plan (it may have moved some since)."""
        found: dict[str, int] = {}
        for job in self.running.values():
            if self.may_move(job):
                for node_id, gpus in self.shares(job) if len(job.node_ids) > 1 else ((job.node_ids[0], job.gpus),):
                    found[node_id] = found.get(node_id, 0) + gpus
        return found

    @cached_property
    def coming(self) -> Mapping[str, list[Instance]]:
        """By burst pool: machines asked for or booting that run nothing yet. They are capacity that comes, so they
        are counted before anything is bought."""
        found: dict[str, list[Instance]] = {}
        for instance in self.snapshot.instances:
            alive = instance.state in (InstanceState.PENDING, InstanceState.RUNNING)
            if alive and self.is_joining(instance):
                found.setdefault(instance.pool, []).append(instance)
        return found

    def is_joining(self, instance: Instance) -> bool:
        """Whether a machine has yet to become a node that runs work. One that is down for a moment before it was ever
        ready still comes (F008), until the deadline."""
        node = self.nodes.get(instance.node_id or "")
        if node is None or node.state is NodeState.JOINING:
            return True
        young = (self.at - instance.requested_at).total_seconds() <= JOIN_DEADLINE_S
        return node.state is NodeState.DOWN and node.ready_at is None and not node.job_ids and young

    @cached_property
    def unseen_nodes(self) -> Mapping[str, int]:
        """By burst pool: nodes of launches in flight that no listing shows yet."""
        return unseen_by_pool(self.snapshot, self.state)

    @cached_property
    def alive_nodes(self) -> Mapping[str, int]:
        """By burst pool: machines alive or asked for. What ceilings count."""
        burst = [name for name, pool in self.policy.pools.items() if pool.place == "burst"]
        return alive_by_pool(self.snapshot, self.unseen_nodes, burst)

    @cached_property
    def money_is_spent(self) -> bool:
        """Whether a cap of the day or month is used up."""
        return is_spent(self.policy, self.state, day=f"{self.at:%Y-%m-%d}")

    def shares(self, job: Job) -> tuple[tuple[str, int], ...]:
        """(node, GPUs) of a running job, as told by the scheduler or as its shape implies."""
        if job.node_gpus:
            return tuple(zip(job.node_ids, job.node_gpus, strict=True))
        pool = self.policy.pools.get(job.pool)
        per_node = pool.gpus_per_node if pool else job.gpus
        parts = gang_shares(job.gpus, nodes=len(job.node_ids), gpus_per_node=per_node)
        used = {n: self.nodes[n].gpus - (self.nodes[n].free_gpus or 0) for n in job.node_ids if n in self.nodes}
        order = sorted(job.node_ids, key=lambda n: -used.get(n, 0))
        return tuple(zip(order, parts, strict=False))

    # Writing decisions into the picture

    def mark(self) -> tuple[int, int]:
        """A point to roll back to."""
        return len(self.journal), len(self.placed)

    def roll_back(self, mark: tuple[int, int]) -> None:
        """Take back everything placed, lifted and kept since the mark."""
        roll_back(self.journal, mark[0])
        while len(self.placed) > mark[1]:
            self.placed.popitem()

    def lift(self, job: Job) -> None:
        """A running job leaves its nodes."""
        parts = max(1, len(job.node_ids))
        for node_id, gpus in self.shares(job):
            node = self.nodes.get(node_id)
            if node is not None and node.pool in self.floors:
                self.floors[node.pool].change(
                    node_id, gpus=-gpus, cpus=-(job.cpus // parts), memory_gib=-job.memory_gib / parts
                )

    def place(self, job: Job, pool: str, node_ids: tuple[str, ...]) -> None:
        """A pending or lifted job takes these nodes; a mark rolls it back."""
        self.floors[pool].place(job, node_ids)

    def keep(self, job: Job, node_ids: tuple[str, ...]) -> None:
        """The placement stands: no later step touches this job."""
        self.placed[job.id] = node_ids

    @cached_property
    def held_for_gangs(self) -> frozenset[str]:
        """Nodes on which waiting gangs count together with nodes that are not there yet. Asked after `scale_out`."""
        places = [ids for ids in self.placed.values() if len(ids) > 1 and any(n not in self.nodes for n in ids)]
        return frozenset(n for ids in places for n in ids if n in self.nodes)

    def assign(self, job: Job, pool: str, node_ids: tuple[str, ...]) -> None:
        """Place the job for good."""
        self.place(job, pool, node_ids)
        self.keep(job, node_ids)

    def waiting(self) -> list[Job]:
        """Pending demand that no step has placed yet, in order of urgency."""
        return [job for job in self.pending if job.id not in self.placed]

    def due(self, family: Family) -> list[Job]:
        """Those of them that must go out now."""
        return [j for j in self.due_now.values() if j.id not in self.placed and self.terms(j).family is family]

    @property
    def next_due_s(self) -> float:
        """Seconds until the next waiting job becomes due; infinite if none will."""
        return self._due_times[1]

    @property
    def due_now(self) -> dict[str, Job]:
        """Pending jobs that must be sent out now to start within their wait target, placed by now or not."""
        return self._due_times[0]

    @cached_property
    def _due_times(self) -> tuple[dict[str, Job], float]:
        due: dict[str, Job] = {}
        next_s = NEVER_S
        for job in self.pending:
            left_s = self.terms(job).due_after_s + job.submitted_at.timestamp() - self.now_s
            if left_s <= 0:
                if not self.too_large_to_burst(job):
                    due[job.id] = job
            elif left_s < next_s:
                next_s = left_s
        return due, next_s
