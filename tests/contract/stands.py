"""What the contract suites run against: each stand is an adapter with a small world behind it that a test can steer.

A later adapter (Slurm, Kubernetes, AWS, JuiceFS) joins by one line in the tables at the end.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from providers.clock import SystemClock
from providers.errors import ProviderError
from providers.facts import CapacityType, Offering
from providers.ports import CacheService, Clock, Cloud, Cluster
from providers.sim.adapters import PacedClock, SimClock, SimCloud, SimCluster, site_world
from providers.sim.caches import CacheSpec, SimCaches
from providers.sim.cloud import SimulatedCloud
from providers.sim.jobs import SimJob
from providers.sim.market import Market
from tests.builders import NOW
from tests.contract.stand_aws import AwsCloudStand


class SimClusterStand:
    """Three nodes of eight GPUs, 80 CPUs and 800 GiB in pool `onprem`, and nothing to do."""

    def __init__(self) -> None:
        self.world = site_world([], start_s=NOW.timestamp(), pools=[("onprem", 3, 8, "gpu", 80, 800.0)])
        self.adapter = SimCluster(self.world)
        self.port: Cluster = self.adapter

    def submit(self, job_id: str, gpus: int, **changes: object) -> None:
        """A job comes into the queue of `onprem`; it would run for two hours."""
        parts = {"nodes": max(1, -(-gpus // 8)), "duration_s": 7200.0, "job_class": "batch"}
        self.world.submit(
            SimJob(id=job_id, submit_s=self.world.now_s, gpus=gpus, pool="onprem", **{**parts, **changes})
        )

    def play(self, seconds: float) -> None:
        """Time goes on."""
        self.world.advance_to(self.world.now_s + seconds)

    @contextmanager
    def broken(self, trouble: ProviderError | str) -> Iterator[None]:
        """Readings fail, or lack a part (a text)."""
        if isinstance(trouble, str):
            self.adapter.trouble = trouble
        else:
            self.adapter.error = trouble
        yield
        self.adapter.trouble, self.adapter.error = "", None


class CloudStand(Protocol):
    """A cloud with room for three spot nodes in zone a, for five in zone b, and on-demand without a limit in a.

    `tells_nodes`: an instance carries the name of the node it has become; clouds that know no cluster cannot tell.
    `keeps_rank_within_a_market`: offerings of one market are taken as ranked; EC2 picks among them by price.
    """

    port: Cloud
    tells_nodes: bool
    keeps_rank_within_a_market: bool

    def zone(self, letter: str) -> str:
        """What the cloud calls zone a or b."""
        ...

    def offering(self, zone: str, capacity_type: CapacityType = CapacityType.SPOT) -> Offering:
        """One of those on offer, by the letter of its zone."""
        ...

    def play(self, seconds: float) -> None:
        """Time goes on."""
        ...

    def interrupt(self, instance_id: str) -> None:
        """The cloud announces that it takes the machine."""
        ...

    def fail_next_launch(self, trouble: ProviderError) -> None:
        """The next launch call is refused."""
        ...

    def lose_next_reply(self) -> None:
        """The next launch takes effect, its answer does not come."""
        ...

    def broken(self, trouble: ProviderError | str) -> AbstractContextManager[None]:
        """Readings fail, or a part of them cannot be read (a text)."""
        ...


class SimCloudStand:
    """The simulated cloud over a world with one node at home."""

    tells_nodes = True
    keeps_rank_within_a_market = True

    def __init__(self) -> None:
        self.world = site_world([], start_s=NOW.timestamp(), pools=[("onprem", 1, 8, "gpu", 0, 0.0)])
        markets = [
            _market("a", CapacityType.SPOT, 4.0, limit_nodes=3),
            _market("b", CapacityType.SPOT, 5.0, limit_nodes=5),
            _market("a", CapacityType.ON_DEMAND, 12.0),
        ]
        self.cloud = SimulatedCloud(self.world, markets)
        self.port: Cloud = SimCloud(self.cloud)

    def zone(self, letter: str) -> str:
        """Its zones are letters."""
        return letter

    def offering(self, zone: str, capacity_type: CapacityType = CapacityType.SPOT) -> Offering:
        """One of those on offer."""
        found = self.port.read().offerings
        return next(o for o in found if o.zone == zone and o.capacity_type is capacity_type)

    def play(self, seconds: float) -> None:
        """Time goes on."""
        self.world.advance_to(self.world.now_s + seconds)

    def interrupt(self, instance_id: str) -> None:
        """The cloud announces that it takes the machine."""
        self.cloud.interrupt(instance_id)

    def fail_next_launch(self, trouble: ProviderError) -> None:
        """The next launch call is refused."""
        self.cloud.faults.launch.append(trouble)

    def lose_next_reply(self) -> None:
        """The next launch takes effect, its answer does not come."""
        self.cloud.faults.lost_replies = 1

    @contextmanager
    def broken(self, trouble: ProviderError | str) -> Iterator[None]:
        """Readings fail, or lack a part (a text)."""
        if isinstance(trouble, str):
            self.cloud.faults.read_gap = trouble
        else:
            self.cloud.faults.read_error = trouble
        yield
        self.cloud.faults.read_gap, self.cloud.faults.read_error = "", None


def _market(zone: str, capacity_type: CapacityType, price: float, **changes: object) -> Market:
    return Market(
        instance_type="x", zone=zone, capacity_type=capacity_type, gpus=8, gpu_model="gpu",
        price_usd_per_hour=price, boot_s=240.0, **changes,
    )  # fmt: skip


class SimCacheStand:
    """Group `vision` of team `alpha` with one cold worker."""

    def __init__(self) -> None:
        self.world = site_world([], start_s=NOW.timestamp(), pools=[("onprem", 1, 8, "gpu", 0, 0.0)])
        self.port: CacheService = SimCaches(self.world, [CacheSpec(name="vision", team="alpha", workers=1)])

    def play(self, seconds: float) -> None:
        """Time goes on."""
        self.world.advance_to(self.world.now_s + seconds)


def _empty_world() -> SimClusterStand:
    return SimClusterStand()


def _paced() -> Clock:
    return PacedClock(_empty_world().world, SystemClock(), speed=1000.0)


CLUSTERS: dict[str, Callable[[], SimClusterStand]] = {"sim": SimClusterStand}
CLOUDS: dict[str, Callable[[], CloudStand]] = {"sim": SimCloudStand, "aws": AwsCloudStand}
CACHES: dict[str, Callable[[], SimCacheStand]] = {"sim": SimCacheStand}
CLOCKS: dict[str, Callable[[], Clock]] = {
    "system": SystemClock,
    "sim": lambda: SimClock(_empty_world().world),
    "paced": _paced,
}
