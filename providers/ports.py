"""The doors to the outside: Cluster, Cloud, CacheService, Clock. The contract stands in the docstrings.

Every method raises only `ProviderError` kinds. Reads return whole answers or say that they are not whole
(`complete=False`): a part is never reported as the whole. Writes are idempotent: saying the same again is harmless.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from providers.facts import (
    CacheGroup,
    Instance,
    Interruption,
    Job,
    LaunchReply,
    LaunchRequest,
    Node,
    Offering,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReading:
    """One reading of a batch scheduler: every pending and running job, every node. `trouble` says what was not
    understood; then `complete` is False and nothing may be removed on its word."""

    jobs: tuple[Job, ...]
    nodes: tuple[Node, ...]
    complete: bool = True
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudReading:
    """Instances of ours (by owner tag), what can be rented, and unsettled interruptions."""

    instances: tuple[Instance, ...]
    offerings: tuple[Offering, ...]
    interruptions: tuple[Interruption, ...] = ()
    complete: bool = True
    trouble: str = ""


class Cluster(Protocol):
    """A batch scheduler: Slurm, Kubernetes, or the simulated one."""

    def read(self) -> ClusterReading:
        """All pending and running jobs and all nodes, in one consistent picture."""
        ...

    def route(self, job_id: str, *, pool: str, node_ids: Sequence[str] = ()) -> None:
        """Let a pending job start in `pool` only. With `node_ids` it starts on exactly these, now if they are free.
        NotFound if the job is not pending any more."""
        ...

    def move(self, job_id: str, *, to_pool: str, to_node_ids: Sequence[str]) -> None:
        """Signal a running job, requeue it and start it on the given nodes at once. It pays its restart cost.
        InvalidRequest if the nodes cannot take it: then the job is left where it runs."""
        ...

    def displace(self, job_id: str, *, reason: str) -> None:
        """Requeue a running job to make place; it waits in its pool like any pending job."""
        ...

    def cordon(self, node_id: str, *, reason: str) -> None:
        """Take no new jobs on the node."""
        ...

    def uncordon(self, node_id: str) -> None:
        """Take new jobs again."""
        ...

    def drain(self, node_id: str, *, deadline: datetime | None, reason: str) -> None:
        """Take no new jobs, let those of the node end until `deadline`; those that may be requeued are requeued in time
        to be off it by then. None: no deadline."""
        ...

    def forget(self, node_id: str) -> None:
        """The machine behind the node is gone (or goes now): power it down, requeue what it ran."""
        ...


class Cloud(Protocol):
    """A place that rents machines: EC2, or the simulated one."""

    def read(self) -> CloudReading:
        """Our instances, offerings with prices, unsettled interruptions."""
        ...

    def launch(self, request: LaunchRequest) -> LaunchReply:
        """Launch from the ranked offerings. The same token again brings the same instances, never more.
        Part of a gang is never returned: it is given back first. Capacity errors of single offerings come back as
        `failures`; an error of the call itself is raised."""
        ...

    def terminate(self, instance_ids: Sequence[str]) -> tuple[str, ...]:
        """End the instances; returns the ids that are ending or gone. Unknown ids count as gone."""
        ...

    def acknowledge(self, interruption_ids: Sequence[str]) -> None:
        """These notices have been recorded; do not tell them again."""
        ...


class CacheService(Protocol):
    """Data-cache groups of teams: JuiceFS, or the simulated one."""

    def read(self) -> tuple[CacheGroup, ...]:
        """Every cache group with its size, phase and warmth."""
        ...

    def resize(self, name: str, *, workers: int) -> None:
        """Want this many workers; scaling in drains one worker after another."""
        ...

    def warm(self, name: str) -> None:
        """Start to load the hot set, if no warm-up runs already."""
        ...


class Clock(Protocol):
    """The only source of time and the only place that waits."""

    def now(self) -> datetime:
        """Aware, in UTC."""
        ...

    def wait(self, seconds: float, *, until: Callable[[], bool] | None = None) -> None:
        """Return after `seconds`, or sooner when `until()` becomes true."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Every adapter a controller talks to, by the policy's names."""

    clock: Clock
    clusters: Mapping[str, Cluster] = field(default_factory=dict)
    clouds: Mapping[str, Cloud] = field(default_factory=dict)
    caches: Mapping[str, CacheService] = field(default_factory=dict)
