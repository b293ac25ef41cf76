"""Pydantic's errors in a person's words, with a hint. Knows the policy's shape, no file."""

from difflib import get_close_matches
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from elastic.planning.policy import PolicyDocument
from elastic.policy_yaml import Loc

_KINDS = {
    "int_type": ("a whole number", "write plain digits, such as 1000; no quotes, no 1e3, no leading zero"),
    "int_from_float": ("a whole number", "write plain digits, such as 1000"),
    "float_type": ("a number", "write it without quotes and units"),
    "bool_type": ("true or false", "on, off, yes and no are text in YAML 1.2; write true or false"),
    "string_type": ("text", "put it in quotes"),
    "tuple_type": ("a list", "write [a, b], or one `- item` a line"),
    "dict_type": ("keys and values", "write `name: value` lines under it, indented"),
    "model_type": ("keys and values", "write `key: value` lines under it, indented"),
    "finite_number": ("a finite number", "leave the key out for no limit"),
}
_BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("more than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}


def words_of(error: dict[str, Any], loc: Loc, *, written: str | None) -> tuple[str, str]:
    """(message, hint) for one of pydantic's error dictionaries. `written`: a number as the file has it."""
    kind, context = str(error["type"]), error.get("ctx") or {}
    shown = written or _shown(error.get("input"))
    if kind == "extra_forbidden":
        return _unknown_key(loc)
    if kind == "missing":
        return f"`{loc[-1]}` is missing", _missing_hint(loc)
    if kind in _KINDS:
        wanted, hint = _KINDS[kind]
        return f"must be {wanted}, not {shown}", hint
    if kind in _BOUNDS:
        words, key = _BOUNDS[kind]
        return f"must be {words} {context[key]:g}, not {shown}", ""
    if kind in ("literal_error", "enum"):
        return _not_one_of(str(context["expected"]), error.get("input"))
    if kind == "value_error":
        message, _, hint = str(context["error"]).partition("; ")
        return message, hint
    return f"{error['msg']}, not {shown}", ""


def nearest(word: str, known: list[str]) -> str:
    """`did you mean x?`, or what there is."""
    lowered = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), list(lowered), n=1, cutoff=0.6)
    if close:
        return f"did you mean {lowered[close[0]]}?"
    if not known:
        return "none is defined"
    shown = ", ".join(sorted(known)[:12])
    return f"known here: {shown}" + (", ..." if len(known) > 12 else "")


def keys_at(loc: Loc) -> list[str]:
    """The keys that a part of the policy may have, as written in YAML."""
    kind: Any = PolicyDocument
    for part in loc:
        kind = _inner(kind, part)
        if kind is None:
            return []
    model = _model(kind)
    return [] if model is None else [field.alias or name for name, field in model.model_fields.items()]


def _inner(kind: Any, part: str | int) -> Any:
    model = _model(kind)
    if model is not None:
        for name, field in model.model_fields.items():
            if part in (name, field.alias):
                return field.annotation
        return None
    return get_args(kind)[-1] if get_origin(kind) is dict else get_args(kind)[0] if get_origin(kind) is tuple else None


def _model(kind: Any) -> type[BaseModel] | None:
    options = (kind, *get_args(kind)) if get_origin(kind) not in (dict, tuple) else ()
    return next((o for o in options if isinstance(o, type) and issubclass(o, BaseModel)), None)


def _unknown_key(loc: Loc) -> tuple[str, str]:
    return f"unknown key `{loc[-1]}`", nearest(str(loc[-1]), keys_at(loc[:-1]))


def _missing_hint(loc: Loc) -> str:
    where = ".".join(str(part) for part in loc[:-1]) or "the top level"
    return f"add `{loc[-1]}: ...` under {where}"


def _not_one_of(expected: str, given: object) -> tuple[str, str]:
    options = [word.strip(" '") for word in expected.replace(" or ", ", ").split(",")]
    close = get_close_matches(str(given).lower(), options, n=1, cutoff=0.6)
    hint = f"did you mean {close[0]}?" if close else ""
    return f"must be {' or '.join(options)}, not {_shown(given)}", hint


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict | list):
        return "a list" if isinstance(value, list) else "keys and values"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value) if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
