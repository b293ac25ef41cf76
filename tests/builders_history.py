"""Small made-up history files and job columns for the tests of histories, series and runtimes."""

import gzip
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from forecast.series import JobArrays

SHARED = Path(__file__).parents[2] / "shared" / "data"
MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
MONDAY_S = MONDAY.timestamp()
NAN = float("nan")


def shared_file(name: str) -> Path:
    """A public trace of ../shared/data; the test skips where it is not."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"../shared/data/{name} is not here: public traces are not part of the project")
    return path


def write_text(path: Path, *lines: str, encoding: str = "utf-8") -> Path:
    """Lines as a file; `.gz` is packed."""
    content = ("\n".join(lines) + "\n").encode(encoding)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def csv_of(folder: Path, *rows: str, header: str = "job_id,team,gpus,submit_s,start_s,end_s") -> Path:
    """A CSV of canonical columns."""
    return write_text(folder / "jobs.csv", header, *rows)


def at(hours: float) -> int:
    """Unix seconds so many hours after Monday."""
    return int(MONDAY_S + hours * 3600)


def jobs_of(*rows: Sequence[float]) -> JobArrays:
    """(gpus, submit, eligible, start, end), times in hours after Monday."""
    table = np.array(rows, dtype=np.float64).reshape(-1, 5)
    times = [table[:, column] * 3600 + MONDAY_S for column in range(1, 5)]
    return JobArrays(gpus=table[:, 0], submit_s=times[0], eligible_s=times[1], start_s=times[2], end_s=times[3])


def hour(hours: float) -> datetime:
    """So many hours after Monday."""
    return MONDAY + timedelta(hours=hours)
