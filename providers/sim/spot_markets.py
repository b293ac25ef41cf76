"""Spot markets whose availability and price follow given series (of a public trace): what the benchmark of spot plays.

A market that turns dry takes back its share of the machines held there (`dry_loss_share`), with the usual notice.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from providers.sim.cloud import SimulatedCloud

Steps = tuple[tuple[float, float], ...]  # (Unix second, what holds from then on), in order


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotSeries:
    """What one market does: `ups` is 1 where a node can be had and 0 where none can, `prices` USD a node-hour. Both
    hold from their first step on; what came before it holds the first value too."""

    key: str  # of the market
    ups: Steps
    prices: Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Machines of one market that were given notice at one moment."""

    at_s: float
    key: str
    instance_ids: tuple[str, ...]


@dataclass(slots=True)
class SpotMarkets:
    """Plays series on a cloud's markets, and keeps what was lost."""

    cloud: SimulatedCloud
    losses: list[Loss] = field(default_factory=list)

    def follow(self, series: Iterable[SpotSeries]) -> None:
        """Set each market as its series has it now, and turn and price it at each later change."""
        world = self.cloud.world
        for one in series:
            self._turn(one.key, value_at(one.ups, world.now_s))
            self.cloud.set_price(one.key, value_at(one.prices, world.now_s))
            for at_s, value in _changes(one.ups, after_s=world.now_s):
                world.at(at_s, lambda key=one.key, v=value: self._turn(key, v))  # type: ignore[misc]
            for at_s, value in _changes(one.prices, after_s=world.now_s):
                world.at(at_s, lambda key=one.key, v=value: self.cloud.set_price(key, v))  # type: ignore[misc]

    def _turn(self, key: str, value: float) -> None:
        taken = self.cloud.set_up(key, up=value > 0)
        if taken:
            self.losses.append(Loss(at_s=self.cloud.world.now_s, key=key, instance_ids=taken))


def value_at(steps: Sequence[tuple[float, float]], at_s: float) -> float:
    """What holds at an instant."""
    value = steps[0][1]
    for step_s, new in steps:
        if step_s > at_s:
            break
        value = new
    return value


def usd_between(prices: Sequence[tuple[float, float]], from_s: float, to_s: float) -> float:
    """What a node costs from one instant to another, each second at the price that held then."""
    usd, since_s, price = 0.0, from_s, value_at(prices, from_s)
    for step_s, new in prices:
        if from_s < step_s < to_s:
            usd += (step_s - since_s) / 3600 * price
            since_s, price = step_s, new
    return usd + max(0.0, to_s - since_s) / 3600 * price


def _changes(steps: Steps, *, after_s: float) -> list[tuple[float, float]]:
    """Steps to come that change something."""
    value, changes = value_at(steps, after_s), []
    for at_s, new in steps:
        if at_s > after_s and new != value:
            value = new
            changes.append((at_s, new))
    return changes
