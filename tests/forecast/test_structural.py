"""The structural forecast: jobs of now by age, arrivals by hour; nothing of what happens after the cutoff."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from forecast.past import cut
from forecast.series import JobArrays
from forecast.structural import LEVELS, JobPast, PresentJob, Structural, expected_arrivals, present_quantiles
from tests.builders_forecast import MONDAY, UTC_DAYS, series_of, with_holidays
from tests.builders_forecast_jobs import desk_jobs

JOBS, SERIES = desk_jobs(days=30)
NO_TEAMS = np.full(len(JOBS.gpus), "", dtype=object)


def past(jobs: JobArrays = JOBS) -> JobPast:
    return JobPast(jobs, np.full(len(jobs.gpus), "", dtype=object))


def test_ends_and_starts_after_the_cutoff_change_nothing() -> None:
    known = cut(SERIES, 20 * 24 + 14)
    cutoff_s = known.end.timestamp()
    submitted = JOBS.submit_s <= cutoff_s
    later = JOBS.end_s > cutoff_s
    other = replace(
        JOBS.of(submitted),
        end_s=np.where(later, cutoff_s + 1e6, JOBS.end_s)[submitted],
        start_s=np.where(JOBS.start_s > cutoff_s, np.nan, JOBS.start_s)[submitted],
    )
    said = [Structural(past(jobs).inputs_at).predict(known, horizon=24, calendar=UTC_DAYS) for jobs in (JOBS, other)]
    assert np.array_equal(said[0], said[1])


def test_it_follows_a_desk_better_than_the_last_value_does() -> None:
    structural = Structural(past().inputs_at)
    errors, flat = [], []
    for origin in range(15 * 24 + 8, 28 * 24, 24):
        known, came = cut(SERIES, origin), SERIES.gpus[origin : origin + 24]
        errors.append(np.abs(structural.predict(known, horizon=24, calendar=UTC_DAYS) - came).mean())
        flat.append(np.abs(known.gpus[-1] - came).mean())
    assert np.mean(errors) < 0.7 * np.mean(flat)


def test_asking_an_earlier_cutoff_afterwards_gives_the_same() -> None:
    early, late = cut(SERIES, 15 * 24), cut(SERIES, 25 * 24)
    one, two = past(), past()
    first = one.inputs_at(early)
    two.inputs_at(late)
    again = two.inputs_at(early)
    assert np.array_equal(first.left_s, again.left_s)
    assert np.array_equal(first.fresh_left_s, again.fresh_left_s)


def test_the_jobs_present_at_the_cutoff_are_those_that_make_its_demand() -> None:
    cutoff = MONDAY + timedelta(days=20, hours=14)
    inputs = past().inputs_at(cut(SERIES, 20 * 24 + 14))
    begin, end = JOBS.wanted_spans()
    wanted = (begin < cutoff.timestamp()) & (end > cutoff.timestamp())
    assert inputs.gpus.sum() == JOBS.gpus[wanted].sum()
    assert inputs.left_s.shape == (wanted.sum(), len(LEVELS))


def test_a_team_is_made_of_its_own_jobs() -> None:
    teams = np.where(np.arange(len(JOBS.gpus)) % 2, "a", "b").astype(object)
    split = JobPast(JOBS, teams)
    known = cut(SERIES, 20 * 24)
    parts = [split.inputs_at(replace(known, key=team)) for team in ("a", "b")]
    whole = split.inputs_at(known)
    assert sum(part.gpus.sum() for part in parts) == whole.gpus.sum()
    assert np.allclose(np.sum([part.arrivals.gpus for part in parts], axis=0), whole.arrivals.gpus)


def test_long_ages_mean_long_left() -> None:
    model = past()._model_at((MONDAY + timedelta(days=28)).timestamp())
    young, old = (PresentJob(team="", job_class="", gpus=2, name="", age_s=age) for age in (60.0, 20_000.0))
    left = present_quantiles([young, old], model)
    middle = LEVELS.index(0.55)
    assert left[1, middle] > 3 * left[0, middle]


def test_arrivals_are_expected_by_hour_and_day_type() -> None:
    hours = np.tile(np.where(np.arange(24) == 9, 48.0, 0.0), 28)
    hours[26 * 24 : 28 * 24] = 0.0  # a weekend
    hours[5 * 24 : 7 * 24] = hours[12 * 24 : 14 * 24] = hours[19 * 24 : 21 * 24] = 0.0
    expected = expected_arrivals(series_of(hours), horizon=6 * 24, calendar=with_holidays())
    assert expected[9] == pytest.approx(48.0)
    assert expected[10] == 0.0
    assert expected[5 * 24 :].max() == 0.0  # Saturday


def test_too_few_jobs_are_refused() -> None:
    few = JOBS.of(np.arange(len(JOBS.gpus)) < 10)
    with pytest.raises(ValueError, match="needs two days of jobs"):
        Structural(past(few).inputs_at).predict(SERIES, horizon=24, calendar=UTC_DAYS)
