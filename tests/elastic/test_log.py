"""The event log: JSON lines for programs."""

import json

from elastic.log import EventLog
from elastic.planning.plan import Launch, Plan, Withheld
from elastic.planning.snapshot import Reading
from elastic.planning.state import Outcome, Record, Result
from tests.builders import NOW, a_snapshot, an_offering


def a_launch(token: str) -> Launch:
    return Launch(
        pool="burst", nodes=1, gang=False, offerings=(an_offering(),), token=token, needed_by=NOW, reason="work waits"
    )


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_tick_that_acted_leaves_its_plan_and_every_outcome_with_the_plan_s_id(tmp_path):
    bought, held = a_launch("t1"), a_launch("t2")
    plan = Plan(
        id="p1", at=NOW, policy_hash="h", actions=(bought,),
        withheld=(Withheld(action=held, rule="budget_day", detail="spent"),),
    )  # fmt: skip
    outcome = Outcome(action_key=bought.key, result=Result.FAILED, error_kind="throttled", detail="slow down")
    log = EventLog(tmp_path / "elastic.log")
    log.after_tick(Record(tick=7, snapshot=a_snapshot(), plan=plan, outcomes=(outcome,)))
    log.close()
    told = lines(tmp_path / "elastic.log")
    assert [(t["event"], t["plan"], t["tick"]) for t in told] == [
        ("plan", "p1", 7), ("withheld", "p1", 7), ("outcome", "p1", 7),
    ]  # fmt: skip
    assert told[1]["rule"] == "budget_day"
    assert (told[2]["level"], told[2]["error"], told[2]["reason"]) == ("warning", "throttled", "work waits")


def test_a_source_that_could_not_be_read_is_told_and_a_quiet_tick_is_not(tmp_path):
    log = EventLog(tmp_path / "elastic.log")
    quiet = Plan(id="p", at=NOW, policy_hash="h")
    log.after_tick(Record(tick=1, snapshot=a_snapshot(), plan=quiet, outcomes=()))
    blind = a_snapshot(readings=(Reading(source="cluster:main", read_at=NOW, error="timed out"),))
    log.after_tick(Record(tick=2, snapshot=blind, plan=quiet, outcomes=()))
    log.close()
    assert [(t["event"], t["tick"], t["error"]) for t in lines(tmp_path / "elastic.log")] == [
        ("source_unreadable", 2, "timed out")
    ]


def test_a_full_disk_costs_lines_but_no_tick():
    log = EventLog("/dev/full")
    log.event("started", at=NOW)
    log.close()
