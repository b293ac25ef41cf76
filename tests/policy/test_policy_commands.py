"""`elastic policy` and `elastic init` as a user types them."""

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from elastic.cli import app
from tests.builders_policy import policy_text, write_policy

FOLDER = Path(__file__).parents[2] / "policies"
AT = "2026-12-01T09:00"


def run(*words: str, answers: str | None = None) -> Result:
    return CliRunner().invoke(app, list(words), input=answers)


def test_help_tells_the_commands() -> None:
    result = run("--help")
    assert result.exit_code == 0
    assert "policy" in result.stdout
    assert "init" in result.stdout
    listed = run("policy", "--help").stdout
    assert all(word in listed for word in ("check", "diff", "when", "schema"))


def test_check_says_ok_and_exits_0(tmp_path: Path) -> None:
    path = write_policy(tmp_path)
    result = run("policy", "check", str(path), "--at", AT)
    assert result.exit_code == 0
    assert "ok (0 warnings)" in result.stdout


def test_check_tells_every_complaint_with_its_place_and_exits_1(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(policy_text(max_nodes="1e3").replace("mode: act", "mode: actt"))
    result = run("policy", "check", str(path), "--at", AT)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0] == f"{path}:2:7: error: mode: must be observe or advise or act, not 'actt' (did you mean act?)"
    assert lines[1].startswith(f"{path}:25:16: error: pools.cloud.max_nodes: must be a whole number, not 1e3 (")
    assert "2 errors" in lines[-1]


