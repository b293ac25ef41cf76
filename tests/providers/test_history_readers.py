"""Every kind of history is read into the same columns."""

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from elastic.history_demand import demand_of, ran_jobs
from providers.history import KINDS, HistoryError, ReadOptions, detect_kind, load_history, read_history, write_history
from tests.builders_history import at, csv_of, shared_file, write_text

SAMPLES = Path(__file__).parent / "history_samples"
NINE = at(9)  # Monday 2026-03-02T09:00Z


def test_swf_times_count_from_its_header_and_processors_become_gpus() -> None:
    history = read_history("swf", [SAMPLES / "desk.swf"], options=ReadOptions(cpus_per_gpu=4))
    first = history.jobs.iloc[0]
    assert (first.submit_s, first.start_s, first.end_s) == (NINE, NINE + 60, NINE + 3660)
    assert (first.gpus, first.cpus, first.memory_gib) == (2, 8, 8.0)
    assert (first.user, first.team, first.job_class, first["name"]) == ("3", "1", "2", "7")


def test_swf_job_that_follows_another_is_eligible_when_that_ended() -> None:
    jobs = read_history("swf", [SAMPLES / "desk.swf"]).jobs.set_index("job_id")
    assert jobs.loc["3", "eligible_s"] == NINE + 3660 + 30


def test_swf_part_lines_are_not_jobs_and_cancelled_ones_never_ran() -> None:
    history = read_history("swf", [SAMPLES / "desk.swf"])
    assert [d.reason for d in history.report.dropped] == ["part of a job told on another line"]
    assert np.isnan(history.jobs.set_index("job_id").loc["2", "start_s"])


def test_csv_with_a_bom_semicolons_and_decimal_commas_is_read() -> None:
    options = ReadOptions(
        columns={"job_id": "Job ID", "gpus": "NGPU", "submit_s": "Submitted", "start_s": "Begin", "end_s": "Finish"},
        zone="Europe/Berlin",
    )
    history = read_history("csv", [SAMPLES / "desk_excel.csv"], options=options)
    assert history.jobs["job_id"].tolist() == ["1", "2"]
    assert history.jobs["gpus"].tolist() == [8, 1]
    assert history.jobs["submit_s"].tolist() == [NINE - 3600, NINE]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiter_is_found_by_itself(tmp_path: Path, delimiter: str) -> None:
    rows = [delimiter.join(row) for row in (("job_id", "gpus", "submit"), ("a", "4", str(NINE)))]
    jobs = read_history("csv", [write_text(tmp_path / "x.csv", *rows)]).jobs
    assert (jobs.loc[0, "gpus"], jobs.loc[0, "submit_s"]) == (4, NINE)


@pytest.mark.parametrize(
    "written",
    [
        str(NINE),
        f"{NINE}000",
        f"{NINE}000000",
        "2026-03-02T09:00:00Z",
        "2026-03-02 10:00:00+01:00",
        "2026-03-02T17:00:00+0800",
        "2026-03-02 09:00:00 UTC",
        "2026/03/02 09:00:00",
    ],
)
def test_same_instant_is_understood_however_it_is_written(tmp_path: Path, written: str) -> None:
    path = write_text(tmp_path / "x.csv", "job_id,gpus,submit_time", f"1,4,{written}")
    assert read_history("csv", [path]).jobs.loc[0, "submit_s"] == NINE


def test_hour_that_happens_twice_is_its_first_and_one_that_never_happens_moves_on(tmp_path: Path) -> None:
    """DST: Berlin 2026-10-25 02:30 happens twice, 2026-03-29 02:30 never."""
    path = write_text(
        tmp_path / "x.csv", "job_id,gpus,submit_time", "1,4,2026-10-25 02:30:00", "2,4,2026-03-29 02:30:00"
    )
    jobs = read_history("csv", [path], options=ReadOptions(zone="Europe/Berlin")).jobs.set_index("job_id")
    assert jobs.loc["1", "submit_s"] == 1792888200  # 00:30Z, still summer time
    assert jobs.loc["2", "submit_s"] == 1774746000  # 01:00Z, the first instant of summer time


