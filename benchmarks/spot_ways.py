"""Ways to rent under spot that `spot` compares: each a policy, and what the controller is shown of the cloud."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from elastic.planning.policy import Policy
from providers.facts import CapacityType, InterruptionKind, LaunchReply, LaunchRequest
from providers.ports import Cloud, CloudReading

SPOT, ON_DEMAND = CapacityType.SPOT, CapacityType.ON_DEMAND
View = Callable[[CloudReading], CloudReading]
MANY = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One row of the table."""

    name: str
    policy: Policy
    view: View | None = None

    @property
    def uses_spot(self) -> bool:
        """If not, it is the same under all series."""
        return any(SPOT in pool.capacity_types for pool in self.policy.pools.values() if pool.place == "burst")


class SeenThrough:
    """A cloud of which the controller sees what `view` leaves."""

    def __init__(self, cloud: Cloud, view: View) -> None:
        self._cloud, self._view = cloud, view

    def read(self) -> CloudReading:
        """See `Cloud.read`."""
        return self._view(self._cloud.read())

    def launch(self, request: LaunchRequest) -> LaunchReply:
        """See `Cloud.launch`."""
        return self._cloud.launch(request)

    def terminate(self, instance_ids: Sequence[str]) -> tuple[str, ...]:
        """See `Cloud.terminate`."""
        return self._cloud.terminate(instance_ids)

    def acknowledge(self, interruption_ids: Sequence[str]) -> None:
        """See `Cloud.acknowledge`."""
        self._cloud.acknowledge(interruption_ids)


def without_ages(reading: CloudReading) -> CloudReading:
    """No zone tells since when it can be had, so none is young."""
    return replace(reading, offerings=tuple(replace(o, zone_up_since=None) for o in reading.offerings))


def without_memory(reading: CloudReading) -> CloudReading:
    """Notices that nodes are left for, but that say nothing about their market: it is neither set aside nor counted."""
    notices = tuple(replace(n, kind=InterruptionKind.SCHEDULED) for n in reading.interruptions)
    return replace(reading, interruptions=notices)


def ways(base: Policy, zones: Sequence[str]) -> list[Way]:
    """All of them over the given zones, from a policy with one burst pool."""
    both = (SPOT, ON_DEMAND)
    ours = renting(base, zones, both)
    calm = replace(ours, guard=ours.guard.model_copy(update={"losses_per_hour": MANY, "loss_share": 1.0}))
    return [
        Way(name="on-demand only", policy=renting(base, zones, (ON_DEMAND,))),
        *(Way(name=f"spot in {zone} alone", policy=renting(base, (zone,), both)) for zone in zones),
        Way(name="three zones, cheapest first", policy=ours, view=without_ages),
        Way(name="three zones and pool age (ours)", policy=ours),
        Way(name="ours, fixed jobs on demand", policy=renting(base, zones, both, fixed=(ON_DEMAND,))),
        Way(name="ours, no stop after losses", policy=calm),
        Way(name="ours, no stop, none set aside", policy=calm, view=without_memory),
    ]


def renting(
    base: Policy, zones: Sequence[str], kinds: tuple[CapacityType, ...], *, fixed: tuple[CapacityType, ...] = ()
) -> Policy:
    """The policy with its burst pool in these zones, renting these kinds in their order (`fixed`: for the jobs that
    cannot be moved)."""
    pools = {
        name: pool.model_copy(update={"zones": tuple(zones), "capacity_types": kinds})
        if pool.place == "burst"
        else pool
        for name, pool in base.pools.items()
    }
    classes = {
        name: rules.model_copy(update={"capacity_types": fixed if fixed and name == "fixed" else kinds})
        for name, rules in base.classes.items()
    }
    return replace(base, pools=pools, classes=classes)
