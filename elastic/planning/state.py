"""What the controller remembers between ticks, and the fold that keeps it: `advance(state, record)`.

There is no other memory: after a restart the state is rebuilt by folding the ledger's records.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from elastic.planning.plan import Launch, Plan
from elastic.planning.policy import Guard
from elastic.planning.snapshot import Snapshot
from providers.facts import Instance, OfferingFailure


class ControllerMode(StrEnum):
    """NORMAL; PROTECTED holds launches, scale-in goes on; PAUSED does nothing."""

    NORMAL = "normal"
    PROTECTED = "protected"
    PAUSED = "paused"


class Result(StrEnum):
    """How an action ended. Partial is normal."""

    DONE = "done"
    PARTIAL = "partial"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one action."""

    action_key: str
    result: Result
    error_kind: str = ""
    error_scope: str = ""
    detail: str = ""
    provider_ids: tuple[str, ...] = ()
    instances: tuple[Instance, ...] = ()  # of a launch
    failures: tuple[OfferingFailure, ...] = ()  # of a launch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Record:
    """One tick, whole: what was seen, decided and done. `guard` is the policy's of that tick: the fold of breakers and
    price memory follows it, so that folding a record needs nothing else."""

    tick: int
    snapshot: Snapshot
    plan: Plan
    outcomes: tuple[Outcome, ...]
    guard: Guard = field(default_factory=Guard)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A manual burst. Always ends."""

    id: str
    team: str
    pool: str
    gpus: int
    starts_at: datetime
    ends_at: datetime
    requested_by: str
    approved_by: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnavailableOffering:
    """Our timed memory that the cloud has none of this now. `strikes` counts failures in a row."""

    key: str
    until: datetime
    strikes: int
    error_kind: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """A launch whose machines have not all joined: counted as coming, never bought twice.

    `instance_ids` are those still to join; () while the outcome of the call is not known. `listed_ids` are those of
    them that a listing has shown: one that several later listings lack is gone, one never shown may still appear.
    `missed` counts whole listings in a row without one that was listed, by its id.
    """

    launch: Launch
    asked_at: datetime
    instance_ids: tuple[str, ...] = ()
    listed_ids: tuple[str, ...] = ()
    missed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolMemory:
    """A pool's recent past: for hysteresis, cooldowns and the breaker.

    `held_until`: launches were refused for a reason that no other offering cures (`held_why`), so many times in a row.
    `losses_until`: too many machines were taken back at once.
    """

    last_launch_at: datetime | None = None
    last_release_at: datetime | None = None
    boots: tuple[bool, ...] = ()  # newest last, True = joined; at most 10; since the breaker last closed
    paused_until: datetime | None = None
    losses: tuple[datetime, ...] = ()  # spot losses of the last hour
    losses_until: datetime | None = None
    held_until: datetime | None = None
    held_why: str = ""
    held_strikes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """USD spent on rented machines: in all this UTC day and month, and by team."""

    day: str = ""  # 2026-12-01
    month: str = ""
    usd_day: float = 0.0
    usd_month: float = 0.0
    team_usd_day: Mapping[str, float] = field(default_factory=dict)
    team_usd_month: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveMemory:
    """How often a job was moved on a UTC day, and when last."""

    day: str
    count: int
    last_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerState:
    """Everything remembered."""

    mode: ControllerMode = ControllerMode.NORMAL
    mode_reason: str = ""
    tick: int = 0
    at: datetime | None = None
    unavailable: Mapping[str, UnavailableOffering] = field(default_factory=dict)
    in_flight: Mapping[str, InFlight] = field(default_factory=dict)  # by token
    pools: Mapping[str, PoolMemory] = field(default_factory=dict)
    leases: Mapping[str, Lease] = field(default_factory=dict)
    moves: Mapping[str, MoveMemory] = field(default_factory=dict)  # by job
    prices: Mapping[str, float] = field(default_factory=dict)  # last good price by offering key
    notices: Mapping[str, datetime] = field(default_factory=dict)  # interruptions by id: when first seen
    failed_boots: Mapping[str, int] = field(default_factory=dict)  # in a row, by offering key
    spend: Spend = field(default_factory=Spend)
