"""A small simulated site under the real controller, for tests of the loop: say only what matters to the case."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from elastic.controller import Controller
from elastic.planning.plan import Launch
from elastic.planning.policy import Policy
from elastic.planning.state import ControllerState, Record
from forecast.forecaster import Forecasts
from providers.facts import CapacityType
from providers.ports import Ports
from providers.sim.adapters import SimClock, SimCloud, SimCluster, site_world
from providers.sim.cloud import SimulatedCloud
from providers.sim.jobs import SimJob
from providers.sim.market import Market
from providers.sim.world import World
from tests.builders import NOW, a_policy


@dataclass
class ListLedger:
    """Keeps everything in memory."""

    intents: list[str] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)

    def write_intent(self, launch: Launch, at: object, *, caps: object = None) -> None:
        self.intents.append(launch.token)

    def append(self, record: Record, state: ControllerState) -> None:
        self.records.append(record)


def a_market(**changes: object) -> Market:
    """Spot nodes in zone a that boot in four minutes and never run dry."""
    parts: dict[str, object] = {
        "instance_type": "x", "zone": "a", "capacity_type": CapacityType.SPOT, "gpus": 8, "gpu_model": "gpu",
        "price_usd_per_hour": 4.0, "boot_s": 240.0,
    }  # fmt: skip
    return Market(**{**parts, **changes})  # type: ignore[arg-type]


def a_sim_job(job_id: str, gpus: int, *, at_s: float = 0.0, runs_s: float = 7200.0, **changes: object) -> SimJob:
    """A job that arrives `at_s` after NOW."""
    parts: dict[str, object] = {
        "id": job_id, "submit_s": NOW.timestamp() + at_s, "gpus": gpus, "duration_s": runs_s, "pool": "onprem",
        "nodes": max(1, -(-gpus // 8)), "job_class": "batch",
    }  # fmt: skip
    return SimJob(**{**parts, **changes})  # type: ignore[arg-type]


class Site:
    """Four nodes of eight GPUs at home, a cloud, and the controller over them."""

    def __init__(
        self,
        jobs: Iterable[SimJob] = (),
        *,
        nodes: int = 4,
        policy: Policy | None = None,
        markets: Iterable[Market] | None = None,
        ledger: object | None = None,
        state: ControllerState | None = None,
        forecasts: Callable[[], Forecasts] = Forecasts,
    ) -> None:
        self.policy = policy or a_policy()
        ordered = sorted(jobs, key=lambda j: j.submit_s)
        self.world: World = site_world(ordered, start_s=NOW.timestamp(), pools=[("onprem", nodes, 8, "gpu", 0, 0.0)])
        self.cloud = SimulatedCloud(self.world, list(markets) if markets is not None else [a_market()])
        self.cluster = SimCluster(self.world)
        self.clock = SimClock(self.world)
        self.ports = Ports(clock=self.clock, clusters={"main": self.cluster}, clouds={"sim": SimCloud(self.cloud)})
        self.ledger = ledger if ledger is not None else ListLedger()
        self.forecasts = forecasts
        self.controller = self.restart(state)

    def restart(self, state: ControllerState | None) -> Controller:
        """A new controller over the same world, as after a crash."""
        self.controller = Controller(
            self.ports,
            self.ledger,  # type: ignore[arg-type]
            policy=lambda: self.policy,
            forecasts=self.forecasts,
            state=state,
        )
        return self.controller

    def run(self, minutes: float, *, step_s: float = 60.0) -> list[Record]:
        """Tick every `step_s` for so many minutes."""
        records = []
        for _ in range(round(minutes * 60 / step_s)):
            records.append(self.controller.tick())
            self.clock.wait(step_s)
        return records
