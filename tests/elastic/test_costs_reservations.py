"""Reservations of nodes and money: never over a cap, whoever launches at once; freed only by a confirmed end (F016)."""

import threading
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from elastic.act import apply_plan
from elastic.ledger import SqlLedger
from elastic.ledger_port import BudgetRefused, Caps
from elastic.ledger_tables import INTENTS, RESERVATIONS
from elastic.planning.plan import Launch, Plan
from elastic.planning.policy import Money, Pool
from elastic.planning.snapshot import Reading
from elastic.planning.state import ControllerState, InFlight, Outcome, Record, Result
from providers.errors import InsufficientCapacity, Unreachable
from providers.facts import CapacityType, InstanceState, LaunchReply, OfferingFailure
from providers.ports import Ports
from tests.builders import NOW, a_policy, a_snapshot, an_instance, an_offering
from tests.builders_site import Site, a_market, a_sim_job

CAPS = Caps(usd_per_hour=40.0, max_nodes=10)


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'ledger.sqlite'}"


@pytest.fixture
def ledger(url):
    opened = SqlLedger(url)
    yield opened
    opened.close()


def a_launch(token, nodes=1, **changes):
    parts = {
        "pool": "burst", "nodes": nodes, "gang": False, "offerings": (an_offering(),), "token": token,
        "needed_by": NOW, "reason": "work waits", "team": "alpha",
    }  # fmt: skip
    return Launch(**{**parts, **changes})


def held(ledger):
    """(nodes, USD an hour) of every open reservation by token."""
    with ledger.engine.connect() as connection:
        rows = connection.execute(sa.select(RESERVATIONS).where(RESERVATIONS.c.closed_at.is_(None))).all()
    return {row.token: (row.nodes, row.usd_per_hour) for row in rows}


def why(ledger, token):
    with ledger.engine.connect() as connection:
        return connection.execute(sa.select(RESERVATIONS.c.why).where(RESERVATIONS.c.token == token)).scalar()


def tick(ledger, *, at=NOW, launch=None, outcome=None, flights=(), instances=(), blind=False, prices=None):
    """One record as the controller appends it."""
    snapshot = a_snapshot(at=at, instances=tuple(instances))
    if blind:
        snapshot = replace(snapshot, readings=(Reading(source="cloud:sim", read_at=at, error="page 2"),))
    plan = Plan(id="p", at=at, policy_hash="h", actions=(launch,) if launch else ())
    outcomes = (replace(outcome, action_key=launch.key),) if launch else ()
    state = ControllerState(in_flight={f.launch.token: f for f in flights}, prices=prices or {})
    ledger.append(Record(tick=1, snapshot=snapshot, plan=plan, outcomes=outcomes), state)


def failed(kind):
    return Outcome(action_key="", result=Result.FAILED, error_kind=kind)


def came(*instances, result=Result.DONE):
    return Outcome(
        action_key="", result=result, instances=instances, provider_ids=tuple(i.id for i in instances)
    )  # fmt: skip


class CountingCloud:
    """A cloud that gives whatever it is asked for, and counts it."""

    def __init__(self):
        self.lock, self.nodes, self.together = threading.Lock(), 0, threading.Barrier(8)

    def launch(self, request):
        with self.lock:
            first = self.nodes
            self.nodes += request.nodes
        names = [f"{request.token}-{first + n}" for n in range(request.nodes)]
        return LaunchReply(instances=tuple(an_instance(i, token=request.token) for i in names))


