"""Tables with named columns: which of a file's columns is which canonical one, and the rows made from them.

Kinds `csv`, `helios` (jobs), `philly` and `alibaba-openb` differ only in names, origin of time and a few rules.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from providers.history.errors import HistoryError
from providers.history.fields import Fields, Floats
from providers.history.history import TEXT_COLUMNS, ReadOptions, Tally
from providers.history.text import Table

ALIASES: Mapping[str, tuple[str, ...]] = {
    "job_id": ("job_id", "jobid", "job", "id", "pod"),
    "team": ("team", "vc", "account", "group", "project", "tenant", "queue_group"),
    "user": ("user", "user_name", "username", "owner"),
    "job_class": ("job_class", "class", "qos", "queue", "partition"),
    "name": ("name", "jobname", "job_name"),
    "gpus": ("gpus", "gpu_num", "num_gpu", "num_gpus", "gpu", "ngpu", "ngpus", "gpu_count"),
    "nodes": ("nodes", "node_num", "num_nodes", "nnodes"),
    "cpus": ("cpus", "cpu_num", "num_cpus", "ncpus"),
    "memory_gib": ("memory_gib", "mem_gib"),
    "gpu_model": ("gpu_model", "gpu_type", "gpu_spec"),
    "submit_s": ("submit_s", "submit_time", "submit", "submitted", "submitted_at", "creation_s", "created_at"),
    "eligible_s": ("eligible_s", "eligible_time", "eligible"),
    "start_s": ("start_s", "start_time", "start", "started", "started_at", "scheduled_s"),
    "end_s": ("end_s", "end_time", "end", "ended", "ended_at", "deletion_s", "finished_at"),
    "state": ("state", "status", "phase"),
    "pending_reason": ("pending_reason", "reason"),
    "duration_s": ("duration_s", "duration", "run_time", "runtime", "elapsed"),
    "gpu_milli": ("gpu_milli",),
    "cpu_milli": ("cpu_milli",),
    "memory_mib": ("memory_mib", "mem_mib"),
}
REQUIRED = ("gpus", "submit_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One kind of table. `origin_s`: Unix seconds of second 0 when its times are relative (None: they are dates).
    `starts_at_once`: the file has no start; a job ran from its submission."""

    kind: str
    zone: str | None = None
    origin_s: float | None = None
    starts_at_once: bool = False
    notes: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)


# A Monday, 00:00 UTC: the published files tell no date, so the calendar means nothing in them.
_MONDAY_2017 = 1_506_902_400.0  # 2017-10-02, within the Philly trace's months
_MONDAY_2023 = 1_672_617_600.0  # 2023-01-02, the year of the openb trace
LAYOUTS: Mapping[str, Layout] = {
    "csv": Layout(kind="csv"),
    "helios": Layout(
        kind="helios",
        zone="Asia/Shanghai",
        notes=("times without a zone are read as UTC+8, as the trace's authors do",),
    ),
    "philly": Layout(
        kind="philly",
        origin_s=_MONDAY_2017,
        starts_at_once=True,
        notes=(
            "times are seconds after the first job; second 0 is placed at 2017-10-02T00:00Z (another with --origin)",
            "the file has no start times: every job counts as running from its submission",
        ),
    ),
    "alibaba-openb": Layout(
        kind="alibaba-openb",
        origin_s=_MONDAY_2023,
        notes=("times are seconds after the trace's start, placed at 2023-01-02T00:00Z (another with --origin)",),
    ),
}


def match_columns(header: Sequence[str], given: Mapping[str, str], *, path: str) -> dict[str, str]:
    """Canonical name -> the file's column: by what the caller named, else by usual names, upper case or not.
    HistoryError names the nearest columns when one is missing."""
    known = tuple(ALIASES)
    for canonical, column in given.items():
        if canonical not in known:
            raise HistoryError(f"there is no canonical column {canonical!r}", advice=nearest(canonical, known))
        if column not in header:
            raise HistoryError(f"has no column {column!r}", path=path, line=1, advice=nearest(column, header))
    lower = {name.lower(): name for name in reversed(header)}
    found = dict(given)
    for canonical, names in ALIASES.items():
        for name in names:
            if canonical not in found and name in lower and lower[name] not in found.values():
                found[canonical] = lower[name]
    for canonical in REQUIRED:
        if canonical not in found:
            raise HistoryError(
                f"no column for {canonical}",
                path=path,
                line=1,
                field=canonical,
                advice=f"{nearest(canonical, header)}; name it with --column {canonical}=COLUMN",
            )
    return found


