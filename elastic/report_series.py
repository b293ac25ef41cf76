"""What happened at a site over a replay, as series for the report: demand, supply, money. Plain arrays on one grid."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from elastic.replay import TraceJob
from elastic.replay_files import demand_steps, running_sum
from forecast.forecaster import Floats

GRID_STEPS = 1200  # about one a pixel of the page
_NICE_S = (60, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Site:
    """Highest GPUs inside each step of `step_s` from `times_s` (Unix seconds); `usd` is what was paid by each step's
    end, `least_usd` what the unavoidable GPU-hours by then would have cost at the replay's mean price."""

    step_s: float
    times_s: Floats
    demand_gpus: Floats
    rented_gpus: Floats
    home_gpus: float
    usd: Floats
    least_usd: Floats


def series_of(
    trace: Sequence[TraceJob],
    jobs: pd.DataFrame,
    segments: pd.DataFrame,
    nodes: pd.DataFrame,
    *,
    onprem_gpus: int,
    start_s: float,
    until_s: float,
) -> Site:
    """The series of a replay from its trace and its tables (`replay_files.job_table`, `replay_files.tables`)."""
    span_s = max(until_s - start_s, 60.0)
    step_s = float(next((s for s in _NICE_S if span_s / s <= GRID_STEPS), _NICE_S[-1]))
    times_s = start_s + step_s * np.arange(int(np.ceil(span_s / step_s)), dtype=np.float64)
    ends_s = np.minimum(times_s + step_s, until_s)
    over_s = jobs.end_s.fillna(until_s).clip(upper=until_s).to_numpy(dtype=float)
    demand = _levels(jobs.submit_s.to_numpy(dtype=float), over_s, jobs.gpus.to_numpy(dtype=float))
    cloud = nodes[nodes.place == "cloud"]
    asked_s = cloud.requested_s.to_numpy(dtype=float)
    ready_s, gone_s = cloud.ready_s.to_numpy(dtype=float), cloud.released_s.fillna(until_s).to_numpy(dtype=float)
    gpus, price = cloud.gpus.to_numpy(dtype=float), cloud.price_usd_per_hour.to_numpy(dtype=float)
    usd = _integral(*_levels(asked_s, gone_s, price), ends_s) / 3600
    gpu_s = float(((gone_s - asked_s) * gpus).sum())
    mean_usd = float(usd[-1]) * 3600 / gpu_s if gpu_s else 0.0  # per GPU-hour
    at_once = demand_steps(trace, until_s=until_s)
    excess_gpu_s = _integral(at_once[0], np.maximum(0.0, at_once[1] - onprem_gpus), ends_s)
    return Site(
        step_s=step_s,
        times_s=times_s,
        demand_gpus=_highest(*demand, times_s, step_s),
        rented_gpus=_highest(*_levels(ready_s, gone_s, gpus), times_s, step_s),
        home_gpus=float(nodes[nodes.place != "cloud"].gpus.sum()) or float(onprem_gpus),
        usd=usd,
        least_usd=excess_gpu_s / 3600 * mean_usd,
    )


def _levels(from_s: Floats, to_s: Floats, amount: Floats) -> tuple[Floats, Floats]:
    """Times, and the sum of the amounts that hold from each on. What ends before it begins is left out."""
    lasts = to_s > from_s
    changes = np.concatenate([amount[lasts], -amount[lasts]])
    times, level = running_sum(np.concatenate([from_s[lasts], to_s[lasts]]), changes)
    last = np.append(times[1:] != times[:-1], True) if len(times) else np.zeros(0, dtype=bool)
    return times[last], level[last]


def _highest(times: Floats, level: Floats, steps_s: Floats, step_s: float) -> Floats:
    """The highest level inside each step, what holds at its beginning included."""
    before = np.searchsorted(times, steps_s, side="right") - 1
    highest = np.where(before >= 0, level[np.maximum(before, 0)], 0.0) if len(level) else np.zeros(len(steps_s))
    inside = ((times - steps_s[0]) // step_s).astype(int)
    fits = (inside >= 0) & (inside < len(steps_s))
    np.maximum.at(highest, inside[fits], level[fits])
    return np.asarray(highest, dtype=np.float64)


def _integral(times: Floats, level: Floats, at_s: Floats) -> Floats:
    """Integral of the level from the first time up to each instant."""
    if len(times) == 0:
        return np.zeros(len(at_s))
    areas = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(times))])
    place = np.searchsorted(times, at_s, side="right") - 1
    known = np.maximum(place, 0)
    return np.where(place >= 0, areas[known] + level[known] * (at_s - times[known]), 0.0)
