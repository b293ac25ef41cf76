"""What is committed: money that cannot be stopped any more, whatever is decided now. Pure; shown by `elastic costs`.

The minute begun of machines just asked for (also of launches in flight that no listing shows), and reserved capacity
until its end.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from elastic.costs import MIN_BILLED, by_day
from elastic.planning.cost import dearest_usd_per_hour, held_price
from elastic.planning.policy import Guard
from elastic.planning.snapshot import Snapshot
from elastic.planning.state import ControllerState, InFlight
from providers.facts import CapacityType, Instance, InstanceState

YOUNG, COMING, RESERVED = "minute begun", "launch in flight", "reserved until its end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Commitment:
    """Money of a span that will be due."""

    pool: str
    team: str
    offering: str
    why: str
    begin: datetime
    end: datetime
    usd_per_hour: float

    def usd(self, first: str, last: str) -> float:
        """Of the UTC days from first to last."""
        spans = (e - b for day, b, e in by_day(self.begin, self.end) if first <= day <= last)
        return sum(span.total_seconds() for span in spans) * self.usd_per_hour / 3600


def commitments(snapshot: Snapshot, state: ControllerState, guard: Guard) -> list[Commitment]:
    """Everything committed at the instant of a snapshot."""
    listed = [c for i in snapshot.instances if (c := _of_instance(i, snapshot.at, state, guard)) is not None]
    return [*listed, *_in_flight(snapshot, state)]


def _of_instance(instance: Instance, at: datetime, state: ControllerState, guard: Guard) -> Commitment | None:
    is_gone = instance.state is InstanceState.TERMINATED
    end, why = instance.requested_at + MIN_BILLED, YOUNG
    if instance.capacity_type is CapacityType.RESERVED and instance.ends_at is not None and not is_gone:
        end, why = max(end, instance.ends_at), RESERVED
    if end <= at:
        return None
    price = held_price(instance, guard=guard, last_good=state.prices)
    return Commitment(
        pool=instance.pool,
        team=instance.team,
        offering=instance.offering_key,
        why=why,
        begin=at,
        end=end,
        usd_per_hour=price.usd_per_hour,
    )


def _in_flight(snapshot: Snapshot, state: ControllerState) -> Iterator[Commitment]:
    listed = {i.id for i in snapshot.instances}
    tokens = [i.token for i in snapshot.instances]
    for token, flight in state.in_flight.items():
        nodes = _unseen(flight, listed, seen=tokens.count(token))
        if nodes > 0:
            yield Commitment(
                pool=flight.launch.pool,
                team=flight.launch.team,
                offering=flight.launch.offerings[0].key if flight.launch.offerings else "",
                why=COMING,
                begin=snapshot.at,
                end=snapshot.at + MIN_BILLED,
                usd_per_hour=nodes * dearest_usd_per_hour(flight.launch.offerings),
            )


def _unseen(flight: InFlight, listed: Iterable[str], *, seen: int) -> int:
    if flight.instance_ids:
        return len(set(flight.instance_ids) - set(listed) - set(flight.listed_ids))
    return flight.launch.nodes - seen
