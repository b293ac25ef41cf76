"""How many vCPUs our account may have, by family and market, and what that leaves in nodes. Used by `offerings`.

EC2 limits vCPUs by the first letters of a type, on-demand and spot apart (EC2 user guide, on-demand and spot quotas).
A family without a row here has no known limit: then EC2 itself refuses (F014).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from re import match

from providers.aws.calls import Calls
from providers.aws.offering_records import quota_rows
from providers.errors import NotFound
from providers.facts import CapacityType, Instance, InstanceState

QUOTA_NAMES = {
    "L-417A185B": "Running On-Demand P instances",
    "L-DB2E81BA": "Running On-Demand G and VT instances",
    "L-7212CCBC": "All P Spot Instance Requests",  # where P5 has a quota of its own: "All P4, P3 and P2"
    "L-C4BD4855": "All P5 Spot Instance Requests",
    "L-3819A6DF": "All G and VT Spot Instance Requests",
}
_ON_DEMAND = {"p": ("L-417A185B",), "g": ("L-DB2E81BA",), "gr": ("L-DB2E81BA",), "vt": ("L-DB2E81BA",)}
_SPOT = {"p": ("L-7212CCBC",), "g": ("L-3819A6DF",), "gr": ("L-3819A6DF",), "vt": ("L-3819A6DF",)}
_COUNTED = (InstanceState.PENDING, InstanceState.RUNNING)  # EC2 counts neither shutting-down nor terminated ones


def quota_codes(instance_type: str, capacity_type: CapacityType) -> tuple[str, ...]:
    """The quotas that may hold for a type, the one that goes first in front. Reserved ones count as on-demand."""
    family = match(r"([a-z]+)(\d+)", instance_type)
    if family is None:
        return ()
    if capacity_type is not CapacityType.SPOT:
        return _ON_DEMAND.get(family[1], ())
    return (("L-C4BD4855",) if family[0] == "p5" else ()) + _SPOT.get(family[1], ())


class Quotas:
    """The limits of one account and region, and how much of them our machines use."""

    def __init__(self) -> None:
        self._vcpus: dict[str, float] = {}
        self._used: Counter[str] = Counter()

    def read(self, calls: Calls, types: Collection[str]) -> Sequence[str]:
        """Ask for the limits of these types, one call for each."""
        markets = (CapacityType.ON_DEMAND, CapacityType.SPOT)
        wanted = dict.fromkeys(code for m in markets for name in sorted(types) for code in quota_codes(name, m))
        trouble: list[str] = []
        found: dict[str, float] = {}
        for code in wanted:
            try:
                read = quota_rows(calls.read("service-quotas", "get_service_quota", ServiceCode="ec2", QuotaCode=code))
            except NotFound:
                continue  # this account has no such quota
            trouble += read.trouble
            found.update((code, vcpus) for vcpus in read.rows)
        self._vcpus = found
        trouble += (f"{QUOTA_NAMES[c]} ({c}) is 0: ask AWS to raise it" for c, vcpus in found.items() if vcpus == 0)
        families = {quota_codes(name, m) for m in markets for name in types} - {()}
        unknown = [QUOTA_NAMES[codes[-1]] for codes in sorted(families) if not any(code in found for code in codes)]
        return (*trouble, *([f"no limit told for {', '.join(dict.fromkeys(unknown))}"] if unknown else ()))

    def running(self, instances: Iterable[Instance], cpus: Mapping[str, int]) -> bool:
        """Count what our machines use. True if that has changed. Machines of others in the account are not seen."""
        used: Counter[str] = Counter()
        for instance in instances:
            code = self._code(instance.instance_type, instance.capacity_type)
            if code is not None and instance.state in _COUNTED:
                used[code] += cpus.get(instance.instance_type, 0)
        changed, self._used = used != self._used, used
        return changed

    def nodes_left(self, instance_type: str, capacity_type: CapacityType, *, cpus: int) -> int | None:
        """How many more nodes the limit leaves, None where it is not known."""
        code = self._code(instance_type, capacity_type)
        if code is None:
            return None
        return max(0, int(self._vcpus[code] - self._used[code]) // cpus)

    def _code(self, instance_type: str, capacity_type: CapacityType) -> str | None:
        return next((c for c in quota_codes(instance_type, capacity_type) if c in self._vcpus), None)
