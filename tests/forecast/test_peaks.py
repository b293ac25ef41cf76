"""The day's peak: corrected by what such peaks missed, with intervals, for what is left of today and whole days."""

from datetime import UTC, datetime, timedelta

import numpy as np

from forecast.champion import cheap_candidates, forecast_series, roll_to_end
from forecast.peaks import peaks_ahead, segment_peaks
from tests.builders_forecast import MONDAY, UTC_DAYS, noisy, office_days, series_of, with_holidays


def spiky(days: int, *, seed: int = 2) -> np.ndarray:
    """Office days with one hour a day, somewhere after noon, 30 above: no median path can show it."""
    rng = np.random.default_rng(seed)
    values = noisy(office_days(days), spread=0.5)
    for day in range(days):
        values[day * 24 + 12 + int(rng.integers(5))] += 30.0
    return values


def test_the_height_makes_up_for_peaks_that_the_median_path_misses() -> None:
    series = series_of(spiky(40))
    made = forecast_series(series, calendar=UTC_DAYS, made_at=series.end, horizon=24)
    assert made.gpus[0.5].max() < 85
    assert abs(made.peaks[0].gpus - 90) < 5
    assert made.peaks[0].low_gpus <= made.peaks[0].gpus <= made.peaks[0].high_gpus


def test_nine_peaks_of_ten_lie_in_the_interval() -> None:
    rng = np.random.default_rng(3)
    heights = rng.normal(60, 10, 150)
    values = np.concatenate([office_days(1, high=height, low=20) for height in heights])
    rolled = roll_to_end(series_of(values), cheap_candidates(), horizon=24, calendar=UTC_DAYS, history_origins=149)
    found = segment_peaks(rolled, "combination", slice(0, 24))
    known = ~np.isnan(found.actual_gpus)
    known[:20] = False
    inside = (found.low_gpus <= found.actual_gpus) & (found.actual_gpus <= found.high_gpus)
    assert 0.85 <= inside[known].mean() <= 0.97


def test_the_time_and_its_interval_are_those_of_the_local_day() -> None:
    zone = with_holidays(zone="Asia/Shanghai")
    series = series_of(spiky(40), start=MONDAY - timedelta(hours=8))  # local midnights
    made = forecast_series(series, calendar=zone, made_at=series.end, horizon=48)
    assert [peak.day for peak in made.peaks] == [series.end, series.end + timedelta(days=1)]
    for peak in made.peaks:
        assert peak.earliest is not None
        assert peak.latest is not None
        assert peak.earliest <= peak.at <= peak.latest
        assert 9 <= (peak.at - peak.day).total_seconds() / 3600 < 18
        assert (peak.latest - peak.day).total_seconds() / 3600 < 18


def test_a_day_only_begun_at_the_horizons_end_has_no_peak_of_its_own() -> None:
    series = series_of(spiky(30)[: 29 * 24 + 15])
    made = forecast_series(series, calendar=UTC_DAYS, made_at=series.end, horizon=48)
    assert [peak.day.day for peak in made.peaks] == [31, 1]  # what is left of 31 March, and 1 April; not 2 April
    assert made.peaks[0].at >= series.end


def test_a_short_horizon_still_has_a_peak() -> None:
    series = series_of(spiky(30)[: 29 * 24 + 10])
    made = forecast_series(series, calendar=UTC_DAYS, made_at=series.end, horizon=3)
    assert len(made.peaks) == 1
    assert made.peaks[0].day == datetime(2026, 3, 31, tzinfo=UTC)


def test_peaks_are_finite_and_never_negative_on_hopeless_records() -> None:
    values = np.r_[np.zeros(400), np.full(100, np.nan), [3.0], np.full(30, np.nan)]
    rolled = roll_to_end(series_of(values), cheap_candidates(), horizon=48, calendar=UTC_DAYS)
    for peak in peaks_ahead(rolled, name="last value", calendar=UTC_DAYS):
        assert np.isfinite([peak.gpus, peak.low_gpus, peak.high_gpus]).all()
        assert 0 <= peak.low_gpus <= peak.gpus <= peak.high_gpus
