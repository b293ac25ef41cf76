"""Machines with our tags and without a record get one, once, and a person hears of it."""

import sqlalchemy as sa

from elastic.adoption import Adoptions
from elastic.ledger import SqlLedger
from elastic.ledger_engine import reading
from elastic.ledger_tables import INTENTS
from elastic.planning.plan import Launch, Plan
from elastic.planning.snapshot import Snapshot
from elastic.planning.state import Record
from providers.facts import InstanceState
from tests.builders import NOW, an_instance


def seen(*machines):
    return Record(
        tick=1, snapshot=Snapshot(at=NOW, instances=machines), plan=Plan(id="p", at=NOW, policy_hash="h"), outcomes=()
    )


def rows(ledger):
    with reading(ledger.engine) as connection:
        return {r.token: r for r in connection.execute(sa.select(INTENTS))}


def test_a_machine_no_launch_asked_for_is_adopted_once(tmp_path):
    ledger, said = SqlLedger(f"sqlite:///{tmp_path}/l.sqlite"), []
    adoptions = Adoptions(ledger.engine, said.append)
    for _ in range(3):
        adoptions.after_tick(seen(an_instance("i-1", token="lost"), an_instance("i-2", token="lost")))
    assert rows(ledger)["lost"].nodes == 2
    assert rows(ledger)["lost"].recorded
    assert len(said) == 1
    assert "i-1, i-2" in said[0]


def test_a_machine_of_a_known_launch_or_one_that_ended_is_not(tmp_path):
    ledger, said = SqlLedger(f"sqlite:///{tmp_path}/l.sqlite"), []
    launch = Launch(
        pool="burst", nodes=1, gang=False, offerings=(), token="known", needed_by=NOW, reason="for the test"
    )
    ledger.write_intent(launch, NOW)
    gone = an_instance("i-2", token="gone", state=InstanceState.TERMINATED)
    Adoptions(ledger.engine, said.append).after_tick(seen(an_instance("i-1", token="known"), gone))
    assert set(rows(ledger)) == {"known"}
    assert said == []


def test_an_adopted_launch_is_not_taken_for_one_in_flight_after_a_restart(tmp_path):
    url = f"sqlite:///{tmp_path}/l.sqlite"
    ledger = SqlLedger(url)
    Adoptions(ledger.engine, print).after_tick(seen(an_instance("i-1", token="lost")))
    ledger.close()
    assert SqlLedger(url).rebuild_state().in_flight == {}
