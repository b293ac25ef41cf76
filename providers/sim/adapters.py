"""The ports onto the simulated world: cluster, cloud, clock. They hold no state of their own."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from providers.errors import InvalidRequest
from providers.facts import LaunchReply, LaunchRequest
from providers.ports import Clock, CloudReading, ClusterReading
from providers.sim.cloud import SimulatedCloud
from providers.sim.jobs import SimJob
from providers.sim.world import World, instant, onprem_nodes


class SimCluster:
    """The simulated batch scheduler as a `Cluster`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.trouble = ""  # scripted: what a reading lacks

    def read(self) -> ClusterReading:
        """Everything, at once."""
        return ClusterReading(
            jobs=self._world.job_facts(),
            nodes=self._world.node_facts(),
            complete=not self.trouble,
            trouble=self.trouble,
        )

    def route(self, job_id: str, *, pool: str, node_ids: Sequence[str] = ()) -> None:
        """See `Cluster.route`."""
        self._world.route(job_id, pool=pool, node_ids=tuple(node_ids))

    def move(self, job_id: str, *, to_pool: str, to_node_ids: Sequence[str]) -> None:
        """See `Cluster.move`."""
        if not self._world.is_running(job_id):
            raise InvalidRequest(f"job {job_id} does not run")
        self._world.move(job_id, to_pool, tuple(to_node_ids))

    def displace(self, job_id: str, *, reason: str) -> None:
        """See `Cluster.displace`."""
        if self._world.is_running(job_id):
            self._world.requeue(job_id)

    def cordon(self, node_id: str, *, reason: str) -> None:
        """See `Cluster.cordon`."""
        self._world.cordon(node_id, reason=reason)

    def uncordon(self, node_id: str) -> None:
        """See `Cluster.uncordon`."""
        self._world.cordon(node_id, reason=None)

    def drain(self, node_id: str, *, deadline: datetime | None, reason: str) -> None:
        """Work that may restart is requeued at once; the rest may run until the machine goes."""
        self._world.drain(node_id)

    def forget(self, node_id: str) -> None:
        """See `Cluster.forget`."""
        if node_id in self._world.nodes:
            self._world.remove_node(node_id)


class SimCloud:
    """The simulated cloud as a `Cloud`."""

    def __init__(self, cloud: SimulatedCloud) -> None:
        self._cloud = cloud

    def read(self) -> CloudReading:
        """Instances, offerings, notices; scripted faults first."""
        if self._cloud.faults.read:
            raise self._cloud.faults.read.pop(0)
        return CloudReading(
            instances=self._cloud.instances(),
            offerings=self._cloud.offerings(),
            interruptions=self._cloud.interruptions(),
        )

    def launch(self, request: LaunchRequest) -> LaunchReply:
        """See `Cloud.launch`."""
        if self._cloud.faults.launch:
            raise self._cloud.faults.launch.pop(0)
        return self._cloud.launch(request)

    def terminate(self, instance_ids: Sequence[str]) -> tuple[str, ...]:
        """See `Cloud.terminate`."""
        if self._cloud.faults.terminate:
            raise self._cloud.faults.terminate.pop(0)
        return self._cloud.terminate(instance_ids)

    def acknowledge(self, interruption_ids: Sequence[str]) -> None:
        """See `Cloud.acknowledge`."""
        self._cloud.acknowledge(interruption_ids)


class SimClock:
    """Simulated time: waiting plays the world forward, at no real cost."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> datetime:
        """The world's instant."""
        return instant(self._world.now_s)

    def wait(self, seconds: float, *, until: Callable[[], bool] | None = None) -> None:
        """Play the world `seconds` on."""
        if until is None or not until():
            self._world.advance_to(self._world.now_s + seconds)


class PacedClock:
    """Simulated time that runs `speed` times as fast as the real clock: for a service people watch."""

    def __init__(self, world: World, real: Clock, *, speed: float) -> None:
        if not speed > 0:
            raise ValueError("the speed of simulated time must be above 0")
        self._world, self._real, self._speed = world, real, speed

    def now(self) -> datetime:
        """The world's instant."""
        return instant(self._world.now_s)

    def wait(self, seconds: float, *, until: Callable[[], bool] | None = None) -> None:
        """Wait the real share of `seconds`, then play the world on."""
        self._real.wait(seconds / self._speed, until=until)
        self._world.advance_to(self._world.now_s + seconds)


def site_world(
    jobs: Iterable[SimJob], *, start_s: float, pools: Iterable[tuple[str, int, int, str, int, float]]
) -> World:
    """A world with on-prem pools given as (name, nodes, GPUs, GPU model, CPUs, memory GiB), the last four a node."""
    world = World(jobs, start_s=start_s)
    for name, nodes, gpus, model, cpus, memory_gib in pools:
        for node in onprem_nodes(name, nodes=nodes, gpus=gpus, gpu_model=model, cpus=cpus, memory_gib=memory_gib):
            world.add_node(node)
            world.record.node((node.id, "onprem", gpus, 0.0, 0.0, float("nan"), "onprem", 0.0, "site"))
    return world
