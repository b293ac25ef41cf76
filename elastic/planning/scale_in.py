"""What to give back: rented nodes that are idle, machines that never joined, nodes the cloud takes away.

Never a node with work, never on a forecast, never below what `target.keep_nodes` wants.
"""

from datetime import timedelta

from elastic.planning.desk import NEVER_S, Desk, coming_id
from elastic.planning.flights import JOIN_DEADLINE_S
from elastic.planning.offers import BLOCK_DRAIN
from elastic.planning.plan import Action, Cordon, Drain, Forget, Terminate
from providers.facts import CapacityType, Instance, InstanceState, InterruptionKind, Node, NodeState

# EC2 takes a block's machines from 30 min before its end on (capacity-anchors, section 6): work is off them by then.
BLOCK_SPARE = timedelta(minutes=32)
# A lease is renewed at half of its life while the controller lives; should it come this near, somebody lost sight of
# the node, and it powers itself off at its end.
LEASE_DRAIN, LEASE_SPARE = timedelta(minutes=15), timedelta(minutes=2)


def scale_in(desk: Desk, keep: dict[str, int]) -> list[Action]:
    """Terminations of idle rented nodes, of machines that come for nobody, and of boot failures. After `scale_out`,
    which has laid waiting work onto what comes."""
    actions: list[Action] = []
    instances = {i.id: i for i in desk.snapshot.instances if i.state is not InstanceState.TERMINATED}
    alive = dict(desk.alive_nodes)
    for instance in instances.values():
        reason = _why_give_back(desk, instance)
        if reason and (alive.get(instance.pool, 0) > keep.get(instance.pool, 0) or reason.startswith("never joined")):
            alive[instance.pool] = alive.get(instance.pool, 0) - 1
            node = desk.nodes.get(instance.node_id or "")
            actions.append(
                Terminate(
                    instance_id=instance.id,
                    cloud=instance.cloud,
                    pool=instance.pool,
                    reason=reason,
                    node_id=node.id if node else None,
                    cluster=node.cluster if node else None,
                    cordoned=node is not None and node.state is NodeState.CORDONED,
                )
            )
    return actions


def _why_give_back(desk: Desk, instance: Instance) -> str:
    """Why this machine should go; '' if it should stay."""
    if instance.state is InstanceState.TERMINATING:
        return ""
    age_s = (desk.at - instance.requested_at).total_seconds()
    node = desk.nodes.get(instance.node_id or "")
    pool = desk.policy.pools.get(instance.pool)
    if pool is None:
        runs_nothing = age_s > JOIN_DEADLINE_S if node is None else not node.job_ids and node.free_gpus == node.gpus
        return f"the policy has no pool {instance.pool} any more" if runs_nothing else ""
    if node is None or desk.is_joining(instance):
        if age_s > JOIN_DEADLINE_S:
            return f"never joined within {JOIN_DEADLINE_S / 60:.0f} min of the request"
        slot = desk.floors[instance.pool].slots.get(coming_id(instance))
        is_wanted = coming_id(instance) in desk.wanted_nodes or (slot is not None and slot.used_gpus > 0)
        return "" if is_wanted else "comes for nobody: the work it was for runs already"
    if node.state is NodeState.DOWN:
        return "" if node.job_ids else "its node is down and runs nothing"
    waited_s = _held_s(desk, node)
    if waited_s is not None and waited_s >= max(pool.idle_release_s, pool.lead_time_s + desk.policy.guard.gang_wait_s):
        return f"held for {waited_s / 60:.0f} min for a gang whose other nodes have not come"
    if not _is_idle(desk, node) or node.id in desk.wanted_nodes or age_s < pool.min_node_life_s:
        return ""
    idle_s = (desk.at - node.idle_since).total_seconds() if node.idle_since else 0.0
    if idle_s >= pool.idle_release_s:
        return f"idle for {idle_s / 60:.0f} min, limit {pool.idle_release_s / 60:.0f}"
    return ""


def _held_s(desk: Desk, node: Node) -> float | None:
    """How long a ready node has idled for a gang that still lacks nodes; None if it does not."""
    if node.job_ids or node.idle_since is None or node.id not in desk.held_for_gangs:
        return None
    return (desk.at - node.idle_since).total_seconds()


