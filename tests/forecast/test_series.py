"""Demand from jobs: exact, from eligibility on, gaps are gaps."""

import time
from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from forecast.forecaster import DemandSeries
from forecast.series import (
    JobArrays,
    collapses,
    demand_series,
    mark,
    resample,
    series_from_steps,
    sum_of,
    team_series,
    with_gaps,
)
from tests.builders_history import MONDAY, MONDAY_S, NAN, hour, jobs_of

INF = float("inf")


def demand(jobs: JobArrays, *, hours: float = 6, step_s: int = 3600) -> DemandSeries:
    return demand_series(jobs, key="total", step_s=step_s, start=MONDAY, end=hour(hours))


def test_pending_and_running_gpus_are_demand_from_submission_to_end() -> None:
    assert demand(jobs_of((8, 1, NAN, 2, 4))).gpus.tolist() == [0, 8, 8, 8, 0, 0]


def test_held_job_is_demand_only_from_when_it_may_start() -> None:
    assert demand(jobs_of((8, 0, 3, 4, 5))).gpus.tolist() == [0, 0, 0, 8, 8, 0]


def test_job_that_never_became_eligible_is_no_demand() -> None:
    assert demand(jobs_of((8, 0, INF, NAN, 5))).gpus.tolist() == [0] * 6


def test_running_job_is_demand_even_if_its_eligibility_is_written_later_than_its_start() -> None:
    assert demand(jobs_of((8, 0, 4, 1, 3))).gpus.tolist() == [0, 8, 8, 0, 0, 0]


def test_job_still_running_at_the_end_of_the_record_wants_gpus_to_the_end() -> None:
    assert demand(jobs_of((4, 2, NAN, 2, NAN), (2, 5, NAN, NAN, NAN))).gpus.tolist() == [0, 0, 4, 4, 4, 6]


def test_step_holds_its_maximum_not_its_mean() -> None:
    assert demand(jobs_of((16, 1.25, NAN, 1.25, 1.3), (4, 0, NAN, 0, 3))).gpus.tolist() == [4, 20, 4, 0, 0, 0]


def test_job_that_ends_as_the_next_starts_does_not_make_a_false_peak() -> None:
    assert demand(jobs_of((8, 0, NAN, 0, 1.5), (8, 1.5, NAN, 1.5, 3))).gpus.tolist() == [8, 8, 8, 0, 0, 0]


def test_job_from_before_the_span_counts_from_its_first_step() -> None:
    assert demand(jobs_of((3, -50, NAN, -49, 2))).gpus.tolist() == [3, 3, 0, 0, 0, 0]


def test_no_jobs_give_zeros_and_constant_jobs_a_constant() -> None:
    """F025 (b) and (d)."""
    assert demand(jobs_of()).gpus.tolist() == [0] * 6
    assert demand(jobs_of((7, -1, NAN, -1, NAN))).gpus.tolist() == [7] * 6


def test_outlier_is_kept_as_it_was_seen_and_touches_no_other_step() -> None:
    """F025 (e): 5,000 GPUs for a moment do happen; the forecaster weighs them, the record keeps them."""
    series = demand(jobs_of((50, 0, NAN, 0, 6), (4950, 2.1, NAN, NAN, 2.2)))
    assert series.gpus.tolist() == [50, 50, 5000, 50, 50, 50]


def test_known_gaps_are_nan_and_never_zero() -> None:
    series = demand_series(
        jobs_of((8, 0, NAN, 0, 6)), key="x", step_s=3600, start=MONDAY, end=hour(6), gaps=[(hour(1.5), hour(3))]
    )
    assert series.gaps.tolist() == [False, True, True, False, False, False]
    assert np.isnan(series.gpus[1:3]).all()


def test_span_that_is_not_on_the_grid_is_widened_to_it() -> None:
    series = demand_series(jobs_of(), key="x", step_s=3600, start=hour(0.5), end=hour(2.1))
    assert (series.start, len(series.gpus), series.end) == (MONDAY, 3, hour(3))


