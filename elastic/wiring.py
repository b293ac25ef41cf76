"""Puts adapters behind the ports and the service together: the one place, beside `replay`, that names them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

from elastic.planning.policy import Policy
from elastic.replay import markets_of
from elastic.wiring_aws import RealCloud, real_clouds
from elastic.wiring_aws import SiteError as SiteError
from providers.clock import SystemClock
from providers.facts import BilledDay, CapacityType
from providers.ports import Clock, Ports
from providers.sim.adapters import PacedClock, SimCloud, SimCluster, site_world
from providers.sim.caches import CacheSpec, SimCaches
from providers.sim.cloud import SimulatedCloud
from providers.sim.jobs import SimJob
from providers.sim.market import Market
from providers.sim.script import ScriptError as ScriptError
from providers.sim.script import play_script, read_script
from providers.sim.workload import WorkloadJob, generate_workload
from providers.sim.world import World

# How a spot market lives: hours in which a node can be had, half an hour in which none can, and a third of the machines
# lost with it (public availability traces: 5.7 to 10.4 h in the better zones); a machine lives a day without that.
SPOT_UP_S, SPOT_LIFE_S, SPOT_LOSS_SHARE, BOOT_SPREAD_S = 8 * 3600.0, 86_400.0, 0.3, 120.0
WARM_UP = timedelta(days=7)  # no job of the desk runs longer
PAST_DAYS = 70  # of made-up demand before the first tick, so that forecasts have something to learn from


def system_now() -> datetime:
    """The time by the machine's clock, aware and in UTC; for commands whose `--at` is not given."""
    return SystemClock().now()


