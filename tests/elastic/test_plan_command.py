"""`elastic plan`: one decision on a state - from the ledger or an edited file - that changes nothing."""

import json

import pytest
from typer.testing import CliRunner

from elastic.cli import app
from elastic.codec import Seen
from elastic.ledger import SqlLedger
from elastic.planning.state import ControllerMode, ControllerState, UnavailableOffering
from elastic.state_file import StateFileError, read_state, write_state
from tests.builders import NOW, a_job, a_node, a_snapshot, an_offering, running
from tests.builders_site import Site, a_sim_job

HOUR_S = 3600.0
# The pools of tests/builders, as a file.
POLICY = """
version: 1
mode: act
clusters: {main: {kind: sim}}
pools:
  onprem: {place: on-prem, cluster: main, gpu_model: gpu, gpus_per_node: 8, nodes: 4}
  burst:
    {place: burst, cluster: main, cloud: sim, gpu_model: gpu, gpus_per_node: 8, max_nodes: 100, lead_time: 240 s}
classes:
  batch: {wait_target: 15 min, checkpointable: true}
  fixed: {wait_target: 15 min}
default_class: batch
"""


def plan(*options, code=0):
    told = CliRunner().invoke(app, ["plan", *(str(o) for o in options)])
    assert told.exit_code == code, told.output
    return told


