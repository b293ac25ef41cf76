"""YAML 1.2 text -> plain values, with line and column of every key and value. Knows nothing of policies.

Scalars are read by the core schema, narrowed: only `true`/`false` are booleans, only plain decimals are numbers; times,
dates, `NO`, `on` and `012` stay text. Called by `policy_file`; everything wrong with the text becomes a `Trouble`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

Loc = tuple[str | int, ...]

# A policy of fifty teams is about 20 KiB; the parser reads about 100 KiB a second.
MAX_BYTES = 256 * 1024
MAX_DEPTH = 12  # the deepest key of a policy lies at 5
MAX_VALUES = 20_000  # aliases counted as often as they are used: the "billion laughs" file

_INTEGER = re.compile(r"^[-+]?(0|[1-9]\d{0,17})$")
_FLOAT = re.compile(r"^[-+]?(0|[1-9]\d*)?(\.\d+|\.)?([eE][-+]?\d{1,3})?$")
_CONSTANTS: dict[str, object] = {"": None, "~": None, "null": None, "true": True, "false": False}
_STRING_TAG = "tag:yaml.org,2002:str"


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in the file, both counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something wrong with the text, where, and what to do."""

    mark: Mark
    loc: Loc
    message: str
    hint: str = ""


@dataclass(slots=True)
class Tree:
    """What a file holds. `values` marks each value by its path, `keys` each key; `texts` has numbers as written."""

    value: Any = None
    values: dict[Loc, Mark] = field(default_factory=dict)
    keys: dict[Loc, Mark] = field(default_factory=dict)
    texts: dict[Loc, str] = field(default_factory=dict)
    troubles: list[Trouble] = field(default_factory=list)

    def mark(self, loc: Loc, *, of_key: bool = False) -> Mark:
        """Where a path stands; of what is not written, its nearest parent."""
        for end in range(len(loc), -1, -1):
            found = (self.keys if of_key and end == len(loc) else self.values).get(loc[:end])
            if found is None and end == len(loc):
                found = self.keys.get(loc) or self.values.get(loc)
            if found is not None:
                return found
        return Mark(1, 1)


class _Stop(Exception):
    """Reading can't go on: one trouble says why."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.message)
        self.trouble = trouble


def read_tree(raw: bytes) -> Tree:
    """Parse a file's bytes. Never raises for what is in them: see `Tree.troubles`."""
    tree = Tree()
    try:
        text = _decoded(raw)
        _Reader(tree, YAML(typ="safe", pure=True).parse(text)).read()
    except _Stop as stop:
        tree.troubles.append(stop.trouble)
    except MarkedYAMLError as error:
        tree.troubles.append(_syntax_trouble(error))
    except (YAMLError, RecursionError, ValueError) as error:
        first_line = str(error).partition("\n")[0] or type(error).__name__
        tree.troubles.append(Trouble(mark=Mark(1, 1), loc=(), message=f"this is no YAML: {first_line}"))
    return tree


def _decoded(raw: bytes) -> str:
    if len(raw) > MAX_BYTES:
        raise _stop(1, 1, f"the file is over {MAX_BYTES // 1024} KiB", "a policy is a few KiB; is this the right file?")
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise _stop(1, 1, "the file is UTF-16", "save it as UTF-8")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        raise _stop(line, column, "these bytes are not UTF-8", "save the file as UTF-8") from error
    bad = re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]", text)
    if bad:
        before_text = text[: bad.start()]
        line, column = before_text.count("\n") + 1, bad.start() - before_text.rfind("\n")
        raise _stop(line, column, f"control character {bad[0]!r} in the file", "delete it; is this a text file?")
    return text


def _stop(line: int, column: int, message: str, hint: str) -> _Stop:
    return _Stop(Trouble(mark=Mark(line, column), loc=(), message=message, hint=hint))


def _syntax_trouble(error: MarkedYAMLError) -> Trouble:
    mark = error.problem_mark or error.context_mark
    place = Mark(mark.line + 1, mark.column + 1) if mark is not None else Mark(1, 1)
    problem = error.problem or error.context or "it can't be read"
    hint = "check indentation, colons and quotes just above"
    if "\\t" in problem:
        hint = "indent with spaces, YAML takes no tabs"
    return Trouble(mark=place, loc=(), message=f"this is no YAML: {problem}", hint=hint)


