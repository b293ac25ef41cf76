"""Demand series for tests of forecasting."""

from datetime import UTC, date, datetime, timedelta

import numpy as np

from forecast.calendar import Calendar, DayType
from forecast.forecaster import DemandSeries, Floats

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
UTC_DAYS = Calendar(name="utc", zone="UTC")


def series_of(
    values: object, *, key: str = "total", start: datetime = MONDAY, step_s: int = 3600, marked: object = None
) -> DemandSeries:
    """A series of these values; NaN are gaps."""
    gpus = np.asarray(values, dtype=np.float64)
    marks = np.zeros(len(gpus), dtype=np.bool_) if marked is None else np.asarray(marked, dtype=np.bool_)
    return DemandSeries(key=key, start=start, step_s=step_s, gpus=gpus, gaps=np.isnan(gpus), marked=marks)


def office_days(days: int, *, low: float = 40.0, high: float = 60.0, weekend: float | None = None) -> Floats:
    """Hours of a desk that works 9 to 18, Monday first; `weekend` is the level of Saturdays and Sundays."""
    hours = np.arange(24)
    workday = np.where((hours >= 9) & (hours < 18), high, low)
    rows = [np.full(24, weekend) if weekend is not None and day % 7 >= 5 else workday for day in range(days)]
    return np.concatenate(rows) if rows else np.zeros(0)


def noisy(values: Floats, *, seed: int = 1, spread: float = 3.0) -> Floats:
    """With seeded noise, never negative."""
    return np.maximum(values + np.random.default_rng(seed).normal(0, spread, len(values)), 0.0)


def wandering(days: int, *, seed: int = 1, level: float = 300.0, step: float = 6.0) -> Floats:
    """A random walk with a slight daily rhythm, as GPU queues often are: persistence is hard to beat on it."""
    rng = np.random.default_rng(seed)
    hours = np.arange(days * 24)
    return np.maximum(level + np.cumsum(rng.normal(0, step, days * 24)) + 10 * np.sin(hours / 24 * 2 * np.pi), 0.0)


def with_holidays(*days: date, zone: str = "UTC") -> Calendar:
    """Weekdays and weekends, and these days off."""
    return Calendar(name="office", zone=zone, day_types=dict.fromkeys(days, DayType.HOLIDAY))


def day(number: int) -> date:
    """The date of a day counted from MONDAY."""
    return (MONDAY + timedelta(days=number)).date()