def test_eight_threads_against_one_limit_rent_exactly_the_limit(url):
    """F016: 25 jobs, 10 nodes, 40 USD an hour at 4 each, every thread with a ledger of its own on the same file."""
    cloud = CountingCloud()
    pool = Pool(place="burst", cluster="main", cloud="sim", gpu_model="gpu", gpus_per_node=8, max_nodes=10)
    policy = a_policy(pools={"burst": pool}, money=Money(usd_per_hour=40.0))
    ports = Ports(clock=None, clouds={"sim": cloud})
    SqlLedger(url).close()
    outcomes, lock = [], threading.Lock()

    def launch_some(number):
        mine = SqlLedger(url)
        cloud.together.wait(timeout=60)
        for job in range(number, 25, 8):
            plan = Plan(id="p", at=NOW, policy_hash="h", actions=(a_launch(f"job-{job}"),))
            done = apply_plan(plan, ports, policy, mine)
            with lock:
                outcomes.extend(done)
        mine.close()

    threads = [threading.Thread(target=launch_some, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert cloud.nodes == 10
    assert [o.result for o in outcomes].count(Result.DONE) == 10
    refused = [o for o in outcomes if o.result is Result.SKIPPED]
    assert len(refused) == 15
    assert all(o.detail.startswith("budget: ") for o in refused)


def test_money_and_nodes_are_each_a_cap_and_the_dearest_offering_counts(ledger):
    dear = replace(an_offering(), capacity_type=CapacityType.ON_DEMAND, price_usd_per_hour=12.0)
    ledger.write_intent(a_launch("one", 3, offerings=(an_offering(), dear)), NOW, caps=CAPS)
    assert held(ledger) == {"one": (3, 36.0)}
    with pytest.raises(BudgetRefused, match=r"36.00 of 40.00 USD an hour are reserved, 8.00 more asked"):
        ledger.write_intent(a_launch("two", 2), NOW, caps=CAPS)
    with pytest.raises(BudgetRefused, match="3 of 4 nodes of burst are reserved, 2 more asked"):
        ledger.write_intent(a_launch("two", 2), NOW, caps=Caps(max_nodes=4))
    ledger.write_intent(a_launch("two", 1), NOW, caps=CAPS)
    assert sum(usd for _, usd in held(ledger).values()) == 40.0


def test_nodes_of_other_pools_do_not_count_for_a_pool_but_their_money_does(ledger):
    ledger.write_intent(a_launch("one", 9, pool="other"), NOW, caps=Caps())
    ledger.write_intent(a_launch("two", 1), NOW, caps=CAPS)
    with pytest.raises(BudgetRefused, match="USD an hour"):
        ledger.write_intent(a_launch("three", 1), NOW, caps=CAPS)


def test_a_refused_launch_leaves_no_token_behind(ledger):
    with pytest.raises(BudgetRefused):
        ledger.write_intent(a_launch("one", 11), NOW, caps=CAPS)
    with ledger.engine.connect() as connection:
        assert connection.execute(sa.select(INTENTS)).all() == []
    assert held(ledger) == {}


def test_the_same_token_again_holds_its_nodes_once(ledger):
    for _ in range(2):
        ledger.write_intent(a_launch("one", 6), NOW, caps=CAPS)
    assert held(ledger) == {"one": (6, 24.0)}


def test_a_launch_that_failed_for_sure_frees_its_reservation_at_once(ledger):
    launch = a_launch("one", 6)
    ledger.write_intent(launch, NOW, caps=CAPS)
    tick(ledger, launch=launch, outcome=failed(InsufficientCapacity.kind))
    assert held(ledger) == {}
    assert why(ledger, "one") == "launch failed: insufficient_capacity"


@pytest.mark.parametrize("kind", [Unreachable.kind, "unknown_trouble"])
def test_an_answer_that_never_came_holds_the_budget_until_whole_listings_show_nothing_for_long(ledger, kind):
    launch = a_launch("one", 6)
    ledger.write_intent(launch, NOW, caps=CAPS)
    tick(ledger, launch=launch, outcome=failed(kind))
    tick(ledger, at=NOW + timedelta(minutes=9))
    assert held(ledger) == {"one": (6, 24.0)}
    tick(ledger, at=NOW + timedelta(minutes=30), blind=True)
    assert held(ledger) == {"one": (6, 24.0)}
    tick(ledger, at=NOW + timedelta(minutes=31))
    assert held(ledger) == {}


def test_a_launch_in_flight_holds_its_nodes_however_old_it_is(ledger):
    launch = a_launch("one", 2)
    ledger.write_intent(launch, NOW, caps=CAPS)
    flight = InFlight(launch=launch, asked_at=NOW)
    tick(ledger, at=NOW + timedelta(minutes=25), flights=[flight])
    assert held(ledger) == {"one": (2, 8.0)}


def test_a_partial_launch_shrinks_to_what_came_at_its_own_price(ledger):
    dear = replace(an_offering(), capacity_type=CapacityType.ON_DEMAND, price_usd_per_hour=12.0)
    launch = a_launch("one", 3, offerings=(an_offering(), dear))
    ledger.write_intent(launch, NOW, caps=CAPS)
    machine = an_instance("i-1", token="one")
    flight = InFlight(launch=launch, asked_at=NOW, instance_ids=("i-1",))
    tick(ledger, launch=launch, outcome=came(machine, result=Result.PARTIAL), flights=[flight])
    assert held(ledger) == {"one": (1, 4.0)}
    tick(ledger, at=NOW + timedelta(minutes=1), instances=[machine])
    assert held(ledger) == {"one": (1, 4.0)}


def test_only_a_confirmed_end_frees_machines_that_came(ledger):
    launch, machine = a_launch("one"), an_instance("i-1", token="one")
    ledger.write_intent(launch, NOW, caps=CAPS)
    tick(ledger, launch=launch, outcome=came(machine), flights=[InFlight(launch=launch, asked_at=NOW)])
    ending = replace(machine, state=InstanceState.TERMINATING)
    tick(ledger, at=NOW + timedelta(minutes=2), instances=[ending])
    assert held(ledger) == {"one": (1, 4.0)}
    tick(ledger, at=NOW + timedelta(minutes=3), blind=True)
    assert held(ledger) == {"one": (1, 4.0)}
    tick(ledger, at=NOW + timedelta(minutes=4), instances=[replace(machine, state=InstanceState.TERMINATED)])
    assert held(ledger) == {}
    assert why(ledger, "one") == "its machines are terminated"


def test_machines_that_are_there_without_a_reservation_are_given_one(ledger):
    """Adopted ones, and those of a ledger from before reservations."""
    tick(ledger, instances=[an_instance("i-1", token="old"), an_instance("i-2", token="old")])
    assert held(ledger) == {"old": (2, 8.0)}
    with pytest.raises(BudgetRefused, match="2 of 10 nodes"):
        ledger.write_intent(a_launch("new", 9), NOW, caps=CAPS)


def test_a_price_that_falls_out_of_its_band_frees_no_money(ledger):
    """F015 (a): 32.77 that turns 0.0328 is not believed; the higher one counts."""
    machine = an_instance("i-1", token="one", price_usd_per_hour=0.0328)
    tick(ledger, instances=[machine], prices={machine.offering_key: 32.77})
    assert held(ledger) == {"one": (1, 32.77)}


def test_a_machine_without_a_price_holds_what_was_reserved_for_it(ledger):
    launch, machine = a_launch("one"), an_instance("i-1", token="one", price_usd_per_hour=0.0)
    ledger.write_intent(launch, NOW, caps=CAPS)
    tick(ledger, launch=launch, outcome=came(machine), flights=[InFlight(launch=launch, asked_at=NOW)])
    tick(ledger, at=NOW + timedelta(minutes=1), instances=[machine])
    assert held(ledger) == {"one": (1, 4.0)}


def test_old_closed_reservations_go_with_the_old_records_and_open_ones_stay(ledger):
    launch = a_launch("gone")
    ledger.write_intent(launch, NOW, caps=CAPS)
    tick(ledger, launch=launch, outcome=failed(InsufficientCapacity.kind))
    ledger.write_intent(a_launch("open"), NOW, caps=CAPS)
    ledger.prune(NOW + timedelta(days=120))
    assert why(ledger, "gone") is None
    assert set(held(ledger)) == {"open"}


def test_an_image_that_never_joins_never_has_more_machines_than_the_limit(ledger):
    """F016, second run: limit 5, 40 ticks; reservations follow the machines that are really there."""
    pools = a_policy().pools
    policy = a_policy(pools={**pools, "burst": pools["burst"].model_copy(update={"max_nodes": 5})})
    jobs = [a_sim_job("home", 32, runs_s=1e6, job_class="fixed")]
    jobs += [a_sim_job(f"j{n}", 8, at_s=1, job_class="urgent") for n in range(9)]
    site = Site(jobs, ledger=ledger, policy=policy, markets=[a_market(boot_failure_share=1.0)])
    for _ in range(40):
        site.run(1)
        alive = len(site.cloud.instances())
        assert alive <= 5
        assert alive <= sum(nodes for nodes, _ in held(ledger).values()) <= 5


def test_a_failure_among_others_of_a_reply_without_machines_frees_it(ledger):
    launch = a_launch("one", 2)
    ledger.write_intent(launch, NOW, caps=CAPS)
    failure = OfferingFailure(offering_key="x/a/spot", error_kind=InsufficientCapacity.kind, detail="none")
    tick(ledger, launch=launch, outcome=replace(failed(InsufficientCapacity.kind), failures=(failure,)))
    assert held(ledger) == {}
