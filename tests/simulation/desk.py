"""Drawn sites for the simulation: a week's work, a fickle cloud and faults, all from one seed."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from random import Random

from elastic.controller import Controller
from elastic.ledger import SqlLedger
from elastic.ledger_port import Caps
from elastic.planning.plan import Launch
from elastic.planning.policy import CachePolicy, Guard, JobClass, Money, Policy, Pool, Team
from elastic.planning.state import ControllerState, Record
from forecast.forecaster import Forecasts
from providers.facts import CapacityType, LaunchReply, LaunchRequest
from providers.ports import Ports
from providers.sim.adapters import SimClock, SimCloud, SimCluster, site_world
from providers.sim.caches import CacheSpec, SimCaches
from providers.sim.cloud import SimulatedCloud
from providers.sim.jobs import SimJob
from providers.sim.market import Market
from providers.sim.script import play_script, read_script
from tests.builders import NOW, a_policy

HOUR_S, TICK_S = 3600.0, 60.0
NODES = 6


class Crash(BaseException):
    """The process dies here: nothing catches it."""


def desk_policy() -> Policy:
    """Every ceiling and cap is there and low enough to be met."""
    return a_policy(
        pools={
            "onprem": Pool(place="on-prem", cluster="main", gpu_model="gpu", gpus_per_node=8, nodes=NODES),
            "burst": Pool(
                place="burst", cluster="main", cloud="sim", gpu_model="gpu", gpus_per_node=8, max_nodes=9,
                lead_time="240 s", idle_release="600 s", capacity_types=("spot", "on-demand"),
            ),
        },
        classes={
            "batch": JobClass(checkpointable=True, may_be_displaced=True, capacity_types=("spot",)),
            "fixed": JobClass(checkpointable=False),
            "urgent": JobClass(checkpointable=False, wait_target="0 s", may_displace=True, rank=10),
        },
        teams={
            "alpha": Team(burst_ceiling_gpus=48, cache_group="vision"),
            "beta": Team(burst_ceiling_gpus=40),
        },
        caches={"vision": CachePolicy(service="sim", awake_workers=3)},
        money=Money(usd_per_hour=60.0, usd_per_day=700.0, usd_per_month=12_000.0),
        guard=Guard(removal_ceiling=0.34, launch_ceiling_nodes=5),
    )  # fmt: skip


def drawn_jobs(random: Random, *, days: float) -> Iterator[SimJob]:
    """More than home carries by day, less by night; a third cannot be moved, some are urgent, some are gangs."""
    now_s, number = 0.0, 0
    while now_s < days * 86400:
        busy = 8 <= (9 + now_s / HOUR_S) % 24 < 19
        now_s += random.expovariate(1 / (600 if busy else 2400))
        gpus = random.choice([1, 2, 4, 8, 8, 8, 16, 16, 24])
        name = random.choices(["batch", "fixed", "urgent"], [6, 3, 1])[0]
        yield SimJob(
            id=f"j{number}",
            submit_s=NOW.timestamp() + now_s,
            gpus=gpus,
            duration_s=min(8 * HOUR_S, 600 * random.paretovariate(0.8)),
            pool="onprem",
            nodes=max(1, -(-gpus // 8)),
            team=random.choice(["alpha", "beta"]),
            job_class=name,
            priority=10 if name == "urgent" else 0,
            checkpointable=name == "batch",
        )
        number += 1


def drawn_markets() -> list[Market]:
    """Two spot zones that run dry together and lose machines, and dear on-demand that has little room."""
    spot = {"instance_type": "x", "gpus": 8, "gpu_model": "gpu", "capacity_type": CapacityType.SPOT, "boot_s": 240.0,
            "boot_spread_s": 120.0, "boot_failure_share": 0.04, "mean_up_s": 6 * HOUR_S, "mean_life_s": 10 * HOUR_S,
            "limit_nodes": 6, "dry_loss_share": 0.4}  # fmt: skip
    return [
        Market(zone="a", price_usd_per_hour=4.0, **spot),
        Market(zone="b", price_usd_per_hour=4.5, **spot),
        Market(
            instance_type="x", zone="a", capacity_type=CapacityType.ON_DEMAND, gpus=8, gpu_model="gpu",
            price_usd_per_hour=12.0, boot_s=240.0, limit_nodes=4,
        ),
    ]  # fmt: skip


def drawn_faults(random: Random, *, days: float) -> list[dict[str, object]]:
    """About one piece of trouble every two hours, of every kind."""
    faults: list[dict[str, object]] = []
    at_min = 0.0
    while at_min < days * 1440:
        at_min += random.expovariate(1 / 120)
        for_min = random.choice([3, 10, 25])
        fault = random.choice(
            [
                {"dry": {"zone": random.choice("ab")}, "for_min": for_min},
                {"interrupt": {"pool": "burst", "count": random.choice([1, 2])}},
                {
                    "launch_error": random.choice(
                        ["insufficient_capacity", "throttled", "unreachable", "quota_exceeded"]
                    )
                },
                {"lost_reply": 1},
                {"never_join": random.choice([1, 2])},
                {"break_node": {"pool": "burst"}},
                {"queue_gap": "page 3 failed", "for_min": for_min},
                {"queue_error": "unreachable", "for_min": for_min},
                {"cloud_gap": "second page throttled", "for_min": for_min},
                {"cloud_error": "throttled", "for_min": for_min},
                {"price_factor": random.choice([0.001, 20.0]), "for_min": for_min},
                {"hide_new_s": 150, "for_min": 60},
                {"call_s": 40, "for_min": for_min},
            ]
        )
        faults.append({"at_min": round(at_min, 2), **fault})
    return faults


class CrashableCloud(SimCloud):
    """A cloud during whose launch call the process may die, before or after it took effect."""

    crash = ""

    def launch(self, request: LaunchRequest) -> LaunchReply:
        if self.crash == "before the call":
            raise Crash
        reply = super().launch(request)
        if self.crash == "after the call":
            raise Crash
        return reply


class CrashableLedger(SqlLedger):
    """A ledger at whose doors the process may die."""

    crash = ""

    def write_intent(self, launch: Launch, at: datetime, *, caps: Caps | None = None) -> None:
        if self.crash == "before the token":
            raise Crash
        super().write_intent(launch, at, caps=caps)

    def append(self, record: Record, state: ControllerState) -> None:
        if self.crash == "before the record":
            raise Crash
        super().append(record, state)
        if self.crash == "after the record":
            raise Crash


CRASHES = ("before the token", "before the call", "after the call", "before the record", "after the record", "between")


@dataclass
class DrawnSite:
    """One seed's site under the real controller and the real ledger at `url`."""

    seed: int
    url: str
    days: float
    faults: list[dict[str, object]] | None = None
    policy: Policy = field(default_factory=desk_policy)

    def __post_init__(self) -> None:
        jobs = drawn_jobs(Random(f"{self.seed}/jobs"), days=self.days)
        self.world = site_world(jobs, start_s=NOW.timestamp(), pools=[("onprem", NODES, 8, "gpu", 0, 0.0)])
        self.cloud = SimulatedCloud(self.world, drawn_markets(), seed=self.seed)
        self.cluster, self.cloud_port = SimCluster(self.world), CrashableCloud(self.cloud)
        caches = SimCaches(self.world, [CacheSpec(name="vision", team="alpha", workers=1)])
        self.clock = SimClock(self.world)
        self.ports = Ports(
            clock=self.clock, clusters={"main": self.cluster}, clouds={"sim": self.cloud_port}, caches={"sim": caches}
        )
        drawn = drawn_faults(Random(f"{self.seed}/faults"), days=self.days)
        play_script(
            read_script(self.faults if self.faults is not None else drawn), self.world, self.cluster, self.cloud
        )
        self.ledger = CrashableLedger(self.url)
        self.controller = self._controller(ControllerState())

    def _controller(self, state: ControllerState) -> Controller:
        return Controller(
            self.ports, self.ledger, policy=lambda: self.policy, forecasts=Forecasts, state=state
        )  # fmt: skip

    def restart(self) -> ControllerState:
        """After a crash: a new process that knows only what the ledger holds. Returns what it remembers."""
        self.cloud_port.crash = ""
        self.ledger.close()
        self.ledger = CrashableLedger(self.url)
        state = self.ledger.rebuild_state()
        self.controller = self._controller(state)
        return state

    def arm(self, crash: str) -> None:
        """Die at the next such place."""
        self.ledger.crash = self.cloud_port.crash = crash
