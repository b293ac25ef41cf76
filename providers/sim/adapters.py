"""The ports onto the simulated world: cluster, cloud, clock. They hold no state of their own."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from providers.errors import InvalidRequest, ProviderError, Unreachable
from providers.facts import CapacityType, LaunchReply, LaunchRequest, Node, NodeState
from providers.ports import Clock, CloudReading, ClusterReading
from providers.sim.cloud import SimulatedCloud
from providers.sim.jobs import SimJob
from providers.sim.world import World, instant


class SimCluster:
    """The simulated batch scheduler as a `Cluster`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.trouble = ""  # scripted: what a reading lacks
        self.error: ProviderError | None = None  # scripted: raised by every reading

    def read(self) -> ClusterReading:
        """Everything, at once."""
        if self.error is not None:
            raise self.error
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
        """See `Cluster.drain`."""
        self._world.drain(node_id, deadline_s=deadline.timestamp() if deadline else None, reason=reason)

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
        faults = self._cloud.faults
        if faults.read:
            raise faults.read.pop(0)
        if faults.read_error is not None:
            raise faults.read_error
        return CloudReading(
            instances=self._cloud.instances(),
            offerings=self._cloud.offerings(),
            interruptions=self._cloud.interruptions(),
            complete=not faults.read_gap,
            trouble=faults.read_gap,
        )

    def launch(self, request: LaunchRequest) -> LaunchReply:
        """See `Cloud.launch`."""
        faults = self._cloud.faults
        self._take_time()
        if faults.launch:
            raise faults.launch.pop(0)
        reply = self._cloud.launch(request)
        if faults.lost_replies:
            faults.lost_replies -= 1
            raise Unreachable("no answer to the launch: whether it took effect is not known", scope="region")
        return reply

    def terminate(self, instance_ids: Sequence[str]) -> tuple[str, ...]:
        """See `Cloud.terminate`."""
        self._take_time()
        if self._cloud.faults.terminate:
            raise self._cloud.faults.terminate.pop(0)
        return self._cloud.terminate(instance_ids)

    def _take_time(self) -> None:
        if self._cloud.faults.call_s:
            self._cloud.world.advance_to(self._cloud.world.now_s + self._cloud.faults.call_s)

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
        """Play the world `seconds` on, or to the first event after which `until()` is true."""
        end_s = self._world.now_s + seconds
        while until is not None:
            next_s = self._world.next_event_s()
            if until():
                return
            if next_s is None or next_s > end_s:
                break
            self._world.advance_to(next_s)
        self._world.advance_to(end_s)


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
        """Wait the real share of `seconds`, then play the world on by them, or by what was waited."""
        before = self._real.now()
        self._real.wait(seconds / self._speed, until=until)
        if until is not None and until():
            seconds = min(seconds, (self._real.now() - before).total_seconds() * self._speed)
        self._world.advance_to(self._world.now_s + max(0.0, seconds))


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


def onprem_nodes(
    pool: str, *, nodes: int, gpus: int, gpu_model: str, cpus: int = 0, memory_gib: float = 0.0
) -> list[Node]:
    """Facts of an on-prem pool's nodes, ready and empty."""
    return [
        Node(
            id=f"{pool}-{number:04d}",
            cluster="main",
            pool=pool,
            capacity_type=CapacityType.ONPREM,
            state=NodeState.READY,
            gpus=gpus,
            free_gpus=gpus,
            cpus=cpus,
            free_cpus=cpus,
            memory_gib=memory_gib,
            free_memory_gib=memory_gib,
            gpu_model=gpu_model,
            zone="site",
        )
        for number in range(nodes)
    ]
