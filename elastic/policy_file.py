"""A policy file -> `Policy`, or every complaint about it with line, column and a hint. The only reader of policy files.

What is wrong with one value does not hide what is wrong with the next: values that fail are set aside and the rest is
checked for conflicts all the same (`policy_conflicts`). `policy_watch` follows a file for the running service.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from elastic.calendar_sources import resolve_calendars
from elastic.planning.policy import Policy, PolicyDocument
from elastic.policy_conflicts import conflicts
from elastic.policy_findings import Finding, Severity
from elastic.policy_words import words_of
from elastic.policy_yaml import MAX_BYTES, Loc, Mark, Tree, Trouble, read_tree
from forecast.calendar import Calendar

HASH_LETTERS = 16  # of SHA-256 over the file's bytes: what `sha256sum` prints, cut
MAX_ROUNDS = 8  # of setting bad values aside; each round goes one level up


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """One thing wrong with a policy file. A warning does not keep the policy from being used."""

    file: str
    line: int
    column: int
    path: str
    message: str
    hint: str = ""
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        where = f" {self.path}:" if self.path else ""
        hint = f" ({self.hint})" if self.hint else ""
        told = f"{self.file}:{self.line}:{self.column}: {self.severity.value}:{where} {self.message}{hint}"
        # Names come from the file: an escape sequence among them must not reach a terminal.
        return "".join(letter if letter.isprintable() else "?" for letter in told)


class PolicyError(Exception):
    """A policy that can't be used. `complaints` holds all of it; the text is one line each."""

    def __init__(self, complaints: Iterable[Complaint]) -> None:
        self.complaints = tuple(complaints)
        super().__init__("\n".join(str(complaint) for complaint in self.complaints))


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyReading:
    """What one look at a file gave. `policy` is None when any complaint is an error."""

    content_hash: str
    document: PolicyDocument | None
    policy: Policy | None
    complaints: tuple[Complaint, ...]

    @property
    def errors(self) -> tuple[Complaint, ...]:
        """The complaints that keep the policy from being used."""
        return tuple(c for c in self.complaints if c.severity is Severity.ERROR)


def load_policy(
    path: Path,
    *,
    at: datetime,
    since: datetime | None = None,
    until: datetime | None = None,
    data_may_end: bool = False,
) -> Policy:
    """The policy in a file, its calendars resolved five weeks around `at` (aware), or from `since` to `until`.

    Raises PolicyError with every complaint. Warnings are dropped here: `read_policy` has them.
    """
    reading = read_policy(path, at=at, since=since, until=until, data_may_end=data_may_end)
    if reading.policy is None:
        raise PolicyError(reading.errors)
    return reading.policy


def check_policy(path: Path, *, at: datetime) -> tuple[Complaint, ...]:
    """Every complaint about a file, errors and warnings, by line. No error: `load_policy` takes it."""
    return read_policy(path, at=at).complaints


def default_policy_path() -> Path:
    """The embedded policy of `make run`: a simulated research desk."""
    return Path(str(resources.files("policies").joinpath("default.yaml")))


def read_policy(
    path: Path,
    *,
    at: datetime,
    since: datetime | None = None,
    until: datetime | None = None,
    data_may_end: bool = False,
) -> PolicyReading:
    """Read and check a file. Never raises for the file: what can't be read is a complaint too.

    `data_may_end`: estimated days do, for looks into the past or far ahead (`policy when`, replay).
    """
    try:
        raw = read_bytes(path)
    except OSError as error:
        return unreadable(path, error)
    return parse_policy(raw, file=str(path), at=at, since=since, until=until, data_may_end=data_may_end)


def read_bytes(path: Path) -> bytes:
    """The bytes of a regular file, at most one over the limit. Raises OSError, also for what is no regular file."""
    if path.exists() and not path.is_file():
        raise IsADirectoryError(f"{path} is no file" if not path.is_dir() else f"{path} is a directory")
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def unreadable(path: Path, error: OSError) -> PolicyReading:
    """The reading of a file that can't be read."""
    message = error.strerror or str(error)
    if isinstance(error, FileNotFoundError):
        message = "there is no such file"
    complaint = Complaint(
        file=str(path), line=1, column=1, path="", message=message, hint="check the path and its rights"
    )
    return PolicyReading(content_hash="", document=None, policy=None, complaints=(complaint,))


def content_hash(raw: bytes) -> str:
    """The name of a policy's content."""
    return hashlib.sha256(raw).hexdigest()[:HASH_LETTERS]


def parse_policy(
    raw: bytes,
    *,
    file: str,
    at: datetime,
    since: datetime | None = None,
    until: datetime | None = None,
    data_may_end: bool = False,
) -> PolicyReading:
    """Check a policy's bytes. `file` is the name that complaints carry."""
    tree = read_tree(raw)
    troubles = list(tree.troubles)
    document: PolicyDocument | None = None
    findings: list[Finding] = []
    if not isinstance(tree.value, dict):
        if not troubles:
            troubles.append(_no_policy(tree.value))
    else:
        document, removed, schema_troubles = _documents(tree)
        troubles += schema_troubles
        if document is not None:
            findings = [f for f in conflicts(document, at=at, names=_names(tree.value)) if not _rests_on(f, removed)]
            if data_may_end:
                findings = [replace(f, severity=Severity.WARNING) if f.data_ends else f for f in findings]
    complaints = _complaints(file, tree, troubles, findings)
    policy = None
    if document is not None and not any(c.severity is Severity.ERROR for c in complaints):
        try:
            calendars = resolve_calendars(document.calendars, at=at, since=since, until=until)
            policy = _policy(document, content_hash(raw), calendars)
        except LookupError as unknown:
            # Known around `at`, which was checked, but not as far as `since` or `until`.
            trouble = Trouble(mark=tree.mark(("calendars",)), loc=("calendars",), message=str(unknown))
            complaints += _complaints(file, tree, [trouble], [])
    return PolicyReading(
        content_hash=content_hash(raw),
        document=document if policy is not None else None,
        policy=policy,
        complaints=complaints,
    )


