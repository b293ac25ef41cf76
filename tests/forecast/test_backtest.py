"""Rolling origins and their scores, checked by hand on small records."""

import numpy as np
import pytest

from forecast.backtest import daily_origins, roll
from forecast.champion import cheap_candidates, default_candidates
from forecast.combination import Combination, Prepared
from forecast.past import cut, fill_gaps
from forecast.scores import backtest
from forecast.seasonal import DayTypeProfile, LastValue, Yesterday
from tests.builders_forecast import MONDAY, UTC_DAYS, noisy, office_days, series_of, with_holidays


def test_origins_are_daily_at_six_local_and_leave_room_for_the_horizon() -> None:
    series = series_of(np.arange(10 * 24.0))
    zone = with_holidays(zone="Asia/Shanghai")  # six in the morning is 22:00 UTC
    origins = daily_origins(series, calendar=zone, horizon=24, warm_up_days=2)
    assert origins == tuple(range(2 * 24 + 22, 9 * 24, 24))


def test_origins_keep_the_local_hour_over_a_clock_change() -> None:
    series = series_of(np.arange(40 * 24.0))
    origins = daily_origins(series, calendar=with_holidays(zone="Europe/Berlin"), horizon=24, warm_up_days=1)
    assert {(origin % 24) for origin in origins} == {5, 4}  # 06:00 is 05:00 UTC until 29 March, then 04:00


def test_scores_are_what_a_hand_finds() -> None:
    values = np.r_[np.full(10 * 24, 10.0), np.full(24, 20.0), np.full(24, 10.0)]
    done = backtest(series_of(values), [LastValue(), Yesterday()], calendar=UTC_DAYS)
    assert done.rolled.origins == tuple(6 + 24 * day for day in range(1, 11))
    # Scored, from 06:00 on: day 8 (all 10), day 9 (18 h of 10, 6 h of 20), day 10 (18 h of 20, 6 h of 10).
    assert done.rows.tolist() == [7, 8, 9]
    last, naive = done.candidates["last value"], done.candidates["same hour yesterday"]
    total = 24 * 10 + 18 * 10 + 6 * 20 + 18 * 20 + 6 * 10
    assert last.wape == pytest.approx((6 * 10 + 6 * 10) / total)
    assert last.bias == pytest.approx((-6 * 10 + 6 * 10) / total)
    assert naive.wape == pytest.approx((6 * 10 + 18 * 10 + 6 * 10) / total)
    assert last.peak_error == pytest.approx(10 / 50)
    assert last.mase_last == pytest.approx(1.0)
    assert last.mase_yesterday == pytest.approx(120 / 300)
    assert last.origins == 3
    assert done.best_naive == "last value"


def test_days_limits_what_is_scored_not_what_calibrates() -> None:
    series = series_of(noisy(office_days(40)))
    whole = backtest(series, cheap_candidates(), calendar=UTC_DAYS)
    late = backtest(series, cheap_candidates(), calendar=UTC_DAYS, days=5)
    assert len(late.rows) == 5
    assert late.rolled.origins == whole.rolled.origins
    assert late.selection.picks == whole.selection.picks


def test_windows_left_out_are_counted() -> None:
    values, marked = noisy(office_days(30)), np.zeros(720, dtype=np.bool_)
    marked[15 * 24] = True
    values[20 * 24 : 20 * 24 + 3] = np.nan
    done = backtest(series_of(values, marked=marked), cheap_candidates(), calendar=UTC_DAYS)
    assert done.excluded == 2
    assert len(done.rows) + 2 == sum(origin >= 8 * 24 for origin in done.rolled.origins)


@pytest.mark.parametrize("values", [[], np.ones(100), np.full(2000, np.nan)], ids=["empty", "four days", "all gaps"])
def test_a_record_too_short_to_score_is_refused_with_what_it_needs(values: object) -> None:
    with pytest.raises(ValueError, match="days"):
        backtest(series_of(values), cheap_candidates(), calendar=UTC_DAYS)


def test_coverage_of_the_champion_is_near_its_level_on_made_up_desks() -> None:
    done = backtest(series_of(noisy(office_days(90, weekend=10.0), spread=4.0)), cheap_candidates(), calendar=UTC_DAYS)
    assert 0.85 <= done.champion.coverage_q90 <= 0.95
    assert done.champion.wape <= done.candidates[done.best_naive].wape


def test_a_candidate_silent_at_some_origins_is_scored_on_the_others() -> None:
    series = series_of(noisy(office_days(12)))
    rolled = roll(series, [DayTypeProfile()], origins=[24, 36, 48, 72], horizon=24, calendar=UTC_DAYS)
    assert np.isnan(rolled.paths["day-type profile"]).all(axis=1).tolist() == [True, True, False, False]
    assert "needs two days" in rolled.refusals["day-type profile"]


def test_the_combination_is_the_median_of_those_that_speak() -> None:
    series = series_of(noisy(office_days(20)))
    members = default_candidates()[:-1]
    paths = np.array([one.predict(series, horizon=24, calendar=UTC_DAYS) for one in members])
    assert np.allclose(Combination(members).predict(series, horizon=24, calendar=UTC_DAYS), np.median(paths, axis=0))
    young = cut(series, 50)
    with pytest.raises(ValueError, match="needs three"):
        Combination(members[:2]).predict(young, horizon=24, calendar=UTC_DAYS)


def test_prepared_paths_speak_at_their_cutoffs_only() -> None:
    series = series_of(np.ones(48))
    prepared = Prepared("sum of teams", {series.end: np.arange(24.0)})
    assert prepared.predict(series, horizon=12, calendar=UTC_DAYS).tolist() == list(range(12))
    with pytest.raises(ValueError, match="nothing prepared"):
        prepared.predict(cut(series, 47), horizon=12, calendar=UTC_DAYS)


def test_the_stopwatch_is_read_around_every_candidate() -> None:
    ticks = iter(range(100))
    series = series_of(noisy(office_days(5)))
    rolled = roll(
        series,
        [LastValue(), Yesterday()],
        origins=[48, 72],
        horizon=24,
        calendar=UTC_DAYS,
        stopwatch=lambda: float(next(ticks)),
    )
    assert rolled.seconds == {"last value": 0.5, "same hour yesterday": 0.5}


def test_origins_without_a_known_step_are_refused() -> None:
    with pytest.raises(ValueError, match="origins"):
        roll(series_of(np.ones(48)), [LastValue()], origins=[0], horizon=24, calendar=UTC_DAYS)


def test_a_step_that_does_not_divide_a_day_is_refused() -> None:
    series = series_of(np.ones(48), step_s=7_000, start=MONDAY)
    with pytest.raises(ValueError, match="does not divide a day"):
        roll(series, [LastValue()], origins=[24], horizon=24, calendar=UTC_DAYS)


def test_gaps_are_filled_from_the_season_before_and_never_by_zero() -> None:
    nan = np.nan
    filled = fill_gaps(np.array([1.0, 2.0, nan, nan, 5.0, nan]), season=2)
    assert filled.tolist() == [1.0, 2.0, 1.0, 2.0, 5.0, 2.0]
    assert fill_gaps(np.array([nan, nan, 7.0, nan]), season=3).tolist() == [7.0, 7.0, 7.0, 7.0]
