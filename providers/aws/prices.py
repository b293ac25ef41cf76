"""What a machine costs an hour, now and at earlier instants, each price with its source and age. Used by `offerings`.

Spot prices hold from their instant until the next one. A price that cannot be true is not taken (F015): the guard of
the planner refuses jumps, here goes what is wrong at first sight.
"""

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from providers.aws.calls import Calls
from providers.aws.catalogue import TABLE_AT, TABLE_NAME, TABLE_REGION, catalogue
from providers.aws.offering_records import PRICE_LIST_PRODUCT, in_few_words, price_rows, spot_rows

SPOT_SOURCE, LIST_SOURCE, NO_SOURCE = "spot price history", "price list", "no price known"
FIRST_LOOK = timedelta(days=3)
OVERLAP = timedelta(minutes=15)  # asked again at each read: EC2's history may show a change some minutes late
KEEP, MAX_POINTS = timedelta(days=8), 2_000  # a week to cost machines by, and a limit whatever EC2 tells
OLD = timedelta(minutes=15)  # from then on a source says its age: three missed beats of spot prices
# Spot is sold at a discount of up to 90 % (AWS's documentation) and not above on-demand; ten times beyond both ends is
# no price. Regions differ by less than three times in on-demand prices, and AWS's cuts were below one half.
LEAST_SPOT_SHARE, MOST_SPOT_SHARE, LIST_FACTOR = 0.01, 10.0, 10.0
TYPES_PER_FILTER = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A price as we know it. None: not known, never 0."""

    usd_per_hour: float | None
    source: str
    priced_at: datetime
    estimated: bool = False


class _Series:
    """Prices by the instants from which they hold. Replaced whole: launches in other threads read while it grows."""

    def __init__(self) -> None:
        self.points: tuple[tuple[datetime, float], ...] = ()

    def add(self, at: datetime, usd: float) -> None:
        points = self.points
        place = bisect_right(points, at, key=_start)
        if place and points[place - 1][0] == at:
            self.points = (*points[: place - 1], (at, usd), *points[place:])
        elif not place or points[place - 1][1] != usd:
            self.points = (*points[:place], (at, usd), *points[place:])

    def forget(self, before: datetime) -> None:
        """Keep the one that held at `before` and what came after, within the limit."""
        points = self.points
        self.points = points[max(0, bisect_right(points, before, key=_start) - 1, len(points) - MAX_POINTS) :]

    def at(self, at: datetime) -> float | None:
        points = self.points
        place = bisect_right(points, at, key=_start)
        return points[place - 1][1] if place else None


def _start(point: tuple[datetime, float]) -> datetime:
    return point[0]


class Prices:
    """Every price of one region; spot prices of the zones that we use."""

    def __init__(self, region: str, zones: Collection[str]) -> None:
        self._region, self._zones = region, zones
        self._spot: dict[tuple[str, str], _Series] = {}
        self._spot_read: dict[str, datetime] = {}  # by type: when the history was last read whole
        self._list: dict[str, _Series] = {}
        self._list_read: dict[str, datetime] = {}

    # Reading

    def read_spot(self, calls: Calls, types: Collection[str], at: datetime) -> Sequence[str]:
        """The spot price history since the last read; days of it for types that are new."""
        if not types:
            return ()
        since = min(self._spot_read.get(name, at - FIRST_LOOK) for name in types) - OVERLAP
        read = spot_rows(
            calls.pages(
                "ec2", "describe_spot_price_history", key="SpotPriceHistory", StartTime=since,
                InstanceTypes=sorted(types), ProductDescriptions=["Linux/UNIX"],
            )
        )  # fmt: skip
        refused: list[str] = []
        for point in read.rows:
            if point.zone not in self._zones:
                continue
            known = self.on_demand(point.instance_type).usd_per_hour
            if known and not LEAST_SPOT_SHARE * known <= point.usd_per_hour <= MOST_SPOT_SHARE * known:
                refused.append(
                    f"{point.usd_per_hour:g} USD/h for {point.instance_type} in {point.zone} is not taken:"
                    f" on-demand costs {known:g}"
                )
                continue
            series = self._spot.get((point.instance_type, point.zone), _Series())
            series.add(point.at, point.usd_per_hour)
            self._spot[point.instance_type, point.zone] = series
        for series in self._spot.values():
            series.forget(at - KEEP)
        self._spot_read = dict.fromkeys(types, at)
        return (*read.trouble, *in_few_words(list(dict.fromkeys(refused))))

    def read_on_demand(self, calls: Calls, types: Collection[str], at: datetime) -> Sequence[str]:
        """The price list's prices of these types."""
        trouble: list[str] = []
        named = sorted(types)
        for begin in range(0, len(named), TYPES_PER_FILTER):
            part = named[begin : begin + TYPES_PER_FILTER]
            filters = [{"Type": "ANY_OF", "Field": "instanceType", "Value": ",".join(part)}] + [
                {"Type": "TERM_MATCH", "Field": name, "Value": value}
                for name, value in {**PRICE_LIST_PRODUCT, "regionCode": self._region}.items()
            ]
            read = price_rows(
                calls.pages("pricing", "get_products", key="PriceList", ServiceCode="AmazonEC2", Filters=filters),
                region=self._region,
            )
            trouble += read.trouble
            for instance_type, usd in read.rows:
                known = self._table_price(instance_type)
                if known and not known / LIST_FACTOR <= usd <= known * LIST_FACTOR:
                    trouble.append(f"{usd:g} USD/h for {instance_type} is not taken: the {TABLE_NAME} has {known:g}")
                    continue
                self._list_read[instance_type] = at
                series = self._list.get(instance_type, _Series())
                series.add(at, usd)
                self._list[instance_type] = series  # only now: whoever reads it finds a price
        for series in self._list.values():
            series.forget(at - KEEP)
        return in_few_words(trouble)

    # Telling

    def on_demand(self, instance_type: str) -> Quote:
        """The on-demand price that holds now: of the price list, else of the bundled table."""
        if instance_type in self._list:
            read_at = self._list_read[instance_type]
            return Quote(usd_per_hour=self._list[instance_type].points[-1][1], source=LIST_SOURCE, priced_at=read_at)
        usd = self._table_price(instance_type)
        source = NO_SOURCE if usd is None else f"{TABLE_NAME} ({TABLE_REGION})"
        return Quote(usd_per_hour=usd, source=source, priced_at=TABLE_AT, estimated=usd is not None)

    def spot(self, instance_type: str, zone: str) -> Quote:
        """The spot price that holds now; an estimate while the history could never be read. A history that names no
        price for a zone means that there is none to be had."""
        read_at = self._spot_read.get(instance_type)
        series = self._spot.get((instance_type, zone))
        if series is not None:
            return Quote(
                usd_per_hour=series.points[-1][1], source=SPOT_SOURCE, priced_at=read_at or series.points[-1][0]
            )
        return self._usual_spot(instance_type) if read_at is None else _unknown(read_at)

    def on_demand_at(self, instance_type: str, at: datetime) -> tuple[float | None, str]:
        """(USD an hour, source) on demand at that instant. The list tells no past: its first price stands for it."""
        series = self._list.get(instance_type)
        if series is None:
            quote = self.on_demand(instance_type)
            return quote.usd_per_hour, quote.source
        usd = series.at(at)
        return (usd if usd is not None else series.points[0][1]), LIST_SOURCE

    def spot_at(self, instance_type: str, zone: str, at: datetime) -> tuple[float | None, str]:
        """(USD an hour, source) on the spot market of a zone at that instant, as far back as the history was read."""
        series = self._spot.get((instance_type, zone))
        if series is None:
            quote = self.spot(instance_type, zone)
            return quote.usd_per_hour, quote.source
        usd = series.at(at)
        if usd is None:
            return None, NO_SOURCE
        late = at - self._spot_read.get(instance_type, series.points[-1][0])
        hours = late.total_seconds() / 3600
        return usd, SPOT_SOURCE if late <= OLD else f"{SPOT_SOURCE}, last read {hours:.1f} h before"

    def _usual_spot(self, instance_type: str) -> Quote:
        usual, row = self.on_demand(instance_type), catalogue().get(instance_type)
        if usual.usd_per_hour is None:
            return _unknown(TABLE_AT)
        share = row.spot_share if row is not None else None
        words = f"{share:g} of it is usual for spot" if share else "taken for spot too"
        return Quote(
            usd_per_hour=usual.usd_per_hour * (share or 1.0),
            source=f"on-demand of {usual.source}, {words}",
            priced_at=TABLE_AT,
            estimated=True,
        )

    @staticmethod
    def _table_price(instance_type: str) -> float | None:
        row = catalogue().get(instance_type)
        return row.on_demand_usd_per_hour if row is not None else None


def _unknown(at: datetime) -> Quote:
    return Quote(usd_per_hour=None, source=NO_SOURCE, priced_at=at)
