"""Forecasts from worker processes: a time limit, the last good one meanwhile, the same answers as without workers."""

from collections.abc import Iterator
from datetime import timedelta

import numpy as np
import pytest

from elastic.forecasting import ForecastDesk, calendar_for_all, recent
from forecast.champion import default_candidates
from forecast.past import cut
from tests.builders_forecast import MONDAY, UTC_DAYS, noisy, office_days, series_of
from tests.builders_forecast_workers import BROKEN, STUCK, trouble_by_key

CALENDAR = calendar_for_all(UTC_DAYS)
NOON = MONDAY + timedelta(days=20, hours=12)


@pytest.fixture
def desk() -> Iterator[ForecastDesk]:
    made = ForecastDesk(horizon_s=24 * 3600, workers=2, time_limit_s=60, make=trouble_by_key)
    yield made
    made.close()


def test_workers_forecast_every_series_and_say_what_could_not_be(desk: ForecastDesk) -> None:
    series = {
        "a": series_of(noisy(office_days(6)), key="a"),
        "b": series_of(noisy(office_days(9), seed=2), key="b"),
        "none": series_of([np.nan] * 50, key="none"),
        BROKEN: series_of(noisy(office_days(9)), key=BROKEN),
    }
    done = desk.refresh(series, calendar_of=CALENDAR, at=NOON)
    assert done.made == ("a", "b")
    assert "no demand is known yet" in done.trouble["none"]
    assert "the fit broke" in done.trouble[BROKEN]
    served = desk.newest(NOON + timedelta(minutes=90))
    assert served["a"].age_s == 5400
    assert served["a"].forecast.cutoff == series["a"].end
    assert set(served) == {"a", "b"}


def test_a_late_fit_is_stopped_and_the_last_good_forecast_serves_with_its_age() -> None:
    desk = ForecastDesk(horizon_s=24 * 3600, workers=1, time_limit_s=60, make=trouble_by_key)
    short = series_of(noisy(office_days(4)), key=STUCK)
    longer = series_of(noisy(office_days(6)), key=STUCK)
    try:
        assert desk.refresh({STUCK: short}, calendar_of=CALENDAR, at=NOON).made == (STUCK,)
        desk.time_limit_s = 4.0
        later = NOON + timedelta(hours=1)
        done = desk.refresh({STUCK: longer}, calendar_of=CALENDAR, at=later)
        assert done.made == ()
        assert "not done after 4 s" in done.trouble[STUCK]
        served = desk.newest(later)[STUCK]
        assert served.forecast.cutoff == short.end
        assert served.age_s == 3600
        assert "not done" in served.trouble
        assert desk.newest(later, max_age_s=1800) == {}
        desk.time_limit_s = 60.0  # new workers start, and the trouble is over
        assert desk.refresh({STUCK: short}, calendar_of=CALENDAR, at=later).trouble == {}
        assert desk.newest(later)[STUCK].trouble == ""
    finally:
        desk.close()


def test_a_refresh_at_once_gives_what_a_worker_gives(desk: ForecastDesk) -> None:
    series = {"a": series_of(noisy(office_days(9)), key="a")}
    desk.refresh(series, calendar_of=CALENDAR, at=NOON)
    there = desk.forecasts(NOON)["a"]
    at_once = ForecastDesk(horizon_s=24 * 3600)
    at_once.refresh_now(series, calendar_of=CALENDAR, at=NOON, candidates=default_candidates())
    here = at_once.forecasts(NOON)["a"]
    assert here.id == there.id
    assert all(np.array_equal(here.gpus[q], there.gpus[q]) for q in here.gpus)


def test_a_refresh_at_once_keeps_the_last_good_one_too() -> None:
    desk = ForecastDesk()
    good = series_of(noisy(office_days(3)), key="a")
    desk.refresh_now({"a": good}, calendar_of=CALENDAR, at=NOON)
    done = desk.refresh_now({"a": cut(good, 0)}, calendar_of=CALENDAR, at=NOON + timedelta(hours=1))
    assert done.made == ()
    assert desk.newest(NOON + timedelta(hours=1))["a"].age_s == 3600
    assert "no demand is known" in desk.trouble["a"]


def test_nothing_to_forecast_starts_no_workers() -> None:
    assert ForecastDesk(make=trouble_by_key).refresh({}, calendar_of=CALENDAR, at=NOON).made == ()


def test_a_long_record_is_cut_at_whole_weeks_so_that_weekly_fits_stay() -> None:
    record = series_of(np.arange(200 * 24.0))
    short, next_hour = recent(record), recent(series_of(np.arange(200 * 24.0 + 1)))
    assert short.end == record.end
    assert (short.start - record.start) % timedelta(days=7) == timedelta(0)
    assert short.start == next_hour.start
    assert len(short.gpus) >= 91 * 24
    assert recent(cut(record, 500)).start == record.start
