"""Our frozen values as JSON and back: what the ledger keeps and what state files hold. One way for all of them.

Fields at their default are left out, so files stay small and a field that is added later reads old files. An action
is written as [kind, fields]: some kinds have the same fields.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from elastic.planning.plan import Action, Launch, Plan, Withheld
from elastic.planning.policy import Guard
from elastic.planning.snapshot import Snapshot
from elastic.planning.state import ControllerState, Outcome, Record

_KINDS: Mapping[str, type] = {kind.__name__: kind for kind in get_args(Action)}


class CodecError(ValueError):
    """Text that is not one of our values; the message says where it breaks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All that one decision rests on, as a file: what was seen, what was remembered, by which policy."""

    snapshot: Snapshot
    state: ControllerState
    policy_hash: str = ""
    saved_at: datetime | None = None


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _out(kind: Any, value: object) -> bytes:
    return _adapter(kind).dump_json(value, exclude_defaults=True)


def _in(kind: Any, text: str | bytes) -> Any:
    try:
        return _adapter(kind).validate_json(text)
    except ValidationError as trouble:
        raise CodecError(_first(trouble)) from trouble


def _first(trouble: ValidationError) -> str:
    """The first complaint with its place: `snapshot.jobs.3.gpus: Field required`."""
    first = trouble.errors()[0]
    place = ".".join(str(step) for step in first["loc"])
    return f"{place or 'the document'}: {first['msg']}"


def snapshot_to_json(snapshot: Snapshot) -> bytes:
    """A snapshot as JSON; what has its default value is left out."""
    return _out(Snapshot, snapshot)


def snapshot_from_json(text: str | bytes) -> Snapshot:
    """CodecError if it is none."""
    found: Snapshot = _in(Snapshot, text)
    return found


def state_to_json(state: ControllerState) -> bytes:
    """A memory as JSON; what has its default value is left out."""
    return _out(ControllerState, state)


def state_from_json(text: str | bytes) -> ControllerState:
    """CodecError if it is none."""
    found: ControllerState = _in(ControllerState, text)
    return found


def launch_to_json(launch: Launch) -> bytes:
    """A launch as JSON; what has its default value is left out."""
    return _out(Launch, launch)


def launch_from_json(text: str | bytes) -> Launch:
    """CodecError if it is none."""
    found: Launch = _in(Launch, text)
    return found


def seen_to_json(seen: Seen) -> bytes:
    """What one decision saw as JSON; what has its default value is left out."""
    return _out(Seen, seen)


def plan_to_dict(plan: Plan) -> dict[str, Any]:
    """A plan as plain values, for the API, `--format json` and the ledger."""
    shell = _adapter(Plan).dump_python(replace(plan, actions=(), withheld=()), mode="json", exclude_defaults=True)
    shell["actions"] = [_action_out(action) for action in plan.actions]
    shell["withheld"] = [{"action": _action_out(w.action), "rule": w.rule, "detail": w.detail} for w in plan.withheld]
    return dict(shell)


def _action_out(action: Action) -> list[Any]:
    kind: Any = type(action)
    return [kind.__name__, _adapter(kind).dump_python(action, mode="json", exclude_defaults=True)]


def _action_in(stored: list[Any]) -> Action:
    kind, fields = stored
    action: Action = _adapter(_KINDS[kind]).validate_python(fields)
    return action


def body_to_json(record: Record) -> str:
    """A record without its snapshot: plan, outcomes, guard."""
    guard = record.guard.model_dump(mode="json", exclude_defaults=True)
    outcomes = _adapter(tuple[Outcome, ...]).dump_python(record.outcomes, mode="json", exclude_defaults=True)
    return json.dumps({"plan": plan_to_dict(record.plan), "outcomes": outcomes, "guard": guard}, separators=(",", ":"))


def decision_to_json(record: Record) -> str:
    """What one tick decided and what became of it, in one line: a replay's file of decisions. Who waits is left out:
    long queues would fill the file with it."""
    outcomes = _adapter(tuple[Outcome, ...]).dump_python(record.outcomes, mode="json", exclude_defaults=True)
    plan = plan_to_dict(replace(record.plan, waits=()))
    shell = {"tick": record.tick, "at": record.plan.at.isoformat(), "plan": plan, "outcomes": outcomes}
    return json.dumps(shell, separators=(",", ":"))


def decision_from_json(line: str | bytes) -> Record:
    """The record of `decision_to_json`; its snapshot holds nothing but the instant. CodecError if it is none."""
    try:
        stored = json.loads(line)
        tick, at = int(stored.pop("tick")), stored.pop("at")
    except (KeyError, TypeError, ValueError, AttributeError) as trouble:
        raise CodecError(f"no decision: {trouble}") from trouble
    return record_from_json(tick=tick, body=json.dumps({**stored, "guard": {}}), snapshot=json.dumps({"at": at}))


def record_from_json(*, tick: int, body: str, snapshot: str | bytes) -> Record:
    """The record of `body_to_json` and `snapshot_to_json`. CodecError if it is none."""
    seen = snapshot_from_json(snapshot)
    try:
        stored = json.loads(body)
        shell = stored["plan"]
        actions = tuple(_action_in(one) for one in shell.pop("actions"))
        withheld = tuple(
            Withheld(action=_action_in(one["action"]), rule=one["rule"], detail=one["detail"])
            for one in shell.pop("withheld")
        )
        plan: Plan = replace(_adapter(Plan).validate_python(shell), actions=actions, withheld=withheld)
        outcomes = _adapter(tuple[Outcome, ...]).validate_python(stored["outcomes"])
        guard = Guard.model_validate(stored["guard"])
    except ValidationError as trouble:
        raise CodecError(_first(trouble)) from trouble
    except (KeyError, TypeError, ValueError) as trouble:
        raise CodecError(f"no record: {trouble}") from trouble
    return Record(tick=tick, snapshot=seen, plan=plan, outcomes=outcomes, guard=guard)
