"""Field cases of forecasts: strange histories (F025), closed days (F026), holidays in the pattern (F019)."""

from datetime import timedelta
from itertools import pairwise

import numpy as np
import pytest

from forecast.calendar import Calendar
from forecast.champion import forecast_series
from forecast.forecaster import DemandSeries, Forecast
from forecast.seasonal import DayTypeProfile
from forecast.smoothing import Ets, UnobservedComponents
from tests.builders_forecast import MONDAY, UTC_DAYS, day, noisy, office_days, series_of, with_holidays


def forecast(series: DemandSeries, *, horizon: int = 48, calendar: Calendar = UTC_DAYS) -> Forecast:
    return forecast_series(series, calendar=calendar, made_at=series.end, horizon=horizon)


def is_sound(made: Forecast, *, horizon: int) -> bool:
    levels = [made.gpus[q] for q in sorted(made.gpus)]
    whole = all(len(values) == horizon and np.isfinite(values).all() and (values >= 0).all() for values in levels)
    crossing = any((below > above + 1e-9).any() for below, above in pairwise(levels))
    return whole and not crossing


def test_zeros_with_one_spike_give_a_finite_forecast_near_zero() -> None:
    """F025 a: 139 days of 0 with one 19.7."""
    values = np.zeros(139 * 24)
    values[80 * 24 + 9] = 19.7
    made = forecast(series_of(values))
    assert is_sound(made, horizon=48)
    assert made.gpus[0.5].max() < 0.5
    assert made.gpus[0.95].max() <= 19.7


def test_a_constant_series_goes_on() -> None:
    """F025 b: 36 days of 7."""
    made = forecast(series_of(np.full(36 * 24, 7.0)))
    assert np.allclose(made.gpus[0.5], 7.0)
    assert np.allclose(made.gpus[0.95], 7.0)
    assert all(peak.gpus == pytest.approx(7.0) for peak in made.peaks)


def test_four_daily_peaks_get_a_stated_simple_rule_and_never_zero() -> None:
    """F025 c: daily peaks 134, 139, 222, 213."""
    made = forecast(series_of([134.0, 139.0, 222.0, 213.0], step_s=86_400), horizon=2)
    assert is_sound(made, horizon=2)
    assert made.forecaster == "last value"
    assert "past days can be scored" in made.fallback
    assert made.gpus[0.5].tolist() == [213.0, 213.0]
    assert [peak.gpus for peak in made.peaks] == [222.0, 222.0]  # the recent peak
    assert made.gpus[0.9].min() > 222.0


@pytest.mark.parametrize("values", [[], [np.nan] * 200], ids=["no record", "all gaps"])
def test_without_history_it_is_said_that_nothing_can_be_forecast(values: list[float]) -> None:
    """F025 d: no history. The desk turns this into 'no forecast', and planning is reactive."""
    with pytest.raises(ValueError, match="no demand is known yet"):
        forecast(series_of(values))


@pytest.mark.parametrize("outlier_day", [40, 54, 58])
def test_one_wild_day_moves_the_forecast_of_normal_days_little(outlier_day: int) -> None:
    """F025 e: one day of 5,000 among days of 40 to 60."""
    usual = noisy(office_days(60), spread=1.0)
    wild = usual.copy()
    wild[outlier_day * 24 : (outlier_day + 1) * 24] = 5_000.0
    for forecaster in (DayTypeProfile(), Ets(), UnobservedComponents()):
        calm = forecaster.predict(series_of(usual), horizon=48, calendar=UTC_DAYS)
        after = forecaster.predict(series_of(wild), horizon=48, calendar=UTC_DAYS)
        assert np.abs(after / calm - 1).max() < 0.2, forecaster.name
    made, before = forecast(series_of(wild)), forecast(series_of(usual))
    assert np.abs(made.gpus[0.5] / before.gpus[0.5] - 1).max() < 0.2


