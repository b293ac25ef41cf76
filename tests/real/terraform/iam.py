"""Whether an IAM policy allows a call: the part of IAM's rules that our policies use, and an error for any other."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

_READS = ("Describe", "Get", "List", "Receive", "Simulate")


def statements(policy: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Statements with their actions and resources as lists."""
    for statement in policy["Statement"]:
        yield statement | {key: _listed(statement.get(key, [])) for key in ("Action", "Resource")}


def allows(policy: Mapping[str, Any], action: str, resource: str, **asked: Any) -> bool:
    """`asked['context']`: condition keys of the call with their values. A deny that matches wins."""
    context = asked.get("context", {})
    matching = [s["Effect"] for s in statements(policy) if _covers(s, action, resource, context)]
    return "Allow" in matching and "Deny" not in matching


def changes_something(action: str) -> bool:
    """Whether an action is more than a look, by the verb AWS gives it."""
    return not action.split(":")[1].startswith(_READS)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _like(pattern: str, text: str, *, ignore_case: bool = False) -> bool:
    """IAM's wildcards: * and ?, nothing else."""
    regex = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(regex, text, re.IGNORECASE if ignore_case else 0) is not None


def _covers(statement: Mapping[str, Any], action: str, resource: str, context: Mapping[str, Any]) -> bool:
    return (
        any(_like(a, action, ignore_case=True) for a in statement["Action"])
        and any(_like(r, resource) for r in statement["Resource"])
        and all(
            _holds(operator, wanted, context.get(key))
            for operator, keys in statement.get("Condition", {}).items()
            for key, wanted in keys.items()
        )
    )


def _holds(operator: str, wanted: Any, given: Any) -> bool:
    """One condition. A key that the call does not have fails it, unless the operator says IfExists or ForAllValues."""
    whole = operator.removeprefix("ForAllValues:").removesuffix("IfExists")
    if whole not in ("StringEquals", "StringLike", "ArnEquals", "Bool"):
        raise ValueError(f"operator {operator} is not known here")
    if given is None:
        return whole != operator
    compare = _like if whole in ("StringLike", "ArnEquals") else str.__eq__
    return all(any(compare(w, g) for w in _listed(wanted)) for g in _listed(given))
