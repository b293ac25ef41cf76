"""Slurm accounting in its spellings."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from elastic.history_demand import demand_of, job_arrays
from providers.history import History, HistoryError, ReadOptions, detect_kind, load_history, read_history
from providers.history.sacct_records import array_tasks, count, duration_s, gres, memory_gib, tres
from tests.builders_history import at, write_text

SAMPLES = Path(__file__).parent / "history_samples"
NINE = at(9)
HEADER = "JobID|State|Submit|Eligible|Start|End|AllocTRES|ReqTRES"


def text_jobs() -> pd.DataFrame:
    return load_history(SAMPLES / "desk.sacct.txt").jobs.set_index("job_id")


def one(folder: Path, *rows: str, header: str = HEADER, zone: str | None = None) -> History:
    return read_history("sacct", [write_text(folder / "s.txt", header, *rows)], options=ReadOptions(zone=zone))


def test_steps_are_not_jobs_and_jobs_without_gpus_are_left_out() -> None:
    history = load_history(SAMPLES / "desk.sacct.txt")
    assert {d.reason: d.rows for d in history.report.dropped} == {"job step, not a job": 2, "asks for no GPUs": 1}
    assert not any("." in job_id for job_id in history.jobs["job_id"])


def test_typed_and_untyped_gpus_are_not_counted_twice() -> None:
    job = text_jobs().loc["101"]
    assert (job.gpus, job.gpu_model, job.cpus, job.memory_gib, job.team) == (8, "a100", 96, 800.0, "rates")


def test_waiting_array_tasks_are_jobs_of_their_own() -> None:
    jobs = text_jobs()
    assert jobs.loc[["102_2", "102_3", "102_4"], "gpus"].tolist() == [1, 1, 1]
    assert jobs.loc["102_1", "gpus"] == 1


def test_heterogeneous_job_is_one_gang() -> None:
    job = text_jobs().loc["103"]
    assert (job.gpus, job.nodes, job.end_s) == (24, 3, NINE + 32 * 60)


def test_job_cancelled_while_held_was_never_demand() -> None:
    history = load_history(SAMPLES / "desk.sacct.txt")
    job = history.jobs.set_index("job_id").loc["104"]
    assert (job.pending_reason, np.isnan(job.start_s)) == ("held", True)
    row = history.jobs["job_id"].tolist().index("104")
    assert job_arrays(history.jobs).wanted_spans()[0][row] == float("inf")


def test_dependent_job_is_demand_from_its_eligibility() -> None:
    history = load_history(SAMPLES / "desk.sacct.txt")
    row = history.jobs["job_id"].tolist().index("105")
    assert job_arrays(history.jobs).wanted_spans()[0][row] == at(10) + 300
    assert demand_of(history)["rates"].gpus[1] == 8 + 0  # 10:00 to 11:00: 101 until 10:05, then 105


def test_running_job_has_no_end_yet() -> None:
    job = text_jobs().loc["107"]
    assert (job.state, np.isnan(job.end_s), job.start_s) == ("running", True, at(12) + 5)


def test_json_of_old_and_new_versions_is_read() -> None:
    assert detect_kind(SAMPLES / "desk.sacct.json") == "sacct"
    jobs = load_history(SAMPLES / "desk.sacct.json").jobs.set_index("job_id")
    assert (jobs.loc["201", "gpus"], jobs.loc["201", "memory_gib"], jobs.loc["201", "end_s"]) == (8, 800.0, NINE + 3900)
    assert (jobs.loc["202_5", "gpus"], jobs.loc["202_5", "gpu_model"]) == (2, "a100")
    assert (jobs.loc["202_5", "pending_reason"], jobs.loc["202_5", "state"]) == ("dependency", "pending")


def test_local_times_are_read_in_the_zone_that_is_said(tmp_path: Path) -> None:
    row = "1|COMPLETED|2026-03-02T17:00:00|2026-03-02T17:00:00|2026-03-02T17:00:00|2026-03-02T18:00:00|gres/gpu=1|"
    assert one(tmp_path, row, zone="Asia/Shanghai").jobs.loc[0, "submit_s"] == NINE
    assert "read as UTC" in one(tmp_path, row).report.notes[0]


def test_requeued_run_of_the_same_id_is_a_job_of_its_own_and_waits_from_the_first_end(tmp_path: Path) -> None:
    """sacct -D shows both runs of a job whose node failed."""
    first = "2|NODE_FAIL|2026-03-02T09:00:00|2026-03-02T09:00:00|2026-03-02T09:00:00|2026-03-02T09:30:00|gres/gpu=8|"
    later = "2|COMPLETED|2026-03-02T09:00:00|2026-03-02T09:00:00|2026-03-02T10:00:00|2026-03-02T11:00:00|gres/gpu=8|"
    history = one(tmp_path, first, later, later)
    assert history.jobs["job_id"].tolist() == ["2", "2~2"]
    assert history.jobs.loc[1, "eligible_s"] == NINE + 1800
    assert demand_of(history)["total"].gpus.tolist() == [8, 8]
    assert [d.reason for d in history.report.dropped] == ["job id seen before"]


def test_old_gres_columns_are_per_node(tmp_path: Path) -> None:
    header = "JobID|Submit|Start|End|NNodes|ReqMem|NCPUS|AllocGRES"
    row = "1|2026-03-02T09:00:00|2026-03-02T09:00:00|2026-03-02T10:00:00|2|4000Mc|16|gpu:tesla:4"
    job = one(tmp_path, row, header=header).jobs.iloc[0]
    assert (job.gpus, job.nodes, job.memory_gib, job.gpu_model) == (8, 2, 62.5, "tesla")


@pytest.mark.parametrize(
    ("text", "gib"),
    [("64G", 64), ("4000M", 3.90625), ("1T", 1024), ("1048576K", 1), ("2048", 2), ("16Gn", 32), ("2Gc", 16)],
)
def test_memory_in_every_suffix(text: str, gib: float) -> None:
    assert memory_gib(text, cpus=8, nodes=2) == gib


@pytest.mark.parametrize(
    ("text", "seconds"), [("1-02:03:04", 93784), ("02:03:04", 7384), ("03:04", 184), ("03:04.250", 184), ("59", 59)]
)
def test_durations_in_every_form(text: str, seconds: float) -> None:
    assert duration_s(text) == seconds


def test_counts_and_gres_in_every_form() -> None:
    assert (count("2K"), tres("gres/gpu:a100=2,gres/gpu:v100=1").gpus, tres("").gpus) == (2000, 3, None)
    assert [
        gres(text, nodes=2).gpus for text in ("gpu:8", "gres:gpu:4", "gpu:a100:2(S:0-1)", "gres/gpu=3", "lic:1")
    ] == [
        16,
        8,
        4,
        6,
        None,
    ]


@pytest.mark.parametrize("text", ["12_[1-99999999]", "12_[1-3:0]", "12_[-]", "12_[" + "9" * 5000 + "]"])
def test_array_too_long_or_broken_is_refused(text: str) -> None:
    with pytest.raises((ValueError, OverflowError)):
        array_tasks(text)


def test_broken_fields_are_counted_not_used(tmp_path: Path) -> None:
    good = "2026-03-02T09:00:00|2026-03-02T09:00:00|2026-03-02T09:00:00|2026-03-02T10:00:00"
    history = one(
        tmp_path,
        f"1|COMPLETED|{good}|gres/gpu=eight|",
        f"2_[1-99999999]|PENDING|{good}|gres/gpu=1|",
        "3|COMPLETED|yesterday|x|y|z|gres/gpu=1|",
        f"4|COMPLETED|{good}|gres/gpu=1|",
        "5|COMPLETED",
    )
    assert history.jobs["job_id"].tolist() == ["4"]
    assert sum(d.rows for d in history.report.dropped) == 4


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (("JobID|State|Start|AllocTRES|Submitted",), "no column Submit.*Nearest: Submitted"),
        (("JobID|Submit|State|Start",), "no column tells the GPUs.*AllocTRES"),
        (("JobID|Submit|AllocTRES|",), "--parsable2"),
        (('{"jobs": [', '{"job_id": 1'), "no whole JSON"),
        (('{"meta": {}}',), "no list of jobs"),
        (('{"jobs": [3]}',), r"jobs\[0\]"),
    ],
)
def test_wrong_export_is_refused_with_what_to_do(tmp_path: Path, lines: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(HistoryError, match=complaint):
        read_history("sacct", [write_text(tmp_path / "s.txt", *lines)])
