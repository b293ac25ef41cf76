"""Puts adapters behind the ports: the one place, beside `replay`, that names them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from elastic.planning.policy import Policy
from elastic.replay import markets_of
from providers.clock import SystemClock
from providers.ports import Clock, Ports
from providers.sim.adapters import PacedClock, SimCloud, SimCluster, site_world
from providers.sim.caches import CacheSpec, SimCaches
from providers.sim.cloud import SimulatedCloud
from providers.sim.jobs import SimJob
from providers.sim.workload import generate_workload


def system_now() -> datetime:
    """The time by the machine's clock, aware and in UTC; for commands whose `--at` is not given."""
    return SystemClock().now()


def system_clock() -> Clock:
    """The machine's clock."""
    return SystemClock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A simulated site behind its ports."""

    ports: Ports
    node_count: int


def simulated_site(policy: Policy, *, start: datetime, seed: int, speed: float, scale: float = 1.0) -> Site:
    """The site of a policy whose cluster is simulated: its on-prem pools, its clouds, a cache group each, and a made-up
    research desk's queue. Time runs `speed` times as fast as the real one."""
    pools = [
        (name, pool.nodes or 0, pool.gpus_per_node, pool.gpu_model, pool.cpus_per_node, pool.memory_gib_per_node)
        for name, pool in policy.pools.items()
        if pool.place == "on-prem"
    ]
    home = pools[0][0]
    world = site_world(_desk_jobs(policy, home, start, seed, scale), start_s=start.timestamp(), pools=pools)
    cloud = SimulatedCloud(world, markets_of(policy), seed=seed)
    owners = {team.cache_group: name for name, team in policy.teams.items() if team.cache_group}
    caches = SimCaches(
        world,
        [
            CacheSpec(name=name, team=owners.get(name, ""), workers=rules.asleep_workers)
            for name, rules in policy.caches.items()
        ],
    )
    ports = Ports(
        clock=PacedClock(world, SystemClock(), speed=speed),
        clusters={name: SimCluster(world) for name in policy.clusters},
        clouds={"sim": SimCloud(cloud)},
        caches={"sim": caches},
    )
    return Site(ports=ports, node_count=sum(p[1] for p in pools))


def _desk_jobs(policy: Policy, home: str, start: datetime, seed: int, scale: float) -> Iterator[SimJob]:
    """The desk's endless queue as jobs of the world."""
    for job in generate_workload(start=start, seed=seed, scale=scale):
        rules = policy.job_class(job.job_class)
        yield SimJob(
            id=job.job_id,
            submit_s=job.submit_s,
            gpus=job.gpus,
            duration_s=job.duration_s,
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