def test_closed_days_stay_closed_and_nothing_is_negative() -> None:
    """F026: 26 weeks of weekdays 40 to 60, weekends 0, one holiday week 0; the next 14 days."""
    values = noisy(office_days(26 * 7, weekend=0.0), spread=1.0)
    values[office_days(26 * 7, weekend=0.0) == 0.0] = 0.0
    holiday_week = range(21 * 7, 21 * 7 + 5)
    values[21 * 7 * 24 : (21 * 7 + 5) * 24] = 0.0
    made = forecast(series_of(values), horizon=14 * 24, calendar=with_holidays(*(day(n) for n in holiday_week)))
    truth = office_days(14, weekend=0.0)
    assert is_sound(made, horizon=14 * 24)
    assert made.forecaster not in ("last value", "same hour yesterday")
    weekend = truth == 0.0
    assert made.gpus[0.5][weekend].max() <= 1.0
    assert np.abs(made.gpus[0.5][~weekend] / truth[~weekend] - 1).max() < 0.25


def test_the_weekday_pattern_ignores_holidays() -> None:
    """F019: a holiday with almost no demand does not lower the forecast of the next weekday of its kind."""
    values = office_days(28, weekend=5.0)
    holidays = [day(n) for n in (3, 4, 9, 10, 11, 16, 17, 18, 23, 24)]  # most of the recent workdays
    for off in (3, 4, 9, 10, 11, 16, 17, 18, 23, 24):
        values[off * 24 : (off + 1) * 24] = 1.0
    known = DayTypeProfile().predict(series_of(values), horizon=24, calendar=with_holidays(*holidays))
    unknown = DayTypeProfile().predict(series_of(values), horizon=24, calendar=UTC_DAYS)
    assert np.allclose(known, office_days(1))
    assert not np.allclose(unknown, office_days(1))


def test_a_holiday_ahead_is_forecast_as_one() -> None:
    """F019: with three holidays in the record, the next one looks like them."""
    values = office_days(28)
    for off in (8, 15, 22):
        values[off * 24 : (off + 1) * 24] = 2.0
    calendar = with_holidays(day(8), day(15), day(22), day(28))
    path = DayTypeProfile().predict(series_of(values), horizon=48, calendar=calendar)
    assert np.allclose(path[:24], 2.0)
    assert np.allclose(path[24:], office_days(1))


def test_a_day_type_without_examples_borrows_the_nearest() -> None:
    """A first holiday is taken for a weekend day, not for a workday."""
    values = office_days(28, weekend=5.0)
    path = DayTypeProfile().predict(series_of(values), horizon=24, calendar=with_holidays(day(28)))
    assert np.allclose(path, 5.0)


def test_marked_hours_do_not_shape_the_profile() -> None:
    """An outage on two Mondays in four does not halve the next Monday."""
    values, marked = office_days(28), np.zeros(28 * 24, dtype=np.bool_)
    for out in (26, 27):
        values[out * 24 + 6 : out * 24 + 20] = 0.0
        marked[out * 24 + 6 : out * 24 + 20] = True
    path = DayTypeProfile().predict(series_of(values, marked=marked), horizon=24, calendar=UTC_DAYS)
    assert np.allclose(path, office_days(1))


def test_marks_on_most_hours_tell_nothing_and_are_not_heeded() -> None:
    """A controller that bursts every day marks most hours; the record is not thrown away for it."""
    path = DayTypeProfile().predict(series_of(office_days(28), marked=np.ones(672)), horizon=24, calendar=UTC_DAYS)
    assert np.allclose(path, office_days(1))


def test_a_higher_level_is_believed_after_a_day_and_a_half() -> None:
    """What looks wild at first and stays is the new normal."""
    values = np.r_[np.full(20 * 24, 20.0), np.full(3 * 24, 200.0)]
    path = Ets().predict(series_of(values), horizon=24, calendar=UTC_DAYS)
    assert path.min() > 150.0


def test_the_profile_follows_local_hours_over_a_clock_change() -> None:
    """Berlin, 29 March 2026: the office opens an hour earlier in UTC from then on."""
    start = MONDAY - timedelta(hours=1)  # midnight in Berlin, winter time
    values = office_days(26)  # up to Friday the 27th, local midnight
    path = DayTypeProfile().predict(
        series_of(values, start=start), horizon=5 * 24, calendar=with_holidays(zone="Europe/Berlin")
    )
    opened = np.flatnonzero(path[: 2 * 24] > 50)
    assert opened[0] == 9
    tuesday = path[4 * 24 - 1 : 5 * 24 - 1]  # from local midnight on: one hour fewer has passed
    assert np.flatnonzero(tuesday > 50)[0] == 9
