"""The made-up desk: same seed same jobs, shapes as published."""

from datetime import timedelta
from itertools import islice, takewhile

import numpy as np
import pytest

from elastic.history_demand import demand_of
from forecast.series import TOTAL
from providers.history.sample import sample_history
from providers.sim.workload import HOURS, TEAMS, DeskTeam, WorkloadJob, desk_workload, generate_workload
from tests.builders_history import MONDAY


@pytest.fixture(scope="module")
def jobs() -> list[WorkloadJob]:
    return desk_workload(start=MONDAY, days=28, seed=1)


def test_same_seed_gives_the_same_jobs_and_another_seed_others(jobs: list[WorkloadJob]) -> None:
    assert desk_workload(start=MONDAY, days=28, seed=1) == jobs
    assert desk_workload(start=MONDAY, days=2, seed=2) != desk_workload(start=MONDAY, days=2, seed=1)


def test_endless_stream_is_the_same_and_can_begin_on_any_day(jobs: list[WorkloadJob]) -> None:
    assert list(islice(generate_workload(start=MONDAY, seed=1), len(jobs))) == jobs
    later = MONDAY + timedelta(days=10, hours=5)
    expected = [job for job in jobs if job.submit_s >= later.timestamp()]
    end_s = (MONDAY + timedelta(days=28)).timestamp()
    assert list(takewhile(lambda job: job.submit_s < end_s, generate_workload(start=later, seed=1))) == expected


def test_jobs_come_in_order_with_ids_of_their_own(jobs: list[WorkloadJob]) -> None:
    assert [job.submit_s for job in jobs] == sorted(job.submit_s for job in jobs)
    assert len({job.job_id for job in jobs}) == len(jobs)
    assert all(job.nodes == -(-job.gpus // 8) and job.duration_s >= 10 for job in jobs)


def test_office_opening_is_the_peak_and_night_the_low_by_each_team_own_clock() -> None:
    team = DeskTeam(name="futures", zone="Asia/Shanghai", jobs_per_day=2000, users=5)
    jobs = desk_workload(start=MONDAY, days=5, seed=3, teams=(team,))
    local = np.bincount([int((job.submit_s // 3600 + 8) % 24) for job in jobs], minlength=24)
    assert local.argmax() == int(np.argmax(HOURS))
    assert local[1:6].mean() < 0.35 * local.mean()


def test_weekends_are_quiet(jobs: list[WorkloadJob]) -> None:
    days = np.bincount([int((job.submit_s - MONDAY.timestamp()) // 86_400) % 7 for job in jobs])
    assert days[5:].mean() < 0.7 * days[:5].mean()


def test_most_jobs_are_small_but_gangs_take_most_gpu_hours(jobs: list[WorkloadJob]) -> None:
    gpus, run = np.array([job.gpus for job in jobs]), np.array([job.duration_s for job in jobs])
    assert np.mean(gpus == 1) > 0.5
    assert (gpus * run)[gpus >= 8].sum() > 0.6 * (gpus * run).sum()
    assert np.quantile(run, 0.99) > 30 * np.median(run)


def test_few_users_send_most_jobs(jobs: list[WorkloadJob]) -> None:
    _, counts = np.unique([job.user for job in jobs], return_counts=True)
    assert np.sort(counts)[-len(TEAMS) :].sum() > 0.35 * len(jobs)


def test_no_gang_is_larger_than_asked_and_giants_come_only_where_they_may() -> None:
    assert max(job.gpus for job in desk_workload(start=MONDAY, days=20, seed=1, largest_nodes=2)) == 16
    giants = [
        job for job in desk_workload(start=MONDAY, days=400, seed=1, scale=0.01, largest_nodes=1000) if job.nodes > 16
    ]
    assert 1 <= len(giants) <= 20
    assert max(job.nodes for job in giants) <= 1000


def test_no_days_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one day"):
        desk_workload(start=MONDAY, days=0, seed=1)


def test_sample_history_has_a_daily_rhythm_and_an_open_end() -> None:
    history = sample_history(start=MONDAY, days=28, seed=1)
    demand = demand_of(history)
    assert set(demand) == {TOTAL, *(team.name for team in TEAMS)}
    hours = demand[TOTAL].gpus[: 27 * 24].reshape(27, 24)
    assert hours[:, 8:16].mean() > 1.15 * hours[:, 20:24].mean()
    assert set(history.jobs["state"]) >= {"completed", "running"}
    assert history.jobs["end_s"].isna().any()
    assert "made up" in history.report.notes[0]
