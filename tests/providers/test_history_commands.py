"""`elastic history` as a user types it."""

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from elastic.cli import app
from providers.history import load_history
from tests.builders_history import at, csv_of, shared_file, write_text

NINE = at(9)


def elastic(*words: object) -> Result:
    return CliRunner().invoke(app, ["history", *map(str, words)])


def test_import_writes_parquet_and_tells_what_it_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = csv_of(tmp_path, f"a,rates,4,{NINE},{NINE},{NINE + 7200}", f"b,fx,-1,{NINE},,")
    result = elastic("import", "csv", path)
    assert result.exit_code == 0, result.output
    assert "1 of 2 rows kept" in result.output
    assert "negative GPUs" in result.output
    assert "jobs.csv:3" in result.output
    assert load_history(tmp_path / "jobs.parquet").jobs["job_id"].tolist() == ["a"]


def test_import_as_json_gives_the_same_figures(tmp_path: Path) -> None:
    path = csv_of(tmp_path, f"a,rates,4,{NINE},{NINE},{NINE + 7200}", f"b,fx,-1,{NINE},,")
    result = elastic("import", "csv", path, "--out", tmp_path / "h.parquet", "--format", "json")
    told = json.loads(result.stdout)
    assert (told["rows_read"], told["rows_kept"], told["demand_gpus"]["rates"]["peak"]) == (2, 1, 4.0)
    assert told["dropped"] == [{"reason": "negative GPUs", "rows": 1, "examples": ["jobs.csv:3"]}]
    assert json.loads(elastic("show", tmp_path / "h.parquet", "--format", "json").stdout)["days"] == told["days"]


def test_named_columns_and_a_zone_are_taken_from_the_options(tmp_path: Path) -> None:
    path = write_text(tmp_path / "x.csv", "nr;NGPU;asked", "1;4;2026-03-02 17:00:00")
    out = tmp_path / "x.parquet"
    options = (
        "--column",
        "gpus=NGPU",
        "--column",
        "submit_s=asked",
        "--column",
        "job_id=nr",
        "--zone",
        "Asia/Shanghai",
    )
    assert elastic("import", "csv", path, "--out", out, *options).exit_code == 0
    assert load_history(out).jobs.loc[0, "submit_s"] == NINE


def test_nothing_usable_is_a_finding_and_writes_nothing(tmp_path: Path) -> None:
    path = csv_of(tmp_path, f"b,fx,-1,{NINE},,")
    result = elastic("import", "csv", path, "--out", tmp_path / "h.parquet")
    assert (result.exit_code, (tmp_path / "h.parquet").exists()) == (1, False)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("import", "pbs", "FILE"), "no kind 'pbs'"),
        (("import", "csv", "nowhere.csv"), "nowhere.csv: cannot be read"),
        (("import", "csv", "FILE", "--column", "gpus"), "write NAME=COLUMN"),
        (("import", "csv", "FILE", "--now", "noon"), "--now noon: no time"),
        (("import", "csv", "FILE", "--out", "FILE"), "would replace its input"),
        (("import", "sacct", "FILE"), "no column JobID"),
        (("import", "csv", "FILE", "--zone", "Mars/Base", "--out", "x.parquet"), "Mars/Base"),
        (("show", "nowhere.parquet"), "cannot be read"),
    ],
)
def test_bad_use_is_refused_with_two_and_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = csv_of(tmp_path, "a,rates,4,2026-03-02 17:00:00,,")
    result = elastic(*[str(path) if word == "FILE" else word for word in words])
    assert result.exit_code == 2
    assert complaint in " ".join(result.stderr.split())
    assert list(tmp_path.glob("*.parquet")) == []


def test_sample_is_a_history_like_any_other_also_as_csv(tmp_path: Path) -> None:
    assert elastic("sample", "--out", tmp_path / "s.parquet", "--days", 3).exit_code == 0
    assert elastic("sample", "--out", tmp_path / "s.csv", "--days", 3).exit_code == 0
    one, two = load_history(tmp_path / "s.parquet").jobs, load_history(tmp_path / "s.csv").jobs
    assert one["job_id"].tolist() == two["job_id"].tolist()
    assert one["end_s"].equals(two["end_s"])


def test_public_trace_is_imported_as_the_tour_does(tmp_path: Path) -> None:
    path = shared_file("helios_venus_jobs_reconstructed.csv.gz")
    result = elastic("import", "helios", path, "--out", tmp_path / "venus.parquet", "--format", "json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["rows_kept"], told["dropped"]) == (125_331, [])
    assert 800 < told["demand_gpus"]["total"]["mean"] < 950
