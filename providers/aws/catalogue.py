"""The bundled table of GPU types: hardware and prices that serve while an API is denied or down. Used by `offerings`
and `prices`; what comes from it is marked as an estimate.

Facts as of 2026-07. Hardware: EC2's public documentation of instance types (as `describe_instance_types` tells it).
On-demand: AWS's public price list, Linux in us-east-1, as of 2026-07-20; p5e is only sold in capacity blocks and has
none. `spot_share` is the median of spot over on-demand price in public spot price histories of US and EU regions:
g4dn, g5, p3 of 2021 and 2022, p4 and p5 of early 2025 (against the on-demand prices of those days). Empty: not known.
A new type needs a row here only to be rented while EC2 does not answer.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from io import StringIO
from math import isfinite

from providers.aws.offering_records import GIB_PER_GB, Hardware

TABLE_AT = datetime(2026, 7, 20, tzinfo=UTC)
TABLE_NAME = "bundled table 2026-07"
TABLE_REGION = "us-east-1"
_WHOLE = ("vcpus", "gpus")
_AMOUNTS = ("memory_gib", "gpu_memory_gib", "network_gbps")
_MAYBE = ("on_demand_usd_per_hour", "spot_share")
COLUMNS = ("instance_type", "gpu_model", *_WHOLE, *_AMOUNTS, "local_nvme_gb", *_MAYBE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueRow:
    """One type of the table. None: not known."""

    hardware: Hardware
    on_demand_usd_per_hour: float | None
    spot_share: float | None


@cache
def catalogue() -> Mapping[str, CatalogueRow]:
    """The bundled table by instance type. That it is whole and right is a test, not a thing to fail of at run time."""
    rows, _ = read_catalogue(resources.files("providers.aws").joinpath("catalogue.csv").read_text(encoding="utf-8"))
    return rows


def read_catalogue(text: str) -> tuple[dict[str, CatalogueRow], tuple[str, ...]]:
    """The rows of a table that can be read, by type, and a complaint with line and field for each that cannot."""
    table = csv.DictReader(StringIO(text))
    missing = [name for name in COLUMNS if name not in (table.fieldnames or ())]
    if missing:
        return {}, (f"catalogue.csv line 1: no column {', '.join(missing)}",)
    rows: dict[str, CatalogueRow] = {}
    complaints: list[str] = []
    for fields in table:
        try:
            row = _row({name: (fields[name] or "").strip() for name in COLUMNS})
            if row.hardware.instance_type in rows:
                raise ValueError(f"instance_type: {row.hardware.instance_type} stands here twice")
            rows[row.hardware.instance_type] = row
        except ValueError as trouble:
            complaints.append(f"catalogue.csv line {table.line_num}: {trouble}")
    return rows, tuple(complaints)


def _row(fields: Mapping[str, str]) -> CatalogueRow:
    for name in ("instance_type", "gpu_model"):
        if not fields[name]:
            raise ValueError(f"{name} is empty")
    cpus, gpus = (_above_zero(name, fields[name], whole=True) for name in _WHOLE)
    memory_gib, gpu_memory_gib, network_gbps = (_above_zero(name, fields[name]) for name in _AMOUNTS)
    on_demand, spot_share = (_above_zero(name, fields[name]) if fields[name] else None for name in _MAYBE)
    if spot_share is not None and spot_share > 1:
        raise ValueError(f"spot_share is {spot_share:g}; spot does not cost more than on-demand")
    nvme_gb = 0.0 if fields["local_nvme_gb"] == "0" else _above_zero("local_nvme_gb", fields["local_nvme_gb"])
    hardware = Hardware(
        instance_type=fields["instance_type"],
        cpus=int(cpus),
        memory_gib=memory_gib,
        gpus=int(gpus),
        gpu_model=fields["gpu_model"],
        gpu_memory_gib=gpu_memory_gib,
        local_nvme_gib=nvme_gb * GIB_PER_GB,
        network_gbps=network_gbps,
    )
    return CatalogueRow(hardware=hardware, on_demand_usd_per_hour=on_demand, spot_share=spot_share)


def _above_zero(name: str, text: str, *, whole: bool = False) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not isfinite(number) or number <= 0 or (whole and number != int(number)):
        raise ValueError(f"{name} is {text!r}; give a {'whole ' if whole else ''}number above 0")
    return number
