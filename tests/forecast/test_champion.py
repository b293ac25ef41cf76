"""Who speaks for a series: persistence until a candidate wins beyond luck, and again when it no longer does."""

from collections.abc import Sequence
from datetime import timedelta

import numpy as np
import pytest

from forecast.backtest import Rolled, roll
from forecast.calendar import Calendar
from forecast.champion import (
    LEAST_ORIGINS,
    cheap_candidates,
    default_candidates,
    forecast_of,
    forecast_series,
    roll_to_end,
    select,
)
from forecast.forecaster import DemandSeries, Floats
from forecast.past import cut
from forecast.seasonal import LastValue, Yesterday
from tests.builders_forecast import MONDAY, UTC_DAYS, noisy, office_days, series_of, wandering


class Told:
    """A candidate that says what it was told: the truth plus an error by day."""

    def __init__(self, name: str, truth: Floats, error_of_day: Sequence[float]) -> None:
        self.name, self._truth, self._errors = name, truth, error_of_day

    def predict(self, series: DemandSeries, *, horizon: int, calendar: Calendar) -> Floats:
        now = len(series.gpus)
        truth = np.r_[self._truth, np.full(horizon, self._truth[-1])][now : now + horizon]
        return truth + self._errors[now // 24]


def walk(days: int) -> DemandSeries:
    return series_of(wandering(days, step=10.0, level=3_000.0))


def rolled_with(series: DemandSeries, *candidates: Told) -> Rolled:
    return roll_to_end(series, [LastValue(), Yesterday(), *candidates], horizon=24, calendar=UTC_DAYS)


def test_a_better_candidate_takes_over_after_two_weeks_and_no_sooner() -> None:
    series = walk(40)
    rolled = rolled_with(series, Told("oracle", series.gpus, [1.0] * 41))
    picks = select(rolled).picks
    assert set(picks[:LEAST_ORIGINS]) == {"last value"}
    assert set(picks[LEAST_ORIGINS:]) == {"oracle"}


def test_a_champion_that_loses_hands_over_to_the_baseline_and_says_so() -> None:
    series = walk(60)
    fine, lost = 30, 30
    rolled = rolled_with(series, Told("oracle", series.gpus, [1.0] * fine + [400.0] * (lost + 1)))
    selection = select(rolled)
    first_back = selection.picks.index("last value", fine - 3)
    assert selection.picks[fine - 1] == "oracle"
    assert first_back < fine + 8
    assert "oracle no longer beats last value" in selection.reasons[first_back]
    made = forecast_of(rolled, calendar=UTC_DAYS, made_at=series.end)
    assert made.forecaster == "last value"
    assert "no candidate beats last value with confidence" in made.fallback


def test_a_candidate_that_only_wins_by_luck_is_hardly_ever_let_in() -> None:
    """As good as last value on average: it must win by more than chance explains."""
    picks: list[str] = []
    for seed in range(12):
        series = series_of(wandering(60, seed=seed, step=10.0, level=3_000.0))
        base = roll_to_end(series, [LastValue(), Yesterday()], horizon=24, calendar=UTC_DAYS)
        typical = float(np.nanmean(base.misses("last value")))
        errors = np.random.default_rng(100 + seed).normal(0, 1.25 * typical, 61)  # its mean size is `typical`
        picks += select(rolled_with(series, Told("lucky", series.gpus, errors.tolist()))).picks[LEAST_ORIGINS:]
    assert picks.count("lucky") / len(picks) < 0.15  # by the mean alone it would be about half of the days


def test_a_rival_must_be_clearly_better_than_the_champion() -> None:
    series = walk(50)
    first = Told("first", series.gpus, [10.0] * 51)
    close = Told("close", series.gpus, [10.0] * 25 + [9.9] * 26)
    clear = Told("clear", series.gpus, [10.0] * 25 + [2.0] * 26)
    assert set(select(rolled_with(series, first, close)).picks) == {"last value", "first"}
    assert select(rolled_with(series, close)).picks[-1] == "close"
    assert select(rolled_with(series, first, clear)).picks[-1] == "clear"


def test_a_plain_daily_rhythm_makes_yesterday_the_baseline_within_days() -> None:
    made = forecast_series(series_of(noisy(office_days(6), spread=0.5)), calendar=UTC_DAYS, made_at=MONDAY, horizon=24)
    assert made.forecaster == "same hour yesterday"
    assert np.abs(made.gpus[0.5] - office_days(1)).max() < 5


def test_a_walk_is_left_to_last_value() -> None:
    series = walk(30)
    made = forecast_series(series, calendar=UTC_DAYS, made_at=series.end, horizon=24)
    assert made.forecaster == "last value"
    assert np.allclose(made.gpus[0.5], series.gpus[-1])


def test_a_rhythm_is_seen_by_a_model_after_weeks() -> None:
    series = series_of(noisy(office_days(35, weekend=8.0)))
    made = forecast_series(series, calendar=UTC_DAYS, made_at=series.end, horizon=48)
    assert made.fallback == ""
    assert made.forecaster not in ("last value", "same hour yesterday")
    assert np.abs(made.gpus[0.5] - office_days(2)).max() < 8
    assert np.isfinite(made.score)


def test_the_champion_of_an_origin_knows_nothing_of_later_ones() -> None:
    series = series_of(noisy(office_days(50, weekend=8.0)))
    changed = series.gpus.copy()
    changed[40 * 24 :] = 500.0
    origins = list(range(24, 49 * 24, 24))
    before = select(roll(series, cheap_candidates(), origins=origins, horizon=24, calendar=UTC_DAYS))
    after = select(roll(series_of(changed), cheap_candidates(), origins=origins, horizon=24, calendar=UTC_DAYS))
    known = sum(origin <= 40 * 24 for origin in origins)
    assert before.picks[:known] == after.picks[:known]
    assert before.reasons[:known] == after.reasons[:known]


def test_a_candidate_that_is_silent_at_the_end_does_not_speak() -> None:
    series = walk(40)

    class Silent(Told):
        def predict(self, series: DemandSeries, *, horizon: int, calendar: Calendar) -> Floats:
            if len(series.gpus) == 40 * 24:
                raise ValueError("needs a rest")
            return super().predict(series, horizon=horizon, calendar=calendar)

    rolled = rolled_with(series, Silent("oracle", series.gpus, [1.0] * 41))
    made = forecast_of(rolled, calendar=UTC_DAYS, made_at=series.end)
    assert made.forecaster == "last value"
    assert made.fallback.startswith("oracle: needs a rest")


def test_windows_with_an_outage_are_not_scored() -> None:
    values, marked = office_days(30), np.zeros(720, dtype=np.bool_)
    marked[20 * 24 + 3 : 20 * 24 + 9] = True
    rolled = roll_to_end(series_of(values, marked=marked), cheap_candidates(), horizon=24, calendar=UTC_DAYS)
    origin_days = [origin // 24 for origin in rolled.origins]
    assert not rolled.usable[origin_days.index(20)]
    assert rolled.usable[origin_days.index(19)]
    assert rolled.excluded == 1


def test_the_same_series_gives_the_same_forecast_and_the_cutoff_is_its_end() -> None:
    series = series_of(noisy(office_days(20)))
    first, again = (
        forecast_series(series, calendar=UTC_DAYS, made_at=series.end, horizon=30, candidates=default_candidates())
        for _ in range(2)
    )
    assert first.cutoff == series.end == MONDAY + timedelta(days=20)
    assert first.id == again.id
    assert all(np.array_equal(first.gpus[q], again.gpus[q]) for q in first.gpus)
    assert first.peaks == again.peaks


@pytest.mark.parametrize("days", [0.2, 1, 2, 3, 8, 14])
def test_short_records_are_forecast_too_and_say_what_is_missing(days: float) -> None:
    series = cut(series_of(noisy(office_days(15))), int(days * 24))
    made = forecast_series(series, calendar=UTC_DAYS, made_at=series.end, horizon=48)
    assert made.forecaster in ("last value", "same hour yesterday")
    assert "past days can be scored" in made.fallback
    assert ("rule of thumb" in made.fallback) == (days < 7)
    assert made.gpus[0.95].min() >= made.gpus[0.5].min() > 0
