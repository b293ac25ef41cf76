"""Histories as people really have them: broken rows are counted, broken files are refused with what to do."""

import gzip
import tracemalloc
from pathlib import Path

import pytest

from providers.history import (
    History,
    HistoryError,
    ReadOptions,
    detect_kind,
    load_history,
    read_history,
    write_history,
)
from tests.builders_history import at, csv_of, write_text

NINE = at(9)
GOOD = f"good,rates,4,{NINE},{NINE + 60},{NINE + 3600}"


def imported(folder: Path, *rows: str, options: ReadOptions | None = None) -> History:
    return read_history("csv", [csv_of(folder, *rows)], options=options)


def reasons(history: History) -> dict[str, tuple[int, tuple[str, ...]]]:
    return {dropped.reason: (dropped.rows, dropped.examples) for dropped in history.report.dropped}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (f"x,a,4,{NINE},{NINE + 60},{NINE + 50}", "ends before it starts"),
        (f"x,a,4,{NINE},{NINE - 60},{NINE + 50}", "starts before it was submitted"),
        (f"x,a,4,{NINE},,{NINE - 50}", "ends before it was submitted"),
        (f"x,a,-4,{NINE},,", "negative GPUs"),
        (f"x,a,0,{NINE},,", "asks for no GPUs"),
        (f"x,a,100001,{NINE},,", "more than 100000 GPUs in one job"),
        (f"x,a,1e300,{NINE},,", "more than 100000 GPUs in one job"),
        (f"x,a,inf,{NINE},,", "gpus is no number"),
        (f"x,a,eight,{NINE},,", "gpus is no number"),
        (f"x,a,,{NINE},,", "number of GPUs not known"),
        ("x,a,4,tomorrow,,", "submit_s is no time"),
        ("x,a,4,,,", "no submission time"),
        ("x,a,4,2099-01-01T00:00:00Z,,", "submitted over a year apart from the rest of the file"),
        ("x,a,4,0,,", "submitted over a year apart from the rest of the file"),
        (f"x,a,4,{NINE},{NINE},2099-01-01T00:00:00Z", "starts or ends over a year after the last submission"),
        (GOOD, "job id seen before"),
        (f"x,a,4,{NINE}", "too few fields"),
        (f"x,a,4,{NINE},,,,", "too many fields"),
        ("x,a,4,2026-03-02T09:00:00,,", None),
    ],
)
def test_row_that_cannot_be_true_is_counted_with_its_line_and_not_used(
    tmp_path: Path, row: str, reason: str | None
) -> None:
    history = imported(tmp_path, GOOD, f"too,fx,1,{NINE + 5},,", row)
    if reason is None:
        assert len(history.jobs) == 3
        return
    assert history.jobs["job_id"].tolist() == ["good", "too"]
    assert reasons(history) == {reason: (1, ("jobs.csv:4",))}


def test_time_without_a_zone_among_times_with_one_is_not_guessed(tmp_path: Path) -> None:
    rows = ("a,x,1,2026-03-02T09:00:00Z,,", "b,x,1,2026-03-02T09:00:00+08:00,,", "c,x,1,2026-03-02T09:00:00,,")
    history = imported(tmp_path, *rows)
    assert history.jobs["job_id"].tolist() == ["b", "a"]
    ((rows_left_out, examples),) = reasons(history).values()
    assert (rows_left_out, examples) == (1, ("jobs.csv:4",))
    assert len(imported(tmp_path, *rows, options=ReadOptions(zone="Europe/London")).jobs) == 3


def test_nothing_later_than_now_is_believed(tmp_path: Path) -> None:
    row = f"late,a,4,{NINE + 3 * 86_400},,"
    assert len(imported(tmp_path, GOOD, row).jobs) == 2
    history = imported(tmp_path, GOOD, row, options=ReadOptions(now_s=float(NINE + 86_400)))
    assert reasons(history) == {"a time in the future": (1, ("jobs.csv:3",))}


def test_only_the_first_examples_of_a_reason_are_kept(tmp_path: Path) -> None:
    history = imported(tmp_path, GOOD, *[f"x{i},a,-1,{NINE},," for i in range(500)])
    assert reasons(history) == {"negative GPUs": (500, tuple(f"jobs.csv:{line}" for line in range(3, 8)))}
    assert (history.report.rows_read, history.report.rows_kept) == (501, 1)


def test_one_job_is_a_history(tmp_path: Path) -> None:
    assert len(imported(tmp_path, GOOD).jobs) == 1


def test_header_without_rows_is_an_empty_history(tmp_path: Path) -> None:
    history = imported(tmp_path)
    assert (len(history.jobs), history.report.rows_read) == (0, 0)
    write_history(history, tmp_path / "h.parquet")
    assert len(load_history(tmp_path / "h.parquet").jobs) == 0


@pytest.mark.parametrize("kind", ["sacct", "swf", "csv", "helios", "philly", "alibaba-openb"])
def test_empty_file_is_refused_by_every_kind(tmp_path: Path, kind: str) -> None:
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(HistoryError, match=r"empty|no jobs"):
        read_history(kind, [tmp_path / "empty"])
    with pytest.raises(HistoryError, match="empty"):
        detect_kind(tmp_path / "empty")


