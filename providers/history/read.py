"""The door of this room: any history file -> `History`. Kinds are told by name or found out from the file."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from providers.history.cleaning import clean
from providers.history.columns import LAYOUTS, match_columns, read_table
from providers.history.errors import HistoryError
from providers.history.history import History, Origin, ReadOptions, Tally, empty_jobs
from providers.history.parquet import about_parquet, read_own
from providers.history.sacct import is_sacct_header, read_sacct
from providers.history.series_table import is_series_header, read_series
from providers.history.swf import FIELDS, read_swf
from providers.history.text import PARQUET_MAGIC, Table, first_bytes, read_lines

OWN = "history"
KINDS = ("sacct", "swf", "csv", "helios", "philly", "alibaba-openb")


def read_history(kind: str, paths: Sequence[str | Path], *, options: ReadOptions | None = None) -> History:
    """Read, clean and put together one or several files of one kind. HistoryError for what cannot be read; rows that
    cannot be true are left out and counted in `report`. A file without usable rows gives an empty history."""
    options, tally = options or ReadOptions(), Tally()
    files = [Path(path) for path in paths]
    if kind not in KINDS:
        raise HistoryError(f"there is no kind {kind!r}", advice=f"Kinds: {', '.join(KINDS)}")
    if not files:
        raise HistoryError("no file was given")
    origin = Origin(kind=kind, files=tuple(path.name for path in files))
    if kind == "helios" and _is_series(files[0]):
        return _series_history(files, options, tally, origin)
    drafts = [_draft(kind, path, options, tally) for path in files]
    drafts = [draft for draft in drafts if not draft.empty]
    jobs = clean(pd.concat(drafts, ignore_index=True), options, tally) if drafts else empty_jobs()
    origin = replace(origin, zero_s=tally.zero_s)
    return History(jobs=jobs, series=None, step_s=None, report=tally.report(rows_kept=len(jobs)), origin=origin)


def load_history(path: str | Path, *, options: ReadOptions | None = None) -> History:
    """A file of any kind: our own Parquet as it is, anything else by `detect_kind`."""
    file = Path(path)
    kind = detect_kind(file)
    return read_own(file) if kind == OWN else read_history(kind, [file], options=options)


def detect_kind(path: str | Path) -> str:
    """The kind of a file by its first lines: one of `KINDS`, or `history` for our own Parquet. HistoryError: none."""
    file = Path(path)
    head = first_bytes(file)
    if not head:
        raise HistoryError("the file is empty", path=str(file))
    if head.startswith(PARQUET_MAGIC):
        if about_parquet(file) is not None:
            return OWN
        if _is_series(file):
            return "helios"
        raise HistoryError("is Parquet of an unknown form", path=str(file), advice="Export it as CSV and import that")
    _, first = next(read_lines(file), (0, ""))
    if first.lstrip().startswith("{"):
        return "sacct"
    if first.startswith(";") or _is_swf_row(first):
        return "swf"
    return _kind_by_header(file)


def _is_swf_row(text: str) -> bool:
    words = text.split()
    return len(words) == len(FIELDS) and all(word.lstrip("-").replace(".", "", 1).isdigit() for word in words)


def _kind_by_header(path: Path) -> str:
    header = Table(path, ReadOptions(), Tally()).header
    names = {name.lower() for name in header}
    if is_sacct_header(header):
        return "sacct"
    if is_series_header(header):
        return "helios"
    if {"pod", "num_gpu", "creation_s"} <= names:
        return "alibaba-openb"
    if {"vc", "submit_s", "duration_s"} <= names and "start_s" not in names:
        return "philly"
    if {"job_id", "submit_s", "start_s", "end_s", "gpus", "status"} <= names or {"vc", "gpu_num"} <= names:
        return "helios"
    try:
        match_columns(header, {}, path=str(path))
    except HistoryError as trouble:
        raise HistoryError(
            f"what kind of history it is cannot be told ({trouble.problem})",
            path=str(path),
            line=1,
            advice=trouble.advice or f"Import it with its kind: {', '.join(KINDS)}",
        ) from trouble
    return "csv"


def _draft(kind: str, path: Path, options: ReadOptions, tally: Tally) -> pd.DataFrame:
    if kind == "sacct":
        return read_sacct(path, options, tally)
    if kind == "swf":
        return read_swf(path, options, tally)
    assert kind in LAYOUTS
    return read_table(kind, path, options, tally)


def _is_series(path: Path) -> bool:
    if first_bytes(path).startswith(PARQUET_MAGIC):
        import pyarrow.parquet as pq

        about_parquet(path)  # says so when the file is damaged
        return is_series_header(list(pq.read_schema(path).names))
    return is_series_header(Table(path, ReadOptions(), Tally()).header)


def _series_history(files: list[Path], options: ReadOptions, tally: Tally, origin: Origin) -> History:
    parts = []
    steps = set()
    for path in files:
        series, step_s = read_series(path, options, tally)
        parts.append(series)
        steps.add(step_s)
    if len(steps) > 1:
        raise HistoryError(f"files have different steps: {sorted(steps)} s", advice="Import them one by one")
    series = pd.concat(parts, ignore_index=True)
    again = series.duplicated(["key", "time_utc"])
    tally.drop("time seen before", int(again.sum()), [])
    series = series[~again].sort_values(["key", "time_utc"], kind="stable").reset_index(drop=True)
    report = tally.report(rows_kept=len(series))
    return History(jobs=empty_jobs(), series=series, step_s=steps.pop(), report=report, origin=origin)
