"""`elastic explain`: why a job waited, why a node was rented and given back, what a tick knew."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from elastic.cli import app
from elastic.explain import Mention, Run, fold, until_started
from elastic.ledger import SqlLedger
from elastic.replay import TraceJob, replay, sim_jobs
from elastic.replay_files import job_table, tables, write_replay
from elastic.replay_waits import Spell
from tests.builders import NOW, a_policy
from tests.builders_site import Site, a_sim_job

HOUR_S = 3600.0


def explain(*options, code=0):
    told = CliRunner().invoke(app, ["explain", *(str(o) for o in options)])
    assert told.exit_code == code, told.output
    return told.stdout if code == 0 else told.stderr


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """The site is full for nine hours; `late` waits, goes out on one rented node and ends there."""
    out, policy = tmp_path_factory.mktemp("replay"), a_policy()
    start_s = NOW.timestamp()
    trace = [
        TraceJob(id="long", submit_s=start_s, gpus=32, duration_s=9 * HOUR_S),
        TraceJob(id="late", submit_s=start_s + 60.0, gpus=8, duration_s=HOUR_S, team="alpha"),
        TraceJob(id="end", submit_s=start_s + 20 * HOUR_S, gpus=1, duration_s=1.0),
    ]
    done = replay(sim_jobs(trace, policy, checkpointable_share=0.0, seed=0), policy, onprem_gpus=32)
    jobs = job_table(trace, tables(done)[0], until_s=done.until_s)
    write_replay(out, done, {}, jobs=jobs)
    return out


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The same story on a ledger, told by a service's controller."""
    data = tmp_path_factory.mktemp("service")
    ledger = SqlLedger(f"sqlite:///{data / 'ledger.sqlite'}")
    jobs = [
        a_sim_job("long", 32, runs_s=9 * HOUR_S, job_class="fixed"),
        a_sim_job("late", 8, at_s=60.0, job_class="fixed"),
    ]
    site = Site(jobs, ledger=ledger)
    site.run(minutes=180)
    ledger.checkpoint(site.controller.state)
    ledger.close()
    return data


@pytest.mark.parametrize("where", ["played", "kept"])
def test_a_job_is_told_from_its_wait_to_where_it_ran(request, where):
    folder = request.getfixturevalue(where)
    story = explain("--job", "late", *(["--replay", folder] if where == "played" else ["--data", folder]))
    lines = story.splitlines()
    assert lines[0].startswith("job late: 8 GPUs, submitted 2026-12-01 09:01")
    assert not lines[0].endswith((",", " "))
    waited = [line for line in lines if line.startswith("  waited")]
    assert waited[0].endswith(("[waits_for_target]", "[at_home_soon]"))
    assert waited[-1].endswith("[coming]")
    assert len(waited) <= 4, "a wait is folded, not one line a tick"
    assert any("launch 1 node(s)" in line and "-> done" in line for line in lines)
    assert any(line.startswith("  ran from") and "i-sim-000001" in line for line in lines)


@pytest.mark.parametrize("where", ["played", "kept"])
def test_a_node_is_told_from_its_launch_to_its_return_and_its_price(request, where):
    folder = request.getfixturevalue(where)
    asked = ["--node", "i-sim-000001", *(["--replay", folder] if where == "played" else ["--data", folder])]
    story, values = explain(*asked), json.loads(explain(*asked, "--format", "json"))
    assert "rented because" in story
    assert "option " in story
    assert " USD/h (" in story
    assert "    for late" in story
    assert "ran job late" in story
    assert "given back" in story
    assert "idle for" in story
    assert values["for_jobs"] == ["late"]
    facts = values["facts"]
    hours = (datetime.fromisoformat(facts["released_at"]) - datetime.fromisoformat(facts["requested_at"])) / timedelta(
        hours=1
    )
    assert values["usd"] == pytest.approx(hours * facts["usd_per_hour"])


