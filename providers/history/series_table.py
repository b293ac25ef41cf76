"""Sources that already are demand series (kind `helios`): the 10-minute cluster table and the per-team minute table."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from providers.history.cleaning import far_from_bulk
from providers.history.errors import HistoryError
from providers.history.fields import Fields
from providers.history.history import EXAMPLES, SERIES_COLUMNS, ReadOptions, Tally
from providers.history.text import PARQUET_MAGIC, Table, first_bytes

TOTAL = "total"
_RUNNING = ("running_gpus_est", "running_gpus")
_PENDING = ("queued_gpus_est", "pending_gpus", "queued_gpus")
LOWEST_STEP_S = 1


def is_series_header(header: Sequence[str]) -> bool:
    """Whether a table with these columns is a demand series rather than jobs."""
    return (
        "time_utc" in header and any(name in header for name in _RUNNING) and any(name in header for name in _PENDING)
    )


def read_series(path: Path, options: ReadOptions, tally: Tally) -> tuple[pd.DataFrame, int]:
    """(rows in `SERIES_COLUMNS` sorted by key and time, step in seconds). Demand = running + queued."""
    if first_bytes(path).startswith(PARQUET_MAGIC):
        draft = _from_parquet(path, tally)
    else:
        draft = _from_text(path, options, tally)
    if draft.empty:
        raise HistoryError("has no usable rows", path=str(path))
    return _on_grid(draft, tally)


def _from_text(path: Path, options: ReadOptions, tally: Tally) -> pd.DataFrame:
    table = Table(path, options, tally)
    parts = []
    for raw, lines in table.chunks():
        fields = Fields(raw=raw, lines=lines, file_name=path.name, tally=tally, zone=options.zone)
        team = _first(table.header, ("vc", "team", "key"))
        part = pd.DataFrame(
            {
                "key": fields.words(team) if team else TOTAL,
                "time_s": fields.times("time_utc"),
                "running_gpus": fields.numbers(_first(table.header, _RUNNING)),
                "pending_gpus": fields.numbers(_first(table.header, _PENDING)),
                "capacity_gpus": fields.numbers("capacity_gpus"),
            }
        )
        part["place"] = [f"{path.name}:{line}" for line in lines]
        fields.drop(part["time_s"].isna().to_numpy(dtype=np.bool_), "no time")
        parts.append(part[~fields.bad])
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _from_parquet(path: Path, tally: Tally) -> pd.DataFrame:
    raw = pd.read_parquet(path)
    tally.rows_read += len(raw)
    team = _first(list(raw.columns), ("vc", "team", "key"))
    times = pd.to_datetime(raw["time_utc"], utc=True)
    draft = pd.DataFrame(
        {
            "key": raw[team].astype(str) if team else TOTAL,
            "time_s": np.array((times - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1), dtype=np.float64),
            "running_gpus": raw[_first(list(raw.columns), _RUNNING)].astype(float),
            "pending_gpus": raw[_first(list(raw.columns), _PENDING)].astype(float),
            "capacity_gpus": raw["capacity_gpus"].astype(float) if "capacity_gpus" in raw else np.nan,
        }
    )
    draft["place"] = [f"{path.name}:row {row}" for row in range(1, len(draft) + 1)]
    return draft


def _first(header: Sequence[str], names: Sequence[str]) -> str | None:
    return next((name for name in names if name in header), None)


def _on_grid(draft: pd.DataFrame, tally: Tally) -> tuple[pd.DataFrame, int]:
    far = far_from_bulk(draft["time_s"].to_numpy(dtype=np.float64), np.ones(len(draft), dtype=np.bool_))
    tally.drop("over a year apart from the rest of the file", int(far.sum()), list(draft["place"][far].iloc[:EXAMPLES]))
    draft = draft[~far].sort_values(["key", "time_s"], kind="stable")
    steps = draft.groupby("key")["time_s"].diff()
    step_s = int(steps[steps > 0].mode().iloc[0]) if (steps > 0).any() else 3600
    step_s = max(step_s, LOWEST_STEP_S)

    def drop(rows: "pd.Series[bool]", reason: str) -> None:
        nonlocal draft
        tally.drop(reason, int(rows.sum()), [str(place) for place in draft["place"][rows].iloc[:EXAMPLES]])
        draft = draft[~rows]

    drop(draft.duplicated(["key", "time_s"]), "time seen before")
    drop(draft["time_s"] % step_s != draft["time_s"].iloc[0] % step_s, f"time not on the {step_s} s grid")
    drop((draft["running_gpus"] < 0) | (draft["pending_gpus"] < 0), "negative GPUs")
    series = draft.assign(
        time_utc=pd.to_datetime(draft["time_s"], unit="s", utc=True),
        gpus=draft["running_gpus"] + draft["pending_gpus"],
    )
    return series[list(SERIES_COLUMNS)].reset_index(drop=True), step_s
