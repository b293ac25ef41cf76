"""What people want: the policy as frozen values. `policy_file` reads it from YAML, every planning step follows it.

Field names end in their unit; the YAML key is the alias (`wait_target: 15 min` fills `wait_target_s`).
`PolicyDocument` is the file as written, `Policy` the same with its calendars resolved to days.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from forecast.calendar import Calendar
from providers.facts import CapacityType

_DURATION = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(s|sec|m|min|h|d|days?)\s*$")
_SECONDS = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "day": 86400, "days": 86400}


def parse_duration_s(value: object) -> object:
    """`90`, `90 s`, `15 min`, `2 h`, `1 d` -> seconds. Other values pass through for pydantic to refuse."""
    if isinstance(value, str):
        match = _DURATION.match(value)
        if not match:
            raise ValueError(f"{value!r} is no duration; write a number with s, min, h or d, such as 15 min")
        return float(match[1]) * _SECONDS[match[2]]
    if isinstance(value, bool):
        raise ValueError("a duration is a number with s, min, h or d, such as 15 min")
    return value


# What an editor is told: a number of seconds, or a text such as 15 min.
_DURATION_SCHEMA = {
    "anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": _DURATION.pattern}],
    "description": "seconds, or a number with s, min, h or d",
}
Seconds = Annotated[float, BeforeValidator(parse_duration_s), Field(ge=0), WithJsonSchema(_DURATION_SCHEMA)]
Share = Annotated[float, Field(ge=0, le=1)]


class Part(BaseModel):
    """A part of the policy: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, strict=False, allow_inf_nan=False)


class Mode(StrEnum):
    """How far the controller goes: record only, plan and say, or do."""

    OBSERVE = "observe"
    ADVISE = "advise"
    ACT = "act"


class Cluster(Part):
    """A batch scheduler we read and steer."""

    kind: Literal["sim", "slurm", "kubernetes"]


class UserData(Part):
    """What a rented machine runs at its first start: a bundled template (slurm, kubernetes, eks) or a file of one's
    own, and the values of its placeholders. Secrets are named here, never written: the node fetches them itself."""

    template: str = "slurm"
    values: dict[str, str] = Field(default_factory=dict)


class Cloud(Part):
    """A place that rents machines. `aws-like` is an AWS on loopback, for trying things out: nothing costs money there.

    `owner` and `controller` become tags of all that is rented: nothing without both is ever touched.
    """

    kind: Literal["sim", "aws", "aws-like"]
    region: str = ""
    owner: str = ""
    controller: str = ""
    subnets: dict[str, str] = Field(default_factory=dict)  # by zone; a zone without one is not used
    security_groups: tuple[str, ...] = ()
    image: str = ""  # ami-..., or resolve:ssm:/a/parameter; a pool may have its own
    root_device: str = "/dev/sda1"
    root_volume_gib: int = Field(default=200, ge=8)
    instance_profile: str = ""
    key_name: str = ""
    user_data: UserData | None = None
    queue_url: str = ""  # of interruption notices
    endpoint_url: str = ""
    lease_s: Seconds = Field(default=86400, ge=3600, alias="lease")  # capacity-anchors (d): hard lease 24 h, renewable
    placement_scores: bool = False


class Headroom(Part):
    """Idle GPUs kept on purpose while `calendar` is open (always, if none is named)."""

    gpus: int = Field(ge=0)
    calendar: str | None = None


