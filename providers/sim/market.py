"""Markets of the simulated cloud: what each offers at which price, and how it is now. Used by `cloud`."""

from dataclasses import dataclass

from providers.facts import CapacityType


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """One offering as the world knows it. `mean_up_s` None: never runs dry. `mean_life_s` None: never interrupted."""

    instance_type: str
    zone: str
    capacity_type: CapacityType
    gpus: int
    gpu_model: str
    price_usd_per_hour: float
    cpus: int = 0
    memory_gib: float = 0.0
    boot_s: float = 240.0
    boot_spread_s: float = 0.0  # up to this much more, uniform
    boot_failure_share: float = 0.0
    mean_up_s: float | None = None
    median_down_s: float = 1800.0
    dry_loss_share: float = 0.0  # of its spot machines that are taken when it runs dry: losses come together
    mean_life_s: float | None = None
    limit_nodes: int | None = None
    follows_series: bool = False  # turns and prices come from outside (`spot_markets`), and its age is told

    @property
    def key(self) -> str:
        """Type, zone and capacity type, as offerings and machines name theirs."""
        return f"{self.instance_type}/{self.zone}/{self.capacity_type.value}"


@dataclass(slots=True)
class MarketState:
    """A market now."""

    market: Market
    up: bool = True
    up_since_s: float = 0.0
    alive: int = 0
    turns: int = 0  # a turn drawn before the newest one has no effect
