"""What can be rented in one account and region, where, at what price, and how sure that is. Used by `cloud`.

Each source is asked on its own beat and kept; what is denied or down is served from what is known or from the bundled
table, and said in `trouble`. A machine of a type that is new needs nothing here: it is offered as EC2 describes it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from providers.aws.account import OWNER_TAG, AwsAccount
from providers.aws.beats import Beats, Source
from providers.aws.calls import Calls
from providers.aws.catalogue import TABLE_NAME, catalogue
from providers.aws.offering_records import (
    Hardware,
    Reservation,
    hardware_rows,
    model_name,
    reservation_rows,
    score_rows,
    zone_id_rows,
    zone_rows,
)
from providers.aws.pool_ages import PoolAges
from providers.aws.prices import Prices, Quote
from providers.aws.quotas import Quotas
from providers.facts import CapacityType, Instance, Offering
from providers.ports import Clock

TYPES, ZONES, SPOT, ON_DEMAND = "instance types", "zones of types", "spot prices", "on-demand prices"
QUOTAS, RESERVATIONS, SCORES = "quotas", "capacity reservations", "placement scores"
# Types appear a few times a year and a full listing is some 15 calls; zones gain a type somewhat more often.
TYPES_BEAT, ZONES_BEAT = timedelta(hours=6), timedelta(hours=1)
SPOT_BEAT = timedelta(minutes=5)  # spot prices change some times a day, and EC2's history is minutes late
ON_DEMAND_BEAT = timedelta(hours=3)  # changes some times a year, but a price older than 6 h counts as stale (F015)
QUOTAS_BEAT = timedelta(hours=1)  # a raised limit is worth launches within the hour
RESERVATIONS_BEAT = timedelta(minutes=5)
SCORES_BEAT = timedelta(minutes=15)  # EC2 limits how many different scores it makes for an account in a day
FILTER_VALUES = 100  # EC2 takes at most 200 values in a filter
# EC2's advice: with fewer than three types the score is always low. Eight nodes: the gangs for which it matters most.
LEAST_SCORED_TYPES, SCORED_NODES = 3, 8
KEEP_RESERVATIONS = timedelta(days=8)  # past their end, to cost machines by (as long as spot prices)
PREPAID = "capacity block, paid in advance"
RESERVED_WORDS = "reserved: paid whether used or not"
TABLE_SERVES = f"the {TABLE_NAME} serves"


class OfferingBook:
    """The market as we know it. The tick's thread refreshes it; launches in others may ask prices and tell ages."""

    def __init__(self, account: AwsAccount, calls: Calls, clock: Clock) -> None:
        self._account, self._calls, self._clock = account, calls, clock
        self._prices, self._quotas, self._ages = Prices(account.region, tuple(account.subnets)), Quotas(), PoolAges()
        self._models = {model_name(name): name for name in account.gpu_models}
        self._hardware = self._wanted(row.hardware for row in catalogue().values())
        self._zones: dict[str, set[str]] | None = None  # by type; None: never read
        self._zone_names: dict[str, str] = {}  # by zone id
        self._scores: dict[tuple[str, int, str], int] = {}  # by GPU model, GPUs and zone
        self._reservations: dict[str, Reservation] = {}
        self._listed_ids: frozenset[str] = frozenset()
        self._made: tuple[Offering, ...] | None = None
        self._made_until: datetime | None = None
        self._beats = Beats(self._sources())

    def refresh(self, at: datetime) -> None:
        """Ask what is due. Never raises a `ProviderError`: trouble is kept and told."""
        if self._beats.run(at):
            self._made = None

    def running(self, instances: Iterable[Instance]) -> None:
        """Our machines as listed now: they use our quota. Those of others in the account are not seen."""
        if self._quotas.running(instances, {name: known.cpus for name, known in self._hardware.items()}):
            self._made = None

    def offerings(self, at: datetime) -> tuple[Offering, ...]:
        """Everything that can be rented, by type and zone: the same tuple while nothing has changed."""
        if self._made is None or (self._made_until is not None and at >= self._made_until):
            kept = [r for r in self._reservations.values() if self._is_offered(r, at)]
            self._made_until = min((r.ends_at for r in kept if r.ends_at is not None), default=None)
            self._made = (*self._by_zone(at), *(self._reserved(r, at) for r in kept))
        return self._made

    def price_of(
        self, instance_type: str, zone: str, capacity_type: CapacityType, at: datetime
    ) -> tuple[float | None, str]:
        """(USD an hour, source) that held at that instant; None where it is not known.

        EC2 bills a machine in a capacity reservation by its on-demand price, one in a capacity block not at all.
        """
        if capacity_type is CapacityType.SPOT:
            return self._prices.spot_at(instance_type, zone, at)
        if capacity_type is not CapacityType.RESERVED:
            return self._prices.on_demand_at(instance_type, at)
        if any(r.is_block and r.covers(instance_type, zone, at) for r in self._reservations.values()):
            return 0.0, PREPAID
        usd, source = self._prices.on_demand_at(instance_type, at)
        return usd, f"{source}, {RESERVED_WORDS}"

    def gpus_of(self, instance_type: str) -> int:
        """How many GPUs a machine of the type has; 0 if that is not known."""
        if instance_type in self._hardware:
            return self._hardware[instance_type].gpus
        row = catalogue().get(instance_type)
        return row.hardware.gpus if row is not None else 0

    def capacity_error(self, key: str, at: datetime) -> None:
        """A launch found the offering dry."""
        self._ages.dry(key, at)
        self._made = None

    def capacity_seen(self, key: str, at: datetime) -> None:
        """A launch brought machines of the offering."""
        if self._ages.up(key, at):
            self._made = None

    @property
    def trouble(self) -> tuple[str, ...]:
        """Which source is denied, down or old, and what a pool asks for that is not to be had here."""
        return (*self._beats.trouble(self._clock.now()), *self._not_offered())

    # Asking

    def _sources(self) -> list[Source]:
        def source(
            name: str, beat: timedelta, ask: Callable[[datetime], Sequence[str]], instead: str, service: str = "ec2"
        ) -> Source:
            return Source(name=name, service=service, beat=beat, ask=ask, instead=instead)

        calls, prices, types = self._calls, self._prices, self._types
        wanted = [
            source(TYPES, TYPES_BEAT, self._read_types, TABLE_SERVES),
            source(ZONES, ZONES_BEAT, self._read_zones, "every zone with a subnet is taken to offer every type"),
            source(
                ON_DEMAND, ON_DEMAND_BEAT, lambda at: prices.read_on_demand(calls, types(), at), TABLE_SERVES, "pricing"
            ),
            source(SPOT, SPOT_BEAT, lambda at: prices.read_spot(calls, types(), at), "usual shares of on-demand serve"),
            source(
                QUOTAS, QUOTAS_BEAT, lambda at: self._quotas.read(calls, types()), "no limit is known", "service-quotas"
            ),
            source(RESERVATIONS, RESERVATIONS_BEAT, self._read_reservations, "none is offered"),
        ]
        if self._account.wants_scores:
            wanted.append(source(SCORES, SCORES_BEAT, self._read_scores, "none is known"))
        return wanted

    def _types(self) -> tuple[str, ...]:
        return tuple(self._hardware)

    def _read_types(self, at: datetime) -> Sequence[str]:
        if self._models:
            answer = list(self._calls.pages("ec2", "describe_instance_types", key="InstanceTypes"))
        else:
            answer = list(self._filtered("describe_instance_types", "InstanceTypes", self._account.instance_types))
        read = hardware_rows(answer)
        found = self._wanted(read.rows)
        if set(found) != set(self._hardware):
            self._beats.hurry(ZONES, ON_DEMAND, SPOT, QUOTAS, SCORES)
        self._hardware = found
        return read.trouble

    def _read_zones(self, at: datetime) -> Sequence[str]:
        operation, key = "describe_instance_type_offerings", "InstanceTypeOfferings"
        read = zone_rows(self._filtered(operation, key, self._types(), LocationType="availability-zone"))
        zones: dict[str, set[str]] = {}
        for instance_type, zone in read.rows:
            zones.setdefault(instance_type, set()).add(zone)
        self._zones = zones
        return read.trouble

    def _read_reservations(self, at: datetime) -> Sequence[str]:
        """Those that carry our owner tag: other teams' reservations are not ours to fill."""
        filters = [{"Name": f"tag:{OWNER_TAG}", "Values": [self._account.owner]}]
        answer = self._calls.pages(
            "ec2", "describe_capacity_reservations", key="CapacityReservations", Filters=filters
        )  # fmt: skip
        read = reservation_rows(answer)
        kept = {r.id: r for r in self._reservations.values() if r.ends_at and at - r.ends_at < KEEP_RESERVATIONS}
        self._reservations = kept | {r.id: r for r in read.rows}
        self._listed_ids = frozenset(r.id for r in read.rows)
        outside = [f"{r.id} ({r.instance_type} in {r.zone}) fits no pool" for r in read.rows if not self._is_ours(r)]
        return (*read.trouble, *outside)

    def _read_scores(self, at: datetime) -> Sequence[str]:
        trouble: list[str] = []
        if not self._zone_names:
            zones = zone_id_rows(self._calls.pages("ec2", "describe_availability_zones", key="AvailabilityZones"))
            self._zone_names = dict(zones.rows)
            trouble += zones.trouble
        groups: dict[tuple[str, int], list[str]] = {}
        for known in self._hardware.values():
            groups.setdefault((known.gpu_model, known.gpus), []).append(known.instance_type)
        scores: dict[tuple[str, int, str], int] = {}
        for (model, gpus), types in groups.items():
            if len(types) < LEAST_SCORED_TYPES:
                continue
            answer = self._calls.pages(
                "ec2", "get_spot_placement_scores", key="SpotPlacementScores", InstanceTypes=types,
                TargetCapacity=SCORED_NODES, SingleAvailabilityZone=True, RegionNames=[self._account.region],
            )  # fmt: skip
            read = score_rows(answer)
            trouble += read.trouble
            scores.update(((model, gpus, self._zone_names.get(zone_id, "")), score) for zone_id, score in read.rows)
        self._scores = scores
        return trouble

    def _filtered(self, operation: str, key: str, types: Sequence[str], **asked: Any) -> Iterator[Any]:
        """The listing of these types. By filter: a type that is not sold here is missing, it fails nothing."""
        for begin in range(0, len(types), FILTER_VALUES):
            filters = [{"Name": "instance-type", "Values": list(types[begin : begin + FILTER_VALUES])}]
            yield from self._calls.pages("ec2", operation, key=key, Filters=filters, **asked)

    # Telling

    def _wanted(self, rows: Iterable[Hardware]) -> dict[str, Hardware]:
        """What the pools name, by type; and what has a GPU they ask for."""
        named, models = set(self._account.instance_types), self._models
        kept = (row for row in rows if row.instance_type in named or row.gpu_model in models)
        return {row.instance_type: row for row in sorted(kept, key=lambda row: row.instance_type)}

    def _zones_of(self, instance_type: str) -> list[str]:
        offered = self._account.subnets if self._zones is None else self._zones.get(instance_type, ())
        return sorted(zone for zone in self._account.subnets if zone in offered)

    def _by_zone(self, at: datetime) -> Iterator[Offering]:
        for known in self._hardware.values():
            on_demand = self._prices.on_demand(known.instance_type)
            for zone in self._zones_of(known.instance_type):
                spot = self._prices.spot(known.instance_type, zone)
                score = self._scores.get((known.gpu_model, known.gpus, zone))
                yield self._offering(known, zone, CapacityType.ON_DEMAND, on_demand)
                yield self._offering(known, zone, CapacityType.SPOT, spot, score=score)

    def _reserved(self, kept: Reservation, at: datetime) -> Offering:
        known = self._hardware[kept.instance_type]
        quote = self._prices.on_demand(kept.instance_type)
        usd, source = quote.usd_per_hour, f"{quote.source}, {RESERVED_WORDS}"
        if kept.is_block:
            usd, source = 0.0, PREPAID
        return self._offering(
            known, kept.zone, CapacityType.RESERVED,
            Quote(
                usd_per_hour=usd, source=source, priced_at=at if kept.is_block else quote.priced_at,
                estimated=quote.estimated and not kept.is_block,
            ),
            reservation_id=kept.id, starts_at=kept.starts_at, ends_at=kept.ends_at, free_nodes=kept.free_nodes,
        )  # fmt: skip

    def _offering(
        self, known: Hardware, zone: str, capacity_type: CapacityType, quote: Quote, *,
        reservation_id: str = "", starts_at: datetime | None = None, ends_at: datetime | None = None,
        free_nodes: int | None = None, score: int | None = None,
    ) -> Offering:  # fmt: skip
        if free_nodes is None:
            free_nodes = self._quotas.nodes_left(known.instance_type, capacity_type, cpus=known.cpus)
        return Offering(
            cloud=self._account.name,
            instance_type=known.instance_type,
            zone=zone,
            capacity_type=capacity_type,
            gpus=known.gpus,
            gpu_model=self._models.get(known.gpu_model, known.gpu_model),
            cpus=known.cpus,
            memory_gib=known.memory_gib,
            price_usd_per_hour=quote.usd_per_hour,
            price_source=quote.source,
            priced_at=quote.priced_at,
            region=self._account.region,
            zone_up_since=self._ages.since(f"{known.instance_type}/{zone}/{capacity_type.value}"),
            estimated=quote.estimated,
            reservation_id=reservation_id,
            starts_at=starts_at,
            ends_at=ends_at,
            quota_nodes=free_nodes,
            score=score,
            gpu_memory_gib=known.gpu_memory_gib,
            local_nvme_gib=known.local_nvme_gib,
            network_gbps=known.network_gbps,
        )

    def _is_ours(self, kept: Reservation) -> bool:
        return kept.instance_type in self._hardware and kept.zone in self._account.subnets

    def _is_offered(self, kept: Reservation, at: datetime) -> bool:
        return kept.id in self._listed_ids and self._is_ours(kept) and (kept.ends_at is None or at < kept.ends_at)

    def _not_offered(self) -> Iterator[str]:
        region, models = self._account.region, {known.gpu_model for known in self._hardware.values()}
        for name in self._account.instance_types:
            if name not in self._hardware:
                yield f"{TYPES}: {name}, which a pool names, is not sold in {region}; see instance_types in the policy"
        for model, asked in self._models.items():
            if model not in models:
                yield f"{TYPES}: nothing in {region} has a GPU {asked}; see gpu_model in the policy"
        for name in self._hardware:
            if not self._zones_of(name):
                elsewhere = ", ".join(sorted((self._zones or {}).get(name, ()))) or "no zone"
                yield f"{ZONES}: {name} is offered in {elsewhere}, where we have no subnet; add one there"
