"""The frozen nouns of the outside world: jobs, nodes, instances, offerings, cache groups, interruptions.

Adapters make them, planning and forecasting read them. Times are aware and in UTC; the unit is last in a name.
A value that an adapter could not read is None, never a guess: None is "unknown", not "zero" or "idle".
"""

from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum


class JobState(StrEnum):
    """Where a job stands in its batch scheduler."""

    PENDING = "pending"
    RUNNING = "running"
    ENDED = "ended"


class PendingReason(StrEnum):
    """Why a pending job waits. Only RESOURCES and PRIORITY are demand: capacity cures no other reason."""

    RESOURCES = "resources"
    PRIORITY = "priority"
    HELD = "held"
    DEPENDENCY = "dependency"
    BEGIN_TIME = "begin_time"
    LIMIT = "limit"
    IMPOSSIBLE = "impossible"
    OTHER = "other"


class NodeState(StrEnum):
    """What a node can do for us now."""

    JOINING = "joining"  # known to the scheduler, runs nothing yet
    READY = "ready"
    CORDONED = "cordoned"  # runs what it has, takes nothing new
    DOWN = "down"


class InstanceState(StrEnum):
    """An instance's life as its cloud tells it."""

    PENDING = "pending"
    RUNNING = "running"
    TERMINATING = "terminating"
    TERMINATED = "terminated"


class CapacityType(StrEnum):
    """How capacity is paid for."""

    ONPREM = "on-prem"
    RESERVED = "reserved"
    SPOT = "spot"
    ON_DEMAND = "on-demand"


class InterruptionKind(StrEnum):
    """What the cloud announces about an instance."""

    SPOT_INTERRUPTION = "spot_interruption"  # the two-minute notice
    REBALANCE = "rebalance"  # the earlier hint; nothing is certain
    SCHEDULED = "scheduled"


class CachePhase(StrEnum):
    """State of a cache group. READY means settled *and* warm."""

    ASLEEP = "asleep"
    STARTING = "starting"
    WARMING = "warming"
    READY = "ready"
    DRAINING = "draining"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job (or one array task, or one heterogeneous gang) as the batch scheduler tells it.

    `gpus`, `cpus` and `memory_gib` are totals over all nodes. `nodes` is how many nodes it spreads over; a job with
    `nodes > 1` is a gang: all of them start together, in one zone, or none. `pool` is where it may start now (set by
    Route); `node_ids` where it runs. `checkpointable` None means that its class decides.
    """

    id: str
    cluster: str
    state: JobState
    gpus: int
    submitted_at: datetime
    pool: str
    team: str = ""
    user: str = ""
    name: str = ""
    job_class: str = ""
    pending_reason: PendingReason = PendingReason.RESOURCES
    nodes: int = 1
    cpus: int = 0
    memory_gib: float = 0.0
    gpu_model: str | None = None
    priority: int = 0
    started_at: datetime | None = None  # of the attempt that runs now
    node_ids: tuple[str, ...] = ()
    node_gpus: tuple[int, ...] = ()  # its GPUs on each of node_ids, where the scheduler tells
    attempt: int = 0  # 0 for the first, +1 for each restart
    time_limit_s: float | None = None
    deadline_at: datetime | None = None
    checkpointable: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node as its batch scheduler tells it. `free_gpus` None: the use of this node could not be read."""

    id: str
    cluster: str
    pool: str
    capacity_type: CapacityType
    state: NodeState
    gpus: int
    free_gpus: int | None
    cpus: int = 0
    free_cpus: int = 0
    memory_gib: float = 0.0
    free_memory_gib: float = 0.0
    gpu_model: str | None = None
    zone: str | None = None
    instance_id: str | None = None
    job_ids: tuple[str, ...] = ()
    idle_since: datetime | None = None  # None while it runs anything, or when not known
    ready_at: datetime | None = None
    cordon_reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One rented machine as its cloud tells it. `token` is the launch token it carries as a tag."""

    id: str
    cloud: str
    pool: str
    token: str
    state: InstanceState
    instance_type: str
    zone: str
    capacity_type: CapacityType
    gpus: int
    price_usd_per_hour: float
    requested_at: datetime
    node_id: str | None = None
    team: str = ""
    running_since: datetime | None = None
    terminated_at: datetime | None = None
    region: str = ""
    price_source: str = ""
    ends_at: datetime | None = None  # its hard lease, or the end of the capacity block it runs in

    @property
    def offering_key(self) -> str:
        """The key of the offering it was rented from."""
        return f"{self.instance_type}/{self.zone}/{self.capacity_type.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offering:
    """Instance type + zone + capacity type at a price. `price_usd_per_hour` None: no price known, so not eligible.

    `zone_up_since` is since when this offering has been obtainable as far as we know (pool age: a young pool loses
    gangs; capacity-anchors, survival table). `estimated`: the price is from a table or assumed, not quoted.
    `reservation_id`, `starts_at` and `ends_at` are of a reservation or a capacity block; outside them it is not there.
    `quota_nodes`: how many nodes our quota leaves beside those that run; `score` 1 to 10: the cloud's own guess of how
    likely spot capacity is now.
    """

    cloud: str
    instance_type: str
    zone: str
    capacity_type: CapacityType
    gpus: int
    gpu_model: str
    cpus: int
    memory_gib: float
    price_usd_per_hour: float | None
    price_source: str
    priced_at: datetime
    region: str = ""
    zone_up_since: datetime | None = None
    estimated: bool = False
    reservation_id: str = ""
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    quota_nodes: int | None = None
    score: int | None = None
    gpu_memory_gib: float = 0.0  # of one GPU
    local_nvme_gib: float = 0.0
    network_gbps: float = 0.0

    @property
    def key(self) -> str:
        """What our memory of failures is keyed by: type, zone and market."""
        return f"{self.instance_type}/{self.zone}/{self.capacity_type.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheGroup:
    """A team's data-cache workers. `warm_ratio` is the verified cached share of the hot set, None if unchecked."""

    name: str
    team: str
    service: str
    phase: CachePhase
    workers_wanted: int
    workers_ready: int
    workers_draining: int = 0
    warm_ratio: float | None = None
    staged_bytes: int = 0
    last_read_at: datetime | None = None
    changed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """A notice about one instance. Settled (acknowledged) only when its effect is recorded."""

    id: str
    cloud: str
    instance_id: str
    kind: InterruptionKind
    noticed_at: datetime
    ends_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """What `Cloud.launch` is asked: `nodes` instances from the best of the ranked offerings.

    `gang`: all of them in one zone or none. `token` makes a repeat of the call harmless.
    """

    token: str
    pool: str
    cluster: str
    nodes: int
    gang: bool
    offerings: tuple[Offering, ...]
    team: str = ""
    ends_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferingFailure:
    """Why one offering gave nothing, by the kinds and scopes of `providers.errors`."""

    offering_key: str
    error_kind: str
    detail: str
    scope: str = "offering"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchReply:
    """What a launch brought: the instances, and the failures of offerings tried before or beside them."""

    instances: tuple[Instance, ...]
    failures: tuple[OfferingFailure, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledDay:
    """What a cloud billed for the machines of this controller on one UTC day. `by_usage` are the cloud's own usage
    types, dearest first; `compute` names those that are machines themselves. `is_final` False: the cloud still counts.
    """

    cloud: str
    day: date
    usd: float
    by_usage: tuple[tuple[str, float], ...] = ()
    compute: frozenset[str] = frozenset()
    is_final: bool = True
    source: str = ""

    @property
    def compute_usd(self) -> float:
        """Of it, machines."""
        return sum(usd for kind, usd in self.by_usage if kind in self.compute)
