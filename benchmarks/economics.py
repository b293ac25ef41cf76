"""What the levers earn on a real queue: paid over unavoidable cloud GPU-hours, waits, restarts.

    python -m benchmarks.economics --trace FILE --onprem-gpus N --checkpointable SHARE --seed S --out DIR

One replay through the same controller as in production; writes `segments.parquet` and `nodes.parquet`. Without
--onprem-gpus the whole table: 848, 1,000 and 1,096 GPUs, all and half of the jobs checkpointable.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from elastic.policy_file import default_policy_path, load_policy
from elastic.replay import Replay, TraceJob, replay, sim_jobs
from providers.history import load_history
from providers.sim.record import NODE_COLUMNS, SEGMENT_COLUMNS
from providers.sim.world import instant

MAX_GPUS = 256  # larger jobs are crash-loop artefacts of the reconstructed trace; the judge leaves them out too
TABLE = [(gpus, share) for share in (1.0, 0.5) for gpus in (848, 1000, 1096)]


def read_trace(path: Path) -> list[TraceJob]:
    """Jobs of a history with a known run, in order of submission."""
    jobs = load_history(path).jobs
    runs = jobs.assign(duration_s=jobs.end_s - jobs.start_s)
    runs = runs[(runs.gpus > 0) & (runs.duration_s > 0) & (runs.gpus <= MAX_GPUS)]
    runs = runs.sort_values("submit_s", kind="stable")
    return [
        TraceJob(id=str(i), submit_s=float(s), gpus=int(g), duration_s=float(d), team=str(t), name=str(n))
        for i, s, g, d, t, n in zip(
            runs.job_id, runs.submit_s, runs.gpus, runs.duration_s, runs.team, runs.name, strict=True
        )
    ]


def run(trace: list[TraceJob], *, onprem_gpus: int, checkpointable: float, seed: int) -> Replay:
    """One replay of a trace under `policies/replay.yaml`."""
    path = default_policy_path().with_name("replay.yaml")
    policy = load_policy(path, at=instant(trace[0].submit_s), data_may_end=True)
    jobs = sim_jobs(trace, policy, checkpointable_share=checkpointable, seed=seed)
    return replay(jobs, policy, onprem_gpus=onprem_gpus)


def tables(done: Replay) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Segments and nodes as data frames."""
    record = done.world.record
    segments = pd.DataFrame(record.segments, columns=list(SEGMENT_COLUMNS))
    return segments, pd.DataFrame(record.nodes, columns=list(NODE_COLUMNS))


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


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--onprem-gpus", type=int)
    parser.add_argument("--checkpointable", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    trace = read_trace(asked.trace)
    cases = [(asked.onprem_gpus, asked.checkpointable)] if asked.onprem_gpus else TABLE
    for onprem_gpus, share in cases:
        done = run(trace, onprem_gpus=onprem_gpus, checkpointable=share, seed=asked.seed)
        row = {"onprem_gpus": onprem_gpus, "checkpointable": share, "ticks": done.ticks}
        sys.stdout.write(json.dumps(row | score(trace, done, onprem_gpus=onprem_gpus)) + "\n")
        sys.stdout.flush()
        if asked.out:
            asked.out.mkdir(parents=True, exist_ok=True)
            segments, nodes = tables(done)
            segments.to_parquet(asked.out / "segments.parquet")
            nodes.to_parquet(asked.out / "nodes.parquet")
    return 0


if __name__ == "__main__":
    sys.exit(main())