@dataclass(slots=True)
class _Reader:
    """Builds the tree from parser events. Depth is bounded, so recursion is too."""

    tree: Tree
    events: Iterator[Event]
    anchors: dict[str, tuple[Any, int]] = field(default_factory=dict)
    read_values: int = 0

    def read(self) -> None:
        documents = 0
        for event in self.events:
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    mark = _mark(event)
                    self._complain(mark, (), "a second document begins here", "keep one policy in a file")
                    return
                self.tree.value = self._value(next(self.events), ())

    def _value(self, event: Event, loc: Loc) -> Any:
        self.tree.values.setdefault(loc, _mark(event))
        if len(loc) > MAX_DEPTH:
            raise _stop(_mark(event).line, _mark(event).column, f"nested deeper than {MAX_DEPTH}", "check indentation")
        if isinstance(event, AliasEvent):
            return self._alias(event)
        before = self.read_values
        self._count(1, event)
        if isinstance(event, MappingStartEvent):
            value: Any = self._mapping(event, loc)
        elif isinstance(event, SequenceStartEvent):
            value = self._sequence(loc)
        else:
            value = self._scalar(event, loc)
        anchor = getattr(event, "anchor", None)
        if anchor:
            self.anchors[anchor] = (value, self.read_values - before)
        return value

    def _alias(self, event: AliasEvent) -> Any:
        if event.anchor not in self.anchors:
            mark = _mark(event)
            raise _stop(
                mark.line, mark.column, f"*{event.anchor} is not defined above", f"define it with &{event.anchor}"
            )
        value, size = self.anchors[event.anchor]
        self._count(size, event)
        return value

    def _count(self, values: int, event: Event) -> None:
        self.read_values += values
        if self.read_values > MAX_VALUES:
            mark = _mark(event)
            raise _stop(mark.line, mark.column, f"over {MAX_VALUES} values, aliases counted", "is this a policy?")

    def _mapping(self, start: Event, loc: Loc) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        while not isinstance(event := next(self.events), MappingEndEvent):
            mark = _mark(event)
            if not isinstance(event, ScalarEvent):
                raise _stop(mark.line, mark.column, "a key must be a word", "write `key: value`")
            key, place = str(event.value), (*loc, str(event.value))
            repeated = key in mapping
            if repeated:
                first = self.tree.keys[place].line
                self._complain(
                    mark, place, f"key `{key}` stands twice", f"it was first given on line {first}; keep one"
                )
            else:
                self.tree.keys.setdefault(place, mark)
            # A repeated key's value is read for its own faults but not kept: the first one stays.
            value = self._value(next(self.events), place)
            if not repeated:
                mapping[key] = value
        return mapping

    def _sequence(self, loc: Loc) -> list[Any]:
        values: list[Any] = []
        while not isinstance(event := next(self.events), SequenceEndEvent):
            values.append(self._value(event, (*loc, len(values))))
        return values

    def _scalar(self, event: Event, loc: Loc) -> Any:
        assert isinstance(event, ScalarEvent)
        text, tag = str(event.value), str(event.tag) if event.tag else ""
        if tag and tag not in (_STRING_TAG, "!"):
            self._complain(_mark(event), loc, f"tag {tag} is not known here", "write the value without a tag")
        if re.search(r"[\ud800-\udfff]", text):
            self._complain(
                _mark(event), loc, "half a character, by an escape such as \\ud800", "write the character itself"
            )
            return "?"
        if tag or event.style is not None:
            return text
        value = plain_value(text)
        if value is not None and not isinstance(value, str):
            self.tree.texts.setdefault(loc, text)
        return value

    def _complain(self, mark: Mark, loc: Loc, message: str, hint: str) -> None:
        self.tree.troubles.append(Trouble(mark=mark, loc=loc, message=message, hint=hint))


def plain_value(text: str) -> object:
    """A scalar without quotes: None, bool, int, float, or the text as it stands."""
    lowered = text if text in _CONSTANTS else text.lower() if text.lower() in ("null", "true", "false") else None
    if lowered is not None and text in (lowered, lowered.upper(), lowered.capitalize()):
        return _CONSTANTS[lowered]
    if _INTEGER.match(text):
        return int(text)
    if any(c.isdigit() for c in text) and _FLOAT.match(text) and isfinite(float(text)):
        return float(text)
    return text


def _mark(event: Event) -> Mark:
    return Mark(event.start_mark.line + 1, event.start_mark.column + 1)
