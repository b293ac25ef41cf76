"""What the policies' README says is run: its commands, its policy, its claims about windows."""

import re
import shlex
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from typer.testing import CliRunner

from elastic.calendar_sources import resolve_calendars
from elastic.cli import app
from elastic.planning.policy import CalendarSpec
from tests.builders_policy import AT, complaints_of

FOLDER = Path(__file__).parents[2] / "policies"
README = (FOLDER / "README.md").read_text()


def fenced(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_its_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policies").symlink_to(FOLDER)
    lines = [line for block in fenced("sh") for line in block.splitlines()]
    assert len(lines) >= 5
    for line in lines:
        result = CliRunner().invoke(app, shlex.split(line)[1:])
        assert result.exit_code == 0, (line, result.output)


def test_its_smallest_policy_loads() -> None:
    [text] = fenced("yaml")
    assert complaints_of(text) == []


def test_every_example_has_its_row() -> None:
    assert {path.name for path in FOLDER.glob("*.yaml")} == set(
        re.findall(r"^\| `([\w-]+\.yaml)`", README, re.MULTILINE)
    )


def test_its_example_of_an_overnight_window_and_a_holiday_holds() -> None:
    zone = ZoneInfo("Europe/Madrid")
    spec = CalendarSpec(time_zone="Europe/Madrid", allow=("20:00-06:00 Mon-Fri",), holidays=("2026-12-25",))
    calendar = resolve_calendars({"c": spec}, at=AT)["c"]
    assert calendar.is_open(datetime(2026, 12, 25, 1, tzinfo=zone))
    assert not calendar.is_open(datetime(2026, 12, 25, 21, tzinfo=zone))
