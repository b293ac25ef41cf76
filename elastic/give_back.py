"""Giving machines back, all of a tick together: cordon, read again, end those still without work, forget their nodes.

Called by `act`. A node that got work meanwhile, or whose use cannot be read, stays and is opened again.
"""

from collections.abc import Iterable, Sequence

from elastic.planning.plan import Action, Terminate
from elastic.planning.state import Outcome, Result
from providers.errors import NotFound, ProviderError
from providers.facts import Node
from providers.ports import Cluster, ClusterReading, Ports


def give_back(actions: Sequence[Terminate], ports: Ports) -> dict[str, Outcome]:
    """Outcomes by action key. One reading a cluster and one call a cloud, however many machines go."""
    outcomes: dict[str, Outcome] = {}
    cordoned = [a for a in actions if _cordon(a, ports, outcomes)]
    free = [a for a in actions if a.node_id is None and a.key not in outcomes]
    for cluster in sorted({a.cluster for a in cordoned if a.cluster}):
        mine = [a for a in cordoned if a.cluster == cluster]
        free += _still_free(mine, ports.clusters[cluster], outcomes)
    for cloud in sorted({a.cloud for a in free}):
        _terminate([a for a in free if a.cloud == cloud], cloud, ports, outcomes)
    return outcomes


def failed(action: Action, trouble: ProviderError) -> Outcome:
    """An action that the outside refused, as data."""
    return Outcome(
        action_key=action.key,
        result=Result.FAILED,
        error_kind=trouble.kind,
        error_scope=trouble.scope,
        detail=trouble.detail,
    )


def skipped(action: Action, why: str) -> Outcome:
    """An action that was rightly not done."""
    return Outcome(action_key=action.key, result=Result.SKIPPED, detail=why)


def _cordon(action: Terminate, ports: Ports, outcomes: dict[str, Outcome]) -> bool:
    """Close the machine's node, if it has one; False if there is none or it could not be closed."""
    if action.node_id is None or action.cluster is None:
        return False
    try:
        ports.clusters[action.cluster].cordon(action.node_id, reason=action.reason)
    except NotFound:
        return True  # the reading will tell
    except ProviderError as trouble:
        outcomes[action.key] = failed(action, trouble)
        return False
    return True


def _still_free(actions: Iterable[Terminate], cluster: Cluster, outcomes: dict[str, Outcome]) -> list[Terminate]:
    """The actions whose node runs nothing by a whole reading made after the cordon."""
    found = _read_nodes(cluster)
    free: list[Terminate] = []
    for action in actions:
        if isinstance(found, ProviderError):
            outcomes[action.key] = failed(action, found)
            _open_again(action, cluster)
        elif found is None:
            outcomes[action.key] = skipped(action, "the cluster could not be read whole again")
            _open_again(action, cluster)
        elif why := _why_stay(found.get(action.node_id or "")):
            outcomes[action.key] = skipped(action, why)
            _open_again(action, cluster)
        else:
            free.append(action)
    return free


def _read_nodes(cluster: Cluster) -> dict[str, Node] | ProviderError | None:
    """Nodes by id; the trouble, or None where the reading is a part only."""
    try:
        reading: ClusterReading = cluster.read()
    except ProviderError as trouble:
        return trouble
    return {n.id: n for n in reading.nodes} if reading.complete else None


def _why_stay(node: Node | None) -> str:
    if node is None:
        return ""
    if node.free_gpus is None:
        return "what the node runs could not be read: unknown is not idle"
    return "the node has work again" if node.job_ids or node.free_gpus != node.gpus else ""


def _open_again(action: Terminate, cluster: Cluster) -> None:
    if action.cordoned:
        return  # by somebody else, or because the cloud takes it: not ours to open
    try:
        cluster.uncordon(action.node_id or "")
    except ProviderError:
        return  # it stays cordoned; the next tick sees it and decides anew


def _terminate(actions: list[Terminate], cloud: str, ports: Ports, outcomes: dict[str, Outcome]) -> None:
    try:
        ending = set(ports.clouds[cloud].terminate([a.instance_id for a in actions]))
    except ProviderError as trouble:
        outcomes.update({a.key: failed(a, trouble) for a in actions})
        return
    for action in actions:
        if action.instance_id not in ending:
            outcomes[action.key] = Outcome(
                action_key=action.key, result=Result.FAILED, error_kind="unreachable", detail="the cloud did not end it"
            )
            continue
        outcomes[action.key] = _forget(action, ports)


def _forget(action: Terminate, ports: Ports) -> Outcome:
    """The machine goes; a node that cannot be forgotten now is found as an orphan later."""
    detail = ""
    if action.node_id is not None and action.cluster is not None:
        try:
            ports.clusters[action.cluster].forget(action.node_id)
        except ProviderError as trouble:
            detail = f"its node could not be forgotten: {trouble.detail}"
    return Outcome(action_key=action.key, result=Result.DONE, detail=detail, provider_ids=(action.instance_id,))
