"""A state as a JSON file that a person may edit to ask "what if": read with every complaint, its line and field."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from elastic.codec import Seen, seen_to_json

Loc = tuple[str | int, ...]
MAX_BYTES = 256 * 1024 * 1024  # a hundred thousand jobs are some 40 MB
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


class StateFileError(Exception):
    """A file that holds no state; `complaints` has all of it, one line each."""

    def __init__(self, complaints: list[str]) -> None:
        self.complaints = complaints
        super().__init__("\n".join(complaints))


def write_state(path: Path, seen: Seen) -> None:
    """The state, indented for editing; whole or not there. OSError if it cannot be written."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(json.dumps(json.loads(seen_to_json(seen)), indent=2) + "\n", encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def read_state(path: Path) -> Seen:
    """What a decision can rest on. StateFileError tells every complaint as `file:line: field: what is wrong`."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise StateFileError([f"{path}: larger than {MAX_BYTES // 1024**2} MiB: no state"])
        text = path.read_text(encoding="utf-8-sig")
        raw = json.loads(text)
    except OSError as trouble:
        raise StateFileError([f"{path}: {trouble.strerror or trouble}"]) from trouble
    except UnicodeDecodeError as trouble:
        raise StateFileError([f"{path}: not UTF-8 text; `elastic plan --save FILE` writes a state"]) from trouble
    except json.JSONDecodeError as trouble:
        raise StateFileError([f"{path}:{trouble.lineno}: no JSON: {trouble.msg}"]) from trouble
    except RecursionError as trouble:
        raise StateFileError([f"{path}: nested too deep: no state"]) from trouble
    found: list[tuple[Loc, str]] = list(_unknown(Seen, raw, ()))
    seen: Seen | None = None
    try:
        seen = TypeAdapter(Seen).validate_json(text.encode())
    except ValidationError as trouble:
        found = [*((_plain(e["loc"]), e["msg"]) for e in trouble.errors()), *found]
    if found or seen is None:
        lines = _lines(text)
        raise StateFileError(
            [f"{path}:{_line(lines, loc)}: {'.'.join(map(str, loc)) or 'the document'}: {what}" for loc, what in found]
        )
    return seen


def _plain(loc: tuple[int | str, ...]) -> Loc:
    """Pydantic's path without its remarks on kinds."""
    return tuple(step for step in loc if isinstance(step, int) or not step.startswith(("function-", "is-instance")))


def _line(lines: Mapping[Loc, int], loc: Loc) -> int:
    """The line of a field, or of what should hold it."""
    while loc not in lines and loc:
        loc = loc[:-1]
    return lines.get(loc, 1)


def _unknown(kind: Any, raw: Any, loc: Loc) -> Iterator[tuple[Loc, str]]:
    """Fields that no state has: a misspelt one would silently change nothing."""
    if get_origin(kind) in (Union, UnionType):
        kind = next((k for k in get_args(kind) if k is not type(None)), kind)
    if is_dataclass(kind) and isinstance(kind, type) and isinstance(raw, dict):
        names = [f.name for f in fields(kind)]
        hints = get_type_hints(kind)
        for key, value in raw.items():
            if key in names:
                yield from _unknown(hints[key], value, (*loc, key))
            else:
                yield (*loc, key), f"there is no such field; there are {', '.join(names)}"
    elif get_origin(kind) is tuple and isinstance(raw, list):
        for number, value in enumerate(raw):
            yield from _unknown(get_args(kind)[0], value, (*loc, number))
    elif len(get_args(kind)) == 2 and isinstance(raw, dict):
        for key, value in raw.items():
            yield from _unknown(get_args(kind)[1], value, (*loc, key))


def _lines(text: str) -> dict[Loc, int]:
    """The line of each field and item of a JSON text that is whole."""
    lines: dict[Loc, int] = {(): 1}
    path: list[str | int] = []
    kinds: list[str] = []
    line, end, key_next = 1, 0, False
    for match in _TOKEN.finditer(text):
        line += text.count("\n", end, match.start())
        token, end = match.group(), match.start()
        if token in "}]":
            kinds.pop()
            path.pop()
        elif token == ",":
            key_next = kinds[-1] == "{"
            if not key_next:
                path[-1] = int(path[-1]) + 1
        elif key_next:
            path[-1] = json.loads(token)
            lines[tuple(path)] = line
            key_next = False
        elif token != ":":
            lines.setdefault(tuple(path), line)
            if token in "{[":
                kinds.append(token)
                path.append("" if token == "{" else 0)
                key_next = token == "{"
    return lines
