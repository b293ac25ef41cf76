"""Every forecaster through the same checks: whatever the record, a finite and non-negative path or a clear refusal."""

from dataclasses import replace

import numpy as np
import pytest

from forecast.backtest import roll
from forecast.champion import default_candidates
from forecast.combination import Combination
from forecast.forecaster import DemandSeries, Forecaster
from forecast.past import cut
from forecast.seasonal import DayTypeProfile, LastValue, Yesterday
from forecast.smoothing import Ets, UnobservedComponents
from forecast.structural import JobPast, Structural
from tests.builders_forecast import UTC_DAYS, noisy, office_days, series_of, wandering
from tests.builders_forecast_jobs import desk_jobs

HORIZON = 48
DESK_JOBS, DESK_SERIES = desk_jobs(days=20)


def all_forecasters() -> list[Forecaster]:
    structural = Structural(JobPast(DESK_JOBS, np.full(len(DESK_JOBS.gpus), "", dtype=object)).inputs_at)
    return list(default_candidates(structural=structural))


def gappy() -> np.ndarray:
    values = noisy(office_days(20))
    values[100:130] = np.nan
    values[::17] = np.nan
    return values


RECORDS: dict[str, DemandSeries] = {
    "empty": series_of([]),
    "one value": series_of([12.0]),
    "one day": series_of(office_days(1)),
    "all gaps": series_of(np.full(500, np.nan)),
    "gaps but the first": series_of([5.0, *np.full(500, np.nan)]),
    "gaps but the last": series_of([*np.full(500, np.nan), 5.0]),
    "constant zero": series_of(np.zeros(40 * 24)),
    "constant seven": series_of(np.full(36 * 24, 7.0)),
    "zeros with a spike": series_of(np.r_[np.zeros(70 * 24 + 5), 19.7, np.zeros(69 * 24)]),
    "four daily peaks": series_of([134.0, 139.0, 222.0, 213.0], step_s=86_400),
    "four days": series_of(noisy(office_days(4))),
    "four weeks": series_of(noisy(office_days(28, weekend=0.0))),
    "many gaps": series_of(gappy()),
    "a random walk": series_of(wandering(35)),
    "negative and infinite": series_of(np.r_[office_days(10), [-5.0, np.inf, -1.0], office_days(10)]),
    "all marked": series_of(office_days(20), marked=np.ones(480)),
    "quarter hours": series_of(np.repeat(noisy(office_days(6)), 4), step_s=900),
    "six-hour steps": series_of(noisy(office_days(20))[::6], step_s=21_600),
}


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS.keys())
@pytest.mark.parametrize("forecaster", all_forecasters(), ids=lambda one: one.name)
def test_a_path_is_whole_finite_and_never_negative_or_refused_with_what_is_needed(
    forecaster: Forecaster, record: DemandSeries
) -> None:
    try:
        path = forecaster.predict(record, horizon=HORIZON, calendar=UTC_DAYS)
    except ValueError as needs:
        refusal = str(needs)
    else:
        refusal = ""
    if refusal:
        assert "needs" in refusal
        return
    assert path.shape == (HORIZON,)
    assert np.isfinite(path).all()
    assert (path >= 0).all()


@pytest.mark.parametrize("forecaster", all_forecasters(), ids=lambda one: one.name)
def test_the_same_record_gives_the_same_path(forecaster: Forecaster) -> None:
    first = forecaster.predict(DESK_SERIES, horizon=HORIZON, calendar=UTC_DAYS)
    again = forecaster.predict(DESK_SERIES, horizon=HORIZON, calendar=UTC_DAYS)
    assert np.array_equal(first, again)


@pytest.mark.parametrize("forecaster", all_forecasters(), ids=lambda one: one.name)
def test_what_comes_after_an_origin_changes_nothing_said_there(forecaster: Forecaster) -> None:
    origins = [15 * 24 + 6, 16 * 24 + 6]
    cut_off = max(origins)
    other = DESK_SERIES.gpus.copy()
    other[cut_off:] = 9_999.0
    changed = replace(DESK_SERIES, gpus=other)
    rolled = [
        roll(record, [forecaster], origins=origins, horizon=24, calendar=UTC_DAYS).paths
        for record in (DESK_SERIES, changed, cut(DESK_SERIES, cut_off))
        if not isinstance(forecaster, Combination)
    ]
    for paths in rolled[1:]:
        assert np.array_equal(rolled[0][forecaster.name], paths[forecaster.name])
    said = [forecaster.predict(cut(r, cut_off), horizon=24, calendar=UTC_DAYS) for r in (DESK_SERIES, changed)]
    assert np.array_equal(said[0], said[1])


@pytest.mark.parametrize("forecaster", [DayTypeProfile(), Ets(), UnobservedComponents()], ids=lambda one: one.name)
def test_one_pass_over_many_origins_says_what_each_cut_record_says(
    forecaster: DayTypeProfile | Ets | UnobservedComponents,
) -> None:
    values = noisy(office_days(33, weekend=5.0))
    values[200:209] = np.nan
    values[500:503] = 900.0  # a burst that is believed by nobody, at whatever origin
    record = series_of(values)
    origins = [9 * 24, 501, 21 * 24 + 5, 30 * 24]
    together = forecaster.paths(record, origins=origins, horizon=24, calendar=UTC_DAYS)
    for origin, path in zip(origins, together, strict=True):
        alone = forecaster.predict(cut(record, origin), horizon=24, calendar=UTC_DAYS)
        assert np.allclose(path, alone, rtol=1e-9, atol=1e-9)


def test_last_value_is_the_last_known_one_whatever_gaps_follow() -> None:
    path = LastValue().predict(series_of([3.0, 8.0, np.nan, np.nan]), horizon=3, calendar=UTC_DAYS)
    assert path.tolist() == [8.0, 8.0, 8.0]


def test_yesterday_fills_a_gap_from_the_same_hour_of_the_day_before() -> None:
    values = np.r_[np.arange(24.0), np.arange(24.0) + 100]
    values[24 + 5] = np.nan
    path = Yesterday().predict(series_of(values), horizon=30, calendar=UTC_DAYS)
    assert path[5] == 5.0
    assert path[4] == 104.0
    assert path[24 + 4] == 104.0


def test_weekly_terms_wait_for_four_weeks() -> None:
    fits: dict[str, np.ndarray] = {}
    UnobservedComponents(fits).predict(series_of(noisy(office_days(27))), horizon=24, calendar=UTC_DAYS)
    assert {len(found) for found in fits.values()} == {5}  # irregular, level, daily season, AR variance, AR coefficient
    fits.clear()
    UnobservedComponents(fits).predict(series_of(noisy(office_days(28))), horizon=24, calendar=UTC_DAYS)
    assert max(len(found) for found in fits.values()) == 6


def test_remembered_fits_give_the_same_answer() -> None:
    record = series_of(noisy(office_days(15)))
    fits: dict[str, np.ndarray] = {}
    first = UnobservedComponents(fits).predict(record, horizon=24, calendar=UTC_DAYS)
    kept = dict(fits)
    again = UnobservedComponents(fits).predict(record, horizon=24, calendar=UTC_DAYS)
    assert np.array_equal(first, again)
    assert fits.keys() == kept.keys()