def test_check_as_json_holds_the_same(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(policy_text(max_nodes="1e3"))
    result = run("policy", "check", str(path), "--at", AT, "--format", "json")
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert told["ok"] is False
    [complaint] = told["complaints"]
    assert (complaint["line"], complaint["column"], complaint["path"]) == (25, 16, "pools.cloud.max_nodes")
    assert complaint["severity"] == "error"
    assert complaint["hint"]


def test_a_warning_does_not_fail_the_check() -> None:
    result = run("policy", "check", str(FOLDER / "quant-desk.yaml"), "--at", "2026-12-20")
    assert result.exit_code == 0
    assert "warning: calendars.shanghai-office: calendar data ends on 2026-12-31" in result.stdout


@pytest.mark.parametrize("words", [("nowhere.yaml",), (str(FOLDER),), ("x.yaml", "--at", "tomorrow"), ()])
def test_usage_and_unreadable_files_exit_2(words: tuple[str, ...]) -> None:
    at = () if "--at" in words else ("--at", AT)
    result = run("policy", "check", *words, *at)
    assert result.exit_code == 2
    assert result.stderr


def test_without_a_time_now_is_meant(tmp_path: Path) -> None:
    path = str(write_policy(tmp_path))
    assert run("policy", "check", path).exit_code == 0
    assert json.loads(run("policy", "when", path, "--format", "json").stdout)["at"] > "2026"
    assert run("policy", "diff", path, path).exit_code == 0


def test_when_shows_the_make_up_workday_in_the_wanted_zone() -> None:
    words = ("policy", "when", str(FOLDER / "quant-desk.yaml"), "--at", "2026-10-10T10:00", "--tz", "Asia/Shanghai")
    result = run(*words)
    assert result.exit_code == 0
    assert "Sat 2026-10-10 10:00 CST" in result.stdout
    assert "make-up workday" in result.stdout
    told = json.loads(run(*words, "--format", "json").stdout)
    assert told["at"] == "2026-10-10T10:00:00+08:00"
    calendars = {c["name"]: c for c in told["calendars"]}
    assert calendars["shanghai-office"]["is_open"] is True
    assert calendars["shanghai-office"]["holds"] == ["office 08:30-19:00"]
    assert calendars["shanghai-office"]["next_change"] == "2026-10-10T19:00:00+08:00"
    assert calendars["new-york-desk"]["is_open"] is False
    pools = {p["name"]: p for p in told["pools"]}
    assert pools["h100"]["headroom_gpus"] == 8  # Shanghai's 8; New York's 16 only while it is open
    teams = {t["name"]: t for t in told["teams"]}
    assert teams["equities-sh"]["cache_workers"] == 12
    assert told["next_change"][1] == "night-research"


@pytest.mark.parametrize(
    ("local", "workers", "reason"),
    [
        ("2026-12-07T07:29", 1, "out of hours"),
        ("2026-12-07T07:30", 4, "its day begins within 30 min"),
        ("2026-12-07T08:00", 4, "the team is at work"),
        ("2026-12-07T19:00", 1, "out of hours"),
        ("2026-12-28T12:00", 1, "out of hours"),  # Boxing Day observed
    ],
)
def test_when_tells_the_size_of_a_cache_group_and_why(local: str, workers: int, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    more = "    cache_group: c\ncaches: {c: {service: sim, awake_workers: 4, warm_lead: 30 min}}\n"
    path.write_text(policy_text(more=more).replace("09:00-18:00", "08:00-19:00"))
    told = json.loads(run("policy", "when", str(path), "--at", local, "--format", "json").stdout)
    [team] = told["teams"]
    assert (team["cache_workers"], team["cache_reason"]) == (workers, reason)


@pytest.mark.parametrize(("at", "known"), [("2020-02-03T10:00", True), ("2055-06-16T10:00", False)])
def test_when_answers_for_the_past_and_the_far_future_and_says_what_is_estimated(at: str, known: bool) -> None:
    words = ("policy", "when", str(FOLDER / "quant-desk.yaml"), "--at", at, "--tz", "America/New_York")
    told = json.loads(run(*words, "--format", "json").stdout)
    calendars = {calendar["name"]: calendar for calendar in told["calendars"]}
    assert (calendars["shanghai-office"]["known_until"] is None) is known
    assert calendars["night-research"]["is_open"] is False
    assert calendars["new-york-desk"]["is_open"] is True
    assert calendars["new-york-desk"]["day_type"] == "trading"


def test_a_time_without_offset_is_in_the_policys_zone(tmp_path: Path) -> None:
    path = write_policy(tmp_path)
    path.write_text(path.read_text().replace("time_zone: Europe/London\ncal", "time_zone: Asia/Tokyo\ncal"))
    told = json.loads(run("policy", "when", str(path), "--at", "2026-12-01T18:30", "--format", "json").stdout)
    assert told["at"] == "2026-12-01T18:30:00+09:00"
    assert told["calendars"][0]["is_open"] is True  # 09:30 in London


def test_when_refuses_a_policy_that_can_not_be_used(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(policy_text(max_nodes="x"))
    result = run("policy", "when", str(path), "--at", AT)
    assert result.exit_code == 2
    assert f"{path}:25:16: error" in result.stderr
    assert run("policy", "when", str(FOLDER / "default.yaml"), "--at", AT, "--tz", "EST").exit_code == 2


def test_diff_tells_windows_gpu_hours_and_money(tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    more = "    cache_group: c\n    burst_ceiling_gpus: 16\n"
    more += "caches: {c: {service: sim, awake_workers: 4, warm_lead: 1 h}}\n"
    old.write_text(policy_text(max_nodes=4, more=more))
    new.write_text(policy_text(max_nodes=6, more=more.replace("16", "24")).replace("09:00-18:00", "09:00-20:00"))
    words = ("policy", "diff", str(old), str(new), "--from", "2026-12-07", "--days", "7")
    prices = ("--price", "cloud=2", "--worker-price", "c=0.5")
    told = json.loads(run(*words, *prices, "--format", "json").stdout)
    assert [s["path"] for s in told["settings"]] == [
        "calendars.office.office.hours",
        "pools.cloud.max_nodes",
        "teams.research.burst_ceiling_gpus",
    ]
    assert len(told["windows"]) == 5
    assert told["windows"][0]["start"] == "2026-12-07T18:00:00+00:00"
    [office] = told["calendars"]
    assert (office["before"], office["after"], office["delta"]) == (45, 55, 10)
    pools = {(q["owner"], q["name"]): q for q in told["pools"]}
    ceiling = pools["cloud", "ceiling"]
    assert (ceiling["before"], ceiling["after"]) == (4 * 8 * 168, 6 * 8 * 168)
    assert ceiling["usd_after"] == 6 * 8 * 168 * 2
    assert pools["home", "floor"]["delta"] == 0
    teams = {(q["owner"], q["name"]): q for q in told["teams"]}
    # Awake an hour before the day and through it, 5 days: 4 workers, otherwise 1.
    assert teams["research", "cache"]["before"] == 50 * 4 + 118 * 1
    assert teams["research", "cache"]["after"] == 60 * 4 + 108 * 1
    assert teams["research", "cache"]["usd_before"] == 318 * 0.5
    assert teams["research", "burst ceiling"]["delta"] == 8 * 168
    text = run(*words, *prices).stdout
    assert "pools.cloud.max_nodes" in text
    assert "+2,688" in text
    assert "demand decides how much is" in text  # what a ceiling is not


def test_diff_of_the_same_policy_says_so(tmp_path: Path) -> None:
    path = write_policy(tmp_path)
    result = run("policy", "diff", str(path), str(path), "--from", "2026-12-07")
    assert result.exit_code == 0
    assert "no setting differs" in result.stdout
    assert "no window and no figure differs" in result.stdout


def test_diff_with_a_holiday_in_its_range_shows_what_the_holiday_costs(tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(policy_text())
    new.write_text(policy_text().replace("country: GB", "country: US"))
    told = json.loads(
        run("policy", "diff", str(old), str(new), "--from", "2026-12-21", "--days", "14", "--format", "json").stdout
    )
    changes = [(w["start"][:10], w["opens"]) for w in told["windows"]]
    assert changes == [("2026-12-28", True)]  # Boxing Day observed, in Britain only


def test_diff_refuses_prices_it_can_not_use(tmp_path: Path) -> None:
    path = str(write_policy(tmp_path))
    for price in ("cloud", "cloud=x", "cloud=-1", "cluod=1"):
        result = run("policy", "diff", path, path, "--from", "2026-12-07", "--price", price)
        assert result.exit_code == 2
    assert "did you mean cloud?" in result.stderr


def test_schema_prints_the_schema_file() -> None:
    result = run("policy", "schema")
    assert result.exit_code == 0
    assert result.stdout == (FOLDER / "schema.json").read_text()
