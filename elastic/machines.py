"""The life of every rented machine, for people: where it stands, until when, what follows, what it has cost.

Made from one record and the memory after it; shown by `elastic nodes`. The planner decides by the same deadlines.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from elastic.planning.snapshot import Snapshot
from elastic.planning.state import ControllerState
from providers.facts import CapacityType, Instance, InstanceState, Node, NodeState

# From the request to a listing, and to a node that runs jobs (capacity-anchors (d): launch 5 min, GPU join 20 min).
LISTED_WITHIN, READY_WITHIN = timedelta(minutes=5), timedelta(minutes=20)


class Stage(StrEnum):
    """A machine's life in order."""

    REQUESTED = "requested"  # asked for, in no listing yet
    PENDING = "pending"  # the cloud makes it
    RUNNING = "running"  # it boots
    JOINED = "joined"  # the cluster knows it, it runs nothing yet
    READY = "ready"
    DRAINING = "draining"  # takes nothing new, or the cloud takes it away
    TERMINATING = "terminating"
    TERMINATED = "terminated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One rented machine at one instant. `deadline` and `then`: by when the next stage must come, and what follows if
    it does not; None where nothing waits."""

    id: str
    node_id: str
    pool: str
    team: str
    stage: Stage
    since: datetime
    deadline: datetime | None
    then: str
    instance_type: str
    zone: str
    capacity_type: CapacityType
    usd_per_hour: float
    price_source: str
    usd: float  # at today's price since it was asked for
    gpus: int
    used_gpus: int | None
    lease_ends_at: datetime | None


def machines(snapshot: Snapshot, state: ControllerState) -> tuple[Machine, ...]:
    """Every machine that is listed or asked for, oldest first."""
    nodes = {n.id: n for n in snapshot.nodes}
    notices = {n.instance_id: n.ends_at for n in snapshot.interruptions}
    listed = [_machine(i, nodes.get(i.node_id or ""), notices, snapshot.at) for i in snapshot.instances]
    return tuple(sorted((*listed, *_requested(snapshot, state)), key=lambda m: (m.since, m.id)))


def _machine(instance: Instance, node: Node | None, notices: dict[str, datetime | None], at: datetime) -> Machine:
    stage = _stage(instance, node, is_announced=instance.id in notices)
    deadline, then = _next(instance, stage, notices)
    used = None if node is None or node.free_gpus is None else node.gpus - node.free_gpus
    ended = instance.terminated_at or at
    hours = max(0.0, (ended - instance.requested_at).total_seconds()) / 3600
    return Machine(
        id=instance.id,
        node_id=node.id if node else "",
        pool=instance.pool,
        team=instance.team,
        stage=stage,
        since=instance.requested_at,
        deadline=deadline,
        then=then,
        instance_type=instance.instance_type,
        zone=instance.zone,
        capacity_type=instance.capacity_type,
        usd_per_hour=instance.price_usd_per_hour,
        price_source=instance.price_source,
        usd=instance.price_usd_per_hour * hours,
        gpus=instance.gpus,
        used_gpus=used,
        lease_ends_at=instance.ends_at,
    )


def _stage(instance: Instance, node: Node | None, *, is_announced: bool) -> Stage:
    if instance.state is InstanceState.TERMINATED:
        return Stage.TERMINATED
    if instance.state is InstanceState.TERMINATING:
        return Stage.TERMINATING
    if node is not None and (is_announced or node.state is NodeState.CORDONED):
        return Stage.DRAINING
    if node is not None and node.state is NodeState.READY:
        return Stage.READY
    if node is not None:
        return Stage.JOINED
    return Stage.PENDING if instance.state is InstanceState.PENDING else Stage.RUNNING


def _next(instance: Instance, stage: Stage, notices: dict[str, datetime | None]) -> tuple[datetime | None, str]:
    if instance.id in notices and stage not in (Stage.TERMINATED, Stage.TERMINATING):
        return notices[instance.id], "the cloud takes it away"
    if stage in (Stage.PENDING, Stage.RUNNING, Stage.JOINED):
        return instance.requested_at + READY_WITHIN, "given back as a boot failure"
    return None, ""


def _requested(snapshot: Snapshot, state: ControllerState) -> Iterable[Machine]:
    """Machines of launches in flight that no listing shows."""
    listed = {i.id for i in snapshot.instances}
    by_token = [i.token for i in snapshot.instances]
    for token, flight in state.in_flight.items():
        ids = [i for i in flight.instance_ids if i not in listed] if flight.instance_ids else []
        unknown = 0 if flight.instance_ids else flight.launch.nodes - by_token.count(token)
        names = [*ids, *(f"{token[:8]}/{n + 1}" for n in range(max(0, unknown)))]
        offerings = flight.launch.offerings
        for name in names:
            yield Machine(
                id=name,
                node_id="",
                pool=flight.launch.pool,
                team=flight.launch.team,
                stage=Stage.REQUESTED,
                since=flight.asked_at,
                deadline=flight.asked_at + LISTED_WITHIN,
                then="closed as a launch that failed" if ids else "closed as a launch without an effect",
                instance_type=offerings[0].instance_type if offerings else "",
                zone="",
                capacity_type=offerings[0].capacity_type if offerings else CapacityType.ON_DEMAND,
                usd_per_hour=max((o.price_usd_per_hour or 0.0 for o in offerings), default=0.0),
                price_source="dearest offering asked for",
                usd=0.0,
                gpus=offerings[0].gpus if offerings else 0,
                used_gpus=None,
                lease_ends_at=None,
            )