def system_clock() -> Clock:
    """The machine's clock."""
    return SystemClock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A simulated site behind its ports. `past` tells its hourly demand before it began, by key, oldest first. `real`
    are its clouds that are not simulated, by name: they listen beside the ticks from `start` to `stop`."""

    ports: Ports
    node_count: int
    past: Callable[[], Iterator[tuple[datetime, dict[str, float]]]]
    real: Mapping[str, RealCloud]

    def start(self) -> None:
        """Listen to the clouds."""
        for cloud in self.real.values():
            cloud.start()

    def stop(self) -> None:
        """Listen no more."""
        for cloud in self.real.values():
            cloud.stop()

    @property
    def bills(self) -> dict[str, Callable[[date], BilledDay]]:
        """What each real cloud billed for a day."""
        return {name: bill for name, cloud in self.real.items() if (bill := cloud.bill) is not None}

    def trouble(self) -> tuple[str, ...]:
        """What a person should know of the clouds: prices that are estimates, a queue that cannot be read."""
        return tuple(f"cloud {name}: {line}" for name, cloud in self.real.items() for line in cloud.aws.trouble())


def simulated_site(
    policy: Policy,
    *,
    start: datetime,
    seed: int,
    speed: float,
    scale: float = 1.0,
    faults: Iterable[Mapping[str, object]] = (),
    woken: Callable[[], None] = lambda: None,
    rents_for_real: bool = False,
) -> Site:
    """The site of a policy whose cluster is simulated: its on-prem pools, its clouds, a cache group each, and a made-up
    research desk's queue. Time runs `speed` times as fast as the real one. `faults` are entries of a script, counted
    from the start; ScriptError for one that cannot be played. A cloud of kind `aws` or `aws-like` is the real adapter:
    its machines join the simulated cluster; `woken` is called when it has news. SiteError for a cloud that cannot be
    used."""
    pools = [
        (name, pool.nodes or 0, pool.gpus_per_node, pool.gpu_model, pool.cpus_per_node, pool.memory_gib_per_node)
        for name, pool in policy.pools.items()
        if pool.place == "on-prem"
    ]
    home = pools[0][0]
    world = site_world(_desk_jobs(policy, home, start, seed, scale), start_s=start.timestamp(), pools=pools)
    clock = PacedClock(world, SystemClock(), speed=speed)
    real = real_clouds(policy, clock, world, woken=woken, speed=speed, rents_for_real=rents_for_real)
    simulated = {
        name: SimulatedCloud(world, [_as_in_life(m) for m in markets_of(policy, cloud=name)], name=name, seed=seed)
        for name in _simulated_names(policy)
    }
    cluster = SimCluster(world)
    play_script(read_script(faults), world, cluster, next(iter(simulated.values()), SimulatedCloud(world, [])))
    ports = Ports(
        clock=clock,
        clusters=dict.fromkeys(policy.clusters, cluster),
        clouds={**{n: SimCloud(c) for n, c in simulated.items()}, **{n: c.port for n, c in real.items()}},
        caches={"sim": _caches(policy, world)},
    )
    return Site(
        ports=ports,
        node_count=sum(p[1] for p in pools),
        past=lambda: past_demand(home, start=start, seed=seed, scale=scale),
        real=real,
    )


def _caches(policy: Policy, world: World) -> SimCaches:
    owners = {team.cache_group: name for name, team in policy.teams.items() if team.cache_group}
    specs = [
        CacheSpec(name=name, team=owners.get(name, ""), workers=rules.asleep_workers)
        for name, rules in policy.caches.items()
    ]
    return SimCaches(world, specs)


def _simulated_names(policy: Policy) -> list[str]:
    """Clouds that burst pools rent from and that nobody described as real; `sim` where there is none."""
    used = dict.fromkeys(p.cloud for p in policy.pools.values() if p.place == "burst" and p.cloud)
    return [n for n in used if n not in policy.clouds or policy.clouds[n].kind == "sim"]


def past_demand(
    home: str, *, start: datetime, seed: int, scale: float = 1.0, days: int = PAST_DAYS
) -> Iterator[tuple[datetime, dict[str, float]]]:
    """The made-up desk's demand before `start` as if each job had begun when it was submitted: the highest of each
    hour by home pool, team and in total."""
    begin = (start - timedelta(days=days)).replace(minute=0, second=0, microsecond=0)
    begin_s, end_s = begin.timestamp(), start.timestamp()
    edges: list[tuple[float, str, int]] = []
    for job in generate_workload(start=begin, seed=seed, scale=scale):
        if job.submit_s >= end_s:
            break
        edges += _edges(job)
    edges.sort()
    level: dict[str, int] = {}
    highest: dict[str, float] = {}
    hour_s = begin_s
    for at_s, key, gpus in edges:
        while at_s >= hour_s + 3600 and hour_s + 3600 <= end_s:
            yield datetime.fromtimestamp(hour_s, UTC), _by_key(highest, home)
            hour_s += 3600
            highest = {k: float(v) for k, v in level.items()}
        if at_s >= end_s:
            return
        for name in (key, "total"):
            level[name] = level.get(name, 0) + gpus
            highest[name] = max(highest.get(name, 0.0), float(level[name]))


def _edges(job: WorkloadJob) -> list[tuple[float, str, int]]:
    return [(job.submit_s, job.team, job.gpus), (job.submit_s + job.duration_s, job.team, -job.gpus)]


def _by_key(highest: dict[str, float], home: str) -> dict[str, float]:
    return {**highest, home: highest.get("total", 0.0)}


def _as_in_life(market: Market) -> Market:
    """A market that boots unevenly and, if it is spot, runs dry and takes machines back."""
    uneven = replace(market, boot_spread_s=BOOT_SPREAD_S)
    if market.capacity_type is not CapacityType.SPOT:
        return uneven
    return replace(uneven, mean_up_s=SPOT_UP_S, mean_life_s=SPOT_LIFE_S, dry_loss_share=SPOT_LOSS_SHARE)


def _desk_jobs(policy: Policy, home: str, start: datetime, seed: int, scale: float) -> Iterator[SimJob]:
    """The desk's endless queue as jobs of the world, from `start` on. Work begun in the week before is there as well,
    for as long as it still runs."""
    start_s = start.timestamp()
    for job in generate_workload(start=start - WARM_UP, seed=seed, scale=scale):
        left_s = job.submit_s + job.duration_s - max(job.submit_s, start_s)
        if left_s <= 0:
            continue
        rules = policy.job_class(job.job_class)
        yield SimJob(
            id=job.job_id,
            submit_s=max(job.submit_s, start_s),
            gpus=job.gpus,
            duration_s=left_s,
            pool=home,
            nodes=job.nodes,
            cpus=job.cpus,
            memory_gib=job.memory_gib,
            team=job.team,
            user=job.user,
            job_class=job.job_class,
            name=job.name,
            priority=job.priority,
            checkpointable=rules.checkpointable,
            restart_cost_s=rules.restart_cost_s,
        )
