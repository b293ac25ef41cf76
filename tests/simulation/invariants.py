"""What holds at every tick whatever happens. Each check looks at the world's own truth, not at what the controller
believes; a broken one raises AssertionError with the tick and the facts."""

from collections import Counter
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from math import ceil

from elastic.planning.flights import JOIN_DEADLINE_S
from elastic.planning.plan import Cordon, Displace, Drain, Launch, Move, Route, Terminate
from elastic.planning.state import Record, Result, Spend
from providers.facts import Instance, InstanceState, Job, JobState, NodeState, PendingReason
from tests.simulation.desk import DrawnSite

# Past the join deadline: a removal waits for its turn under the ceiling, for readable sources and for the cloud.
OWNER_GRACE = timedelta(seconds=JOIN_DEADLINE_S) + timedelta(minutes=40)
IDLE_GRACE = timedelta(minutes=60)


@dataclass
class Watch:
    """Follows one site: `before` and `after` every tick, `at_end` once."""

    site: DrawnSite
    _fixed: dict[str, Job] = field(default_factory=dict)
    _noticed: set[str] = field(default_factory=set)
    _alive: dict[str, int] = field(default_factory=dict)
    _spend: Spend = field(default_factory=Spend)
    _down_since: dict[str, datetime] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)

    def before(self) -> None:
        """Remember what must not be touched."""
        world = self.site.world
        self._fixed = {
            j.id: j for j in world.job_facts() if j.state is JobState.RUNNING and not j.checkpointable
        }  # fmt: skip
        self._broken = {n.id for n in world.node_facts() if n.state is NodeState.DOWN}
        self._noticed |= {n.instance_id for n in self.site.cloud.interruptions()}
        self._alive = Counter(i.pool for i in self._instances())
        self._spend = self.site.controller.state.spend

    def after(self, record: Record) -> None:
        """Everything that this tick may have broken."""
        self._ceilings(record)
        self._caps(record)
        self._no_facts_no_action(record)
        self._owners(record)
        self._notice_before_drain(record)
        self._fixed_work_is_left_alone(record)
        self._launches_fit_the_need(record)
        self._the_picture_is_the_worlds(record)

    def at_end(self) -> None:
        """When all work is done and time has passed: nothing is left over, every launch has ended."""
        assert self.site.controller.state.in_flight == {}, "launches that never ended"
        assert self._instances() == (), "machines that were kept for ever"
        assert [n.id for n in self.site.world.node_facts() if n.pool == "burst"] == []
        for from_checkpoint in (True, False):
            kept = self.site.ledger.rebuild_state(from_checkpoint=from_checkpoint)
            differs = [
                f.name for f in fields(kept) if getattr(kept, f.name) != getattr(self.site.controller.state, f.name)
            ]
            assert differs == [], from_checkpoint

    def _instances(self) -> tuple[Instance, ...]:
        return tuple(self.site.cloud._instances.values())

    def _ceilings(self, record: Record) -> None:
        policy = self.site.policy
        for pool, nodes in Counter(i.pool for i in self._instances()).items():
            assert nodes <= policy.pools[pool].max_nodes, (record.tick, pool, nodes)
        asked = sum(a.nodes for a in record.plan.actions if isinstance(a, Launch))
        assert asked <= policy.guard.launch_ceiling_nodes, (record.tick, asked)
        done = {o.action_key for o in record.outcomes if o.result is Result.DONE}
        gone = Counter(a.pool for a in record.plan.actions if isinstance(a, Terminate) and a.key in done)
        for pool, nodes in gone.items():
            most = max(1, ceil(policy.guard.removal_ceiling * self._alive[pool]))
            assert nodes <= most, (record.tick, pool, nodes, most)
        self.seen["removed"] += sum(gone.values())

    def _caps(self, record: Record) -> None:
        """Money as the cloud would bill it. A launch leaves room in each cap for an hour of what then runs."""
        money, launched = self.site.policy.money, [a for a in record.plan.actions if isinstance(a, Launch)]
        hourly_usd = sum(i.price_usd_per_hour for i in self._instances())
        if launched:
            self.seen["launches"] += len(launched)
            assert hourly_usd <= (money.usd_per_hour or 0) + 1e-6, (record.tick, hourly_usd)
            at, spent = record.snapshot.at, self._spend  # what was known when it was decided
            day_usd = spent.usd_day if spent.day == f"{at:%Y-%m-%d}" else 0.0
            assert day_usd + hourly_usd <= (money.usd_per_day or 0) + 1e-6, (record.tick, day_usd, hourly_usd)
            month_usd = spent.usd_month if spent.month == f"{at:%Y-%m}" else 0.0
            assert month_usd + hourly_usd <= (money.usd_per_month or 0) + 1e-6, (record.tick, month_usd, hourly_usd)
        for team, gpus in Counter(dict.fromkeys(self.site.policy.teams, 0)).items():
            mine = gpus + sum(i.gpus for i in self._instances() if i.team == team)
            ceiling = self.site.policy.teams[team].burst_ceiling_gpus
            assert ceiling is None or mine <= ceiling, (record.tick, team, mine)

    def _no_facts_no_action(self, record: Record) -> None:
        """F024."""
        if record.snapshot.trouble():
            acted = [a for a in record.plan.actions if isinstance(a, Launch | Terminate)]
            assert not acted, (record.tick, acted)
            self.seen["blind ticks"] += 1

    def _owners(self, record: Record) -> None:
        """Every machine runs a node that somebody uses, is on its way, or goes within its grace."""
        at = record.snapshot.at
        for instance in self._instances():
            node = self.site.world.nodes.get(instance.node_id or "")
            if node is None:
                assert at - instance.requested_at <= OWNER_GRACE, (record.tick, "never joined and still paid", instance)
            elif node.state is NodeState.DOWN and not node.job_ids:
                since = self._down_since.setdefault(node.id, at)
                assert at - since <= IDLE_GRACE, (record.tick, "broken and still paid", node)
            elif node.idle_since is not None:
                assert at - node.idle_since <= IDLE_GRACE, (record.tick, "idle and still paid", node)
        rented = {i.node_id for i in self._instances()}
        for node in self.site.world.node_facts():
            assert node.pool != "burst" or node.id in rented, (record.tick, "a node without a machine", node.id)
            if node.state is NodeState.CORDONED and node.job_ids:
                assert node.id in self._noticed, (record.tick, "cordoned under its work without a notice", node)

    def _notice_before_drain(self, record: Record) -> None:
        for action in record.plan.actions:
            if isinstance(action, Drain | Cordon):
                self.seen["drains"] += 1
                assert action.node_id in self._noticed, (record.tick, action)
            if isinstance(action, Displace) and not action.for_job_id:
                job = next(j for j in record.snapshot.jobs if j.id == action.job_id)
                known = {n.id for n in record.snapshot.nodes if n.state is not NodeState.DOWN}
                assert set(job.node_ids) - known, (record.tick, "a whole gang was requeued", action)

    def _fixed_work_is_left_alone(self, record: Record) -> None:
        world = self.site.world
        for action in record.plan.actions:
            if isinstance(action, Move | Displace):
                self.seen["moves"] += 1
        for job_id, was in self._fixed.items():
            now = world.jobs.get(job_id)
            lost = [n for n in was.node_ids if n not in world.nodes or n in self._broken or n in self._noticed]
            if now is not None and not lost:
                assert (now.attempt, now.node_ids) == (was.attempt, was.node_ids), (record.tick, was, now)

    def _launches_fit_the_need(self, record: Record) -> None:
        """Nothing is bought twice: what comes is at most what those who wait could use, each with nodes of its own."""
        if not any(isinstance(a, Launch) for a in record.plan.actions):
            return
        waiting = [
            j for j in record.snapshot.jobs
            if j.state is JobState.PENDING and j.pending_reason is PendingReason.RESOURCES
        ]  # fmt: skip
        plan = record.plan
        leaving = [a for a in (*plan.actions, *(w.action for w in plan.withheld)) if isinstance(a, Terminate)]
        given_up = {a.instance_id for a in leaving}  # those that wait for their turn under the removal ceiling
        coming = sum(1 for i in self._instances() if i.state is InstanceState.PENDING and i.id not in given_up)
        assert coming <= sum(j.nodes for j in waiting), (record.tick, coming, len(waiting))

    def _the_picture_is_the_worlds(self, record: Record) -> None:
        """The planner's picture of free places and the world's own book agree: what it starts and moves finds room."""
        if record.snapshot.trouble() or self.site.cloud.faults.call_s:
            return
        kinds = {a.key: a for a in record.plan.actions if isinstance(a, Move | Route)}
        refused = [(kinds[o.action_key], o) for o in record.outcomes if o.action_key in kinds and o.error_kind]
        assert refused == [], (record.tick, refused)
