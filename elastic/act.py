"""Plan -> Outcomes through the ports. No choices left here, but the cloud's pick among a launch's ranked offerings.

Every launch token is written down before its call. A machine is given back only after its node was read again and
found without work, and cordoned. Provider trouble becomes an outcome; anything else is a broken promise and raises.
"""

from collections.abc import Callable
from datetime import datetime

from elastic.planning.plan import (
    Action,
    Cordon,
    Displace,
    Drain,
    Launch,
    Move,
    Plan,
    ResizeCacheGroup,
    Route,
    Terminate,
    Uncordon,
    WarmCacheGroup,
)
from elastic.planning.policy import Policy
from elastic.planning.state import Outcome, Result
from providers.errors import InvalidRequest, ProviderError
from providers.facts import LaunchRequest, Node
from providers.ports import Ports

WriteIntent = Callable[[Launch, datetime], None]


def apply_plan(plan: Plan, ports: Ports, policy: Policy, write_intent: WriteIntent) -> tuple[Outcome, ...]:
    """Carry out the plan's actions in order. Moves that must wait for another move's place are tried once more."""
    fresh = _FreshNodes(ports)
    outcomes: list[Outcome] = []
    again: list[Move] = []
    for action in plan.actions:
        outcome = _attempt(action, plan, ports, policy, write_intent, fresh)
        if isinstance(action, Move) and outcome.error_kind == InvalidRequest.kind:
            again.append(action)
        else:
            if again and isinstance(action, Route):
                outcomes += [_attempt(m, plan, ports, policy, write_intent, fresh) for m in again]
                again = []
                if outcome.result is Result.FAILED:
                    outcome = _attempt(action, plan, ports, policy, write_intent, fresh)
            outcomes.append(outcome)
    outcomes += [_attempt(m, plan, ports, policy, write_intent, fresh) for m in again]
    return tuple(outcomes)


class _FreshNodes:
    """Nodes of a cluster, read once more at the first removal of a tick."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._read: dict[str, dict[str, Node] | None] = {}

    def find(self, cluster: str, node_id: str) -> Node | None:
        """The node as it is now; None if it is gone. Raises the cluster's trouble."""
        if cluster not in self._read:
            reading = self._ports.clusters[cluster].read()
            self._read[cluster] = {n.id: n for n in reading.nodes} if reading.complete else None
        known = self._read[cluster]
        if known is None:
            raise InvalidRequest(f"cluster {cluster} could not be read whole again", scope="source")
        return known.get(node_id)


def _attempt(
    action: Action, plan: Plan, ports: Ports, policy: Policy, write_intent: WriteIntent, fresh: _FreshNodes
) -> Outcome:
    try:
        if isinstance(action, Launch):
            return _launch(action, plan, ports, policy, write_intent)
        if isinstance(action, Terminate):
            return _terminate(action, ports, fresh)
        _steer(action, ports)
    except ProviderError as trouble:
        return Outcome(
            action_key=action.key,
            result=Result.FAILED,
            error_kind=trouble.kind,
            error_scope=trouble.scope,
            detail=trouble.detail,
        )
    return Outcome(action_key=action.key, result=Result.DONE)


def _steer(action: Action, ports: Ports) -> None:
    match action:
        case Route():
            ports.clusters[action.cluster].route(action.job_id, pool=action.pool, node_ids=action.node_ids)
        case Move():
            ports.clusters[action.cluster].move(action.job_id, to_pool=action.to_pool, to_node_ids=action.to_node_ids)
        case Displace():
            ports.clusters[action.cluster].displace(action.job_id, reason=action.reason)
        case Cordon():
            ports.clusters[action.cluster].cordon(action.node_id, reason=action.reason)
        case Uncordon():
            ports.clusters[action.cluster].uncordon(action.node_id)
        case Drain():
            ports.clusters[action.cluster].drain(action.node_id, deadline=action.deadline, reason=action.reason)
        case ResizeCacheGroup():
            ports.caches[action.service].resize(action.name, workers=action.workers)
        case WarmCacheGroup():
            ports.caches[action.service].warm(action.name)


def _launch(action: Launch, plan: Plan, ports: Ports, policy: Policy, write_intent: WriteIntent) -> Outcome:
    write_intent(action, plan.at)
    pool = policy.pools[action.pool]
    reply = ports.clouds[pool.cloud or ""].launch(
        LaunchRequest(
            token=action.token,
            pool=action.pool,
            cluster=pool.cluster,
            nodes=action.nodes,
            gang=action.gang,
            offerings=action.offerings,
            team=action.team,
        )
    )
    got = len(reply.instances)
    result = Result.DONE if got == action.nodes else Result.PARTIAL if got else Result.FAILED
    return Outcome(
        action_key=action.key,
        result=result,
        error_kind=reply.failures[0].error_kind if reply.failures and not got else "",
        detail="; ".join(f.detail for f in reply.failures),
        provider_ids=tuple(i.id for i in reply.instances),
        instances=reply.instances,
        failures=reply.failures,
    )


def _terminate(action: Terminate, ports: Ports, fresh: _FreshNodes) -> Outcome:
    """Re-read, cordon, terminate, forget. A node that got work meanwhile stays."""
    if action.node_id is not None and action.cluster is not None:
        node = fresh.find(action.cluster, action.node_id)
        if node is not None and (node.job_ids or node.free_gpus != node.gpus):
            return Outcome(action_key=action.key, result=Result.SKIPPED, detail="the node has work again")
        if node is not None:
            ports.clusters[action.cluster].cordon(action.node_id, reason=action.reason)
    done = ports.clouds[action.cloud].terminate([action.instance_id])
    if action.node_id is not None and action.cluster is not None:
        ports.clusters[action.cluster].forget(action.node_id)
    return Outcome(action_key=action.key, result=Result.DONE, provider_ids=tuple(done))
