"""Jobs of a made-up desk for tests of the structural forecast."""

from datetime import timedelta

import numpy as np

from forecast.forecaster import DemandSeries
from forecast.series import JobArrays, demand_series
from tests.builders_forecast import MONDAY


def desk_jobs(*, days: int, seed: int = 3, per_day: int = 60) -> tuple[JobArrays, DemandSeries]:
    """Jobs submitted in office hours, most short, some of half a day; and their hourly demand."""
    rng = np.random.default_rng(seed)
    count = days * per_day
    day = np.repeat(np.arange(days), per_day)
    submit = MONDAY.timestamp() + day * 86_400 + rng.uniform(9, 18, count) * 3600
    run_s = np.where(rng.random(count) < 0.8, rng.exponential(1800, count), rng.exponential(40_000, count)) + 30
    start = submit + rng.exponential(120, count)
    gpus = rng.choice([1.0, 2.0, 4.0, 8.0], count)
    jobs = JobArrays(gpus=gpus, submit_s=submit, eligible_s=np.full(count, np.nan), start_s=start, end_s=start + run_s)
    end = MONDAY + timedelta(days=days)
    return jobs, demand_series(jobs, key="total", step_s=3600, start=MONDAY, end=end)
