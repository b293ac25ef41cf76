"""The agent against a real metadata service: what is announced, how often it acts, and what may not hold it up."""

from pathlib import Path

from tests.real.node.processes import BEATING, NOTICE_PATH, free_port, until, wait_for_looks

SOON, NEVER = "1", "3600"  # seconds after the start of the service


def test_an_interruption_warns_the_jobs_then_drains_the_node_once_however_often_it_is_read(cloud):
    port = free_port()
    cloud.metadata(port, "spot", "--mock-delay-sec", SOON, "--rebalance-delay-sec", NEVER)
    agent = cloud.agent(port)
    agent.says("drain_command")
    seen = len((cloud.folder / "mock.log").read_text().split("spot/instance-action"))
    until(lambda: len((cloud.folder / "mock.log").read_text().split("spot/instance-action")) > seen + 10, "more polls")
    assert (agent.times("warn"), agent.times("drain"), agent.times("rebalance")) == (1, 1, 0)
    told = [line["event"] for line in agent.lines()]
    assert told == ["started", "interruption", "warn_command", "drain_command"]
    assert '"terminate"' in agent.lines("interruption")[0]["notice"]


def test_nothing_is_read_without_a_token(cloud):
    port = free_port()
    cloud.metadata(port, "spot", "--mock-delay-sec", NEVER, "--rebalance-delay-sec", NEVER)
    agent = cloud.agent(port, "--once")
    assert agent.ended() == 0
    assert agent.lines("metadata_silent") == []  # the service answers 401 to requests without one
    assert "PUT /latest/api/token" in (cloud.folder / "mock.log").read_text()


def test_a_rebalance_recommendation_only_runs_its_own_command_once(cloud):
    port = free_port()
    cloud.metadata(port, "spot", "--mock-delay-sec", NEVER, "--rebalance-delay-sec", SOON)
    agent = cloud.agent(port)
    agent.says("rebalance_command")
    restarted = cloud.agent(port, "--once")
    assert restarted.ended() == 0
    assert (agent.times("rebalance"), agent.times("warn"), agent.times("drain")) == (1, 0, 0)


def test_a_scheduled_event_is_told_once(cloud):
    port = free_port()
    cloud.metadata(port, "events", "--mock-delay-sec", "0")
    agent = cloud.agent(port, scheduled_command="date >> scheduled")
    agent.says("scheduled_command")
    restarted = cloud.agent(port, "--once", scheduled_command="date >> scheduled")
    assert restarted.ended() == 0
    assert agent.times("scheduled") == 1
    assert "instance-event-" in agent.lines("scheduled")[0]["notice"]


def test_an_agent_that_starts_again_does_not_warn_again(cloud):
    port = free_port()
    cloud.metadata(port, "spot", "--mock-delay-sec", "0", "--rebalance-delay-sec", NEVER)
    agent = cloud.agent(port)
    agent.says("drain_command")
    agent.process.kill()
    restarted = cloud.agent(port, "--once")
    assert restarted.ended() == 0
    assert (agent.times("warn"), agent.times("drain")) == (1, 1)


def test_metadata_that_comes_late_is_waited_for_with_few_words(cloud):
    port = free_port()
    agent = cloud.agent(port, heartbeat_command=BEATING)
    wait_for_looks(cloud.folder, 12)
    silent = len(agent.lines("metadata_silent"))
    cloud.metadata(port, "spot", "--mock-delay-sec", "0", "--rebalance-delay-sec", NEVER)
    agent.says("drain_command")
    assert agent.times("warn") == 1
    assert 2 <= silent <= 6  # of each of the two parts: the first, then after 5 s, 10 s, ...


def test_a_notice_whose_time_moves_is_one_and_one_that_was_gone_is_another(alone, old_clock):
    def looks(notice=None):
        old_clock.answers = {NOTICE_PATH: notice} if notice else {}
        agent = alone.agent(old_clock.server_port, "--once")
        assert agent.ended() == 0
        return agent.times("drain")

    assert looks('{"action": "terminate", "time": "2001-01-03T12:02:00Z"}') == 1
    assert looks('{"action":"terminate", "time": "2001-01-03T12:02:09Z"}') == 1
    assert looks() == 1
    assert looks("a text that nobody expects") == 2
    assert looks() == 2
    assert looks('{"action": "stop", "time": "2001-01-03T13:00:00Z"}') == 3


def test_a_token_that_is_refused_is_replaced(alone, old_clock):
    agent = alone.agent(old_clock.server_port, heartbeat_command=BEATING)
    wait_for_looks(alone.folder, 3)
    assert agent.lines("metadata_silent") == []
    old_clock.tokens += 1
    old_clock.answers[NOTICE_PATH] = '{"action": "terminate"}'
    agent.says("drain_command")


def test_a_warning_that_hangs_delays_the_drain_by_its_own_limit_and_leaves_nothing_behind(cloud):
    port = free_port()
    cloud.metadata(port, "spot", "--mock-delay-sec", "0", "--rebalance-delay-sec", NEVER)
    command = "echo $$ > pid; sleep 3600 | cat"
    agent = cloud.agent(port, warn_command=command, warn_limit_s=0.5, drain_limit_s=20)
    agent.says("drain_command")
    assert agent.lines("warn_command")[0]["code"] is None
    assert "0.5 s" in agent.lines("warn_command")[0]["complaints"]
    group = (cloud.folder / "pid").read_text().strip()
    until(lambda: not _of_group(group), "the end of all that the command started")


def _of_group(group):
    """Processes of a group that are more than a line in a table."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, of_group = stat.read_text().rsplit(")", 1)[1].split()[:3]
        except OSError:
            continue
        if of_group == group and state != "Z":
            found.append(stat)
    return found


def test_a_dry_run_says_what_it_would_run_and_runs_nothing(cloud):
    port = free_port()
    cloud.metadata(port, "spot", "--mock-delay-sec", "0", "--rebalance-delay-sec", "0")
    agent = cloud.agent(port, "--once", "--dry-run", lease_s=1)
    assert agent.ended() == 0
    for command in ("warn", "drain", "rebalance", "power_off"):
        assert [line["dry_run"] for line in agent.lines(f"{command}_command")] == [agent.marking(command)]
        assert agent.times(command) == 0