def nearest(name: str, candidates: Sequence[str]) -> str:
    """The columns whose names are most like `name`, as a hint to a person."""
    plain = name.removesuffix("_s")
    near = difflib.get_close_matches(plain.lower(), [c.lower() for c in candidates], n=3, cutoff=0.4)
    near += [c.lower() for c in candidates if plain.lower() in c.lower() and c.lower() not in near]
    if near:
        return "Nearest: " + ", ".join(c for c in candidates if c.lower() in near)
    return "It has: " + ", ".join(list(candidates)[:12]) if candidates else "It has no columns"


def read_table(kind: str, path: Path, options: ReadOptions, tally: Tally) -> pd.DataFrame:
    """Draft jobs (canonical columns and `place`) of a text table of one of `LAYOUTS`."""
    layout = LAYOUTS[kind]
    table = Table(path, options, tally)
    found = match_columns(table.header, {**layout.columns, **options.columns}, path=str(path))
    for note in layout.notes:
        tally.note(note)
    drafts = []
    for raw, lines in table.chunks():
        fields = Fields(
            raw=raw,
            lines=lines,
            file_name=path.name,
            tally=tally,
            zone=options.zone or layout.zone,
            decimal_comma=table.delimiter == ";",
        )
        drafts.append(_draft(fields, found, layout, options))
    return pd.concat(drafts, ignore_index=True) if drafts else pd.DataFrame()


def _draft(fields: Fields, found: Mapping[str, str], layout: Layout, options: ReadOptions) -> pd.DataFrame:
    origin_s = options.origin_s if options.origin_s is not None else layout.origin_s or 0.0
    fields.tally.zero_s = origin_s
    values: dict[str, object] = {name: fields.words(found.get(name)) for name in TEXT_COLUMNS}
    if "job_id" not in found:
        values["job_id"] = [f"{fields.file_name}:{line}" for line in fields.lines]
    for name in ("submit_s", "eligible_s", "start_s", "end_s"):
        values[name] = fields.times(found.get(name), origin_s=origin_s)
    if layout.starts_at_once:
        values["start_s"] = values["submit_s"]
    _end_by_duration(values, fields.numbers(found.get("duration_s")))
    values["gpus"] = _gpus(fields, found)
    values["nodes"] = fields.numbers(found.get("nodes"))
    values["cpus"] = np.fmax(fields.numbers(found.get("cpus")), fields.numbers(found.get("cpu_milli")) / 1000)
    values["memory_gib"] = np.fmax(
        fields.numbers(found.get("memory_gib")), fields.numbers(found.get("memory_mib")) / 1024
    )
    values["place"] = [f"{fields.file_name}:{line}" for line in fields.lines]
    return pd.DataFrame(values)[~fields.bad]


def _end_by_duration(values: dict[str, object], duration: Floats) -> None:
    start, end = np.asarray(values["start_s"], dtype=np.float64), np.asarray(values["end_s"], dtype=np.float64)
    values["end_s"] = np.where(np.isnan(end), start + duration, end)


def _gpus(fields: Fields, found: Mapping[str, str]) -> Floats:
    """Whole GPUs. A job that shares a GPU takes one: nobody else's whole-GPU job fits there."""
    gpus = fields.numbers(found["gpus"])
    fields.drop(np.isnan(gpus), "number of GPUs not known")
    milli = fields.numbers(found.get("gpu_milli"))
    shared = (gpus > 0) & ((gpus != np.floor(gpus)) | (milli < 1000))
    if shared.any():
        fields.tally.note("jobs that share a GPU count as one whole GPU each")
    return np.ceil(gpus)