@pytest.mark.parametrize("where", ["played", "kept"])
def test_a_tick_is_found_by_number_and_by_time(request, where):
    folder = request.getfixturevalue(where)
    place = ["--replay", folder] if where == "played" else ["--data", folder]
    launch = json.loads(explain("--job", "late", *place, "--format", "json"))["mentions"][0]
    by_number = explain("--tick", launch["tick"], *place)
    at = datetime.fromisoformat(launch["at"])
    assert explain("--tick", at.isoformat(), *place) == by_number
    assert explain("--tick", (at + timedelta(seconds=30)).isoformat(), *place) == by_number
    assert "launch 1 node(s)" in by_number
    assert "done: launch" in by_number
    assert json.loads(explain("--tick", launch["tick"], *place, "--format", "json"))["outcomes"][0]["result"] == "done"


def test_the_sites_own_node_costs_nothing_and_tells_what_ran(kept):
    story = explain("--node", "onprem-0001", "--data", kept)
    assert "the site's own" in story
    assert "ran job long" in story
    assert "cost" not in story.splitlines()[-1].split()[:1]


def test_times_are_shown_in_the_asked_zone(kept):
    assert f"submitted {NOW:%Y-%m-%d} 17:01" in explain("--job", "late", "--data", kept, "--tz", "Asia/Shanghai")


def test_explaining_changes_no_byte_of_the_ledger(kept):
    before = (kept / "ledger.sqlite").read_bytes()
    explain("--job", "late", "--data", kept)
    explain("--node", "i-sim-000001", "--data", kept)
    assert (kept / "ledger.sqlite").read_bytes() == before


@pytest.mark.parametrize("what", ["--job", "--node", "--tick"])
def test_what_nobody_knows_is_a_finding(played, kept, what):
    name = "999999" if what == "--tick" else "nobody's"
    for place in (["--replay", played], ["--data", kept]):
        assert "knows no" in explain(what, name, *place, code=1)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "name one thing"),
        (["--job", "a", "--node", "b"], "name one thing"),
        (["--job", "a", "--data", "{tmp}"], "there is no ledger"),
        (["--job", "a", "--replay", "{tmp}"], "there is no decisions.jsonl"),
        (["--job", "a", "--ledger", "nonsense"], "nonsense"),
        (["--job", "a", "--tz", "Mars", "--data", "{tmp}"], "--tz Mars"),
        (["--tick", "noon", "--replay", "{played}"], "--tick noon"),
    ],
)
def test_bad_usage_ends_with_two(tmp_path, played, options, says):
    assert says in explain(*(o.format(tmp=tmp_path, played=played) for o in options), code=2)
    assert list(tmp_path.iterdir()) == [], "asking made a file"


def test_a_broken_line_of_decisions_is_named(tmp_path):
    (tmp_path / "decisions.jsonl").write_text('{"tick":1,"at":"x"}\n')
    assert f"{tmp_path / 'decisions.jsonl'}:1:" in explain("--tick", "1", "--replay", tmp_path, code=2)


def test_a_missing_table_of_a_replay_is_named(tmp_path):
    (tmp_path / "decisions.jsonl").write_text("")
    assert "jobs.parquet cannot be read" in explain("--job", "a", "--replay", tmp_path, code=2)


def a_mention(minute, became, what="give back n: idle for 3 min"):
    at = datetime(2026, 3, 2, 9, minute, tzinfo=UTC)
    return Mention(tick=minute, at=at, what=what, became=became, until=at)


def test_the_same_thing_withheld_again_and_again_is_one_mention():
    held = [a_mention(m, "withheld by ceiling: at most 1", f"give back n: idle for {m} min") for m in range(5)]
    folded = fold([*held, a_mention(5, "done"), a_mention(6, "done")])
    assert [(m.times, m.became[:4]) for m in folded] == [(5, "with"), (1, "done"), (1, "done")]
    assert folded[0].until.minute == 4


def test_a_wait_ends_where_the_job_starts_and_a_later_one_stays():
    start = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
    run = Run(job_id="a", attempt=0, node_ids=("n",), gpus=1, start=start, end=None)
    s = start.timestamp()

    def spell(from_s, to_s):
        return Spell(job_id="a", rule="r", detail="d", from_s=s + from_s, to_s=s + to_s)

    cut = until_started([spell(-600, 300), spell(0, 60), spell(900, 960)], [run])
    assert [(c.from_s - s, c.to_s - s) for c in cut] == [(-600, 0), (900, 960)]