class Pool(Part):
    """Nodes of one shape and purpose. `place` on-prem pools are never launched or terminated."""

    place: Literal["on-prem", "burst"]
    cluster: str
    cloud: str | None = None
    image: str | None = None  # burst: another image than the cloud's
    gpu_model: str
    gpus_per_node: int = Field(ge=1)
    cpus_per_node: int = Field(default=0, ge=0)
    memory_gib_per_node: float = Field(default=0.0, ge=0)
    nodes: int | None = Field(default=None, ge=0)  # on-prem: how many there are
    min_nodes: int = Field(default=0, ge=0)
    max_nodes: int = Field(default=0, ge=0)  # burst: the ceiling
    zones: tuple[str, ...] = ()
    instance_types: tuple[str, ...] = ()
    capacity_types: tuple[CapacityType, ...] = (CapacityType.SPOT,)
    lead_time_s: Seconds = Field(default=900, alias="lead_time")  # until measured; capacity-anchors (d)
    idle_release_s: Seconds = Field(default=600, alias="idle_release")  # 10 min spot; capacity-anchors (d)
    min_node_life_s: Seconds = Field(default=0, alias="min_node_life")
    disruption_budget: Share = 0.1  # share of the pool emptied by moves in one tick, at least a node; Karpenter's 10 %
    headroom: tuple[Headroom, ...] = ()


class JobClass(Part):
    """How jobs of a kind are treated. `partitions` and `qos` say which jobs belong (adapters read them)."""

    wait_target_s: Seconds = Field(default=900, alias="wait_target")
    may_burst: bool = True
    capacity_types: tuple[CapacityType, ...] = (CapacityType.SPOT, CapacityType.ON_DEMAND)
    checkpointable: bool = False
    restart_cost_s: Seconds = Field(default=300, alias="restart_cost")
    may_be_displaced: bool = False
    may_displace: bool = False
    rank: int = 0  # higher goes first; urgent work outranks
    max_moves_per_day: int = Field(default=4, ge=0)
    min_run_before_move_s: Seconds = Field(default=600, alias="min_run_before_move")
    deadline_fallback: bool = False  # spot until the wait target has passed, then on-demand (Uniform Progress, NSDI'24)
    partitions: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()


class Budget(Part):
    """A team's money. 80 % warns, 100 % stops normal bursts."""

    usd_per_day: float | None = Field(default=None, ge=0)
    usd_per_month: float | None = Field(default=None, ge=0)


class Team(Part):
    """Who belongs to a team and what it may have."""

    accounts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    guaranteed_gpus: int = Field(default=0, ge=0)
    burst_ceiling_gpus: int | None = Field(default=None, ge=0)
    budget: Budget = Budget()
    calendars: tuple[str, ...] = ()
    cache_group: str | None = None


class CachePolicy(Part):
    """Size of a cache group by its team's calendars."""

    service: str
    awake_workers: int = Field(ge=0)
    asleep_workers: int = Field(default=1, ge=0)
    warm_lead_s: Seconds = Field(default=3600, alias="warm_lead")


class Money(Part):
    """Caps and prices. Every amount is in `currency`; prices of clouds come in USD."""

    currency: Literal["USD"] = "USD"
    usd_per_hour: float | None = Field(default=None, ge=0)
    usd_per_day: float | None = Field(default=None, ge=0)
    usd_per_month: float | None = Field(default=None, ge=0)
    approval_above_usd: float | None = Field(default=None, ge=0)
    onprem_usd_per_gpu_hour: float = Field(default=0.0, ge=0)


class Guard(Part):
    """Ceilings that hold whatever the cause."""

    removal_ceiling: Share = 0.1  # of a pool's nodes per tick, at least one; Karpenter 10 %
    launch_ceiling_nodes: int = Field(default=1000, ge=1)  # per tick
    stale_after_s: Seconds = Field(default=300, alias="stale_after")  # capacity-anchors (d): stale controller
    price_stale_after_s: Seconds = Field(default=21600, alias="price_stale_after")  # F015: 6 h
    price_band: float = Field(default=5.0, gt=1)  # a price that jumps by more than this factor is refused; F015
    price_stale_rule: Literal["assume_on_demand", "stop"] = "assume_on_demand"
    breaker_failures: int = Field(default=5, ge=1)
    breaker_probe_s: Seconds = Field(default=900, alias="breaker_probe")
    losses_per_hour: int = Field(default=3, ge=1)  # more correlated spot losses stop launches for an hour
    loss_share: Share = 0.2  # and so do losses of more than this share of a pool; capacity-anchors (d): 20 %
    gang_wait_s: Seconds = Field(
        default=300, alias="gang_wait"
    )  # ready nodes wait this long beyond the lead time for the rest


