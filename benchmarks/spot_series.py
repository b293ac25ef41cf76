"""Public spot traces as series of the simulated markets: who could get a node when, and what it cost. Used by `spot`.

Availability knows relative time only and prices are of another year, so both are laid on the played week at several
offsets. Prices are shares of their type's on-demand price, and scaled to the node's.
"""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from providers.facts import CapacityType
from providers.sim.market import Market
from providers.sim.spot_markets import SpotSeries, Steps

DAY_S = 86400.0
# EC2's on-demand prices of 2021 in us-east-1 (also the instance catalogue's), for the share that a spot price was.
ON_DEMAND_2021_USD = {"p2.16xlarge": 14.40, "g4dn.8xlarge": 2.176, "p3dn.24xlarge": 31.212}
NODE_TYPE, NODE_USD = "p3.16xlarge", 24.48  # 8 V100, the GPU that was probed for; on demand in us-east-1
BOOT_S = 240.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """The two files, and which of their rows are played: zones in pairs, the n-th of each file together."""

    availability: pd.DataFrame
    prices: pd.DataFrame
    zones: tuple[str, ...]
    price_zones: tuple[str, ...]
    price_type: str
    prices_from: pd.Timestamp

    def series(self, *, start_s: float, days: float, offset_days: float) -> list[SpotSeries]:
        """One a zone, for the week that begins at `start_s`, from `offset_days` into the traces on."""
        pairs = zip(self.zones, self.price_zones, strict=True)
        return [
            SpotSeries(
                key=spot_market(zone, loss_share=0.0).key,
                ups=self._ups(zone, start_s, offset_days, days),
                prices=self._prices(price_zone, start_s, offset_days, days),
            )
            for zone, price_zone in pairs
        ]

    def _ups(self, zone: str, start_s: float, offset_days: float, days: float) -> Steps:
        rows = self.availability[(self.availability.kind == "availability") & (self.availability.zone == zone)]
        since_s = rows.t_s - offset_days * DAY_S
        rows = rows.assign(since_s=since_s)[(since_s >= 0) & (since_s <= days * DAY_S)].sort_values("since_s")
        if rows.empty or rows.since_s.iloc[-1] < days * DAY_S - 2 * rows.gap_s.iloc[0]:
            raise ValueError(f"zone {zone} has no availability for {days:g} days from day {offset_days:g} on")
        return tuple((start_s + t, float(n > 0)) for t, n in zip(rows.since_s, rows.available_nodes, strict=True))

    def _prices(self, zone: str, start_s: float, offset_days: float, days: float) -> Steps:
        rows = self.prices[(self.prices.instance_type == self.price_type) & (self.prices.az == zone)]
        if rows.empty:
            raise ValueError(f"there are no prices of {self.price_type} in {zone}")
        since_s = (rows.time_utc - self.prices_from).dt.total_seconds() - offset_days * DAY_S
        rows = rows.assign(since_s=since_s).sort_values("since_s")
        if rows.since_s.iloc[0] > 0 or rows.since_s.iloc[-1] < (days - 1) * DAY_S:
            raise ValueError(f"prices of {self.price_type} in {zone} do not cover the week from day {offset_days:g} on")
        scale = NODE_USD / ON_DEMAND_2021_USD[self.price_type]
        return tuple((start_s + t, usd * scale) for t, usd in zip(rows.since_s, rows.spot_price_usd_h, strict=True))


def read_traces(
    availability: Path, prices: Path, *, zones: tuple[str, ...], price_zones: tuple[str, ...], price_type: str,
    prices_from: str,
) -> Traces:  # fmt: skip
    """The files' rows, checked for what is asked. ValueError says what there is instead."""
    probes, events = pd.read_parquet(availability), pd.read_parquet(prices)
    if price_type not in ON_DEMAND_2021_USD:
        raise ValueError(f"no on-demand price of {price_type} is known; there are {', '.join(ON_DEMAND_2021_USD)}")
    if len(zones) != len(price_zones):
        raise ValueError("--zones and --price-zones go in pairs: give as many of one as of the other")
    known = set(probes.zone[probes.kind == "availability"])
    if unknown := sorted(set(zones) - known):
        raise ValueError(f"no availability of {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    return Traces(
        availability=probes, prices=events, zones=zones, price_zones=price_zones, price_type=price_type,
        prices_from=pd.Timestamp(prices_from, tz="UTC"),
    )  # fmt: skip


def spot_market(zone: str, *, loss_share: float) -> Market:
    """A zone's spot offering, to be led by its series."""
    return _market(zone, CapacityType.SPOT, dry_loss_share=loss_share, follows_series=True)


def on_demand_market(zone: str) -> Market:
    """A zone's on-demand offering: never dry."""
    return _market(zone, CapacityType.ON_DEMAND)


def _market(zone: str, kind: CapacityType, *, dry_loss_share: float = 0.0, follows_series: bool = False) -> Market:
    return Market(
        instance_type=NODE_TYPE, zone=zone, capacity_type=kind, gpus=8, gpu_model="gpu", price_usd_per_hour=NODE_USD,
        boot_s=BOOT_S, dry_loss_share=dry_loss_share, follows_series=follows_series,
    )  # fmt: skip