@pytest.mark.parametrize(
    ("start", "end", "step_s", "complaint"),
    [
        (datetime(2026, 3, 2), hour(1), 3600, "aware"),  # noqa: DTZ001
        (hour(1), hour(0), 3600, "nothing lies between"),
        (hour(0), hour(1), 0, "too short"),
    ],
)
def test_senseless_span_is_refused(start: datetime, end: datetime, step_s: int, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        demand_series(jobs_of(), key="x", step_s=step_s, start=start, end=end)


def test_job_columns_of_different_length_are_refused() -> None:
    two, one = np.zeros(2), np.zeros(1)
    with pytest.raises(ValueError, match="differ in length"):
        JobArrays(gpus=two, submit_s=two, eligible_s=two, start_s=one, end_s=two)


def test_teams_are_told_apart_and_jobs_without_team_belong_to_none() -> None:
    jobs = jobs_of((8, 0, NAN, 0, 2), (4, 0, NAN, 0, 1), (2, 0, NAN, 0, 1))
    teams = team_series(jobs, ["a", "b", ""], step_s=3600, start=MONDAY, end=hour(2))
    assert {name: series.gpus.tolist() for name, series in teams.items()} == {"a": [8, 8], "b": [4, 0]}


def test_resampling_takes_the_maximum_and_a_gap_only_where_nothing_is_known() -> None:
    gpus = np.array([1, 9, *[NAN] * 5, 4, *[NAN] * 10])
    fine = series_from_steps("x", times_s=MONDAY_S + 600.0 * np.arange(18), gpus=gpus, step_s=600)
    hourly = resample(mark(fine, [(hour(1.5), hour(1.6))]), 3600)
    assert hourly.gpus[:2].tolist() == [9, 4]
    assert hourly.gaps.tolist() == [False, False, True]
    assert hourly.marked.tolist() == [False, True, False]


def test_resampling_from_inside_an_hour_starts_on_the_hour() -> None:
    fine = series_from_steps("x", times_s=MONDAY_S + 1800 + 600.0 * np.arange(6), gpus=np.arange(6.0), step_s=600)
    hourly = resample(fine, 3600)
    assert (hourly.start, hourly.gpus.tolist()) == (MONDAY, [2, 5])
    with pytest.raises(ValueError, match="multiple"):
        resample(hourly, 5400)


def test_ready_made_steps_that_are_missing_or_negative_are_gaps() -> None:
    series = series_from_steps(
        "x", times_s=MONDAY_S + 3600 * np.array([0, 1, 4.0]), gpus=np.array([5, -2, 7.0]), step_s=3600
    )
    assert series.gaps.tolist() == [False, True, True, True, False]
    with pytest.raises(ValueError, match="at least one"):
        series_from_steps("x", times_s=np.array([]), gpus=np.array([]), step_s=3600)


def test_gap_of_one_team_is_a_gap_of_the_sum() -> None:
    a = series_from_steps("a", times_s=MONDAY_S + 3600.0 * np.arange(4), gpus=np.array([1, NAN, 3, 4]), step_s=3600)
    b = series_from_steps("b", times_s=MONDAY_S + 3600.0 * np.arange(1, 4), gpus=np.array([10, 20, 30.0]), step_s=3600)
    both = sum_of([a, b])
    assert both.start == hour(1)
    assert both.gaps.tolist() == [True, False, False]
    assert both.gpus[1:].tolist() == [23, 34]


def test_marks_touch_every_step_of_a_span_and_nothing_outside() -> None:
    series = mark(demand(jobs_of()), [(hour(1.5), hour(2.5)), (hour(-9), hour(-8)), (hour(5.9), hour(99))])
    assert series.marked.tolist() == [False, True, True, False, False, True]
    assert with_gaps(series, []).gaps.sum() == 0


def test_hundred_thousand_jobs_take_well_under_a_second() -> None:
    rng = np.random.default_rng(1)
    submit = MONDAY_S + rng.uniform(0, 180 * 86_400, 125_000)
    jobs = JobArrays(
        gpus=rng.integers(1, 65, 125_000).astype(float),
        submit_s=submit,
        eligible_s=np.full(125_000, NAN),
        start_s=submit + 60,
        end_s=submit + rng.exponential(20_000, 125_000),
    )
    before = time.process_time()
    demand_series(jobs, key="total", step_s=600, start=MONDAY, end=MONDAY + timedelta(days=181))
    assert time.process_time() - before < 1.0


minutes = st.integers(0, 600)
job = st.tuples(st.integers(1, 64), minutes, st.integers(0, 90), st.integers(1, 300))


@given(st.lists(job, max_size=30))
def test_integral_of_fine_demand_is_the_gpu_time_of_the_jobs(rows: list[tuple[int, int, int, int]]) -> None:
    jobs = jobs_of(*[(g, s / 60, NAN, (s + w) / 60, (s + w + r) / 60) for g, s, w, r in rows])
    fine = demand(jobs, hours=20, step_s=60)
    assert fine.gpus.sum() * 60 == pytest.approx(sum(g * (w + r) * 60 for g, _, w, r in rows))
    assert (fine.gpus >= 0).all()


@given(st.lists(job, max_size=30), st.sampled_from([300, 1800, 3600, 7200]))
def test_coarse_step_is_the_maximum_of_its_fine_ones(rows: list[tuple[int, int, int, int]], step_s: int) -> None:
    jobs = jobs_of(*[(g, s / 60, NAN, (s + w) / 60, (s + w + r) / 60) for g, s, w, r in rows])
    coarse, fine = demand(jobs, hours=20, step_s=step_s), demand(jobs, hours=20, step_s=60)
    assert coarse.gpus.tolist() == resample(fine, step_s).gpus.tolist()
    assert coarse.gpus.mean() >= fine.gpus.mean() - 1e-9


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e6)), min_size=1, max_size=60), st.sampled_from([1, 2, 3, 6]))
def test_gap_never_becomes_a_number_by_resampling(values: list[float | None], ratio: int) -> None:
    gpus = np.array([NAN if value is None else value for value in values])
    series = series_from_steps("x", times_s=MONDAY_S + 600.0 * np.arange(len(gpus)), gpus=gpus, step_s=600)
    coarse = resample(series, 600 * ratio)
    assert (np.isnan(coarse.gpus) == coarse.gaps).all()
    assert np.nansum(coarse.gpus > 0) <= np.sum(gpus > 0)
    for row, gap in enumerate(coarse.gaps):
        assert gap == np.isnan(gpus[row * ratio : (row + 1) * ratio]).all()


