"""Plan -> Outcomes through the ports. No choices left here, but the cloud's pick among a launch's ranked offerings.

Every launch token is written down, and its nodes and money reserved, before its call. A machine is given back only
after its node was cordoned, read again and found without work. Provider trouble becomes an outcome; anything else is a
broken promise: it ends the tick, and what was done until then is told with it (`BrokenPlan`).
"""

from typing import assert_never

from elastic.give_back import failed, give_back, skipped
from elastic.ledger_port import BudgetRefused, Caps, IntentStore, LedgerError
from elastic.planning.plan import (
    Action,
    Cordon,
    Displace,
    Drain,
    Forget,
    Launch,
    Move,
    Plan,
    ResizeCacheGroup,
    Route,
    Terminate,
    Uncordon,
    WarmCacheGroup,
)
from elastic.planning.policy import Mode, Policy
from elastic.planning.state import Outcome, Result
from providers.errors import InvalidRequest, ProviderError
from providers.facts import LaunchRequest
from providers.ports import Cluster, Ports

# The kind of a launch that was not tried because its token could not be written down.
LEDGER_TROUBLE = "ledger"


# What a launch that broke in the middle is taken for: its effect is not known.
UNKNOWN = "unreachable"


class BrokenPlan(Exception):
    """An action ended in an error that no adapter may raise (the cause). `outcomes` are of what was done before, and of
    that action: a launch among them counts as in flight, or the next tick would buy it again."""

    def __init__(self, outcomes: tuple[Outcome, ...], broken: str) -> None:
        super().__init__(broken)
        self.outcomes = outcomes


def apply_plan(plan: Plan, ports: Ports, policy: Policy, intents: IntentStore) -> tuple[Outcome, ...]:
    """Carry out the plan's actions in order. Moves that must wait for another move's place are tried once more.

    Where the policy only observes or advises, every action is skipped.
    """
    if policy.mode is not Mode.ACT:
        return tuple(skipped(a, f"the policy's mode is {policy.mode.value}") for a in plan.actions)
    outcomes: list[Outcome] = []
    try:
        _apply(plan, ports, policy, intents, outcomes)
    except Exception as trouble:
        raise BrokenPlan(tuple(outcomes), f"{type(trouble).__name__}: {trouble}") from trouble
    return tuple(outcomes)


def _apply(plan: Plan, ports: Ports, policy: Policy, intents: IntentStore, outcomes: list[Outcome]) -> None:
    returned: dict[str, Outcome] = {}
    again: list[Move] = []
    for action in plan.actions:
        if isinstance(action, Terminate):
            returned = returned or give_back([a for a in plan.actions if isinstance(a, Terminate)], ports)
            outcomes.append(returned[action.key])
            continue
        if isinstance(action, Launch):
            _tell_if_it_breaks(action, plan, ports, policy, intents, outcomes)
            continue
        outcome = _attempt(action, plan, ports, policy, intents)
        if isinstance(action, Move) and outcome.error_kind == InvalidRequest.kind:
            again.append(action)
            continue
        if again and isinstance(action, Route):
            outcomes += [_attempt(m, plan, ports, policy, intents) for m in again]
            again = []
            if outcome.result is Result.FAILED:
                outcome = _attempt(action, plan, ports, policy, intents)
        outcomes.append(outcome)
    outcomes += [_attempt(m, plan, ports, policy, intents) for m in again]


def _tell_if_it_breaks(
    action: Launch, plan: Plan, ports: Ports, policy: Policy, intents: IntentStore, outcomes: list[Outcome]
) -> None:
    try:
        outcomes.append(_attempt(action, plan, ports, policy, intents))
    except Exception as trouble:
        detail = f"broke: {type(trouble).__name__}: {trouble}"
        outcomes.append(Outcome(action_key=action.key, result=Result.FAILED, error_kind=UNKNOWN, detail=detail))
        raise


def _attempt(action: Action, plan: Plan, ports: Ports, policy: Policy, intents: IntentStore) -> Outcome:
    try:
        if isinstance(action, Launch):
            return _launch(action, plan, ports, policy, intents)
        _steer(action, ports)
    except ProviderError as trouble:
        return failed(action, trouble)
    except BudgetRefused as refusal:
        return skipped(action, str(refusal))
    except LedgerError as trouble:
        detail = f"not tried, its token could not be written: {trouble}"
        return Outcome(action_key=action.key, result=Result.FAILED, error_kind=LEDGER_TROUBLE, detail=detail)
    return Outcome(action_key=action.key, result=Result.DONE)


def _steer(action: Action, ports: Ports) -> None:
    match action:
        case Route():
            ports.clusters[action.cluster].route(action.job_id, pool=action.pool, node_ids=action.node_ids)
        case Move():
            ports.clusters[action.cluster].move(action.job_id, to_pool=action.to_pool, to_node_ids=action.to_node_ids)
        case Displace():
            ports.clusters[action.cluster].displace(action.job_id, reason=action.reason)
        case Cordon() | Uncordon() | Drain() | Forget():
            _steer_node(action, ports.clusters[action.cluster])
        case ResizeCacheGroup():
            ports.caches[action.service].resize(action.name, workers=action.workers)
        case WarmCacheGroup():
            ports.caches[action.service].warm(action.name)
        case Launch() | Terminate():
            raise ValueError(f"{action.key} is not steered: launches and terminations have their own ways")
        case _:
            assert_never(action)


def _steer_node(action: Cordon | Uncordon | Drain | Forget, cluster: Cluster) -> None:
    match action:
        case Cordon():
            cluster.cordon(action.node_id, reason=action.reason)
        case Uncordon():
            cluster.uncordon(action.node_id)
        case Drain():
            cluster.drain(action.node_id, deadline=action.deadline, reason=action.reason)
        case Forget():
            cluster.forget(action.node_id)


def _launch(action: Launch, plan: Plan, ports: Ports, policy: Policy, intents: IntentStore) -> Outcome:
    """Token and reservation first, then the call. What came is partial if it is less than asked; a gang comes whole or
    not at all."""
    pool = policy.pools[action.pool]
    caps = Caps(usd_per_hour=policy.money.usd_per_hour, max_nodes=pool.max_nodes)
    intents.write_intent(action, plan.at, caps=caps)
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
        error_scope="offering" if reply.failures and not got else "",
        detail="; ".join(f.detail for f in reply.failures),
        provider_ids=tuple(i.id for i in reply.instances),
        instances=reply.instances,
        failures=reply.failures,
    )
