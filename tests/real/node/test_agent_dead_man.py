"""The dead-man switch: when a node ends itself, and all the cases in which it must not."""

import json
import os
import time
from datetime import UTC, datetime, timedelta

import pytest

from tests.real.node.processes import BEATING, ENDS_AT_PATH, FAR_S, free_port, until, wait_for_looks

OLD = "2026-11-30T08:00:00+00:00"
RUNNING, NONE, UNKNOWN = "echo 4711", "true", "echo 4711 && false"
LIMIT_S, LOOKS = 0.3, 5


def beat(folder, text=OLD):
    path = folder / "heartbeat"
    path.write_text(text)
    return {"heartbeat_file": str(path), "heartbeat_limit_s": LIMIT_S}


def test_an_old_heartbeat_and_no_job_drain_the_node_then_power_it_off(alone):
    agent = alone.agent(free_port(), jobs_command=NONE, **beat(alone.folder))
    agent.says("power_off_command")
    told = [line["event"] for line in agent.lines() if line["event"] != "metadata_silent"]
    assert told[:6] == ["started", "heartbeat_old", "drain_command", "heartbeat_old", "power_off", "power_off_command"]
    assert "no heartbeat" in agent.lines("power_off")[0]["why"]
    assert agent.times("power_off") >= 1
    assert agent.times("drain") == 1


@pytest.mark.parametrize("jobs", [RUNNING, UNKNOWN, "", "sleep 3600"])
def test_an_old_heartbeat_leaves_a_node_on_that_runs_a_job_or_may_run_one(alone, jobs):
    settings = {"jobs_command": jobs, "command_limit_s": 0.2, **beat(alone.folder)}
    agent = alone.agent(free_port(), **settings)
    told = agent.says("heartbeat_old", times=LOOKS)
    assert {line["jobs"] for line in told} == {"4711" if jobs == RUNNING else "unknown"}
    assert (agent.times("power_off"), agent.times("drain")) == (0, 0)


def test_a_job_that_starts_between_two_looks_keeps_the_node_on(alone):
    jobs = "test ! -e looked || echo 4711; touch looked"
    agent = alone.agent(free_port(), jobs_command=jobs, **beat(alone.folder))
    told = agent.says("heartbeat_old", times=LOOKS)
    assert [line["jobs"] for line in told][:2] == ["", "4711"]
    assert (agent.times("power_off"), agent.times("drain")) == (0, 1)


def test_a_heartbeat_that_moves_keeps_an_idle_node_on_whatever_time_it_tells(alone):
    agent = alone.agent(free_port(), jobs_command=NONE, heartbeat_command=BEATING, heartbeat_limit_s=LIMIT_S)
    agent.says("started")
    wait_for_looks(alone.folder, 20)  # seconds after 1970 each, and long after the limit
    assert agent.lines("heartbeat_old") == []
    assert agent.times("power_off") == 0


def test_an_old_heartbeat_that_moves_again_is_believed(alone):
    agent = alone.agent(free_port(), jobs_command=RUNNING, **beat(alone.folder))
    agent.says("heartbeat_old")
    beat(alone.folder, "2026-11-30T08:05:00Z")
    agent.says("heartbeat_old", times=LOOKS)
    ages = [line["age_s"] for line in agent.lines("heartbeat_old")]
    assert max(ages) < 10  # from when it was seen to change: by its own words it is days old
    assert agent.times("power_off") == 0


def test_a_heartbeat_without_a_time_in_it_counts_by_when_it_was_written(alone):
    settings = beat(alone.folder, "alive\n")
    agent = alone.agent(free_port(), jobs_command=RUNNING, **settings)
    agent.says("heartbeat_old")
    (alone.folder / "memory.json").unlink()
    os.utime(alone.folder / "heartbeat", (1_000_000, 1_000_000))
    remembered = until_remembered(alone.folder)
    assert remembered["beat"] == 1_000_000


def until_remembered(folder):
    path = folder / "memory.json"
    until(path.exists, "what the agent remembers")
    return json.loads(path.read_text())


def test_a_node_that_has_never_seen_a_heartbeat_counts_from_its_boot(alone):
    missing = {"heartbeat_file": str(alone.folder / "missing"), "jobs_command": NONE}
    up_s = time.monotonic()
    young = alone.agent(free_port(), "--once", **missing, heartbeat_limit_s=up_s + 3600)
    assert young.ended() == 0
    assert young.lines("heartbeat_old") == []
    old = alone.agent(free_port(), **missing, heartbeat_limit_s=min(up_s / 2, 1800))
    old.says("power_off_command")
    assert old.lines("heartbeat_old")[0]["age_s"] >= int(up_s)


