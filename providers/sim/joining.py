"""Machines of a cloud that is not simulated (an AWS on loopback) as nodes of the simulated cluster.

A machine that its cloud lists as running joins after its boot time; one that ends leaves. Wraps the cloud's port.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from providers.facts import Instance, InstanceState, LaunchReply, LaunchRequest, Node, NodeState
from providers.ports import Cloud, CloudReading
from providers.sim.world import World, instant


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKind:
    """What a machine of a pool becomes."""

    cluster: str
    gpus: int
    gpu_model: str
    cpus: int = 0
    memory_gib: float = 0.0
    boot_s: float = 180.0  # from running to a node that takes jobs: image, driver, registration


class JoiningCloud:
    """A `Cloud` whose machines join the world's scheduler. `kinds` by pool; `listed` is told of every listing."""

    def __init__(
        self,
        cloud: Cloud,
        world: World,
        kinds: Mapping[str, NodeKind],
        *,
        listed: Callable[[tuple[Instance, ...], datetime], None] = lambda instances, at: None,
    ) -> None:
        self._cloud, self._world, self._kinds, self._listed = cloud, world, kinds, listed
        self._booting: set[str] = set()
        self._joined: set[str] = set()

    def read(self) -> CloudReading:
        """See `Cloud.read`; then the world follows what was listed."""
        reading = self._cloud.read()
        self._listed(reading.instances, instant(self._world.now_s))
        for instance in reading.instances:
            if instance.state is InstanceState.RUNNING:
                self._boot(instance)
            elif instance.state in (InstanceState.TERMINATING, InstanceState.TERMINATED):
                self._leave(instance.id)
        return reading

    def launch(self, request: LaunchRequest) -> LaunchReply:
        """See `Cloud.launch`."""
        return self._cloud.launch(request)

    def terminate(self, instance_ids: Sequence[str]) -> tuple[str, ...]:
        """See `Cloud.terminate`."""
        return self._cloud.terminate(instance_ids)

    def acknowledge(self, interruption_ids: Sequence[str]) -> None:
        """See `Cloud.acknowledge`."""
        self._cloud.acknowledge(interruption_ids)

    def _boot(self, instance: Instance) -> None:
        kind = self._kinds.get(instance.pool)
        if kind is None or instance.id in self._booting or instance.id in self._joined:
            return
        self._booting.add(instance.id)
        self._world.at(self._world.now_s + kind.boot_s, lambda: self._join(instance, kind))

    def _join(self, instance: Instance, kind: NodeKind) -> None:
        if instance.id not in self._booting:
            return  # it ended while it booted
        self._booting.discard(instance.id)
        self._joined.add(instance.id)
        self._world.add_node(
            Node(
                id=instance.id,
                cluster=kind.cluster,
                pool=instance.pool,
                capacity_type=instance.capacity_type,
                state=NodeState.READY,
                gpus=kind.gpus,
                free_gpus=kind.gpus,
                cpus=kind.cpus,
                free_cpus=kind.cpus,
                memory_gib=kind.memory_gib,
                free_memory_gib=kind.memory_gib,
                gpu_model=kind.gpu_model,
                zone=instance.zone,
                instance_id=instance.id,
            )
        )

    def _leave(self, instance_id: str) -> None:
        self._booting.discard(instance_id)
        if instance_id in self._joined and instance_id in self._world.nodes:
            self._world.remove_node(instance_id)