def _no_policy(value: object) -> Trouble:
    if value is None:
        return Trouble(mark=Mark(1, 1), loc=(), message="the file is empty", hint="`elastic init` writes a policy")
    return Trouble(mark=Mark(1, 1), loc=(), message="a policy is keys and values", hint="begin with `version: 1`")


def _documents(tree: Tree) -> tuple[PolicyDocument | None, frozenset[Loc], list[Trouble]]:
    """The document without what failed, the paths set aside, and the troubles of the file as written."""
    removed: set[Loc] = set()
    troubles: list[Trouble] = []
    value = tree.value
    for round_number in range(MAX_ROUNDS):
        try:
            # Strict JSON: no text for a number, no 1 for true, no 1e3 for a whole number (F023).
            document = PolicyDocument.model_validate_json(json.dumps(value), strict=True, by_alias=True, by_name=False)
            return document, frozenset(removed), troubles
        except ValidationError as error:
            errors = error.errors(include_url=False)
            if round_number == 0:
                troubles = [_schema_trouble(tree, dict(e)) for e in errors]
            bad = {_set_aside(dict(e)) for e in errors}
            removed |= {loc for loc, unknown in bad if not unknown}
            value = _without(value, {loc for loc, _ in bad})
    return None, frozenset(removed), troubles


def _schema_trouble(tree: Tree, error: dict[str, Any]) -> Trouble:
    loc: Loc = tuple(part for part in error["loc"] if part != "[key]")
    message, hint = words_of(error, loc, written=tree.texts.get(loc))
    of_key = error["type"] in ("extra_forbidden", "missing")
    return Trouble(mark=tree.mark(loc, of_key=of_key), loc=loc, message=message, hint=hint)


def _set_aside(error: dict[str, Any]) -> tuple[Loc, bool]:
    """The path to leave out for an error, and whether it was only an unknown key (which nothing rests on)."""
    loc: Loc = error["loc"]
    if error["type"] == "extra_forbidden":
        return loc, True
    numbers = [i for i, part in enumerate(loc) if isinstance(part, int)]
    loc = loc[: numbers[0]] if numbers else loc
    # What is missing can't be left out: its entry is. At the top an empty value stands in.
    return (loc[:-1] if error["type"] == "missing" and len(loc) > 1 else loc), False


_STAND_INS: dict[str, object] = {"default_class": "", "pools": {}, "clusters": {}, "classes": {}}


def _without(value: Any, paths: set[Loc], at: Loc = ()) -> Any:
    """A copy of nested mappings without some paths; required keys at the top get an empty stand-in."""
    if not isinstance(value, dict):
        return value
    kept = {k: _without(v, paths, (*at, k)) for k, v in value.items() if (*at, k) not in paths}
    if not at:
        kept |= {k: v for k, v in _STAND_INS.items() if k not in kept}
    return kept


def _names(value: dict[str, Any]) -> dict[str, frozenset[str]]:
    """The names that each section of the file gives, bad entries included."""
    return {section: frozenset(entries) for section, entries in value.items() if isinstance(entries, dict)}


def _rests_on(finding: Finding, removed: frozenset[Loc]) -> bool:
    """Whether a finding uses something that was set aside, so that it may be false."""
    uses = (finding.loc, *finding.uses)
    return any(use[: len(gone)] == gone or (len(gone) <= 2 and use == gone[:1]) for use in uses for gone in removed)


def _complaints(
    file: str, tree: Tree, troubles: Iterable[Trouble], findings: Iterable[Finding]
) -> tuple[Complaint, ...]:
    complaints = [
        Complaint(
            file=file, line=t.mark.line, column=t.mark.column, path=path_text(t.loc), message=t.message, hint=t.hint
        )
        for t in troubles
    ]
    for finding in findings:
        mark = tree.mark(finding.loc, of_key=finding.of_key)
        complaints.append(
            Complaint(
                file=file,
                line=mark.line,
                column=mark.column,
                path=path_text(finding.loc),
                message=finding.message,
                hint=finding.hint,
                severity=finding.severity,
            )
        )
    return tuple(sorted(dict.fromkeys(complaints), key=lambda c: (c.line, c.column, c.path)))


def path_text(loc: Loc) -> str:
    """`pools.a100.zones[0]`."""
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _policy(document: PolicyDocument, name: str, calendars: dict[str, Calendar]) -> Policy:
    return Policy(
        content_hash=name,
        mode=document.mode,
        time_zone=document.time_zone,
        clusters=document.clusters,
        clouds=document.clouds,
        pools=document.pools,
        classes=document.classes,
        default_class=document.default_class,
        teams=document.teams,
        caches=document.caches,
        money=document.money,
        guard=document.guard,
        forecast=document.forecast,
        calendars=calendars,
    )
