"""A plan as text: the same lines for the command line, the log, the page and the stories."""

from collections.abc import Iterable
from zoneinfo import ZoneInfo

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
from elastic.planning.state import Outcome

SHOWN_JOBS = 3


def render(plan: Plan, *, zone: str = "UTC") -> str:
    """Targets with their arithmetic, actions, what was withheld, who waits and why, cost."""
    local = plan.at.astimezone(ZoneInfo(zone))
    lines = [f"plan {plan.id} at {local:%Y-%m-%d %H:%M:%S %Z}, policy {plan.policy_hash[:12]}"]
    lines += [f"  note: {note}" for note in plan.notes]
    for target in plan.targets:
        why = "; ".join(target.reasons)
        lines.append(
            f"  target {target.pool}: {target.gpus_wanted} GPUs"
            f" ({target.gpus_on_prem} on-prem, {target.gpus_burst} burst): {why}"
        )
    lines += [f"  do {action_text(action)}" for action in plan.actions]
    lines += [f"  withheld {action_text(w.action)} [{w.rule}: {w.detail}]" for w in plan.withheld]
    lines += [f"  waits {_jobs(w.job_ids)} [{w.rule}: {w.detail}]" for w in plan.waits]
    cost = plan.cost
    guess = " (a price is an estimate)" if cost.estimated else ""
    lines.append(f"  cost {cost.usd_per_hour_now:.2f} -> {cost.usd_per_hour_after:.2f} USD an hour{guess}")
    return "\n".join(lines)


def action_text(action: Action) -> str:
    """One action in one line, with its reason."""
    return f"{_what(action)}: {action.reason}"


def outcome_lines(plan: Plan, outcomes: Iterable[Outcome]) -> list[str]:
    """What became of each action, one line each, in the plan's order."""
    done = {o.action_key: o for o in outcomes}
    return [_outcome_text(action, done[action.key]) for action in plan.actions if action.key in done]


def _outcome_text(action: Action, outcome: Outcome) -> str:
    trouble = ": ".join(part for part in (outcome.error_kind, outcome.detail) if part)
    told = f" ({trouble})" if trouble else ""
    return f"{outcome.result.value}{told}: {action_text(action)}"


def _what(action: Action) -> str:
    match action:
        case Launch():
            best = action.offerings[0]
            gang = " as one gang" if action.gang else ""
            usd = best.price_usd_per_hour
            price = f"{usd:.2f} USD/h" if usd is not None else "no price"
            return f"launch {action.nodes} node(s){gang} in {action.pool}, best {best.key} at {price}"
        case Route():
            place = f" on {', '.join(action.node_ids)}" if action.node_ids else ""
            return f"start job {action.job_id} in {action.pool}{place}"
        case Move():
            return f"move job {action.job_id} to {', '.join(action.to_node_ids)} ({action.purpose.value})"
        case Displace():
            return f"requeue job {action.job_id}"
        case Cordon() | Uncordon() | Drain() | Forget():
            return f"{type(action).__name__.lower()} {action.node_id}"
        case Terminate():
            return f"give back {action.instance_id}"
        case ResizeCacheGroup():
            return f"resize cache group {action.name} to {action.workers} worker(s)"
        case WarmCacheGroup():
            return f"warm cache group {action.name}"


def _jobs(job_ids: Iterable[str]) -> str:
    ids = list(job_ids)
    shown = ", ".join(ids[:SHOWN_JOBS])
    return shown if len(ids) <= SHOWN_JOBS else f"{shown} and {len(ids) - SHOWN_JOBS} more"
