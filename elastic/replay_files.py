"""A replay's files and figures: reads the trace, writes the tables atomically, scores waits, money and restarts."""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from elastic.plan_text import render
from elastic.replay import Replay, TraceJob
from providers.history import load_history

MAX_GPUS = 256  # larger jobs are crash-loop artefacts of the reconstructed trace; the judge leaves them out too


def read_trace(path: Path, *, max_gpus: int = MAX_GPUS) -> list[TraceJob]:
    """Jobs of a history with a known run, in order of submission."""
    jobs = load_history(path).jobs
    runs = jobs.assign(duration_s=jobs.end_s - jobs.start_s)
    runs = runs[(runs.gpus > 0) & (runs.duration_s > 0) & (runs.gpus <= max_gpus)]
    runs = runs.sort_values("submit_s", kind="stable")
    return [
        TraceJob(id=str(i), submit_s=float(s), gpus=int(g), duration_s=float(d), team=str(t), name=str(n))
        for i, s, g, d, t, n in zip(
            runs.job_id, runs.submit_s, runs.gpus, runs.duration_s, runs.team, runs.name, strict=True
        )
    ]


def tables(done: Replay) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Segments and nodes as data frames."""
    record = done.world.record
    segments = pd.DataFrame(record.segments, columns=list(record.segment_columns))
    return segments, pd.DataFrame(record.nodes, columns=list(record.node_columns))


def score(trace: list[TraceJob], done: Replay, *, onprem_gpus: int) -> dict[str, float]:
    """Our own figures; the judge of record is an independent checker that reads the two tables."""
    segments, nodes = tables(done)
    until_s = done.until_s
    cloud = nodes[nodes.place == "cloud"]
    paid = ((cloud.released_s.fillna(until_s) - cloud.requested_s) * cloud.gpus).sum() / 3600
    first = segments.groupby("job_id").start_s.min()
    submit = pd.Series({j.id: j.submit_s for j in trace})
    gpus = pd.Series({j.id: j.gpus for j in trace})
    waits_min = (first.reindex(submit.index).fillna(until_s) - submit) / 60
    attempts = segments.groupby("job_id").attempt.max()
    excess = unavoidable_gpu_hours(trace, onprem_gpus=onprem_gpus, until_s=until_s)
    return {
        "paid_gpu_h": round(float(paid), 1),
        "unavoidable_gpu_h": round(excess, 1),
        "ratio": round(float(paid) / excess, 3) if excess else float("nan"),
        "wait_min_mean": round(float(waits_min.mean()), 2),
        "wait_min_p95": round(float(np.percentile(waits_min, 95)), 2),
        "wait_min_p99": round(float(np.percentile(waits_min, 99)), 2),
        "wait_min_gpu_weighted": round(float((waits_min * gpus).sum() / gpus.sum()), 2),
        "restarts_max": int(attempts.max()),
        "restarts_p99": float(np.percentile(attempts, 99)),
        "restart_gpu_h": round(float((attempts * gpus.reindex(attempts.index)).sum() * 300 / 3600), 1),
    }


def unavoidable_gpu_hours(trace: list[TraceJob], *, onprem_gpus: int, until_s: float) -> float:
    """Integral of max(0, demand - on-prem GPUs), each job counted from its submission for its duration."""
    submit = np.array([j.submit_s for j in trace])
    end = np.minimum(submit + np.array([j.duration_s for j in trace]), until_s)
    gpus = np.array([j.gpus for j in trace], dtype=float)
    times, deltas = np.concatenate([submit, end]), np.concatenate([gpus, -gpus])
    order = np.argsort(times, kind="stable")
    level = np.cumsum(deltas[order])[:-1]
    return float((np.maximum(0, level - onprem_gpus) * np.diff(times[order])).sum() / 3600)


def write_replay(out: Path, done: Replay, summary: dict[str, object]) -> None:
    """`segments.parquet`, `nodes.parquet`, `decisions.txt`, `summary.json`: each whole or not there."""
    out.mkdir(parents=True, exist_ok=True)
    segments, nodes = tables(done)
    for name, table in (("segments.parquet", segments), ("nodes.parquet", nodes)):
        table.to_parquet(out / f".{name}.part")
        (out / f".{name}.part").replace(out / name)
    texts = {
        "decisions.txt": "\n\n".join(render(r.plan) for r in done.ledger.records) + "\n",
        "summary.json": json.dumps(summary, indent=2) + "\n",
    }
    for name, text in texts.items():
        (out / f".{name}.part").write_text(text)
        (out / f".{name}.part").replace(out / name)
