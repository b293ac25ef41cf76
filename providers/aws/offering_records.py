"""AWS's answers about what can be rented -> plain rows (pure). Used by `offerings`, `prices` and `quotas`.

A row that lacks what it needs, or holds nonsense, is left out with a word; it never stops the others.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from re import fullmatch
from typing import Any, Generic, TypeVar

T = TypeVar("T")

MIB_PER_GIB = 1024.0
GIB_PER_GB = 1e9 / 2**30  # EC2 tells disks in decimal GB and memory in binary MiB
WORDS_KEPT = 5  # of one answer: a feed that is all wrong is told by its first rows
# EC2's names of GPUs that have another usual name; all others are their own in lower case with hyphens.
MODEL_NAMES = {"RTX PRO Server 6000": "rtx-pro-6000", "RTX PRO 4500": "rtx-pro-4500", "T4g": "t4g"}
LINUX_PRODUCTS = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")
# Of the price list's many products of one type: Linux on shared hardware, used as it is started, nothing installed.
PRICE_LIST_PRODUCT = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """What a machine of one instance type has. GPU memory is of one GPU; 0 Gbps: not told."""

    instance_type: str
    cpus: int
    memory_gib: float
    gpus: int
    gpu_model: str
    gpu_memory_gib: float
    local_nvme_gib: float
    network_gbps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotPoint:
    """From `at` on the spot price of a type in a zone was this."""

    instance_type: str
    zone: str
    at: datetime
    usd_per_hour: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Capacity that is kept for us. `is_block`: a capacity block, paid at once and ended by AWS at `ends_at`."""

    id: str
    instance_type: str
    zone: str
    free_nodes: int
    starts_at: datetime | None
    ends_at: datetime | None
    is_block: bool

    def covers(self, instance_type: str, zone: str, at: datetime) -> bool:
        """Whether machines of the type in the zone may run in it at that instant."""
        begun = self.starts_at is None or self.starts_at <= at
        return (
            (self.instance_type, self.zone) == (instance_type, zone)
            and begun
            and (not self.ends_at or at < self.ends_at)
        )


@dataclass(frozen=True, slots=True)
class Rows(Generic[T]):
    """What could be read of an answer, and words for what could not."""

    rows: tuple[T, ...]
    trouble: tuple[str, ...] = ()


class _Unreadable(ValueError):
    """A row that lacks a field or holds nonsense."""


def model_name(name: str) -> str:
    """A GPU's name as policies say it: EC2's `A100` is `a100`. A new model works by its own name."""
    return MODEL_NAMES.get(name.strip(), "-".join(name.lower().split()))


def hardware_rows(answer: Iterable[Any]) -> Rows[Hardware]:
    """`describe_instance_types`: the types with whole GPUs."""
    return _each(answer, "instance type", _hardware)


def zone_rows(answer: Iterable[Any]) -> Rows[tuple[str, str]]:
    """`describe_instance_type_offerings` by zone: (instance type, zone)."""
    return _each(answer, "offering", lambda row: (_text(row, "InstanceType"), _text(row, "Location")))


def zone_id_rows(answer: Iterable[Any]) -> Rows[tuple[str, str]]:
    """`describe_availability_zones`: (zone id, zone)."""
    return _each(answer, "zone", lambda row: (_text(row, "ZoneId"), _text(row, "ZoneName")))


def score_rows(answer: Iterable[Any]) -> Rows[tuple[str, int]]:
    """`get_spot_placement_scores`: (zone id, score from 1 to 10)."""
    return _each(answer, "placement score", _score)


def spot_rows(answer: Iterable[Any]) -> Rows[SpotPoint]:
    """`describe_spot_price_history`: prices of Linux machines, in order of time."""
    read = _each(answer, "spot price", _spot_point)
    return Rows(tuple(sorted(read.rows, key=lambda point: point.at)), read.trouble)


def price_rows(answer: Iterable[Any], *, region: str) -> Rows[tuple[str, float]]:
    """`get_products`: (instance type, USD an hour on demand) in the region."""
    return _each(answer, "price list", lambda item: _list_price(item, region))