@pytest.fixture
def policy(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return path


def a_seen(**changes):
    """The site is full and a job has waited for twelve minutes."""
    waits = a_job("late", 8, submitted_at=NOW.replace(hour=8, minute=48))
    jobs = [running(f"r{n}", 8, (f"n{n}",), NOW.replace(hour=1)) for n in range(4)]
    parts = {"jobs": (*jobs, waits), "nodes": tuple(a_node(f"n{n}", used=8, job_ids=(f"r{n}",)) for n in range(4))}
    return Seen(snapshot=a_snapshot(**{**parts, **changes}), state=ControllerState())


@pytest.fixture
def state(tmp_path):
    path = tmp_path / "state.json"
    write_state(path, a_seen())
    return path


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A service's ledger after three hours in which a node was rented."""
    data = tmp_path_factory.mktemp("service")
    ledger = SqlLedger(f"sqlite:///{data / 'ledger.sqlite'}")
    site = Site([a_sim_job("long", 32, runs_s=9 * HOUR_S), a_sim_job("late", 8, at_s=60.0)], ledger=ledger)
    ledger.note_policy(content_hash="test", text=POLICY, at=NOW)
    site.run(minutes=180)
    ledger.checkpoint(site.controller.state)
    ledger.close()
    return data


def test_a_state_gives_targets_with_arithmetic_actions_and_cost(state, policy):
    told = plan("--state", state, "--policy", policy).stdout
    assert "target onprem: 40 GPUs (32 on-prem, 8 burst): 32 running + 8 waiting = 40" in told
    assert "launch 1 node(s) in burst" in told
    assert "cost 0.00 -> 4.00 USD an hour" in told


def test_the_same_state_gives_the_same_plan_as_text_and_as_json(state, policy):
    first, again = (plan("--state", state, "--policy", policy, "--format", "json").stdout for _ in range(2))
    assert first == again
    made = json.loads(first)
    assert [kind for kind, _ in made["actions"]] == ["Launch"]
    assert made["targets"][0]["gpus_burst"] == 8


def test_what_if_another_price_is_asked_by_editing_the_file(state, policy):
    document = json.loads(state.read_text())
    document["snapshot"]["offerings"][0]["price_usd_per_hour"] = 7.5
    state.write_text(json.dumps(document))
    assert "cost 0.00 -> 7.50 USD an hour" in plan("--state", state, "--policy", policy).stdout


def test_a_withheld_launch_is_told_with_its_rule(tmp_path, policy):
    path = tmp_path / "protected.json"
    seen = a_seen()
    protected = ControllerState(mode=ControllerMode.PROTECTED, mode_reason="the ledger is full")
    write_state(path, Seen(snapshot=seen.snapshot, state=protected))
    told = plan("--state", path, "--policy", policy).stdout
    assert "withheld launch" in told
    assert "the ledger is full" in told


def test_nothing_to_do_is_said(tmp_path, policy):
    path = tmp_path / "quiet.json"
    write_state(path, a_seen(jobs=(), nodes=(a_node("n0"),)))
    assert "nothing to do" in plan("--state", path, "--policy", policy).stdout


def test_the_ledgers_newest_state_is_planned_on_and_not_a_byte_changes(kept):
    before = (kept / "ledger.sqlite").read_bytes()
    told = plan("--data", kept)
    assert "plan " in told.stdout
    assert "running" in told.stdout
    assert told.stderr.count("not at hand") == 1, "its hash is not that of the noted text"
    assert (kept / "ledger.sqlite").read_bytes() == before


def test_a_saved_state_gives_the_plan_it_was_saved_with(kept, tmp_path):
    path = tmp_path / "now.json"
    first = plan("--data", kept, "--save", path).stdout
    text = tmp_path / "policy.yaml"
    text.write_text(POLICY)
    assert plan("--state", path, "--policy", text).stdout == first
    assert len(path.read_text().splitlines()) > 50, "indented for a person"


def test_a_ledger_without_a_tick_is_a_finding(tmp_path):
    SqlLedger(f"sqlite:///{tmp_path / 'ledger.sqlite'}").close()
    assert "no tick" in plan("--data", tmp_path, code=1).stderr


def test_no_ledger_is_told_and_none_is_made(tmp_path):
    assert "there is no ledger" in plan("--data", tmp_path, code=2).stderr
    assert list(tmp_path.iterdir()) == []


def test_every_state_comes_back_from_its_file_as_it_was(tmp_path):
    aside = UnavailableOffering(key=an_offering().key, until=NOW, strikes=2, error_kind="InsufficientCapacity")
    seen = Seen(snapshot=a_seen().snapshot, state=ControllerState(tick=7, at=NOW, unavailable={aside.key: aside}))
    write_state(tmp_path / "s.json", seen)
    assert read_state(tmp_path / "s.json") == seen


def test_every_complaint_about_a_state_comes_with_line_and_field(state):
    document = json.loads(state.read_text())
    document["snapshot"]["jobs"][0]["gpus"] = "many"
    document["snapshot"]["jobs"][4]["gpu"] = 8
    document["snapshot"]["nodes"][1]["state"] = "asleep"
    del document["snapshot"]["offerings"][0]["zone"]
    document["stat"] = {}
    state.write_text(json.dumps(document, indent=2))
    lines = state.read_text().splitlines()
    with pytest.raises(StateFileError) as trouble:
        read_state(state)
    told = trouble.value.complaints
    fields = [complaint.split(": ")[1] for complaint in told]
    assert sorted(fields) == [
        "snapshot.jobs.0.gpus", "snapshot.jobs.4.gpu", "snapshot.nodes.1.state", "snapshot.offerings.0.zone", "stat",
    ]  # fmt: skip
    for complaint, word in zip(
        sorted(told, key=lambda c: c.split(": ")[1]), ("many", '"gpu"', "asleep", "{", '"stat"'), strict=True
    ):
        line = int(complaint.split(": ")[0].rsplit(":", 1)[1])
        assert word in lines[line - 1], complaint


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", ":1: no JSON"),
        ("{\n\n oops}", ":3: no JSON"),
        ("[]", "the document"),
        ('"text"', "the document"),
        ("{}", "snapshot"),
        ('{"snapshot": {"at": "noon"}, "state": {}}', "snapshot.at"),
        ('{"snapshot": {"at": NaN}, "state": {}}', "snapshot.at"),
        ("[" * 100_000, "no state"),
        ("\ud800", "not UTF-8"),
    ],
)
def test_a_file_that_is_no_state_ends_with_two(tmp_path, text, says):
    path = tmp_path / "bad.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    told = plan("--state", path, code=2).stderr
    assert str(path) in told
    assert says in told


def test_a_missing_state_or_a_bad_policy_ends_with_two(tmp_path, state):
    assert "No such file" in plan("--state", tmp_path / "none.json", code=2).stderr
    (tmp_path / "bad.yaml").write_text("version: 1\npoools: {}\n")
    assert "poools" in plan("--state", state, "--policy", tmp_path / "bad.yaml", code=2).stderr
    assert "--save" in plan("--state", state, "--save", tmp_path / "no" / "folder.json", code=2).stderr