class ForecastPolicy(Part):
    """How demand is forecast and how much of it is bought ahead."""

    quantile: float = Field(default=0.9, gt=0, lt=1)
    refresh_s: Seconds = Field(default=3600, alias="refresh")
    max_age_s: Seconds = Field(default=21600, alias="max_age")
    prelaunch: bool = True  # buy ahead for classes whose wait target is shorter than the lead time


class OfficeCalendar(Part):
    """Office hours of a country: public holidays off, make-up workdays on. Without a country only the lists count."""

    country: str | None = None  # ISO code, or code and subdivision: DE, DE-BY, US-NY
    hours: str = "09:00-18:00"
    days: str = "Mon-Fri"
    half_day_hours: str | None = None
    half_days: tuple[str, ...] = ()  # dates
    holidays: tuple[str, ...] = ()  # more days off, as dates
    workdays: tuple[str, ...] = ()  # more days on, as dates
    complete_until: str | None = None  # a date: up to it the lists above fill what the packaged data lacks


class TradingCalendar(Part):
    """Sessions of an exchange by its MIC, widened by `before` and `after`."""

    exchange: str
    before_s: Seconds = Field(default=0, alias="before")
    after_s: Seconds = Field(default=0, alias="after")
    closed: tuple[str, ...] = ()  # more days without a session, as dates
    complete_until: str | None = None  # a date: up to it `closed` fills what the packaged data lacks


class CalendarSpec(Part):
    """When something holds: office hours, trading sessions or both, and windows that allow or forbid.

    A window is `HH:MM-HH:MM DAYS`; one that passes midnight belongs to the day it starts on. Weekdays in `allow` leave
    holidays out; DAYS may also be Work (make-up workdays too) or Hol. `forbid` removes, whatever day it is.
    """

    time_zone: str
    office: OfficeCalendar | None = None
    trading: TradingCalendar | None = None
    holidays: tuple[str, ...] = ()  # days off for office, sessions and `allow` alike, as dates
    allow: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()


class PolicyDocument(Part):
    """The policy file as written."""

    version: Literal[1] = 1
    mode: Mode = Mode.ADVISE
    time_zone: str = "UTC"
    calendars: dict[str, CalendarSpec] = Field(default_factory=dict)
    clusters: dict[str, Cluster]
    clouds: dict[str, Cloud] = Field(default_factory=dict)  # one that is not described is simulated
    pools: dict[str, Pool]
    classes: dict[str, JobClass]
    default_class: str
    teams: dict[str, Team] = Field(default_factory=dict)
    caches: dict[str, CachePolicy] = Field(default_factory=dict)
    money: Money = Money()
    guard: Guard = Guard()
    forecast: ForecastPolicy = ForecastPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The policy ready to plan with: the document, its hash and its calendars as days. Made by `policy_file`."""

    content_hash: str
    mode: Mode
    time_zone: str
    clusters: Mapping[str, Cluster]
    pools: Mapping[str, Pool]
    classes: Mapping[str, JobClass]
    default_class: str
    teams: Mapping[str, Team]
    caches: Mapping[str, CachePolicy]
    money: Money
    guard: Guard
    forecast: ForecastPolicy
    clouds: Mapping[str, Cloud] = field(default_factory=dict)
    calendars: Mapping[str, Calendar] = field(default_factory=dict)

    def job_class(self, name: str) -> JobClass:
        """The class of a job by name; an unknown or empty name is the default class."""
        return self.classes.get(name) or self.classes[self.default_class]
