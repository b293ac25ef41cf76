"""A queue's whole history through the controller on the simulated world: what it would have done, and what it costs.

The same controller as in production. Nothing of the future leaks: durations are known to the world only, runtimes
are learnt from jobs that have ended.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import ceil
from random import Random

from elastic.controller import Controller, Planner
from elastic.ledger_port import Caps
from elastic.planning.plan import Launch, Terminate
from elastic.planning.planner import make_plan
from elastic.planning.policy import Policy
from elastic.planning.state import ControllerState, Record
from elastic.replay_waits import WaitSpells
from forecast.forecaster import Forecasts
from forecast.runtime import RanJob, RuntimeCounts, RuntimeModel
from providers.facts import CapacityType
from providers.ports import Cloud, Ports
from providers.sim.adapters import SimClock, SimCloud, SimCluster, site_world
from providers.sim.cloud import SimulatedCloud
from providers.sim.jobs import SimJob
from providers.sim.market import Market
from providers.sim.world import World

Rented = Callable[[World], tuple[SimulatedCloud, Cloud]]  # the cloud of a world, and the port the controller gets

TICK_S = 60.0
# Runtimes are learnt again once a day of simulated time: a day's jobs hardly change months of counts.
LEARN_EVERY_S = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """One row of a history: what was asked for when, and how long it ran (for the world only). `zero_s`: the Unix
    second of its history's own second 0, where that counts from its start."""

    id: str
    submit_s: float
    gpus: int
    duration_s: float
    team: str = ""
    name: str = ""
    zero_s: float = 0.0

    @property
    def submitted_at(self) -> datetime:
        """Aware, in UTC."""
        return datetime.fromtimestamp(self.submit_s, UTC)


class MemoryLedger:
    """Keeps the records of ticks that acted, and who waited why at every tick; intents live in the records."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.waits = WaitSpells()
        self.intents: list[str] = []

    def write_intent(self, launch: Launch, at: datetime, *, caps: Caps | None = None) -> None:
        """The token of a launch."""
        self.intents.append(launch.token)

    def append(self, record: Record, state: ControllerState) -> None:
        """A tick; only those that acted are kept whole, without their snapshot."""
        self.waits.add(record.plan.at.timestamp(), record.plan.waits)
        if record.plan.actions or record.plan.withheld:
            self.records.append(replace(record, snapshot=replace(record.snapshot, jobs=(), nodes=(), offerings=())))


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What a replay leaves: the world with its rows, the ticks that acted, how many ticks there were."""

    world: World
    ledger: MemoryLedger
    state: ControllerState
    ticks: int
    start_s: float
    until_s: float


def sim_jobs(trace: Iterable[TraceJob], policy: Policy, *, checkpointable_share: float, seed: int) -> list[SimJob]:
    """The trace's jobs for the world: a seeded share of them is checkpointable (class `batch`, others `fixed`)."""
    random = Random(seed)
    home = next(name for name, pool in policy.pools.items() if pool.place == "on-prem")
    pool = policy.pools[home]
    jobs: list[SimJob] = []
    for job in trace:
        checkpointable = random.random() < checkpointable_share
        name = "batch" if checkpointable else "fixed"
        jobs.append(
            SimJob(
                id=job.id,
                submit_s=job.submit_s,
                gpus=job.gpus,
                duration_s=job.duration_s,
                pool=home,
                nodes=ceil(job.gpus / pool.gpus_per_node),
                team=job.team,
                name=job.name,
                job_class=name,
                checkpointable=checkpointable,
                restart_cost_s=policy.job_class(name).restart_cost_s,
            )
        )
    return jobs


