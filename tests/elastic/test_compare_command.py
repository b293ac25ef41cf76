"""The baselines people run today, and the command that sets them beside a policy."""

import json

import pytest
from typer.testing import CliRunner

from benchmarks import economics
from elastic.baselines import BASELINES, baseline
from elastic.cli import app
from elastic.comparison import Case, Contender, baselines_of, compare, play
from elastic.planning.plan import Launch, Move, Purpose
from elastic.planning.policy import JobClass, Mode
from elastic.replay import TraceJob
from elastic.replay_policy import as_played
from tests.builders import a_policy

MIN_S, HOUR_S = 60.0, 3600.0
CASE = Case(onprem_gpus=32)


def a_trace(*jobs):
    """(GPUs, submitted at minute, runs minutes), and one more at the very end so that all of it is played."""
    rows = [
        TraceJob(id=f"j{n}", submit_s=at * MIN_S, gpus=gpus, duration_s=runs * MIN_S)
        for n, (gpus, at, runs) in enumerate(jobs)
    ]
    return [*rows, TraceJob(id="last", submit_s=48 * HOUR_S, gpus=1, duration_s=1.0)]


def played(name, trace, case=CASE):
    found = next(c for c in baselines_of(a_policy()) if c.name == name)
    return play(trace, found, case)


def actions(done, kind):
    return [(r.plan.at.timestamp(), a) for r in done.ledger.records for a in r.plan.actions if isinstance(a, kind)]


def starts_s(done):
    return {row[0]: row[4] for row in done.world.record.segments if row[1] == 0}


FULL = (32, 0, 600)  # fills the site for ten hours


def test_burst_at_once_rents_in_the_first_tick_and_starts_when_the_node_is_there():
    done = played("burst-at-once", a_trace(FULL, (8, 1, 60)))
    assert [at for at, _ in actions(done, Launch)] == [60.0]
    assert starts_s(done)["j1"] <= 60.0 + 240.0 + 60.0


def test_the_fixed_wait_is_ten_minutes_before_anything_is_rented():
    done = played("wait-10-min", a_trace(FULL, (8, 1, 60)))
    first_s = min(at for at, _ in actions(done, Launch))
    assert 660.0 <= first_s <= 720.0


def test_no_burst_rents_nothing_and_everybody_waits_for_home():
    done = played("no-burst", a_trace(FULL, (8, 1, 60)))
    assert actions(done, Launch) == []
    assert starts_s(done)["j1"] == pytest.approx(600 * MIN_S)


def test_going_home_is_the_only_move_that_go_home_only_knows():
    # Two single GPUs on two nodes keep a gang of 32 out; packing them together would let it in.
    trace = a_trace((8, 0, 30), (8, 0, 30), (8, 0, 30), (8, 0, 600), (8, 1, 600), (32, 2, 100))
    done = played("go-home-only", trace)
    moves = [move for _, move in actions(done, Move)]
    assert moves
    assert {move.purpose for move in moves} == {Purpose.HOME}


def test_baselines_that_do_not_go_home_move_nothing():
    trace = a_trace((8, 0, 30), (8, 0, 30), (8, 0, 30), (8, 0, 600), (8, 1, 600), (32, 2, 100))
    for name in ("burst-at-once", "wait-10-min", "no-burst"):
        assert actions(played(name, trace), Move) == []


def test_a_baseline_changes_the_classes_and_nothing_else_of_a_policy():
    policy = a_policy()
    for one in BASELINES:
        mine = one.policy(policy)
        assert mine.pools == policy.pools
        assert mine.content_hash != policy.content_hash
        assert mine.classes.keys() == policy.classes.keys()


def test_an_unknown_baseline_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="burst-at-once, wait-10-min, go-home-only, no-burst"):
        baseline("pray")


def test_every_contender_is_scored_on_the_same_unavoidable_hours():
    trace = a_trace(FULL, (8, 1, 600), (8, 30, 600))
    contenders = [Contender(name="ours", title="ours", policy=a_policy()), *baselines_of(a_policy())]
    told = []
    figures = compare(trace, contenders, CASE, progress=lambda name, share: told.append((name, share)))
    assert list(figures) == ["ours", *(b.name for b in BASELINES)]
    assert len({row["unavoidable_gpu_h"] for row in figures.values()}) == 1
    assert figures["no-burst"]["paid_gpu_h"] == 0
    assert figures["ours"]["paid_gpu_h"] <= figures["burst-at-once"]["paid_gpu_h"]
    assert [share for _, share in told] == sorted(share for _, share in told)


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """Two days of the made-up desk."""
    path = tmp_path_factory.mktemp("trace") / "desk.parquet"
    made = CliRunner().invoke(app, ["history", "sample", "--out", str(path), "--days", "2", "--seed", "2"])
    assert made.exit_code == 0, made.output
    return path


