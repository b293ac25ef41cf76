"""The median of several candidates: rarely the best of a day, rarely far from it. Called by `backtest`, `champion`."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import numpy as np

from forecast.calendar import Calendar
from forecast.forecaster import DemandSeries, Floats, Forecaster

NAME = "combination"
LEAST_MEMBERS = 3  # a median of two is their mean: one wild member would move it


class Combination:
    """Median, step by step, of the members that can speak."""

    name = NAME

    def __init__(self, members: Sequence[Forecaster]) -> None:
        self.members = tuple(members)

    def predict(self, series: DemandSeries, *, horizon: int, calendar: Calendar) -> Floats:
        """Shape (horizon,). ValueError if fewer than three members can speak."""
        spoken = []
        for member in self.members:
            try:
                spoken.append(member.predict(series, horizon=horizon, calendar=calendar))
            except ValueError:  # this one needs more history: the others speak
                continue
        median: Floats = combined(np.array(spoken).reshape(len(spoken), 1, horizon))[0]
        return median


def combined(paths: Floats) -> Floats:
    """(members, origins, horizon) -> (origins, horizon): the median of the members that are known there.

    ValueError if no origin has three; an origin with fewer is NaN.
    """
    spoken = (~np.isnan(paths).any(axis=2)).sum(axis=0)
    enough = spoken >= LEAST_MEMBERS
    if not enough.any():
        raise ValueError(f"{NAME} needs three candidates that can speak")
    median = np.full(paths.shape[1:], np.nan)
    median[enough] = np.nanmedian(paths[:, enough], axis=0)
    return median


class Prepared:
    """Paths made elsewhere, by the cutoff they were made at: the sum of the teams' forecasts for their total."""

    def __init__(self, name: str, by_cutoff: Mapping[datetime, Floats]) -> None:
        self.name = name
        self._by_cutoff = dict(by_cutoff)

    def predict(self, series: DemandSeries, *, horizon: int, calendar: Calendar) -> Floats:
        """Shape (horizon,). ValueError for a cutoff without a path, or with a shorter one."""
        path = self._by_cutoff.get(series.end)
        if path is None or len(path) < horizon or np.isnan(path[:horizon]).any():
            raise ValueError(f"{self.name}: nothing prepared for {series.end:%Y-%m-%d %H:%M}")
        return path[:horizon]