def test_duration_stands_in_for_a_missing_end(tmp_path: Path) -> None:
    path = write_text(tmp_path / "x.csv", "job_id,gpus,submit_time,start_time,duration", f"1,4,{NINE},{NINE + 10},60")
    assert read_history("csv", [path]).jobs.loc[0, "end_s"] == NINE + 70


def test_philly_jobs_run_from_their_submission_and_their_origin_is_told(tmp_path: Path) -> None:
    path = write_text(tmp_path / "p.csv", "vc,job_id,submit_s,gpus,duration_s", "vc_2,2-0,100,16,500")
    assert detect_kind(path) == "philly"
    history = read_history("philly", [path], options=ReadOptions(origin_s=float(NINE)))
    job = history.jobs.iloc[0]
    assert (job.team, job.submit_s, job.start_s, job.end_s) == ("vc_2", NINE + 100, NINE + 100, NINE + 600)
    assert any("--origin" in note for note in history.report.notes)


def test_openb_pods_that_share_a_gpu_count_as_one(tmp_path: Path) -> None:
    header = "pod,creation_s,scheduled_s,deletion_s,cpu_milli,mem_mib,num_gpu,gpu_milli,gpu_spec,qos,phase"
    path = write_text(
        tmp_path / "o.csv", header, "p1,0,5,60,6000,2048,1,460,,LS,Running", "p2,0,,60,1000,1,0,0,,BE,Pending"
    )
    assert detect_kind(path) == "alibaba-openb"
    history = read_history("alibaba-openb", [path])
    job = history.jobs.iloc[0]
    assert (len(history.jobs), job.gpus, job.cpus, job.memory_gib, job.job_class) == (1, 1, 6, 2.0, "LS")
    assert [d.reason for d in history.report.dropped] == ["asks for no GPUs"]


def test_helios_original_columns_are_read_in_the_trace_own_zone(tmp_path: Path) -> None:
    header = "job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"
    row = "7,u1,vcA,train,16,96,2,COMPLETED,2026-03-02 17:00:00,2026-03-02 17:10:00,2026-03-02 18:10:00,3600,600"
    path = write_text(tmp_path / "log.csv", header, row)
    assert detect_kind(path) == "helios"
    job = load_history(path).jobs.iloc[0]
    assert (job.submit_s, job.gpus, job.nodes, job.team, job["name"]) == (NINE, 16, 2, "vcA", "train")


def test_ready_made_series_keeps_its_gaps_and_drops_double_times(tmp_path: Path) -> None:
    path = write_text(
        tmp_path / "s.csv.gz",
        "time_utc,running_gpus_est,queued_gpus_est,capacity_gpus",
        "2026-03-02T00:00:00Z,10,5,20",
        "2026-03-02T00:10:00Z,10,,20",
        "2026-03-02T00:10:00Z,99,9,20",
        "2026-03-02T00:20:00Z,7,0,20",
        "2026-03-02T00:23:00Z,7,0,20",
    )
    history = load_history(path)
    assert history.series is not None
    assert (history.step_s, history.series["key"].unique().tolist()) == (600, ["total"])
    assert np.array_equal(history.series["gpus"], [15, np.nan, 7], equal_nan=True)
    assert {d.reason for d in history.report.dropped} == {"time seen before", "time not on the 600 s grid"}


def test_own_parquet_comes_back_as_it_was_with_its_report(tmp_path: Path) -> None:
    history = read_history("csv", [csv_of(tmp_path, f"a,rates,4,{NINE},{NINE},{NINE + 9}", f"b,fx,0,{NINE},,")])
    write_history(history, tmp_path / "h.parquet")
    again = load_history(tmp_path / "h.parquet")
    assert again.jobs.equals(history.jobs)
    assert (again.report, again.origin, again.series) == (history.report, history.origin, None)
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".part"] == []