def test_the_command_prints_a_column_for_each_policy_and_baseline(desk):
    told = CliRunner().invoke(app, ["compare", str(desk), "--onprem-gpus", "96"])
    assert told.exit_code == 0, told.output
    assert "paid / unavoidable" in told.stdout
    assert "no burst" in " ".join(told.stdout.split())


def test_json_names_two_files_of_one_name_apart_and_leaves_the_baselines_out(desk):
    ours = ["--policies", "policies/replay.yaml"]
    told = CliRunner().invoke(
        app,
        ["compare", str(desk), "--onprem-gpus", "96", "--no-baselines", "--format", "json", *2 * ours],
    )
    assert told.exit_code == 0, told.output
    rows = json.loads(told.stdout)["contenders"]
    assert [row["name"] for row in rows] == ["replay", "replay-2"]
    assert rows[0]["paid_gpu_h"] == rows[1]["paid_gpu_h"] > 0


def test_a_site_that_needs_no_cloud_has_no_ratio_and_valid_json(desk):
    told = CliRunner().invoke(
        app, ["compare", str(desk), "--onprem-gpus", "4096", "--no-baselines", "--format", "json"]
    )
    assert told.exit_code == 0, told.output
    row = json.loads(told.stdout, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))["contenders"][0]
    assert row["ratio"] is None


@pytest.mark.parametrize("who", [[], ["--baseline", "no-burst"]])
def test_the_benchmark_of_economics_plays_one_case_and_writes_the_judges_tables(
    desk, tmp_path, capsys, monkeypatch, who
):
    asked = [
        "--trace",
        str(desk),
        "--onprem-gpus",
        "96",
        "--checkpointable",
        "0.5",
        "--seed",
        "3",
        "--out",
        str(tmp_path),
    ]
    monkeypatch.setattr("sys.argv", ["economics", *asked, *who])
    assert economics.main() == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["onprem_gpus"], row["checkpointable"]) == (96, 0.5)
    assert (row["paid_gpu_h"] > 0) is not bool(who)
    assert (tmp_path / "segments.parquet").exists()
    assert (tmp_path / "nodes.parquet").exists()


@pytest.mark.parametrize("name", ["default", "kubernetes-site", "quant-desk", "small-site"])
def test_every_example_policy_with_a_site_can_be_played_and_acts(desk, name):
    policies = ["--policies", f"policies/{name}.yaml"]
    told = CliRunner().invoke(
        app,
        ["compare", str(desk), "--onprem-gpus", "64", "--no-baselines", "--format", "json", *policies],
    )
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["contenders"][0]["paid_gpu_h"] > 0


def test_a_policy_is_played_on_one_family_of_its_pools_and_it_says_what_was_changed():
    policy = a_policy()
    other = policy.pools["burst"].model_copy(update={"gpu_model": "other"})
    desk = a_policy(pools={**policy.pools, "other": other}, mode=Mode.ADVISE, classes={"batch": JobClass()})
    played, notes = as_played(desk)
    assert list(played.pools) == ["onprem", "burst"]
    assert played.mode is Mode.ACT
    assert ["other" in notes[0], "advise" in notes[1], "no class fixed" in notes[2]] == [True] * 3
    assert as_played(policy)[1] == ()
    with pytest.raises(ValueError, match="on-prem"):
        as_played(a_policy(pools={"burst": policy.pools["burst"]}))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["missing.parquet", "--onprem-gpus", "8"], "missing.parquet"),
        (["{desk}", "--onprem-gpus", "4"], "less than one node of 8 GPUs"),
        (["{desk}", "--onprem-gpus", "8", "--policies", "missing.yaml"], "missing.yaml"),
        (["{desk}", "--onprem-gpus", "8", "--policies", "policies/night-batch.yaml"], "add one with `place: on-prem`"),
    ],
)
def test_bad_input_ends_with_two_and_says_which(desk, options, says):
    told = CliRunner().invoke(app, ["compare", *(o.format(desk=desk) for o in options)])
    assert told.exit_code == 2
    assert says in told.stderr
