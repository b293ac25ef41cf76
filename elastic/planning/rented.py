"""What is rented as ceilings must count it: machines a listing shows, those asked for that none shows yet, and nodes
whose machine no listing shows any more. Used by `desk`.
"""

from collections.abc import Collection, Mapping

from elastic.planning.policy import Policy
from elastic.planning.snapshot import Snapshot
from elastic.planning.state import ControllerState
from providers.facts import InstanceState, NodeState


def unseen_by_pool(snapshot: Snapshot, state: ControllerState) -> Mapping[str, int]:
    """Nodes of launches in flight that no listing shows yet (listings are eventually consistent)."""
    if not state.in_flight:
        return {}
    seen: dict[str, int] = {}
    for instance in snapshot.instances:
        seen[instance.token] = seen.get(instance.token, 0) + 1
    listed = {i.id for i in snapshot.instances}
    missing: dict[str, int] = {}
    for token, flight in state.in_flight.items():
        if flight.instance_ids:
            nodes = len([i for i in flight.instance_ids if i not in listed and i not in flight.listed_ids])
        else:
            nodes = max(0, flight.launch.nodes - seen.get(token, 0))
        if nodes:
            missing[flight.launch.pool] = missing.get(flight.launch.pool, 0) + nodes
    return missing


def alive_by_pool(snapshot: Snapshot, unseen: Mapping[str, int], burst: Collection[str]) -> Mapping[str, int]:
    """Machines alive or asked for. A ready node whose machine is in no listing is one: listings lag, also the first one
    after a restart, and a limit must not be broken for it."""
    count = dict(unseen)
    for instance in snapshot.instances:
        if instance.state is not InstanceState.TERMINATED:
            count[instance.pool] = count.get(instance.pool, 0) + 1
    hidden = [n for n in snapshot.nodes if n.pool in burst and n.instance_id and n.state is NodeState.READY]
    if hidden:
        listed = {i.id for i in snapshot.instances}
        for node in hidden:
            if node.instance_id not in listed:
                count[node.pool] = count.get(node.pool, 0) + 1
    return count


def is_spent(policy: Policy, state: ControllerState, *, day: str) -> bool:
    """Whether a cap of the day or month is used up: then rented nodes take no new work either, or the spend would go on
    for as long as there is some (F014)."""
    money, spend = policy.money, state.spend
    caps = (
        (money.usd_per_day, spend.usd_day, spend.day == day),
        (money.usd_per_month, spend.usd_month, spend.month == day[:7]),
    )
    return any(cap is not None and holds and usd >= cap for cap, usd, holds in caps)
