"""`elastic forecast` and `elastic backtest` on a made-up desk: text, JSON, plots, bad input."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from elastic.cli import app
from providers.history import write_history
from providers.history.sample import sample_history

POLICY = Path(__file__).resolve().parents[2] / "policies" / "default.yaml"


def elastic(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("history") / "desk.parquet"
    write_history(sample_history(start=datetime(2026, 3, 2, tzinfo=UTC), days=17, seed=1, scale=0.5), path)
    return path


def test_a_forecast_tells_quantiles_peaks_and_who_speaks_why(desk: Path) -> None:
    done = elastic("forecast", desk, "--tz", "Europe/London", "--horizon-h", 24)
    assert done.exit_code == 0, done.output
    for word in ("total by", "median", "q90", "peak", "times in Europe/London", "team"):
        assert word in done.output


def test_a_forecast_as_json_is_whole(desk: Path) -> None:
    done = elastic("forecast", desk, "--at", "2026-03-15T09:00", "--format", "json")
    document = json.loads(done.stdout)
    by_key = {one["key"]: one for one in document["forecasts"]}
    assert "total" in by_key
    assert len(by_key) > 2
    for one in by_key.values():
        assert one["cutoff"] == "2026-03-15T09:00:00+00:00"
        assert {len(values) for values in one["gpus"].values()} == {48}
        assert one["why"]
        assert one["peaks"][0]["low_gpus"] <= one["peaks"][0]["gpus"] <= one["peaks"][0]["high_gpus"]
    assert "sum of teams" in by_key["total"]["losses_gpus"]


def test_a_forecast_at_an_instant_sees_nothing_later(desk: Path, tmp_path: Path) -> None:
    """The same history without what came later gives the same forecast."""
    from dataclasses import replace

    from providers.history import load_history

    whole = load_history(desk)
    at_s = datetime(2026, 3, 15, 9, tzinfo=UTC).timestamp()
    jobs = whole.jobs[whole.jobs["submit_s"] < at_s].copy()
    jobs.loc[jobs["end_s"] > at_s, "end_s"] = at_s + 7200  # some end, as long as it is later
    jobs.loc[jobs["start_s"] > at_s, "start_s"] = at_s + 3600
    write_history(replace(whole, jobs=jobs), tmp_path / "cut.parquet")
    said = [
        json.loads(elastic("forecast", file, "--at", "2026-03-15T08:00", "--format", "json").stdout)["forecasts"]
        for file in (desk, tmp_path / "cut.parquet")
    ]
    assert said[0] == said[1]


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_plots_are_pictures_and_the_same_each_time(desk: Path, tmp_path: Path, ending: str) -> None:
    first, again = tmp_path / f"one.{ending}", tmp_path / f"two.{ending}"
    for plot in (first, again):
        assert elastic("forecast", desk, "--at", "2026-03-14", "--plot", plot).exit_code == 0
    begin = first.read_bytes()[:200]
    assert begin.startswith(b"\x89PNG") if ending == "png" else b"<svg" in first.read_bytes()
    assert first.read_bytes() == again.read_bytes()


def test_a_backtest_scores_every_forecaster_and_draws(desk: Path, tmp_path: Path) -> None:
    done = elastic("backtest", desk, "--plot", tmp_path / "b.png")
    assert done.exit_code == 0, done.output
    for word in ("last value", "ets", "unobserved components", "structural", "combination", "champion", "WAPE"):
        assert word in done.output
    assert (tmp_path / "b.png").stat().st_size > 20_000


def test_a_backtest_as_json_has_champion_and_best_naive(desk: Path) -> None:
    document = json.loads(elastic("backtest", desk, "--days", 4, "--format", "json").stdout)
    for one in document["series"]:
        assert one["windows"] <= 4
        for side in ("champion", "best_naive"):
            assert {"wape", "peak_error", "coverage_q90"} <= set(one[side])


def test_day_types_of_a_policy_are_used(desk: Path) -> None:
    from elastic.policy_file import load_policy

    name = sorted(load_policy(POLICY, at=datetime(2026, 3, 2, tzinfo=UTC)).calendars)[0]
    done = elastic("forecast", desk, "--calendar", f"{POLICY}:{name}", "--horizon-h", 12)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--tz", "Mars/Olympus"), "no IANA zone"),
        (("--calendar", "desk"), "write POLICY:NAME"),
        (("--calendar", f"{POLICY}:nobody"), "has no calendar nobody"),
        (("--calendar", "missing.yaml:x"), "missing.yaml"),
        (("--plot", "picture.gif"), ".png or .svg"),
        (("--plot", "no/such/folder/p.png"), "no folder"),
        (("--at", "yesterday"), "no time"),
        (("--horizon-h", "0"), "--horizon-h"),
    ],
)
def test_bad_usage_is_told_and_ends_with_two(desk: Path, words: tuple[str, ...], complaint: str) -> None:
    done = elastic("forecast", desk, *words)
    assert done.exit_code == 2
    assert complaint in done.output + done.stderr


def test_a_missing_file_ends_with_two(tmp_path: Path) -> None:
    for command in ("forecast", "backtest"):
        assert elastic(command, tmp_path / "nothing.parquet").exit_code == 2


def test_an_instant_before_the_record_is_a_finding(desk: Path) -> None:
    done = elastic("forecast", desk, "--at", "2026-01-01")
    assert done.exit_code == 1
    assert "no demand is known yet" in done.output + done.stderr


def test_a_history_of_one_job_is_forecast_simply_and_too_short_to_score(tmp_path: Path) -> None:
    csv = tmp_path / "one.csv"
    csv.write_text(
        "job_id,team,submit_time,start_time,end_time,gpus\n1,a,2026-03-02T09:00Z,2026-03-02T09:01Z,2026-03-02T15:00Z,8\n"
    )
    said = elastic("forecast", csv)
    tested = elastic("backtest", csv)
    assert said.exit_code == 0
    assert "last value" in said.output
    assert "rule of thumb" in said.output
    assert tested.exit_code == 1
    assert "needs more than 8 days" in tested.output + tested.stderr
