"""`elastic replay`: its files are whole or not there, its report can be read by those who were not there."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from zoneinfo import ZoneInfo

import pandas as pd
import pytest
from typer.testing import CliRunner

from elastic.cli import app
from elastic.codec import CodecError, decision_from_json
from elastic.planning.plan import Launch, Wait
from elastic.policy_file import default_policy_path, load_policy
from elastic.replay import TraceJob, replay, sim_jobs
from elastic.replay_files import job_table, on_unix_clock, read_trace, score, tables, waits_table, write_replay
from elastic.replay_waits import wait_spells
from elastic.report import Told, report_html, worst_waits
from elastic.report_plots import supply_plot
from elastic.report_series import series_of
from providers.clock import SystemClock
from tests.builders import a_policy

ROOT = Path(__file__).parents[2]
CLOCK = SystemClock()
FILES = {
    "segments.parquet",
    "nodes.parquet",
    "jobs.parquet",
    "waits.parquet",
    "decisions.jsonl",
    "summary.json",
    "report.html",
}
HOUR_S = 3600.0


def sample(folder, *, days, scale=1.0):
    path = folder / f"desk-{days}-{scale:g}.parquet"
    made = CliRunner().invoke(
        app, ["history", "sample", "--out", str(path), "--days", str(days), "--seed", "3", "--scale", str(scale)]
    )
    assert made.exit_code == 0, made.output
    return path


@pytest.fixture(scope="module")
def week(tmp_path_factory):
    """A week of the made-up desk, replayed: (trace, output folder, what was printed, seconds)."""
    folder = tmp_path_factory.mktemp("week")
    trace = sample(folder, days=7)
    began = CLOCK.now()
    told = CliRunner().invoke(app, ["replay", str(trace), "--onprem-gpus", "128", "--out", str(folder / "out")])
    seconds = (CLOCK.now() - began).total_seconds()
    assert told.exit_code == 0, told.output
    return trace, folder / "out", told, seconds


def test_a_replay_writes_every_file_and_nothing_else(week):
    _, out, told, _ = week
    assert {p.name for p in out.iterdir()} == FILES
    assert "report.html" in told.stdout


def test_a_week_takes_at_most_ten_seconds(week):
    assert week[3] <= 10


def test_every_tick_that_acted_can_be_read_back_with_reasons_and_outcomes(week):
    _, out, _, _ = week
    records = [decision_from_json(line) for line in (out / "decisions.jsonl").read_text().splitlines()]
    assert len(records) > 20
    assert all(r.plan.actions or r.plan.withheld for r in records)
    assert all(a.reason for r in records for a in r.plan.actions)
    launches = [(r, a) for r in records for a in r.plan.actions if isinstance(a, Launch)]
    assert launches
    assert all(a.key in {o.action_key for o in r.outcomes} for r, a in launches)
    assert [r.tick for r in records] == sorted(r.tick for r in records)


def test_a_line_that_is_no_decision_is_told_as_such():
    for line in ("", "{}", '{"tick": 1}', "[1]", '{"tick": 1, "at": "noon", "plan": {}}'):
        with pytest.raises(CodecError):
            decision_from_json(line)


def test_the_report_needs_nothing_else_and_says_zone_prices_and_why_there_is_no_forecast(week):
    trace, out, _, _ = week
    page = (out / "report.html").read_text()
    assert re.findall(r'(?:src|href)="(?!data:image/svg)', page) == []
    assert str(trace) in page
    assert "times in UTC" in page
    assert "spot: 1.20 USD per GPU-hour" in page
    assert "no day after 8 days of warm-up" in page
    assert page.count("data:image/svg+xml;base64,") == 3


def test_the_report_escapes_what_a_trace_says():
    policy = a_policy()
    trace = [
        TraceJob(id="<script>alert(1)</script>", submit_s=0.0, gpus=32, duration_s=9 * HOUR_S, team="<b>x</b>"),
        TraceJob(id="<i>late</i>", submit_s=60.0, gpus=32, duration_s=HOUR_S),
        TraceJob(id="end", submit_s=20 * HOUR_S, gpus=1, duration_s=1.0),
    ]
    done = replay(sim_jobs(trace, policy, checkpointable_share=1.0, seed=0), policy, onprem_gpus=32)
    told = Told(trace="<u>t</u>", policy="p", onprem_gpus=32, checkpointable=1.0, seed=0)
    page = report_html(trace, done, policy, score(trace, done, onprem_gpus=32), told=told, forecast=False)
    assert "<script>" not in page
    assert "<i>late" not in page
    assert "&lt;i&gt;late&lt;/i&gt;" in page
    assert "--no-forecast" in page


def test_a_replay_in_which_nobody_waits_and_nothing_is_rented_has_a_report():
    policy = a_policy()
    trace = [TraceJob(id="one", submit_s=0.0, gpus=1, duration_s=60.0)]
    done = replay(sim_jobs(trace, policy, checkpointable_share=1.0, seed=0), policy, onprem_gpus=32)
    told = Told(trace="t", policy="p", onprem_gpus=32, checkpointable=1.0, seed=0)
    figures = {**score(trace, done, onprem_gpus=32), "ratio": None}
    page = report_html(trace, done, policy, figures, told=told)
    for words in ("Nothing was rented", "Nobody waited", "shorter than a day", "none needed"):
        assert words in page


def test_the_worst_waits_come_with_the_reasons_told_while_they_lasted():
    policy = a_policy()
    trace = [
        TraceJob(id="long", submit_s=0.0, gpus=32, duration_s=9 * HOUR_S),
        TraceJob(id="late", submit_s=60.0, gpus=32, duration_s=HOUR_S),
        TraceJob(id="end", submit_s=20 * HOUR_S, gpus=1, duration_s=1.0),
    ]
    done = replay(sim_jobs(trace, policy, checkpointable_share=0.0, seed=0), policy, onprem_gpus=32)
    jobs = job_table(trace, tables(done)[0], until_s=done.until_s)
    worst = worst_waits(jobs, waits_table(done), zone=SystemClock().now().tzinfo)
    assert [w.job_id for w in worst] == ["late"]
    rules = [rule for rule, _, _ in worst[0].reasons]
    assert set(rules) == {"waits_for_target", "coming"}
    assert sum(s for _, _, s in worst[0].reasons) <= worst[0].wait_s + 60


def a_wait(rule, *ids):
    return Wait(job_ids=ids, rule=rule, detail=f"because {rule}")


def test_waits_are_folded_into_spells_that_end_when_the_reason_changes_or_the_job_is_gone():
    told = [
        (0.0, (a_wait("x", "a", "b"),)),
        (60.0, (a_wait("x", "a"), a_wait("y", "b"))),
        (120.0, (a_wait("x", "a"),)),
        (180.0, ()),
        (240.0, (a_wait("x", "a"),)),
    ]
    spells = [(s.job_id, s.rule, s.from_s, s.to_s) for s in wait_spells(told, until_s=300.0)]
    assert sorted(spells) == [
        ("a", "x", 0.0, 180.0),
        ("a", "x", 240.0, 300.0),
        ("b", "x", 0.0, 60.0),
        ("b", "y", 60.0, 120.0),
    ]


def test_the_money_of_the_report_ends_where_the_score_does(week):
    _, out, _, _ = week
    trace = read_trace(week[0])
    segments, nodes = (pd.read_parquet(out / f"{name}.parquet") for name in ("segments", "nodes"))
    summary = json.loads((out / "summary.json").read_text())
    start_s, until_s = trace[0].submit_s, trace[-1].submit_s
    jobs = job_table(trace, segments, until_s=until_s)
    site = series_of(trace, jobs, segments, nodes, onprem_gpus=128, start_s=start_s, until_s=until_s)
    assert site.usd[-1] == pytest.approx(summary["paid_usd"], rel=1e-4)
    assert site.least_usd[-1] * summary["ratio"] == pytest.approx(summary["paid_usd"], rel=2e-3)
    assert (site.usd[1:] >= site.usd[:-1] - 1e-6).all()
    assert site.home_gpus == 128


def test_a_crash_loop_of_ten_thousand_gpus_leaves_the_picture_at_the_top_and_is_told():
    """F025: one wild hour must not press everything else flat."""
    policy = a_policy()
    calm = [TraceJob(id=f"c{n}", submit_s=n * HOUR_S, gpus=8, duration_s=3 * HOUR_S) for n in range(120)]
    wild = [TraceJob(id=f"w{n}", submit_s=60 * HOUR_S, gpus=200, duration_s=30.0) for n in range(50)]
    trace = sorted([*calm, *wild], key=lambda job: job.submit_s)
    done = replay(sim_jobs(trace, policy, checkpointable_share=1.0, seed=0), policy, onprem_gpus=32)
    jobs, (segments, nodes) = job_table(trace, tables(done)[0], until_s=done.until_s), tables(done)
    start_s, until_s = done.start_s, done.until_s
    site = series_of(trace, jobs, segments, nodes, onprem_gpus=32, start_s=start_s, until_s=until_s)
    assert site.demand_gpus.max() >= 10_000
    assert "cut off here" in picture_text(supply_plot(site, zone=ZoneInfo("UTC")))


def picture_text(uri):
    """Matplotlib draws letters as paths and keeps each text as a comment."""
    return b64decode(uri.removeprefix("data:image/svg+xml;base64,")).decode()


def test_writing_that_fails_half_way_leaves_the_earlier_files_and_no_parts(tmp_path):
    """A full disk or Ctrl-C while files are written: each file is a whole one."""
    policy = a_policy()
    trace = [TraceJob(id="one", submit_s=0.0, gpus=1, duration_s=60.0)]
    done = replay(sim_jobs(trace, policy, checkpointable_share=1.0, seed=0), policy, onprem_gpus=32)
    write_replay(tmp_path, done, {"run": 1}, texts={"report.html": "first"})

    with pytest.raises(UnicodeEncodeError):  # half a surrogate pair: the last of the files cannot be written
        write_replay(tmp_path, done, {"run": 2}, texts={"report.html": "\ud800"})
    assert (tmp_path / "report.html").read_text() == "first"
    assert json.loads((tmp_path / "summary.json").read_text()) == {"run": 1}
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def whole(path):
    """Reads the file as its kind, so that half a file fails."""
    match path.suffix:
        case ".parquet":
            pd.read_parquet(path)
        case ".jsonl":
            assert path.read_text().endswith("\n")
            [decision_from_json(line) for line in path.read_text().splitlines()]
        case ".json":
            json.loads(path.read_text())
        case _:
            assert path.read_text().rstrip().endswith("</html>")


@pytest.mark.parametrize("after_s", [0.0, 1.5, 4.0])
def test_ctrl_c_ends_a_replay_with_130_and_whole_files_or_none(tmp_path, after_s):
    trace, out = sample(tmp_path, days=28), tmp_path / "out"
    command = [sys.executable, "-m", "elastic", "replay", str(trace), "--onprem-gpus", "96", "--out", str(out)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    CLOCK.wait(60.0, until=out.exists)  # made when the work begins
    CLOCK.wait(after_s)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    for path in out.iterdir() if out.exists() else ():
        assert path.name in FILES, "a part was left behind"
        whole(path)


def test_no_bar_is_drawn_where_nobody_looks(tmp_path):
    trace = sample(tmp_path, days=5)
    command = [
        sys.executable,
        "-m",
        "elastic",
        "replay",
        str(trace),
        "--onprem-gpus",
        "96",
        "--out",
        str(tmp_path / "o"),
    ]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, env={**os.environ, "TERM": "xterm"}
    )
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "the file is empty"),
        (b"job_id,submit_s,gpus,start_s,end_s\n", "bad.csv"),
        (b"job_id,submit_s,gpus,start_s,end_s\na,1600000000,512,1600000000,1600003600\n", "at most 256 GPUs"),
        (
            gzip.compress(b"job_id,submit_s,gpus,start_s,end_s\n" + 9000 * b"a,1600000000,8,1600000000,1600003600\n")[
                :90
            ],
            "bad.csv",
        ),
    ],
    ids=["empty", "no rows", "too large", "cut gzip"],  # bytes as ids would carry the gzip's time
)
def test_a_history_that_tells_nothing_is_refused_and_no_file_is_written(tmp_path, content, says):
    path, out = tmp_path / ("bad.csv.gz" if content[:2] == b"\x1f\x8b" else "bad.csv"), tmp_path / "out"
    path.write_bytes(content)
    told = CliRunner().invoke(app, ["replay", str(path), "--onprem-gpus", "64", "--out", str(out)])
    assert told.exit_code == 2, told.output
    assert says in told.stderr
    assert not out.exists()


def test_a_history_of_one_job_is_replayed(tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("job_id,submit_s,gpus,start_s,end_s\na,1600000000,8,1600000000,1600003600\n")
    told = CliRunner().invoke(
        app, ["replay", str(path), "--onprem-gpus", "64", "--out", str(tmp_path / "out"), "--format", "json"]
    )
    assert told.exit_code == 0, told.output
    summary = json.loads(told.stdout, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert (summary["jobs"], summary["paid_usd"], summary["ratio"]) == (1, 0.0, None)
    assert "Nobody waited" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["nothing.parquet", "--onprem-gpus", "8", "--out", "{tmp}/o"], "nothing.parquet"),
        (["{desk}", "--onprem-gpus", "3", "--out", "{tmp}/o"], "less than one node of 8 GPUs"),
        (["{desk}", "--onprem-gpus", "8", "--out", "{desk}"], "--out"),
        (["{desk}", "--onprem-gpus", "8", "--out", "{tmp}/o", "--policy", "{desk}"], "desk"),
    ],
)
def test_bad_input_ends_with_two_and_says_which(tmp_path, options, says):
    desk = sample(tmp_path, days=1)
    told = CliRunner().invoke(app, ["replay", *(o.format(desk=desk, tmp=tmp_path) for o in options)])
    assert told.exit_code == 2, told.output
    assert says in told.stderr


def test_tables_of_a_relative_trace_are_on_its_own_clock_and_find_their_way_back(tmp_path):
    source = tmp_path / "p.csv"
    source.write_text("vc,job_id,submit_s,gpus,duration_s\nv,1,0,4,600\nv,2,30,4,600\nv,3,900,4,60\n")
    trace = read_trace(source)
    policy = load_policy(default_policy_path().with_name("replay.yaml"), at=trace[0].submitted_at, data_may_end=True)
    done = replay(sim_jobs(trace, policy, checkpointable_share=1.0, seed=0), policy, onprem_gpus=8)
    write_replay(tmp_path / "out", done, {}, zero_s=trace[0].zero_s)
    kept = pd.read_parquet(tmp_path / "out" / "segments.parquet")
    assert kept.start_s.min() == 0.0
    assert kept.start_s.max() < 3600.0
    assert on_unix_clock(kept).start_s.min() == trace[0].submit_s
