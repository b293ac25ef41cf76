"""How long a refresh of many forecasts takes: teams of a made-up desk, in the worker processes of production.

    python -m benchmarks.forecast_speed [--teams 50] [--days 28] [--workers 2] [--format json]

Hourly demand, all candidates, 48 hours ahead: the first refresh fits everything, the next one finds its fits.
"""

import argparse
import json
import sys
import time
from datetime import UTC, datetime, timedelta

import numpy as np

from elastic.forecasting import ForecastDesk, calendar_for_all
from forecast.calendar import Calendar
from forecast.forecaster import DemandSeries

START = datetime(2026, 3, 2, tzinfo=UTC)


def team_demand(number: int, *, days: int) -> DemandSeries:
    """A team's demand: office hours at its own height, a random walk of long work, noise."""
    random = np.random.default_rng(number)
    hours = np.arange(days * 24)
    office = np.where((hours % 24 >= 9) & (hours % 24 < 19) & (hours // 24 % 7 < 5), random.uniform(10, 80), 0.0)
    walk = np.cumsum(random.normal(0, 2, len(hours)))
    gpus = np.maximum(office + walk - walk.min() + random.normal(0, 4, len(hours)), 0.0)
    none = np.zeros(len(hours), dtype=bool)
    return DemandSeries(key=f"team-{number:02}", start=START, step_s=3600, gpus=gpus, gaps=none, marked=none)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--teams", type=int, default=50)
    parser.add_argument("--days", type=int, default=28)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    asked = parser.parse_args()
    series = {one.key: one for one in (team_demand(n, days=asked.days) for n in range(asked.teams))}
    calendar = calendar_for_all(Calendar(name="UTC", zone="UTC"))
    desk = ForecastDesk(workers=asked.workers, time_limit_s=600.0)
    at = START + timedelta(days=asked.days)
    figures: dict[str, float] = {"teams": asked.teams, "days": asked.days, "workers": asked.workers}
    try:
        for name in ("first_s", "next_s"):
            began = time.perf_counter()
            done = desk.refresh(series, calendar_of=calendar, at=at)
            figures[name] = round(time.perf_counter() - began, 1)
            if done.trouble:
                sys.stderr.write(f"{len(done.trouble)} without a forecast: {done.trouble}\n")
                return 1
    finally:
        desk.close()
    text = json.dumps(figures) if asked.format == "json" else "  ".join(f"{k} {v:g}" for k, v in figures.items())
    sys.stdout.write(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