def reservation_rows(answer: Iterable[Any]) -> Rows[Reservation]:
    """`describe_capacity_reservations`: those of Linux that are there or to come."""
    return _each(answer, "capacity reservation", _reservation)


def quota_rows(answer: Any) -> Rows[float]:
    """`get_service_quota`: the limit in vCPUs. 0 is a limit too."""
    return _each((answer,), "quota", lambda row: _number(row, "Quota", "Value", least=0.0))


def in_few_words(trouble: Sequence[str]) -> tuple[str, ...]:
    """The first of many complaints, and how many there are."""
    more = len(trouble) - WORDS_KEPT
    return (*trouble[:WORDS_KEPT], *((f"and {more} more like these",) if more > 0 else ()))


def _each(answer: Iterable[Any], what: str, one: Callable[[Any], T | None]) -> Rows[T]:
    rows: list[T] = []
    trouble: list[str] = []
    for item in answer:
        try:
            row = one(item)
        except _Unreadable as gap:
            trouble.append(f"{what} left out: {gap}")
            continue
        if row is not None:
            rows.append(row)
    return Rows(tuple(rows), in_few_words(trouble))


def _hardware(row: Any) -> Hardware | None:
    named = _text(row, "InstanceType")
    if row.get("GpuInfo") is None:
        return None
    gpus = _field(row, "GpuInfo", "Gpus")
    if not isinstance(gpus, list) or len(gpus) != 1:
        raise _Unreadable(f"{named} has not one model of GPU")
    count = int(_number(gpus[0], "Count", least=0.0, of=named))
    if count == 0:
        return None  # a share of a GPU, as of g6f
    return Hardware(
        instance_type=named,
        cpus=int(_number(row, "VCpuInfo", "DefaultVCpus", least=1.0, of=named)),
        memory_gib=_number(row, "MemoryInfo", "SizeInMiB", least=1.0, of=named) / MIB_PER_GIB,
        gpus=count,
        gpu_model=model_name(_text(gpus[0], "Name", of=named)),
        gpu_memory_gib=_number(gpus[0], "MemoryInfo", "SizeInMiB", least=1.0, of=named) / MIB_PER_GIB,
        local_nvme_gib=_nvme_gib(row, named),
        network_gbps=_network_gbps(row.get("NetworkInfo")),
    )


def _nvme_gib(row: Mapping[str, Any], named: str) -> float:
    if row.get("InstanceStorageInfo") is None:
        return 0.0
    return _number(row, "InstanceStorageInfo", "TotalSizeInGB", least=0.0, of=named) * GIB_PER_GB


def _network_gbps(network: Any) -> float:
    """What it has at all times: "4x 100 Gigabit" is 400; of "Up to 25 Gigabit" the sum of its cards' baselines."""
    if not isinstance(network, Mapping):
        return 0.0
    told = fullmatch(r"(?:(\d{1,3})x )?(\d{1,6}(?:\.\d+)?) Gigabit", str(network.get("NetworkPerformance")))
    if told:
        return int(told[1] or 1) * float(told[2])
    cards = network.get("NetworkCards")
    try:
        return sum(_number(c, "BaselineBandwidthInGbps", least=0.0) for c in cards) if isinstance(cards, list) else 0.0
    except _Unreadable:
        return 0.0


def _score(row: Any) -> tuple[str, int]:
    score = _number(row, "Score", least=1.0)
    if score > 10:
        raise _Unreadable(f"a score of {score:g}, not 1 to 10")
    return _text(row, "AvailabilityZoneId"), int(score)


def _spot_point(row: Any) -> SpotPoint | None:
    if _text(row, "ProductDescription") not in LINUX_PRODUCTS:
        return None
    named, zone = _text(row, "InstanceType"), _text(row, "AvailabilityZone")
    return SpotPoint(
        instance_type=named,
        zone=zone,
        at=_moment(row, "Timestamp", of=f"{named} in {zone}"),
        usd_per_hour=_usd(_field(row, "SpotPrice", of=f"{named} in {zone}"), of=f"{named} in {zone}"),
    )


