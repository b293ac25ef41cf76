"""Renting under spot: a week of a real queue with real spot availability and prices in three zones, way beside way.

    python -m benchmarks.spot --zones us-west-2a,us-west-2b,us-west-2c --price-type p2.16xlarge \\
        --price-zones us-east-1b,us-east-1c,us-east-1d --offsets 0,9,18,27,36

Availability and prices are laid on the week at several offsets (in days) for they are of other years: each figure is
the mean over them, with its range. A zone that turns dry takes --loss-share of the machines held there, after two
minutes' notice. --out DIR keeps the trace and the tables of every replay for the judge (`check_replay.py`).
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import pandas as pd

from benchmarks.spot_score import spot_figures
from benchmarks.spot_series import DAY_S, Traces, on_demand_market, read_traces, spot_market
from benchmarks.spot_ways import SeenThrough, Way, ways
from elastic.policy_file import default_policy_path, load_policy
from elastic.replay import TraceJob, replay, sim_jobs
from elastic.replay_files import plain, read_trace, write_replay
from providers.ports import Cloud
from providers.sim.adapters import SimCloud
from providers.sim.cloud import SimulatedCloud
from providers.sim.spot_markets import SpotMarkets
from providers.sim.world import World

DATA = Path(__file__).parents[2] / "shared" / "data"
DAYS = 7.0
COLUMNS = (
    ("usd", "USD", 0), ("gpu_h", "GPU-h", 0), ("spot_share", "on spot", 2), ("loss_events", "loss events", 0),
    ("lost_machines", "machines lost", 0), ("lost_gpu_h", "work lost, GPU-h", 0), ("restarts", "restarts", 0),
    ("restart_gpu_h", "restarts, GPU-h", 0), ("requeued_h", "requeued, h", 0), ("wait_p50_min", "wait p50, min", 1),
    ("wait_p99_min", "wait p99, min", 1), ("late", "jobs late", 0),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Week:
    """The jobs of a week at one site."""

    trace: list[TraceJob]
    start_s: float
    onprem_gpus: int
    checkpointable: float
    seed: int
    loss_share: float


def week_of(trace: Sequence[TraceJob], *, start_s: float) -> list[TraceJob]:
    """Jobs of the week from `start_s` on. What would still run then, had it begun when it was submitted, is there at
    its start with the rest of its run."""
    jobs = []
    for job in trace:
        end_s = job.submit_s + job.duration_s
        if job.submit_s < start_s < end_s:
            jobs.append(replace(job, submit_s=start_s, duration_s=end_s - start_s, zero_s=0.0))
        elif start_s <= job.submit_s < start_s + DAYS * DAY_S:
            jobs.append(replace(job, zero_s=0.0))
    return sorted(jobs, key=lambda j: j.submit_s)


def play(week: Week, way: Way, traces: Traces, *, offset_days: float, out: Path | None = None) -> dict[str, float]:
    """One replay and its row."""
    series = traces.series(start_s=week.start_s, days=DAYS, offset_days=offset_days)
    made: list[SpotMarkets] = []

    def rented(world: World) -> tuple[SimulatedCloud, Cloud]:
        markets = [
            *(spot_market(zone, loss_share=week.loss_share) for zone in traces.zones),
            *(on_demand_market(zone) for zone in traces.zones),
        ]
        cloud = SimulatedCloud(world, markets, seed=week.seed)
        made.append(SpotMarkets(cloud))
        made[0].follow(series)
        port: Cloud = SimCloud(cloud)
        return cloud, port if way.view is None else SeenThrough(port, way.view)

    jobs = sim_jobs(week.trace, way.policy, checkpointable_share=week.checkpointable, seed=week.seed)
    until_s = week.start_s + DAYS * DAY_S
    done = replay(jobs, way.policy, onprem_gpus=week.onprem_gpus, until_s=until_s, rented=rented)
    figures = spot_figures(week.trace, jobs, done, series, made[0].losses)
    if out is not None:
        folder = out / f"{way.name.replace(' ', '-').replace(',', '')}-{offset_days:g}"
        write_replay(folder, done, dict(figures))
        rows = [(j.id, j.submit_s, j.gpus, j.duration_s) for j in week.trace]
        pd.DataFrame(rows, columns=["job_id", "submit_s", "gpus", "duration_s"]).to_csv(out / "trace.csv", index=False)
    return figures


def main() -> int:
    """Command line."""
    parser = _parser()
    asked = parser.parse_args()
    for path in (asked.trace, asked.availability, asked.prices):
        if not path.is_file():
            parser.error(f"there is no {path}; name it with --trace, --availability or --prices")
    try:
        traces = read_traces(
            asked.availability, asked.prices, zones=tuple(asked.zones.split(",")), price_type=asked.price_type,
            price_zones=tuple(asked.price_zones.split(",")), prices_from=asked.prices_from,
        )  # fmt: skip
        for offset in asked.offsets:
            traces.series(start_s=0.0, days=DAYS, offset_days=offset)
    except ValueError as error:
        parser.error(str(error))
    start_s = asked.week.timestamp()
    week = Week(
        trace=week_of(read_trace(asked.trace), start_s=start_s), start_s=start_s, onprem_gpus=asked.onprem_gpus,
        checkpointable=asked.checkpointable, seed=asked.seed, loss_share=asked.loss_share,
    )  # fmt: skip
    policy = load_policy(default_policy_path().with_name("replay.yaml"), at=asked.week, data_may_end=True)
    rows: dict[str, list[dict[str, float]]] = {}
    for way in ways(policy, traces.zones):
        if asked.only and not any(part in way.name for part in asked.only.split(",")):
            continue
        for offset in asked.offsets if way.uses_spot else asked.offsets[:1]:
            row = _played(week, way, traces, offset, asked.out)
            rows.setdefault(way.name, []).append(row)
            if asked.format == "json":
                sys.stdout.write(json.dumps({"way": way.name, "offset_days": offset} | plain(row)) + "\n")
                sys.stdout.flush()
    if asked.format == "text":
        sys.stdout.write(_table(rows))
    return 0


def _played(week: Week, way: Way, traces: Traces, offset_days: float, out: Path | None) -> dict[str, float]:
    began = time.perf_counter()
    figures = play(week, way, traces, offset_days=offset_days, out=out)
    took_s = time.perf_counter() - began
    sys.stderr.write(f"{way.name}, day {offset_days:g}: {figures['usd']:,.0f} USD ({took_s:.0f} s)\n")
    return figures


def _table(rows: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """Markdown: the mean of each figure, and its range where it has one."""
    lines = ["| way | " + " | ".join(title for _, title, _ in COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name, runs in rows.items():
        cells = [_cell([run[key] for run in runs], digits) for key, _, digits in COLUMNS]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(values: Sequence[float], digits: int) -> str:
    mean, low, high = (f"{v:,.{digits}f}" for v in (sum(values) / len(values), min(values), max(values)))
    return mean if low == high else f"{mean} ({low} to {high})"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path, default=DATA / "helios_venus_jobs_reconstructed.csv.gz")
    parser.add_argument("--availability", type=Path, default=DATA / "spot_availability_skypilot_2023a.parquet")
    parser.add_argument("--prices", type=Path, default=DATA / "spot_price_aws_us-east-1_2021-03_04.parquet")
    parser.add_argument("--week", type=datetime.fromisoformat, default="2020-09-09T00:00:00+00:00",
                        help="first instant; the default week has the most excess over 1,000 GPUs")  # fmt: skip
    parser.add_argument("--onprem-gpus", type=int, default=1000)
    parser.add_argument("--checkpointable", type=float, default=0.5, help="share of the jobs")
    parser.add_argument("--zones", default="us-west-2a,us-west-2b,us-west-2c", help="of the availability trace")
    parser.add_argument("--price-zones", default="us-east-1b,us-east-1c,us-east-1d", help="one for each of --zones")
    parser.add_argument("--price-type", default="p2.16xlarge", help="whose price, as a share of its on-demand price")
    parser.add_argument("--prices-from", default="2021-03-13", help="day of the price history at offset 0")
    parser.add_argument("--offsets", type=_numbers, default="0,9,18,27,36", help="days into the availability trace")
    parser.add_argument("--loss-share", type=float, default=1.0, help="of machines in a zone that turns dry")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="parts of names of ways, comma-separated")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--format", choices=["text", "json"], default="text")
    return parser


def _numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
