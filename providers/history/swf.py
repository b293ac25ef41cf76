"""The standard workload format (18 numbers a line, `;` comments): feitelson's parallel workloads archive and others.

Format: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html. -1 is "not known".
"""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from providers.history.errors import HistoryError
from providers.history.fields import Fields, Floats
from providers.history.history import ReadOptions, Tally
from providers.history.text import CHUNK_ROWS, read_lines

FIELDS = (
    *("job", "submit", "wait", "run", "procs", "avg_cpu", "used_kib", "asked_procs", "asked_s", "asked_kib", "status"),
    *("user", "group", "executable", "queue", "partition", "preceding", "think"),
)
# 2, 3 and 4 are parts of a job whose whole stands on a line of its own (status 0 or 1).
PART_STATUS = (2, 3, 4)
STATES = {0: "failed", 1: "completed", 5: "cancelled"}
_HEADER = re.compile(r"^;\s*(UnixStartTime)\s*:\s*(-?\d+)")


def read_swf(path: Path, options: ReadOptions, tally: Tally) -> pd.DataFrame:
    """Draft jobs. Processors become GPUs by `cpus_per_gpu`; a job that follows another is eligible when that ended
    (plus the think time)."""
    origin_s = options.origin_s
    parts: list[Floats] = []
    places: list[str] = []
    for rows, lines, begun_s in _chunks(path, options, tally):
        origin_s = begun_s if origin_s is None else origin_s
        fields = Fields(raw=rows, lines=lines, file_name=path.name, tally=tally)
        numbers = np.column_stack([fields.numbers(name) for name in FIELDS])
        part_of_job = np.isin(numbers[:, FIELDS.index("status")], PART_STATUS)
        fields.drop(part_of_job, "part of a job told on another line")
        parts.append(numbers[~fields.bad])
        places += [f"{path.name}:{line}" for line in lines[~fields.bad]]
    if not parts:
        return pd.DataFrame()
    if origin_s is None:
        tally.note("the header has no UnixStartTime: second 0 is placed at 1970-01-01T00:00Z (another with --origin)")
    if options.cpus_per_gpu == 1.0:
        tally.note("each processor counts as one GPU (another ratio with --cpus-per-gpu)")
    tally.zero_s = origin_s or 0.0
    return _draft(np.vstack(parts), places, origin_s=origin_s or 0.0, cpus_per_gpu=options.cpus_per_gpu)


def _chunks(
    path: Path, options: ReadOptions, tally: Tally
) -> Iterator[tuple[pd.DataFrame, NDArray[np.int64], float | None]]:
    begun_s: float | None = None
    rows: list[list[str]] = []
    numbers: list[int] = []
    seen = False
    for number, text in read_lines(path, options):
        header = _HEADER.match(text)
        if header and int(header[2]) > 0:
            begun_s = float(header[2])
        if text.startswith(";") or not text.strip():
            continue
        seen = True
        tally.rows_read += 1
        row = text.split()
        if len(row) != len(FIELDS):
            tally.drop(f"not {len(FIELDS)} fields", 1, [f"{path.name}:{number}"])
            continue
        rows.append(row)
        numbers.append(number)
        if len(rows) == CHUNK_ROWS:
            yield _frame(rows), np.array(numbers, dtype=np.int64), begun_s
            rows, numbers = [], []
    if not seen:
        raise HistoryError("the file has no jobs", path=str(path), advice="One job a line, 18 numbers each")
    if rows:
        yield _frame(rows), np.array(numbers, dtype=np.int64), begun_s


def _frame(rows: list[list[str]]) -> pd.DataFrame:
    return pd.DataFrame(dict(zip(FIELDS, map(list, zip(*rows, strict=True)), strict=True)), dtype=object)


def _draft(numbers: Floats, places: list[str], *, origin_s: float, cpus_per_gpu: float) -> pd.DataFrame:
    table = pd.DataFrame(np.where(numbers == -1, np.nan, numbers), columns=list(FIELDS))
    procs = np.fmax(table["procs"], table["asked_procs"].where(table["procs"].isna()))
    submit = table["submit"] + origin_s
    start = submit + table["wait"]
    end = start + table["run"]
    never_ran = (table["status"] == 5) & ~(table["run"] > 0)
    memory = np.fmax(table["used_kib"], table["asked_kib"]) * procs / 1024**2
    return pd.DataFrame(
        {
            "job_id": _label(table["job"]),
            "team": _label(table["group"]),
            "user": _label(table["user"]),
            "job_class": _label(table["queue"]),
            "name": _label(table["executable"]),
            "gpus": np.ceil(procs / cpus_per_gpu),
            "cpus": procs,
            "memory_gib": memory,
            "submit_s": submit,
            "eligible_s": _eligible(table, submit=submit, end=end),
            "start_s": start.where(~never_ran),
            "end_s": end.where(~never_ran, start),
            "state": table["status"].map(STATES).fillna(""),
            "place": places,
        }
    )


def _label(column: "pd.Series[float]") -> list[str]:
    return ["" if np.isnan(value) else f"{value:.0f}" for value in column]


def _eligible(table: pd.DataFrame, *, submit: "pd.Series[float]", end: "pd.Series[float]") -> "pd.Series[float]":
    ended = pd.Series(end.to_numpy(), index=table["job"].to_numpy())
    ended = ended[~ended.index.duplicated() & ended.index.notna()]
    after = table["preceding"].map(ended) + table["think"].fillna(0)
    latest = after.where(after > submit, submit)
    return latest.where(~(latest > submit + table["wait"]), submit)  # it did start before: the note was wrong