def weeks_of_work(weeks: int, *, weekend: float = 0.0) -> NDArray[np.float64]:
    """Hours of a site that runs 100 GPUs on weekdays."""
    return np.tile(np.concatenate([np.full(120, 100.0), np.full(48, weekend)]), weeks)


def hourly(gpus: NDArray[np.float64]) -> DemandSeries:
    return series_from_steps("x", times_s=MONDAY_S + 3600.0 * np.arange(len(gpus)), gpus=gpus, step_s=3600)


def test_outage_of_the_site_is_found_and_quiet_weekends_are_none() -> None:
    gpus = weeks_of_work(6)
    assert collapses(hourly(gpus)) == ()
    gpus[168 * 4 + 30 : 168 * 4 + 44] = 0.0
    first = hour(168 * 4 + 30)
    assert collapses(hourly(gpus)) == ((first, first + timedelta(hours=14)),)


def test_outage_is_told_from_the_past_alone() -> None:
    gpus = weeks_of_work(6, weekend=80.0)
    gpus[168 * 3 + 5 : 168 * 3 + 9] = 1.0
    assert collapses(hourly(gpus)) == collapses(hourly(gpus[: 168 * 3 + 9]))
    assert collapses(hourly(gpus[: 168 * 2])) == ()


def test_gap_is_no_outage() -> None:
    gpus = weeks_of_work(6, weekend=80.0)
    gpus[168 * 3 + 5 : 168 * 3 + 9] = NAN
    assert collapses(hourly(gpus)) == ()


def test_grid_of_centuries_is_refused_before_it_takes_the_memory() -> None:
    with pytest.raises(ValueError, match="is a date wrong"):
        demand_series(jobs_of(), key="x", step_s=60, start=MONDAY, end=MONDAY + timedelta(days=365 * 200))
    with pytest.raises(ValueError, match="is a date wrong"):
        series_from_steps("x", times_s=np.array([0.0, 4e9]), gpus=np.ones(2), step_s=60)
