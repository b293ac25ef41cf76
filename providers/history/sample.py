"""A made-up desk's history in canonical form, for people who have no file of their own."""

from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd

from providers.history.history import CleaningReport, History, Origin, canonical_types
from providers.history.parquet import replaced_whole
from providers.sim.workload import desk_workload

NOTE = "made up: a research desk of four teams in two time zones; no real site's figures"


def sample_history(*, start: datetime, days: int, seed: int, scale: float = 1.0) -> History:
    """Jobs that waited a little (drawn, median 20 s, more for gangs) and ran; those past the last submission run on."""
    jobs = desk_workload(start=start, days=days, seed=seed, scale=scale)
    rng = np.random.default_rng([seed, 1])
    submit = np.array([job.submit_s for job in jobs])
    nodes = np.array([job.nodes for job in jobs])
    begun = submit + np.round(np.exp(rng.normal(np.log(20), 1.2, size=len(jobs))) * nodes, 1)
    end = begun + np.array([job.duration_s for job in jobs])
    last = float(submit.max()) if len(jobs) else 0.0
    frame = pd.DataFrame(
        {
            "job_id": [job.job_id for job in jobs],
            "team": [job.team for job in jobs],
            "user": [job.user for job in jobs],
            "job_class": [job.job_class for job in jobs],
            "name": [job.name for job in jobs],
            "gpus": [job.gpus for job in jobs],
            "nodes": nodes,
            "cpus": [job.cpus for job in jobs],
            "memory_gib": [job.memory_gib for job in jobs],
            "submit_s": submit,
            "eligible_s": submit,
            "start_s": np.where(begun <= last, begun, np.nan),
            "end_s": np.where(end <= last, end, np.nan),
            "state": np.where(end <= last, "completed", np.where(begun <= last, "running", "pending")),
        }
    )
    report = CleaningReport(rows_read=len(jobs), rows_kept=len(jobs), notes=(NOTE,))
    origin = Origin(kind="sample", files=(f"seed {seed}",))
    return History(jobs=canonical_types(frame), series=None, step_s=None, report=report, origin=origin)


def write_csv(history: History, path: Path) -> None:
    """The jobs as CSV, for spreadsheets; times as Unix seconds. Written beside the target and renamed."""
    replaced_whole(path, lambda temporary: history.jobs.to_csv(temporary, index=False))
