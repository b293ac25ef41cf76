"""What a replay under spot cost: money by the price of each second, losses, work that was lost with them. For `spot`.

Lost work is what must be done again: of an attempt that ended with its machine, all of it, or for a job with
checkpoints what it did since its last regular one. A job that left within the notice wrote one and lost nothing.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from benchmarks.spot_series import NODE_USD
from elastic.replay import Replay, TraceJob
from elastic.replay_files import job_table, tables
from providers.facts import CapacityType
from providers.sim.jobs import SimJob
from providers.sim.spot_markets import Loss, SpotSeries, usd_between

WAIT_TARGET_S = 900.0  # of `policies/replay.yaml`
SAME_S = 1e-6


def spot_figures(
    trace: Sequence[TraceJob],
    jobs: Sequence[SimJob],
    done: Replay,
    series: Sequence[SpotSeries],
    losses: Sequence[Loss],
) -> dict[str, float]:
    """The row of one replay. Waits are those of jobs that came after its start."""
    segments, nodes = tables(done)
    cloud = nodes[nodes.place == "cloud"].assign(released_s=lambda n: n.released_s.fillna(done.until_s))
    held_h = (cloud.released_s - cloud.requested_s) / 3600
    on_spot = cloud.capacity_type == CapacityType.SPOT.value
    gpu_h = float((held_h * cloud.gpus).sum())
    table = job_table(trace, segments, until_s=done.until_s)
    waits_s = table.wait_s[table.submit_s > done.start_s]
    by_id = {job.id: job for job in jobs}
    again = segments.drop_duplicates(["job_id", "attempt"])
    again = again[again.attempt > 0]
    restart_s = sum(by_id[j].gpus * by_id[j].restart_cost_s for j in again.job_id)
    return {
        "usd": _spot_usd(cloud[on_spot], series) + float(held_h[~on_spot].sum()) * NODE_USD,
        "gpu_h": gpu_h,
        "spot_share": float((held_h * cloud.gpus)[on_spot].sum()) / gpu_h if gpu_h else 0.0,
        "loss_events": len(losses),
        "lost_machines": sum(len(loss.instance_ids) for loss in losses),
        "lost_gpu_h": lost_work_gpu_h(segments, cloud, by_id, losses),
        "restarts": len(again),
        "restart_gpu_h": restart_s / 3600,
        "requeued_h": _requeued_h(segments),
        "wait_p50_min": float(np.percentile(waits_s, 50)) / 60,
        "wait_p99_min": float(np.percentile(waits_s, 99)) / 60,
        "late": int((waits_s > WAIT_TARGET_S).sum()),
        "jobs": len(waits_s),
    }


def _spot_usd(spot: pd.DataFrame, series: Sequence[SpotSeries]) -> float:
    by_zone = {one.key.split("/")[1]: one.prices for one in series}
    rows = zip(spot.zone, spot.requested_s, spot.released_s, strict=True)
    return sum(usd_between(by_zone[zone], since_s, to_s) for zone, since_s, to_s in rows)


def lost_work_gpu_h(
    segments: pd.DataFrame, cloud: pd.DataFrame, jobs: Mapping[str, SimJob], losses: Sequence[Loss]
) -> float:
    """GPU-hours that must be done again because a machine was taken."""
    lost = {i for loss in losses for i in loss.instance_ids}
    ends = {node: end_s for node, end_s in zip(cloud.node_id, cloud.released_s, strict=True) if node in lost}
    rows = segments[segments.node_id.isin(set(ends))]
    hit: dict[tuple[str, int], float] = {}  # a gang loses machines together, and its work once
    for job_id, attempt, node_id, start_s, end_s in zip(
        rows.job_id, rows.attempt, rows.node_id, rows.start_s, rows.end_s, strict=True
    ):
        if abs(end_s - ends[node_id]) < SAME_S:
            hit[job_id, attempt] = end_s - start_s
    lost_s = 0.0
    for (job_id, attempt), ran_s in hit.items():
        job = jobs[job_id]
        worked_s = max(0.0, ran_s - (job.restart_cost_s if attempt else 0.0))
        lost_s += job.gpus * (worked_s % job.checkpoint_every_s if job.checkpointable else worked_s)
    return lost_s / 3600


def _requeued_h(segments: pd.DataFrame) -> float:
    """Hours that jobs which had run already waited to run again."""
    rows = segments.groupby(["job_id", "attempt"]).agg(start_s=("start_s", "min"), end_s=("end_s", "max")).reset_index()
    gaps = rows.start_s - rows.groupby("job_id").end_s.shift()
    return float(gaps.clip(lower=0).sum()) / 3600