def replay(
    jobs: Sequence[SimJob],
    policy: Policy,
    *,
    onprem_gpus: int,
    until_s: float | None = None,
    progress: Callable[[float], None] | None = None,
    planner: Planner = make_plan,
    rented: Rented | None = None,
) -> Replay:
    """Play the jobs (sorted by submission) from the first submission to `until_s` (the last one by default).

    The site has as many whole nodes as `onprem_gpus` fill. Ticks lie on a grid of 60 s; those at which nothing has
    happened and no time limit passes are left out, for a plan made then would be empty. `rented` makes another cloud
    than the one that never runs dry.
    """
    start_s, last_s = jobs[0].submit_s, until_s if until_s is not None else jobs[-1].submit_s
    home, pool = next((n, p) for n, p in policy.pools.items() if p.place == "on-prem")
    nodes = onprem_gpus // pool.gpus_per_node
    shape = (pool.gpus_per_node, pool.gpu_model, pool.cpus_per_node, pool.memory_gib_per_node)
    world = site_world(jobs, start_s=start_s, pools=[(home, nodes, *shape)])
    cloud, port = rented(world) if rented is not None else _never_dry(world, policy)
    learner = _Learner(world)
    ledger = MemoryLedger()
    controller = Controller(
        Ports(clock=SimClock(world), clusters={pool.cluster: SimCluster(world)}, clouds={"sim": port}),
        ledger,
        policy=lambda: policy,
        forecasts=learner.forecasts,
        planner=planner,
    )
    ticks, now_s = 0, start_s
    while now_s <= last_s:
        world.advance_to(now_s)
        record = controller.tick()
        ticks += 1
        now_s = _next_tick_s(world, record, start_s=start_s, now_s=now_s)
        if progress is not None and ticks % 500 == 0:
            progress((now_s - start_s) / max(last_s - start_s, 1.0))
    cloud.close_record()
    _close_segments(world)
    return Replay(world=world, ledger=ledger, state=controller.state, ticks=ticks, start_s=start_s, until_s=last_s)


def _never_dry(world: World, policy: Policy) -> tuple[SimulatedCloud, Cloud]:
    cloud = SimulatedCloud(world, markets_of(policy))
    return cloud, SimCloud(cloud)


def _next_tick_s(world: World, record: Record, *, start_s: float, now_s: float) -> float:
    """The next point of the grid at which a plan could differ."""
    times = [t for t in (world.next_event_s(),) if t is not None]
    if record.plan.next_look_at is not None:
        times.append(record.plan.next_look_at.timestamp())
    if any(not isinstance(a, Terminate) for a in record.plan.actions) or record.plan.withheld:
        times.append(now_s)
    soonest_s = min(times, default=float("inf"))
    if soonest_s == float("inf"):
        return soonest_s
    return max(now_s + TICK_S, start_s + TICK_S * ceil((soonest_s - start_s) / TICK_S))


def markets_of(policy: Policy, *, cloud: str | None = None) -> list[Market]:
    """One market a burst pool (of one cloud, if it is named), zone and capacity type, never dry, at a list price by
    capacity type."""
    markets: list[Market] = []
    for name, pool in policy.pools.items():
        if pool.place != "burst" or cloud not in (None, pool.cloud):
            continue
        for zone in pool.zones or ("a",):
            for capacity_type in pool.capacity_types:
                usd = 1.2 if capacity_type is CapacityType.SPOT else 3.0
                markets.append(
                    Market(
                        instance_type=pool.instance_types[0] if pool.instance_types else f"{name}-node",
                        zone=zone,
                        capacity_type=capacity_type,
                        gpus=pool.gpus_per_node,
                        gpu_model=pool.gpu_model,
                        cpus=pool.cpus_per_node,
                        memory_gib=pool.memory_gib_per_node,
                        price_usd_per_hour=usd * pool.gpus_per_node,
                        boot_s=pool.lead_time_s,
                    )
                )
    return markets


def _close_segments(world: World) -> None:
    for job_id, attempt in world.attempts.items():
        for node_id, gpus in attempt.parts:
            world.record.segment(job_id, attempt.number, node_id, gpus, attempt.started_s, float("nan"))


class _Learner:
    """Runtimes of jobs that have ended, learnt once a day."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._counts = RuntimeCounts()
        self._forecasts = Forecasts(runtimes=RuntimeModel())
        self._next_s = world.now_s + LEARN_EVERY_S

    def forecasts(self) -> Forecasts:
        """What may be known now."""
        for job, end_s in self._world.ended:
            if job.started_at is not None:
                ran_s = end_s - job.started_at.timestamp()
                self._counts.add(
                    RanJob(
                        team=job.team,
                        job_class=job.job_class,
                        gpus=job.gpus,
                        name=job.name,
                        ran_s=ran_s,
                        ended=job.attempt == 0,
                    )  # a later attempt shows only a part of the run
                )
        self._world.ended.clear()
        if self._world.now_s >= self._next_s:
            self._next_s += LEARN_EVERY_S
            self._forecasts = Forecasts(runtimes=self._counts.model())
        return self._forecasts