def _list_price(item: Any, region: str) -> tuple[str, float] | None:
    product = _parsed(item)
    attributes = _field(product, "product", "attributes")
    named = _text(attributes, "instanceType")
    wanted = {**PRICE_LIST_PRODUCT, "regionCode": region}
    if any(attributes.get(name, value) != value for name, value in wanted.items()):
        return None
    terms = _field(product, "terms", "OnDemand", of=named)
    prices = [
        _usd(_field(dimension, "pricePerUnit", "USD", of=named), of=named)
        for term in _values(terms, of=named)
        for dimension in _values(_field(term, "priceDimensions", of=named), of=named)
        if isinstance(dimension, Mapping) and dimension.get("unit") == "Hrs"
    ]
    if not prices:
        raise _Unreadable(f"{named} has no price by the hour")
    return named, max(prices)


def _parsed(item: Any) -> Any:
    """An item of the price list: a JSON text, or what a client has made of it."""
    if not isinstance(item, str):
        return item
    try:
        return json.loads(item)
    except (ValueError, RecursionError) as trouble:
        raise _Unreadable(f"not JSON: {trouble}") from trouble


def _reservation(row: Any) -> Reservation | None:
    named = _text(row, "CapacityReservationId")
    state = _text(row, "State", of=named)
    if state not in ("active", "scheduled") or row.get("LaunchStatus") == "unlaunchable":
        return None
    if row.get("InstancePlatform", "Linux/UNIX") not in LINUX_PRODUCTS:
        return None
    is_block = row.get("ReservationType") == "capacity-block"
    has_end = is_block or row.get("EndDate") is not None
    count = "AvailableInstanceCount" if state == "active" else "TotalInstanceCount"
    return Reservation(
        id=named,
        instance_type=_text(row, "InstanceType", of=named),
        zone=_text(row, "AvailabilityZone", of=named),
        free_nodes=int(_number(row, count, least=0.0, of=named)),
        starts_at=_moment(row, "StartDate", of=named) if state == "scheduled" or is_block else None,
        ends_at=_moment(row, "EndDate", of=named) if has_end else None,
        is_block=is_block,
    )


def _field(row: Any, *path: str, of: str = "") -> Any:
    value = row
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
        if value is None:
            raise _Unreadable(f"{of or 'a row'} without {'.'.join(path)}")
    return value


def _values(value: Any, *, of: str) -> list[Any]:
    if not isinstance(value, Mapping):
        raise _Unreadable(f"{of} with terms that are no object")
    return list(value.values())


def _text(row: Any, *path: str, of: str = "") -> str:
    value = _field(row, *path, of=of)
    if not isinstance(value, str) or not value.strip():
        raise _Unreadable(f"{of or 'a row'} without {'.'.join(path)}")
    return value


def _number(row: Any, *path: str, least: float, of: str = "") -> float:
    value = _field(row, *path, of=of)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < 1e15:
        raise _Unreadable(f"{of or 'a row'}: {'.'.join(path)} is {value!r:.40}")
    return float(value)


def _usd(value: Any, *, of: str) -> float:
    """A price. 0, less than 0 and what is no number are no prices (F015)."""
    try:
        usd = float(value)
    except (TypeError, ValueError, OverflowError):
        usd = 0.0
    if isinstance(value, bool) or not isfinite(usd) or usd <= 0:
        raise _Unreadable(f"{of}: {value!r:.40} is no price")
    return usd


def _moment(row: Any, name: str, *, of: str) -> datetime:
    value = _field(row, name, of=of)
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise _Unreadable(f"{of}: {name} is {value!r:.40}, no instant")
    try:
        return value.astimezone(UTC)
    except OverflowError as trouble:
        raise _Unreadable(f"{of}: {name} is {value!r:.40}, no instant") from trouble