def test_an_agent_that_starts_again_remembers_how_old_the_heartbeat_is(alone):
    agent = alone.agent(free_port(), jobs_command=RUNNING, **beat(alone.folder))
    agent.says("heartbeat_old", times=LOOKS)
    agent.process.kill()
    restarted = alone.agent(free_port(), "--once", jobs_command=RUNNING, **beat(alone.folder))
    assert restarted.ended() == 0
    assert len(restarted.lines("heartbeat_old")) == 1


def test_without_a_heartbeat_to_watch_only_the_lease_ends_the_node_and_it_says_so(alone):
    agent = alone.agent(free_port(), "--once", jobs_command=NONE, heartbeat_limit_s=LIMIT_S)
    assert agent.ended() == 0
    assert agent.lines("started")[0]["watches_heartbeat"] is False
    assert agent.times("power_off") == 0


# The hard lease


def test_the_hard_lease_ends_the_node_in_any_case(cloud):
    port = free_port()
    cloud.metadata(port, "spot", "--mock-delay-sec", "3600", ends_at=OLD)
    agent = cloud.agent(port, jobs_command=RUNNING, heartbeat_command=BEATING)
    agent.says("power_off_command")
    assert agent.lines("lease")[0]["ends_at"] == OLD
    assert "lease" in agent.lines("power_off")[0]["why"]


def test_the_lease_holds_while_metadata_is_silent_and_the_file_of_the_heartbeat_hangs(alone):
    os.mkfifo(alone.folder / "pipe")  # whoever opens it waits for a writer
    settings = {"heartbeat_file": str(alone.folder / "pipe"), "command_limit_s": 0.2, "jobs_command": RUNNING}
    agent = alone.agent(free_port(), **settings, lease_s=time.monotonic() + 3.0, heartbeat_limit_s=FAR_S)
    agent.says("power_off_command")
    assert agent.lines("command_failed")
    assert agent.times("warn") == 1
    assert agent.times("drain") == 1


def test_a_lease_is_renewed_by_its_tag_and_jobs_are_warned_before_it_ends(cloud):
    port = free_port()
    never = ("spot", "--mock-delay-sec", "3600")
    service = cloud.metadata(port, *never, ends_at=in_s(7200))
    agent = cloud.agent(port, lease_s=1.0)  # over since long, but for the tag
    agent.says("lease")
    service.kill()
    service.wait()
    soon = cloud.metadata(port, *never, ends_at=in_s(300))
    agent.says("drain_command")
    assert 200 < agent.lines("lease_ends")[0]["left_s"] <= 300
    assert (agent.times("warn"), agent.times("power_off")) == (1, 0)
    soon.kill()
    soon.wait()
    cloud.metadata(port, *never, ends_at=in_s(-1))
    agent.says("power_off_command")
    assert agent.times("warn") == 1


def in_s(seconds):
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="seconds")  # noqa: TID251


@pytest.mark.parametrize(("ends_at", "ends"), [("2001-01-04T12:00:00Z", 0), ("2001-01-03T11:59:59+00:00", 1)])
def test_the_lease_ends_by_the_clouds_clock_however_wrong_the_nodes_own_is(alone, old_clock, ends_at, ends):
    old_clock.answers[ENDS_AT_PATH] = ends_at
    agent = alone.agent(old_clock.server_port, "--once")
    assert agent.ended() == 0
    assert agent.times("power_off") == ends


@pytest.mark.parametrize("text", ["tomorrow", "nan", "inf", "-"])
def test_a_tag_that_is_no_time_is_told_and_changes_nothing(alone, old_clock, text):
    old_clock.answers[ENDS_AT_PATH] = text
    agent = alone.agent(old_clock.server_port, "--once")
    assert agent.ended() == 0
    assert agent.lines("lease_unreadable")[0]["text"] == text
    assert agent.times("power_off") == 0


# Settings


def test_wrong_settings_are_each_told_and_their_defaults_hold(alone):
    wrong = {"heartbeat_limit_s": "soon", "check_s": True, "jobs_command": 3, "drain_limit_s": -1, "lease": 5}
    agent = alone.agent(free_port(), "--once", "--dry-run", **wrong)
    assert agent.ended() == 0
    told = {line["key"]: line for line in agent.lines("setting_wrong")}
    assert told.keys() == wrong.keys()
    assert told["heartbeat_limit_s"]["wanted"] == "a number of seconds above 0"
    assert told["heartbeat_limit_s"]["now"] == 1800.0
    assert "lease_s" in told["lease"]["wanted"]


@pytest.mark.parametrize("text", ["{", "[]", "", None])
def test_settings_that_cannot_be_read_leave_the_lease_alone(alone, text):
    if text is not None:
        (alone.folder / "broken.json").write_text(text)
    broken = alone.agent(free_port(), "--once", "--dry-run", "--settings", str(alone.folder / "broken.json"))
    assert broken.ended() == 0
    assert "lease" in broken.lines("settings_unreadable")[0]["now"]
    assert broken.lines("started")[0]["lease_s"] == 86_400.0
