"""What is rented against what is written down: machines without a record, records without a machine, machines of
another controller. Pure; shown by `elastic sweep --dry-run`.

The controller itself sweeps with every tick: it adopts machines without a record, gives back what never joins and
closes records whose machines are gone. This is the same look from outside, and it changes nothing.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from elastic.planning.flights import JOIN_DEADLINE_S, LAUNCH_DEADLINE_S
from elastic.planning.policy import Policy
from elastic.planning.state import InFlight
from providers.facts import Instance, InstanceState

GRACE = timedelta(seconds=LAUNCH_DEADLINE_S)  # a machine so young may still be written down


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that does not match, what the controller does about it, and when at the earliest."""

    cloud: str
    id: str
    pool: str
    what: str
    next_step: str
    at: datetime | None


def findings(
    instances: Iterable[Instance],
    *,
    recorded: Collection[str],
    in_flight: Mapping[str, InFlight],
    policy: Policy,
    at: datetime,
) -> list[Finding]:
    """Every mismatch of one account: `instances` by our tags, `recorded` the tokens the ledger knows."""
    alive = [i for i in instances if i.state in (InstanceState.PENDING, InstanceState.RUNNING)]
    found = [finding for i in alive if (finding := _machine(i, recorded, policy, at)) is not None]
    seen = {i.token for i in instances}
    for token, flight in sorted(in_flight.items()):
        if token not in seen and flight.launch.pool in policy.pools:
            cloud = policy.pools[flight.launch.pool].cloud or ""
            found.append(
                Finding(
                    cloud=cloud, id=token, pool=flight.launch.pool, what="a launch in flight that no listing shows",
                    next_step="closed when whole listings lack it for long", at=flight.asked_at + GRACE,
                )
            )  # fmt: skip
    return found


def _machine(instance: Instance, recorded: Collection[str], policy: Policy, at: datetime) -> Finding | None:
    if instance.token not in recorded:
        what, step = "no launch of this ledger asked for it", "adopted at the controller's next tick"
        when = None if at - instance.requested_at >= GRACE else instance.requested_at + GRACE
    elif instance.pool not in policy.pools:
        what, step = f"the policy has no pool {instance.pool}", "given back when it runs nothing"
        when = instance.requested_at + timedelta(seconds=JOIN_DEADLINE_S)
    elif instance.ends_at is not None and instance.ends_at <= at:
        what, step, when = "its lease is over", "it powers itself off", instance.ends_at
    else:
        return None
    return Finding(cloud=instance.cloud, id=instance.id, pool=instance.pool, what=what, next_step=step, at=when)
