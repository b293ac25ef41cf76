"""A replay's files and figures: reads the trace, scores waits, money and restarts, writes the tables whole."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, fields
from pathlib import Path

import numpy as np
import pandas as pd

from elastic.codec import decision_to_json
from elastic.replay import Replay, TraceJob
from elastic.replay_waits import Spell
from providers.history import load_history

# Columns that are instants, and where a table keeps the Unix second of its clock's zero.
CLOCK_COLUMNS = ("submit_s", "start_s", "end_s", "requested_s", "ready_s", "released_s", "from_s", "to_s")
ZERO = "zero_s"
MAX_GPUS = 256  # larger jobs are crash-loop artefacts of the reconstructed trace; the judge leaves them out too


def read_trace(path: Path, *, max_gpus: int = MAX_GPUS) -> list[TraceJob]:
    """Jobs of a history with a known run, in order of submission."""
    history = load_history(path)
    jobs, zero_s = history.jobs, history.origin.zero_s
    runs = jobs.assign(duration_s=jobs.end_s - jobs.start_s)
    runs = runs[(runs.gpus > 0) & (runs.duration_s > 0) & (runs.gpus <= max_gpus)]
    runs = runs.sort_values("submit_s", kind="stable")
    return [
        TraceJob(
            id=str(i), submit_s=float(s), gpus=int(g), duration_s=float(d), team=str(t), name=str(n), zero_s=zero_s
        )
        for i, s, g, d, t, n in zip(
            runs.job_id, runs.submit_s, runs.gpus, runs.duration_s, runs.team, runs.name, strict=True
        )
    ]


def tables(done: Replay) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Segments and nodes as data frames."""
    record = done.world.record
    segments = pd.DataFrame(record.segments, columns=list(record.segment_columns))
    return segments, pd.DataFrame(record.nodes, columns=list(record.node_columns))


def job_table(trace: Sequence[TraceJob], segments: pd.DataFrame, *, until_s: float) -> pd.DataFrame:
    """One row a job of the trace: what it asked for, when it started first, `wait_s` (until the end of the replay if it
    never started), its restarts, and when it was over (NaN: not by then)."""
    rows = [(j.id, j.team, j.name, j.gpus, j.submit_s) for j in trace]
    jobs = pd.DataFrame(rows, columns=["job_id", "team", "name", "gpus", "submit_s"])
    by_job = segments.groupby("job_id")
    jobs["start_s"] = jobs.job_id.map(by_job.start_s.min())
    jobs["end_s"] = jobs.job_id.map(by_job.end_s.agg(lambda ends: ends.max(skipna=False)))
    jobs["restarts"] = jobs.job_id.map(by_job.attempt.max()).fillna(0).astype(int)
    jobs["wait_s"] = jobs.start_s.fillna(until_s) - jobs.submit_s
    return jobs


def score(trace: Sequence[TraceJob], done: Replay, *, onprem_gpus: int) -> dict[str, float]:
    """Our own figures; the judge of record is an independent checker that reads the two tables."""
    segments, nodes = tables(done)
    until_s = done.until_s
    cloud = nodes[nodes.place == "cloud"]
    held_h = (cloud.released_s.fillna(until_s) - cloud.requested_s) / 3600
    paid = float((held_h * cloud.gpus).sum())
    first = segments.groupby("job_id").start_s.min()
    submit = pd.Series({j.id: j.submit_s for j in trace})
    gpus = pd.Series({j.id: j.gpus for j in trace})
    waits_min = (first.reindex(submit.index).fillna(until_s) - submit) / 60
    attempts = segments.groupby("job_id").attempt.max()
    excess = unavoidable_gpu_hours(trace, onprem_gpus=onprem_gpus, until_s=until_s)
    return {
        "paid_gpu_h": round(paid, 1),
        "paid_usd": round(float((held_h * cloud.price_usd_per_hour).sum()), 2),
        "unavoidable_gpu_h": round(excess, 1),
        "ratio": round(paid / excess, 3) if excess else float("nan"),
        "wait_min_mean": round(float(waits_min.mean()), 2),
        "wait_min_p95": round(float(np.percentile(waits_min, 95)), 2),
        "wait_min_p99": round(float(np.percentile(waits_min, 99)), 2),
        "wait_min_gpu_weighted": round(float((waits_min * gpus).sum() / gpus.sum()), 2),
        "restarts_max": int(attempts.max()) if len(attempts) else 0,
        "restarts_p99": float(np.percentile(attempts, 99)) if len(attempts) else 0.0,
        "restart_gpu_h": round(float((attempts * gpus.reindex(attempts.index)).sum() * 300 / 3600), 1),
    }


