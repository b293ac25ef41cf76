"""Our own form on disk: one Parquet file that carries the history, its step, its origin and its cleaning report."""

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from providers.history.errors import HistoryError
from providers.history.history import (
    JOB_COLUMNS,
    SERIES_COLUMNS,
    CleaningReport,
    Dropped,
    History,
    Origin,
    canonical_types,
    empty_jobs,
)

KEY = b"elastic_history"
VERSION = 1


def write_history(history: History, path: Path) -> None:
    """Write beside the target and rename: a reader sees the whole file or none. HistoryError when that fails."""
    frame = history.jobs if history.series is None else history.series
    about = {
        "version": VERSION,
        "form": "jobs" if history.series is None else "series",
        "step_s": history.step_s,
        "origin": asdict(history.origin),
        "report": asdict(history.report),
    }
    table = pa.Table.from_pandas(frame, preserve_index=False)
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), KEY: json.dumps(about).encode()})
    replaced_whole(path, lambda temporary: pq.write_table(table, temporary, compression="zstd"))


def replaced_whole(path: Path, write: Callable[[str], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then rename it: whole or absent, also when interrupted."""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    except OSError as trouble:
        raise _unwritable(path, trouble) from trouble
    os.close(handle)
    try:
        os.chmod(temporary, 0o644)  # mkstemp gives 0600; a history is for the team to read
        write(temporary)
        os.replace(temporary, path)
    except OSError as trouble:
        raise _unwritable(path, trouble) from trouble
    finally:
        Path(temporary).unlink(missing_ok=True)


def _unwritable(path: Path, trouble: OSError) -> HistoryError:
    return HistoryError(
        f"cannot be written ({trouble.strerror or trouble})", path=str(path), advice="Nothing was left half-written"
    )


def about_parquet(path: Path) -> dict[str, object] | None:
    """What our own writer said about the file, None when it is somebody else's Parquet."""
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (pa.ArrowException, OSError) as trouble:
        raise HistoryError("is no whole Parquet file", path=str(path), advice="Import it again") from trouble
    about = json.loads(metadata[KEY]) if KEY in metadata else None
    if about is not None and about.get("version") != VERSION:
        raise HistoryError("was written by another version", path=str(path), advice="Import the source again")
    return about


def read_own(path: Path) -> History:
    """A file of `write_history`. HistoryError when it is not one, or damaged."""
    about = about_parquet(path)
    if about is None:
        raise HistoryError("is not a history of ours", path=str(path), advice="Import it with `elastic history import`")
    try:
        frame = pd.read_parquet(path)
    except (pa.ArrowException, OSError, ValueError) as trouble:
        raise HistoryError("is no whole Parquet file", path=str(path), advice="Import it again") from trouble
    wanted = JOB_COLUMNS if about["form"] == "jobs" else SERIES_COLUMNS
    missing = [column for column in wanted if column not in frame]
    if missing:
        raise HistoryError(f"lacks column {missing[0]}", path=str(path), advice="Import the source again")
    return _history(frame, about)


def _history(frame: pd.DataFrame, about: dict[str, object]) -> History:
    report, origin = about["report"], about["origin"]
    assert isinstance(report, dict)
    assert isinstance(origin, dict)
    step_s = about["step_s"]
    jobs_form = about["form"] == "jobs"
    return History(
        jobs=canonical_types(frame) if jobs_form else empty_jobs(),
        series=None if jobs_form else frame,
        step_s=step_s if isinstance(step_s, int) else None,
        report=CleaningReport(
            rows_read=report["rows_read"],
            rows_kept=report["rows_kept"],
            dropped=tuple(
                Dropped(reason=d["reason"], rows=d["rows"], examples=tuple(d["examples"])) for d in report["dropped"]
            ),
            notes=tuple(report["notes"]),
        ),
        origin=Origin(kind=origin["kind"], files=tuple(origin["files"]), zero_s=origin.get("zero_s", 0.0)),
    )
