"""`elastic nodes`, `offerings`, `sweep` and `doctor` on what a real controller wrote down of an AWS in memory."""

import json
from datetime import timedelta

import pytest
from typer.testing import CliRunner

from elastic.cli import app
from elastic.ledger import SqlLedger
from elastic.machines import Stage, machines
from elastic.planning.state import ControllerState, InFlight
from elastic.sweep import findings
from providers.facts import CapacityType, InstanceState, Interruption, InterruptionKind, NodeState
from tests.aws.site import AwsSite, a_job, aws_policy
from tests.builders import NOW, a_node, a_snapshot, an_instance
from tests.planning.test_cloud_memory import a_launch


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The ledger folder of a site that rented three machines; one of them is announced to go."""
    folder = tmp_path_factory.mktemp("ledger")
    ledger = SqlLedger(f"sqlite:///{folder / 'ledger.sqlite'}")
    site = AwsSite([a_job(f"j{n}", team="rates") for n in range(3)], ledger=ledger)
    site.run(12)
    site.aws.interrupt(site.alive()[0].id)
    site.run(1)
    ledger.close()
    return folder


def run(*words):
    return CliRunner().invoke(app, list(words))


def test_nodes_shows_every_machine_with_its_stage_price_and_lease(kept):
    told = run("nodes", "--data", str(kept))
    assert told.exit_code == 0, told.output
    assert "3 rented machine(s)" in told.stdout
    assert "draining" in told.stdout
    assert "the cloud takes it away" in told.stdout
    values = json.loads(run("nodes", "--data", str(kept), "--format", "json").stdout)
    assert values["currency"] == "USD"
    assert len(values["machines"]) == 3
    assert {m["capacity_type"] for m in values["machines"]} == {"spot"}
    assert all(m["usd_per_hour"] > 0 and m["usd"] > 0 and m["lease_ends_at"] for m in values["machines"])


def test_nodes_of_a_pool_that_has_none_and_times_in_a_zone(kept):
    assert "0 rented machine(s)" in run("nodes", "--data", str(kept), "--pool", "other").stdout
    assert "Asia/Shanghai" in run("nodes", "--data", str(kept), "--tz", "Asia/Shanghai").stdout
    assert run("nodes", "--data", str(kept), "--tz", "Mars/Base").exit_code == 2


def test_offerings_tells_prices_with_source_and_age_and_what_is_set_aside(kept):
    told = run("offerings", "--data", str(kept), "--gpu", "a100")
    assert told.exit_code == 0, told.output
    assert "spot price history" in told.stdout
    values = json.loads(run("offerings", "--data", str(kept), "--format", "json").stdout)
    rows = values["offerings"]
    assert all(r["price_source"] and r["price_age_s"] >= 0 for r in rows)
    prices = [r["price_usd_per_hour"] / r["gpus"] for r in rows if r["price_usd_per_hour"] is not None]
    assert prices == sorted(prices), "the cheapest GPU comes first"


def test_offerings_of_a_model_nobody_offers_says_what_there_is(kept):
    told = run("offerings", "--data", str(kept), "--gpu", "b900")
    assert told.exit_code == 1
    assert "GPU models on offer: a100" in told.stderr


@pytest.mark.parametrize("command", ["nodes", "offerings"])
def test_without_a_ledger_the_command_says_what_makes_one(command, tmp_path):
    told = run(command, "--data", str(tmp_path))
    assert told.exit_code == 2
    assert "elastic run" in told.stderr


@pytest.mark.parametrize("command", [("doctor",), ("sweep", "--dry-run"), ("offerings",)])
def test_a_policy_without_an_account_is_refused_with_a_word(command, kept):
    told = run(*command, "--policy", "policies/default.yaml", *(("--data", str(kept)) if command[0] == "sweep" else ()))
    assert told.exit_code == 2
    assert "kind aws" in told.stderr


# The life of a machine


def stage_of(state=InstanceState.RUNNING, node=None, notice=None):
    machine = an_instance("i-1", state=state, node_id="i-1" if node else None)
    nodes = (a_node("i-1", pool="burst", instance_id="i-1", state=node),) if node else ()
    notices = (notice,) if notice else ()
    seen = a_snapshot(at=NOW + timedelta(minutes=5), instances=(machine,), nodes=nodes, interruptions=notices)
    (found,) = machines(seen, ControllerState())
    return found


NOTICE = Interruption(
    id="n", cloud="sim", instance_id="i-1", kind=InterruptionKind.SPOT_INTERRUPTION, noticed_at=NOW,
    ends_at=NOW + timedelta(minutes=7),
)  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "stage", "waits"),
    [
        ({"state": InstanceState.PENDING}, Stage.PENDING, True),
        ({}, Stage.RUNNING, True),
        ({"node": NodeState.JOINING}, Stage.JOINED, True),
        ({"node": NodeState.READY}, Stage.READY, False),
        ({"node": NodeState.CORDONED}, Stage.DRAINING, False),
        ({"node": NodeState.READY, "notice": NOTICE}, Stage.DRAINING, True),
        ({"state": InstanceState.TERMINATING}, Stage.TERMINATING, False),
        ({"state": InstanceState.TERMINATED}, Stage.TERMINATED, False),
    ],
)
def test_a_machine_goes_through_its_stages_each_with_its_deadline(facts, stage, waits):
    found = stage_of(**facts)
    assert found.stage is stage
    assert (found.deadline is not None) == waits
    assert bool(found.then) == waits


def test_a_machine_asked_for_and_not_listed_is_shown_as_requested():
    flights = {"t": InFlight(launch=a_launch(nodes=2), asked_at=NOW, instance_ids=("i-1", "i-2"))}
    found = machines(a_snapshot(instances=(an_instance("i-1", token="t"),)), ControllerState(in_flight=flights))
    assert {m.id: m.stage for m in found} == {"i-1": Stage.RUNNING, "i-2": Stage.REQUESTED}
    lost = {"t": InFlight(launch=a_launch(nodes=2), asked_at=NOW)}
    assert len(machines(a_snapshot(), ControllerState(in_flight=lost))) == 2


# The sweep


def found(*instances, recorded=("t",), in_flight=None):
    policy = aws_policy()
    return findings(instances, recorded=recorded, in_flight=in_flight or {}, policy=policy, at=NOW)


def machine(instance_id="i-1", **changes):
    return an_instance(instance_id, cloud="aws", capacity_type=CapacityType.SPOT, **{"token": "t", **changes})


def test_the_sweep_finds_nothing_where_everything_is_written_down():
    assert found(machine(), machine("i-2", token="gone", state=InstanceState.TERMINATED)) == []


def test_the_sweep_finds_leaks_both_ways_and_says_what_the_controller_does():
    flights = {"t9": InFlight(launch=a_launch(token="t9"), asked_at=NOW)}
    rows = found(
        machine("i-1", token="unknown"),
        machine("i-2", pool="old-pool"),
        machine("i-3", ends_at=NOW - timedelta(minutes=1)),
        in_flight=flights,
    )
    assert [(r.id, r.next_step.split()[0]) for r in rows] == [
        ("i-1", "adopted"), ("i-2", "given"), ("i-3", "it"), ("t9", "closed"),
    ]  # fmt: skip