def plain(figures: Mapping[str, float]) -> dict[str, float | None]:
    """Figures for JSON, which has no NaN: what is not defined is null."""
    return {name: None if math.isnan(value) else value for name, value in figures.items()}


def unavoidable_gpu_hours(trace: Sequence[TraceJob], *, onprem_gpus: int, until_s: float) -> float:
    """Integral of max(0, demand - on-prem GPUs), each job counted from its submission for its duration."""
    times, level = demand_steps(trace, until_s=until_s)
    return float((np.maximum(0, level[:-1] - onprem_gpus) * np.diff(times)).sum() / 3600)


def demand_steps(trace: Sequence[TraceJob], *, until_s: float) -> "tuple[np.ndarray, np.ndarray]":
    """(times, GPUs from each time on) of demand as if each job had begun when it was submitted."""
    submit = np.array([j.submit_s for j in trace])
    end = np.minimum(submit + np.array([j.duration_s for j in trace]), until_s)
    gpus = np.array([j.gpus for j in trace], dtype=float)
    return running_sum(np.concatenate([submit, end]), np.concatenate([gpus, -gpus]))


def running_sum(times: "np.ndarray", changes: "np.ndarray") -> "tuple[np.ndarray, np.ndarray]":
    """Times in order, and the sum of all changes up to and with each."""
    order = np.argsort(times, kind="stable")
    return times[order], np.cumsum(changes[order])


def write_replay(
    out: Path,
    done: Replay,
    summary: Mapping[str, object],
    *,
    zero_s: float = 0.0,
    jobs: pd.DataFrame | None = None,
    texts: Mapping[str, str] | None = None,
) -> None:
    """The tables, `decisions.jsonl`, `summary.json`, where given `jobs.parquet` (of `job_table`) and `texts` (by file
    name): each whole or not there. Interrupted, it leaves nothing half-written behind. Times in the tables are seconds
    on the trace's own clock; `zero_s` is where its second 0 was placed."""
    out.mkdir(parents=True, exist_ok=True)
    segments, nodes = tables(done)
    frames = {"segments.parquet": segments, "nodes.parquet": nodes, "waits.parquet": waits_table(done)}
    if jobs is not None:
        frames["jobs.parquet"] = jobs
    made = [*frames, "decisions.jsonl", "summary.json", *(texts or {})]
    try:
        for name, table in frames.items():
            on_own_clock(table, zero_s).to_parquet(_part(out, name))
        with _part(out, "decisions.jsonl").open("w") as file:
            file.writelines(decision_to_json(record) + "\n" for record in done.ledger.records)
        for name, text in {"summary.json": json.dumps(summary, indent=2) + "\n", **(texts or {})}.items():
            _part(out, name).write_text(text, encoding="utf-8")
        for name in made:
            _part(out, name).replace(out / name)
    finally:
        for name in made:
            _part(out, name).unlink(missing_ok=True)


def on_own_clock(table: pd.DataFrame, zero_s: float) -> pd.DataFrame:
    """Unix seconds of a table as seconds after `zero_s`, which stays with the table."""
    shifted = table.assign(**{name: table[name] - zero_s for name in CLOCK_COLUMNS if name in table})
    shifted.attrs[ZERO] = zero_s
    return shifted


def on_unix_clock(table: pd.DataFrame) -> pd.DataFrame:
    """A table as it was before `on_own_clock`."""
    zero_s = table.attrs.get(ZERO, 0.0)
    return table.assign(**{name: table[name] + zero_s for name in CLOCK_COLUMNS if name in table})


def waits_table(done: Replay) -> pd.DataFrame:
    """Why each job waited when: `job_id`, `rule`, `detail`, `from_s`, `to_s`, in the order of their ends."""
    spells = done.ledger.waits.until(done.until_s)
    return pd.DataFrame([astuple(s) for s in spells], columns=[f.name for f in fields(Spell)])


def _part(out: Path, name: str) -> Path:
    return out / f".{name}.part"
