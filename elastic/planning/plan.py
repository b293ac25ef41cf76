"""The plan as a value: targets with their arithmetic, actions, what was withheld and why, and what it costs.

Made by `planner.make_plan`, carried out by `act` without further choices, printed the same everywhere.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from providers.facts import Offering


class Purpose(StrEnum):
    """Why running work changes place."""

    HOME = "home"  # back from the cloud, it fits at home
    MAKE_ROOM = "make_room"  # small work packed together so that a gang fits at home
    SWAP = "swap"  # checkpointable work leaves its place to work that cannot move
    CONSOLIDATE = "consolidate"  # cloud work packed together so that a cloud node empties


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Rent `nodes` nodes for `pool` from the best of the ranked offerings."""

    pool: str
    nodes: int
    gang: bool
    offerings: tuple[Offering, ...]
    token: str
    needed_by: datetime
    reason: str
    team: str = ""
    job_ids: tuple[str, ...] = ()  # the work it is for, as far as one can say
    lease_id: str = ""

    @property
    def key(self) -> str:
        return f"launch:{self.token}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Let a pending job start in `pool`; with nodes: on exactly these, at once."""

    job_id: str
    cluster: str
    pool: str
    reason: str
    node_ids: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return f"route:{self.job_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Stop a running checkpointable job and start it on other nodes at once."""

    job_id: str
    cluster: str
    from_node_ids: tuple[str, ...]
    to_pool: str
    to_node_ids: tuple[str, ...]
    purpose: Purpose
    reason: str

    @property
    def key(self) -> str:
        return f"move:{self.job_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Displace:
    """Requeue a running job so that an urgent one starts now."""

    job_id: str
    cluster: str
    for_job_id: str
    reason: str

    @property
    def key(self) -> str:
        return f"displace:{self.job_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cordon:
    """No new work on a node."""

    node_id: str
    cluster: str
    reason: str

    @property
    def key(self) -> str:
        return f"cordon:{self.node_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncordon:
    """New work again on a node."""

    node_id: str
    cluster: str
    reason: str

    @property
    def key(self) -> str:
        return f"uncordon:{self.node_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Let a node's work end until the deadline."""

    node_id: str
    cluster: str
    deadline: datetime | None
    reason: str

    @property
    def key(self) -> str:
        return f"drain:{self.node_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminate:
    """Give a machine back. `node_id` None: the cluster does not know it. The node is cordoned and read again first; one
    that was `cordoned` before stays so if the machine stays."""

    instance_id: str
    cloud: str
    pool: str
    reason: str
    node_id: str | None = None
    cluster: str | None = None
    cordoned: bool = False

    @property
    def key(self) -> str:
        return f"terminate:{self.instance_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """Take a node out of the cluster whose machine has ended; what the cluster thinks it runs is requeued."""

    node_id: str
    cluster: str
    reason: str

    @property
    def key(self) -> str:
        return f"forget:{self.node_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeCacheGroup:
    """Want another number of cache workers."""

    name: str
    service: str
    workers: int
    reason: str

    @property
    def key(self) -> str:
        return f"resize:{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmCacheGroup:
    """Load a group's hot set."""

    name: str
    service: str
    reason: str

    @property
    def key(self) -> str:
        return f"warm:{self.name}"


Action = (
    Launch
    | Route
    | Move
    | Displace
    | Cordon
    | Uncordon
    | Drain
    | Terminate
    | Forget
    | ResizeCacheGroup
    | WarmCacheGroup
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """An action that a rule stopped. `rule` is a short stable name, `detail` is for people."""

    action: Action
    rule: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """GPUs wanted in a pool's family (one GPU model), and how the number came about."""

    pool: str
    needed_by: datetime
    gpus_wanted: int
    gpus_on_prem: int
    gpus_burst: int
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Why these pending jobs wait, in words. Jobs of one shape and reason share an entry."""

    job_ids: tuple[str, ...]
    rule: str
    detail: str
    starts_at: datetime | None = None  # predicted


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCost:
    """What the rented machines cost an hour now, after this plan, and what the plan's launches commit to."""

    usd_per_hour_now: float = 0.0
    usd_per_hour_after: float = 0.0
    committed_usd: float = 0.0
    estimated: bool = False  # a price was assumed, not quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One decision. `id` is a hash of its inputs. `next_look_at`: when time alone changes the decision."""

    id: str
    at: datetime
    policy_hash: str
    forecast_ids: tuple[str, ...] = ()
    targets: tuple[Target, ...] = ()
    actions: tuple[Action, ...] = ()
    withheld: tuple[Withheld, ...] = ()
    waits: tuple[Wait, ...] = ()
    cost: PlanCost = field(default_factory=PlanCost)
    notes: tuple[str, ...] = ()  # alerts and states of mind, for people
    next_look_at: datetime | None = None
