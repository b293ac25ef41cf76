"""Day-ahead forecasts on real queues: every candidate, the champion, the best naive one.

    python -m benchmarks.forecast [--history FILE...] [--format json] [--zone ZONE]

Hourly maximum of demand, origins daily at six local, the first day ahead, every model fitted on the past only; the
champion is chosen at each origin by what was known then. A FILE is any kind that `elastic history import` knows.
Without --history: Venus, Earth's eight teams and their sum, and two Philly teams, where `../shared/data` has them.
"""

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from elastic.history_forecast import backtest_history, history_demand
from forecast.calendar import Calendar
from forecast.scores import Backtest, Scores
from providers.history import HistoryError, load_history

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
DEFAULTS = ("helios_venus_10min.csv.gz", "helios_earth_vc_1min_2020-05.parquet", "philly_vc12_jobs.csv.gz")
COLUMNS = (
    f"{'series / forecaster':40} {'WAPE %':>7} {'peak %':>7} {'peak h':>6} {'bias %':>7} {'pinball':>8} {'q90 %':>6} "
    f"{'width':>7} {'MASE last':>9} {'MASE yest.':>10} {'windows':>7} {'s/fit':>6}"
)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--history", type=Path, nargs="+", default=[DATA / name for name in DEFAULTS])
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--zone", default="Asia/Shanghai", help="local time of origins and day types")
    asked = parser.parse_args()
    calendar = Calendar(name=asked.zone, zone=asked.zone)
    document: list[dict[str, object]] = []
    for file in asked.history:
        try:
            demand = history_demand(load_history(file))
        except (HistoryError, ValueError) as trouble:
            sys.stderr.write(f"{file}: {trouble}\n")
            return 2
        done, refused = backtest_history(demand, calendar=calendar, stopwatch=time.perf_counter)
        for key, why in refused.items():
            sys.stderr.write(f"{file.name} {key}: {why}\n")
        for key, one in done.items():
            document.append(as_dict(f"{file.name.split('.')[0]}/{key}", one))
            if asked.format == "text":
                print_table(file.name, one)
    if asked.format == "json":
        sys.stdout.write(json.dumps({"series": document}, indent=1) + "\n")
    return 0


def as_dict(key: str, one: Backtest) -> dict[str, object]:
    """One series of the JSON document."""
    return {
        "key": key,
        "windows": len(one.rows),
        "excluded_windows": one.excluded,
        "champion": asdict(one.champion) | {"picked": picked(one)},
        "best_naive": asdict(one.candidates[one.best_naive]) | {"name": one.best_naive},
        "candidates": {name: asdict(scores) for name, scores in one.candidates.items()},
    }


def picked(one: Backtest) -> dict[str, int]:
    """How many of the scored windows each forecaster spoke in as champion."""
    picks = [one.selection.picks[row] for row in one.rows]
    return {name: picks.count(name) for name in sorted(set(picks), key=picks.count, reverse=True)}


def print_table(file: str, one: Backtest) -> None:
    """One series as text."""
    write = sys.stdout.write
    write(f"\n{file} {one.key}: {len(one.rows)} windows, {one.excluded} left out (outages, gaps)\n{COLUMNS}\n")
    for name, scores in one.candidates.items():
        write(row(name + (" (best naive)" if name == one.best_naive else ""), scores))
    write(row("champion: " + ", ".join(f"{name} {count}" for name, count in picked(one).items()), one.champion))
    sys.stdout.flush()


def row(name: str, s: Scores) -> str:
    """One forecaster as text."""
    shown = name if len(name) <= 40 else name[:39] + "…"
    return (
        f"{shown:40} {100 * s.wape:7.1f} {100 * s.peak_error:7.1f} {s.peak_time_h:6.1f} {100 * s.bias:7.1f} "
        f"{s.pinball:8.2f} {100 * s.coverage_q90:6.1f} {s.width_q90:7.1f} {s.mase_last:9.2f} {s.mase_yesterday:10.2f} "
        f"{s.origins:7d} {s.seconds_per_fit:6.3f}\n"
    )


if __name__ == "__main__":
    sys.exit(main())