def test_several_files_of_one_kind_are_one_history(tmp_path: Path) -> None:
    one = write_text(tmp_path / "1.csv", "job_id,gpus,submit_s", f"a,4,{NINE + 5}")
    two = write_text(tmp_path / "2.csv", "job_id,gpus,submit_s", f"b,4,{NINE}", f"a,4,{NINE + 5}")
    history = read_history("csv", [one, two])
    assert history.jobs["job_id"].tolist() == ["b", "a"]
    assert [(d.reason, d.examples) for d in history.report.dropped] == [("job id seen before", ("2.csv:3",))]


def test_unknown_kind_is_refused_with_the_kinds_there_are() -> None:
    with pytest.raises(HistoryError, match=r"no kind 'pbs'.*sacct"):
        read_history("pbs", ["x"])


@pytest.mark.parametrize(
    ("name", "kind", "jobs", "rows"),
    [
        ("helios_venus_jobs_reconstructed.csv.gz", "helios", 125_331, None),
        ("helios_earth_jobs_reconstructed_2020-05.csv.gz", "helios", 38_552, None),
        ("philly_vc12_jobs.csv.gz", "philly", 7_249, None),
        ("alibaba_openb_2023_pods.csv.gz", "alibaba-openb", 7_064, None),
        ("helios_venus_10min.csv.gz", "helios", 0, 26_064),
        ("helios_earth_vc_1min_2020-05.parquet", "helios", 0, 357_120),
    ],
)
def test_public_traces_are_known_by_their_columns_and_read_whole(
    name: str, kind: str, jobs: int, rows: int | None
) -> None:
    path = shared_file(name)
    assert detect_kind(path) == kind
    assert kind in KINDS
    history = load_history(path)
    assert (len(history.jobs), None if history.series is None else len(history.series)) == (jobs, rows)
    assert all(d.reason == "asks for no GPUs" for d in history.report.dropped)


def test_both_outages_of_a_public_trace_are_marked_and_little_else() -> None:
    """Helios Venus, 2020-05-09 and 2020-05-15: running falls to about 0 (the trace's own notes)."""
    total = demand_of(load_history(shared_file("helios_venus_10min.csv.gz")), outages=True)["total"]
    days = {f"{total.start + timedelta(hours=int(row)):%m-%d}" for row in np.flatnonzero(total.marked)}
    assert {"05-10", "05-16"} <= days
    assert min(days) >= "05-09"
    assert max(days) <= "05-16"  # the site hardly ran in the week between


def test_runtimes_known_at_an_instant_hold_nothing_of_what_came_later(tmp_path: Path) -> None:
    rows = (
        f"done,a,4,{NINE},{NINE},{NINE + 60}",
        f"runs,a,4,{NINE},{NINE + 10},{NINE + 9000}",
        f"later,a,4,{NINE + 500},,",
    )
    jobs = read_history("csv", [csv_of(tmp_path, *rows)]).jobs
    known = ran_jobs(jobs, until_s=NINE + 100)
    assert [(job.ran_s, job.ended) for job in known] == [(60, True), (90, False)]
    assert [(job.ran_s, job.ended) for job in ran_jobs(jobs, until_s=NINE + 99_999)] == [(60, True), (8990, True)]


def test_where_a_relative_clock_was_placed_is_kept_through_parquet(tmp_path):
    source = tmp_path / "p.csv"
    source.write_text("vc,job_id,submit_s,gpus,duration_s\nv,1,0,4,60\nv,2,30,4,60\n")
    read = read_history("philly", [source], options=ReadOptions(origin_s=1_600_000_000.0))
    assert (read.origin.zero_s, float(read.jobs.submit_s.min())) == (1_600_000_000.0, 1_600_000_000.0)
    write_history(read, tmp_path / "p.parquet")
    assert load_history(tmp_path / "p.parquet").origin.zero_s == 1_600_000_000.0
