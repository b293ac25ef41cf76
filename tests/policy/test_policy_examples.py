"""The policies that ship: each loads, each key is explained, the schema is the one the models give."""

import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from elastic.policy_file import check_policy, default_policy_path, load_policy
from elastic.policy_findings import Severity
from elastic.policy_keys import KEY_MEANINGS
from elastic.policy_schema import policy_schema, schema_text
from forecast.calendar import DayType
from providers.facts import CapacityType
from providers.sim.workload import SHAPES, TEAMS
from tests.builders_policy import AT

FOLDER = Path(__file__).parents[2] / "policies"
EXAMPLES = sorted(FOLDER.glob("*.yaml"))


def test_there_are_at_least_four_examples_beside_the_default() -> None:
    names = {path.stem for path in EXAMPLES}
    assert names >= {"small-site", "quant-desk", "kubernetes-site", "night-batch", "default", "replay"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_loads_and_only_calendar_data_is_warned_of(path: Path) -> None:
    policy = load_policy(path, at=AT)
    assert policy.job_class("").wait_target_s > 0
    for complaint in check_policy(path, at=AT):
        assert complaint.severity is Severity.WARNING
        assert "calendar data ends" in complaint.message


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_points_editors_at_the_schema(path: Path) -> None:
    assert path.read_text().startswith("# yaml-language-server: $schema=./schema.json\n")


def test_the_schema_file_is_what_the_models_give() -> None:
    written = (FOLDER / "schema.json").read_text()
    assert written == schema_text(), "run: elastic policy schema > policies/schema.json"


def test_every_key_is_explained_and_no_explanation_is_left_over() -> None:
    schema = policy_schema()
    parts = {"PolicyDocument": schema, **schema["$defs"]}
    keys = {f"{name}.{key}" for name, part in parts.items() for key in part.get("properties", {})}
    assert keys == set(KEY_MEANINGS)
    assert all(part["additionalProperties"] is False for part in parts.values() if "properties" in part)


def test_the_schema_takes_durations_as_text_and_as_seconds() -> None:
    lead_time = policy_schema()["$defs"]["Pool"]["properties"]["lead_time"]
    pattern = next(option["pattern"] for option in lead_time["anyOf"] if "pattern" in option)
    assert all(re.match(pattern, text) for text in ("15 min", "90s", "1.5 h", "2 d"))
    assert not re.match(pattern, "22:30")


def test_the_default_policy_loads_on_any_day_with_packages_of_any_age() -> None:
    for days in (0, 400, 4000):
        assert load_policy(default_policy_path(), at=AT + timedelta(days=days)).pools["a100-onprem"].nodes == 16


def test_the_default_policy_fits_the_simulated_desk() -> None:
    policy = load_policy(default_policy_path(), at=AT)
    assert set(policy.teams) == {team.name for team in TEAMS}
    assert set(policy.classes) >= set(SHAPES)
    for team in TEAMS:
        [calendar] = policy.teams[team.name].calendars
        assert policy.calendars[calendar].zone == team.zone
        assert policy.teams[team.name].cache_group in policy.caches
    burst = [pool for pool in policy.pools.values() if pool.place == "burst"]
    assert len(burst) == 2
    assert all(CapacityType.SPOT in pool.capacity_types and pool.cloud == "sim" for pool in burst)


def test_the_replay_policy_has_nothing_in_the_way() -> None:
    policy = load_policy(FOLDER / "replay.yaml", at=datetime(2020, 4, 1, tzinfo=UTC))
    assert set(policy.pools) == {"onprem", "burst"}
    assert policy.pools["burst"].lead_time_s == 240
    batch, fixed = policy.classes["batch"], policy.classes["fixed"]
    assert (batch.checkpointable, fixed.checkpointable) == (True, False)
    assert batch.restart_cost_s == 300
    assert batch.wait_target_s == fixed.wait_target_s == 900
    assert policy.money.usd_per_hour is None
    assert policy.money.usd_per_day is None


def test_calendars_reach_as_far_as_asked_for() -> None:
    start, end = datetime(2026, 1, 5, tzinfo=UTC), datetime(2026, 7, 6, tzinfo=UTC)
    policy = load_policy(FOLDER / "small-site.yaml", at=start, since=start - timedelta(days=365), until=end)
    assert policy.calendars["office"].is_open(datetime(2026, 7, 6, 10, tzinfo=UTC))
    assert policy.calendars["office"].day_type(date(2025, 3, 8)) is DayType.WEEKEND
    assert policy.calendars["office"].day_type(date(2025, 5, 8)) is DayType.HOLIDAY  # Berlin, 80 years on