def _is_idle(desk: Desk, node: Node) -> bool:
    """Known to run nothing, now and in this plan's picture. Unknown is not idle."""
    slot = desk.floors[node.pool].slots.get(node.id) if node.pool in desk.floors else None
    if node.state is NodeState.CORDONED:
        return not node.job_ids and node.free_gpus == node.gpus
    return slot is not None and slot.used_gpus == 0 and not node.job_ids and node.idle_since is not None


def leave_interrupted(desk: Desk) -> list[Action]:
    """Nodes the cloud announced to take: no new work, and what runs is requeued before the machine goes."""
    actions: list[Action] = []
    instances = {i.id: i for i in desk.snapshot.instances}
    for notice in desk.snapshot.interruptions:
        instance = instances.get(notice.instance_id)
        node = desk.nodes.get(instance.node_id or "") if instance else None
        if node is None or notice.kind is InterruptionKind.REBALANCE or node.state is NodeState.CORDONED:
            continue
        reason = f"{notice.kind.value} announced at {notice.noticed_at:%H:%M:%S} UTC"
        actions.append(Cordon(node_id=node.id, cluster=node.cluster, reason=reason))
        if node.job_ids:
            actions.append(Drain(node_id=node.id, cluster=node.cluster, deadline=notice.ends_at, reason=reason))
        floor = desk.floors.get(node.pool)
        if floor is not None and node.id in floor.slots:
            floor.drop(node.id)  # no later step of this plan sends work there
    return actions


def forget_ended(desk: Desk) -> list[Action]:
    """Ghosts: nodes whose machine has ended (F007), and broken ones whose machine no whole listing shows. They are no
    capacity, and what the cluster thinks they run is requeued."""
    actions: list[Action] = []
    instances = {i.id: i for i in desk.snapshot.instances}
    for node in desk.snapshot.nodes:
        if node.instance_id is None:
            continue
        instance = instances.get(node.instance_id)
        ended = instance is not None and instance.state is InstanceState.TERMINATED
        if not ended and not (instance is None and node.state is NodeState.DOWN):
            continue
        reason = f"its machine {node.instance_id} has ended" if ended else "it is down and no listing shows its machine"
        actions.append(Forget(node_id=node.id, cluster=node.cluster, reason=reason))
        floor = desk.floors.get(node.pool)
        if floor is not None and node.id in floor.slots:
            floor.drop(node.id)
    return actions


def leave_ending(desk: Desk) -> list[Action]:
    """Nodes whose time is set: a capacity block that ends, a lease that was not renewed. Closed and drained before."""
    actions: list[Action] = []
    for instance in desk.snapshot.instances:
        if instance.ends_at is None or instance.state is not InstanceState.RUNNING:
            continue
        node = desk.nodes.get(instance.node_id or "")
        is_block = instance.capacity_type is CapacityType.RESERVED
        begin, spare = (BLOCK_DRAIN, BLOCK_SPARE) if is_block else (LEASE_DRAIN, LEASE_SPARE)
        if node is None or node.state is not NodeState.READY or instance.ends_at - desk.at > begin:
            continue
        what = "its capacity block ends" if is_block else "its lease ends"
        reason = f"{what} at {instance.ends_at:%H:%M} UTC"
        actions.append(Cordon(node_id=node.id, cluster=node.cluster, reason=reason))
        if node.job_ids:
            deadline = instance.ends_at - spare
            actions.append(Drain(node_id=node.id, cluster=node.cluster, deadline=deadline, reason=reason))
        floor = desk.floors.get(node.pool)
        if floor is not None and node.id in floor.slots:
            floor.drop(node.id)
    return actions


def next_release_s(desk: Desk) -> float:
    """Seconds until the next idle node reaches its limit; infinite without any."""
    waits = [
        desk.pool(n.pool).idle_release_s - (desk.at - n.idle_since).total_seconds()
        for n in desk.snapshot.nodes
        if n.idle_since is not None and n.pool in desk.policy.pools and desk.pool(n.pool).place == "burst"
    ]
    return min((w for w in waits if w > 0), default=NEVER_S)