@pytest.mark.parametrize("kind", ["sacct", "swf", "csv", "helios"])
def test_line_of_50_mb_is_refused_with_little_memory(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "long.csv"
    with path.open("wb") as file:
        for _ in range(50):
            file.write(b"x" * 1_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(HistoryError, match=r"long.csv, line 1: a line is longer than 1024 kB"):
            read_history(kind, [path])
        assert tracemalloc.get_traced_memory()[1] < 16e6
    finally:
        tracemalloc.stop()


def test_gzip_bomb_of_one_line_is_refused_with_little_memory(tmp_path: Path) -> None:
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(b"\0" * 50_000_000))
    with pytest.raises(HistoryError, match="longer than"):
        load_history(tmp_path / "bomb.csv.gz")


def test_gzip_that_ends_early_says_how_far_it_could_be_read(tmp_path: Path) -> None:
    rows = [f"j{i},rates,4,{NINE + i},{NINE + 7 * i},{NINE + 60 * i + i * i % 977}" for i in range(5000)]
    whole = gzip.compress(("job_id,team,gpus,submit_s,start_s,end_s\n" + "\n".join(rows)).encode())
    (tmp_path / "cut.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(
        HistoryError, match=r"cut.csv.gz, line \d{3,4}: the gzip file ends early.*\d+ lines could be read"
    ):
        read_history("csv", [tmp_path / "cut.csv.gz"])


def test_damaged_gzip_is_refused(tmp_path: Path) -> None:
    whole = bytearray(gzip.compress(b"job_id,gpus,submit_s\n" + b"a,1,1772442000\n" * 4000))
    whole[40:60] = b"\xff" * 20
    (tmp_path / "bad.csv.gz").write_bytes(whole)
    with pytest.raises(HistoryError, match="ends early or is damaged"):
        read_history("csv", [tmp_path / "bad.csv.gz"])


def test_missing_column_names_the_nearest_and_the_option(tmp_path: Path) -> None:
    path = write_text(tmp_path / "x.csv", "job,NGPUS_REQ,submit_s", "1,4,5")
    with pytest.raises(
        HistoryError, match=r"no column for gpus. Nearest: NGPUS_REQ; name it with --column gpus=COLUMN"
    ):
        read_history("csv", [path])


def test_named_column_that_is_not_there_names_the_nearest(tmp_path: Path) -> None:
    path = write_text(tmp_path / "x.csv", "job,NGPU,submit_s", "1,4,5")
    with pytest.raises(HistoryError, match=r"has no column 'NGPUS'. Nearest: NGPU"):
        read_history("csv", [path], options=ReadOptions(columns={"gpus": "NGPUS"}))
    with pytest.raises(HistoryError, match=r"no canonical column 'gpu'. Nearest: gpus"):
        read_history("csv", [path], options=ReadOptions(columns={"gpu": "NGPU"}))


def test_unknown_zone_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="no time zone is called 'Mars/Base'"):
        imported(tmp_path, "a,x,1,2026-03-02T09:00:00,,", options=ReadOptions(zone="Mars/Base"))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"PK\x03\x04rest", "a ZIP archive or a spreadsheet"),
        (b"\x28\xb5\x2f\xfdrest", "zstd"),
        ("job_id,gpus".encode("utf-16"), "UTF-16"),
        (b"PAR1 nothing", "no whole Parquet"),
        (b"\n\n", "first line is blank"),
        (b"what,is,this\n1,2,3\n", "cannot be told"),
        (b"gpus,gpus,submit_s\n", "more than once"),
        (b'job_id,gpus,submit_s\n"a' + b"\n1,2,3" * 40_000, "not a table"),
    ],
)
def test_file_of_another_sort_is_refused_by_name(tmp_path: Path, content: bytes, complaint: str) -> None:
    (tmp_path / "strange").write_bytes(content)
    with pytest.raises(HistoryError, match=complaint) as refused:
        load_history(tmp_path / "strange")
    assert "strange" in str(refused.value)


def test_swf_without_jobs_or_with_short_lines_is_told(tmp_path: Path) -> None:
    path = write_text(tmp_path / "x.swf", "; UnixStartTime: 1772442000", "1 2 3")
    assert reasons(read_history("swf", [path])) == {"not 18 fields": (1, ("x.swf:2",))}


def test_history_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    history = imported(tmp_path, GOOD)
    with pytest.raises(HistoryError, match="cannot be written"):
        write_history(history, tmp_path / "nowhere" / "h.parquet")
    (tmp_path / "taken").mkdir()
    with pytest.raises(HistoryError, match="cannot be written"):
        write_history(history, tmp_path / "taken")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jobs.csv", "taken"]


def test_foreign_parquet_is_not_taken_for_a_history(tmp_path: Path) -> None:
    import pandas as pd

    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "x.parquet")
    with pytest.raises(HistoryError, match="Parquet of an unknown form"):
        load_history(tmp_path / "x.parquet")


def test_ready_made_series_with_2099_in_it_does_not_become_eighty_years(tmp_path: Path) -> None:
    rows = [f"2026-03-02T0{i}:00:00Z,{i},0" for i in range(5)]
    path = write_text(tmp_path / "s.csv", "time_utc,running_gpus,pending_gpus", *rows, "2099-01-01T00:00:00Z,1,1")
    history = load_history(path)
    assert history.series is not None
    assert len(history.series) == 5
    assert reasons(history) == {"over a year apart from the rest of the file": (1, ("s.csv:7",))}


def test_times_that_look_relative_are_pointed_out(tmp_path: Path) -> None:
    history = imported(tmp_path, "a,x,1,20260302,,")
    assert any("--origin" in note for note in history.report.notes)
    assert not any("--origin" in note for note in imported(tmp_path, GOOD).report.notes)
