"""What a cloud did is remembered by what it covers, for as long as it matters, and a person hears what to do."""

from dataclasses import replace
from datetime import timedelta

import pytest

from elastic.planning.advance import advance
from elastic.planning.flights import LAUNCH_DEADLINE_S, MISSED_LISTINGS
from elastic.planning.offers import BLOCK_DRAIN, MOST_OFFERINGS
from elastic.planning.plan import Cordon, Drain, Forget, Launch, Plan, Route
from elastic.planning.planner import make_plan
from elastic.planning.policy import Guard, Money
from elastic.planning.snapshot import Reading
from elastic.planning.state import ControllerState, InFlight, Outcome, PoolMemory, Record, Result, Spend
from forecast.forecaster import Forecasts
from providers.facts import CapacityType, InstanceState, Interruption, InterruptionKind, NodeState, OfferingFailure
from tests.builders import NOW, a_job, a_node, a_policy, a_snapshot, an_instance, an_offering

MINUTE = timedelta(minutes=1)
LONG_AGO = NOW - timedelta(hours=2)


def offer(kind="x", zone="a", market=CapacityType.SPOT, **changes):
    return an_offering(instance_type=kind, zone=zone, capacity_type=market, region="r", **changes)


MARKET = (offer(), offer("y"), offer(zone="b"), offer("y", "b"), offer(market=CapacityType.ON_DEMAND), offer(zone="c"))


def a_launch(offerings=MARKET, token="t", nodes=1, **changes):
    return Launch(
        pool="burst", nodes=nodes, gang=False, offerings=tuple(offerings), token=token, needed_by=NOW, reason="test",
        **changes,
    )  # fmt: skip


def after(state, *, at=NOW, launch=None, outcome=None, guard=None, **seen):
    plan = Plan(id="p", at=at, policy_hash="h", actions=(launch,) if launch else ())
    record = Record(
        tick=state.tick + 1,
        snapshot=a_snapshot(at=at, **{"offerings": MARKET, **seen}),
        plan=plan,
        outcomes=(outcome,) if outcome else (),
        guard=guard or Guard(),
    )
    return advance(state, record)


def refused(launch, *failures, kind="", scope="", detail="words"):
    return Outcome(
        action_key=launch.key, result=Result.FAILED, error_kind=kind or failures[0].error_kind, error_scope=scope,
        detail=detail, failures=tuple(failures),
    )  # fmt: skip


def failure(offering, kind="insufficient_capacity", scope="offering"):
    return OfferingFailure(offering_key=offering.key, error_kind=kind, detail="words", scope=scope)


def aside(state, at=NOW):
    return {key for key, u in state.unavailable.items() if at < u.until}


@pytest.mark.parametrize(
    ("scope", "covered"),
    [
        ("offering", {"x/a/spot"}),
        ("zone", {"x/a/spot", "y/a/spot", "x/a/on-demand"}),
        ("market", {"x/a/spot", "y/a/spot", "x/b/spot", "y/b/spot", "x/c/spot"}),
        ("region", {o.key for o in MARKET}),
        ("account", {o.key for o in MARKET}),
    ],
)
def test_a_capacity_failure_sets_aside_what_it_covers_and_no_more(scope, covered):
    launch = a_launch()
    state = after(ControllerState(), launch=launch, outcome=refused(launch, failure(MARKET[0], scope=scope)))
    assert aside(state) >= covered
    others = {o.key for o in MARKET} - covered
    if scope == "offering":
        # The launch failed as a whole for want of capacity: what it named is set aside too.
        assert aside(state) == {o.key for o in MARKET}
    else:
        assert all(state.unavailable[key].detail == "words" for key in covered)
        assert others <= {o.key for o in launch.offerings}


def test_a_failure_beside_machines_that_came_is_only_for_its_offering():
    launch = a_launch(nodes=2)
    outcome = Outcome(
        action_key=launch.key, result=Result.PARTIAL, provider_ids=("i-1",), instances=(an_instance("i-1", zone="b"),),
        failures=(failure(MARKET[0]),),
    )  # fmt: skip
    assert aside(after(ControllerState(), launch=launch, outcome=outcome)) == {"x/a/spot"}


def test_a_quota_closes_its_market_for_an_hour_whatever_scope_it_names():
    """F014."""
    launch = a_launch()
    failed = refused(launch, failure(MARKET[0], "quota_exceeded", "market"), kind="quota_exceeded", scope="market")
    state = after(ControllerState(), launch=launch, outcome=failed)
    spot = {o.key for o in MARKET if o.capacity_type is CapacityType.SPOT}
    assert spot <= aside(state, NOW + 59 * MINUTE)


def notice(instance_id, number=1):
    return Interruption(
        id=f"n{number}", cloud="sim", instance_id=instance_id, kind=InterruptionKind.SPOT_INTERRUPTION, noticed_at=NOW,
        ends_at=NOW + 2 * MINUTE,
    )  # fmt: skip


def test_an_interruption_sets_its_offering_aside_for_half_an_hour_once():
    seen = {"instances": (an_instance("i-1"),), "interruptions": (notice("i-1"),)}
    state = after(ControllerState(), **seen)
    assert aside(state, NOW + 29 * MINUTE) == {"x/a/spot"}
    assert aside(state, NOW + 30 * MINUTE) == set()
    again = after(state, at=NOW + MINUTE, **seen)
    assert again.unavailable == state.unavailable


def lose(state, number, *, of, at=NOW, guard=None):
    machines = tuple(an_instance(f"i-{n}") for n in range(of))
    return after(state, at=at, instances=machines, interruptions=(notice(f"i-{number}", number),), guard=guard)


@pytest.mark.parametrize(
    ("losses", "of", "paused"), [(1, 2, False), (2, 9, True), (2, 10, False), (3, 100, False), (4, 100, True)]
)
def test_many_losses_or_a_fifth_of_the_pool_stop_launches_for_an_hour(losses, of, paused):
    state = ControllerState()
    for number in range(losses):
        state = lose(state, number, of=of, at=NOW + number * MINUTE)
    until = state.pools["burst"].losses_until
    assert (until is not None) == paused
    if paused:
        assert until == NOW + (losses - 1) * MINUTE + timedelta(hours=1)


def plan_for(state, *, jobs=1, offerings=MARKET, at=NOW, nodes_used=8, **seen):
    waiting = tuple(a_job(f"j{n}", 8, submitted_at=LONG_AGO) for n in range(jobs))
    home = a_node("home", used=nodes_used)
    return make_plan(
        a_snapshot(at=at, jobs=waiting, nodes=(home, *seen.pop("nodes", ())), offerings=offerings, **seen),
        Forecasts(),
        a_policy(),
        state,
    )


def test_a_pool_that_lost_many_rents_nothing_and_says_until_when():
    memory = PoolMemory(losses=(NOW,) * 4, losses_until=NOW + timedelta(minutes=45))
    plan = plan_for(ControllerState(pools={"burst": memory}))
    assert not [a for a in plan.actions if isinstance(a, Launch)]
    (held,) = [w for w in plan.withheld if w.rule == "losses"]
    assert f"until {NOW + timedelta(minutes=45):%H:%M} UTC" in held.detail
    assert [
        a
        for a in plan_for(ControllerState(pools={"burst": memory}), at=NOW + timedelta(minutes=46)).actions
        if isinstance(a, Launch)
    ]


@pytest.mark.parametrize("kind", ["access_denied", "invalid_request", "unknown_trouble"])
def test_a_refusal_that_is_about_us_pauses_the_pool_longer_each_time_and_is_told(kind):
    """A wrong image, a subnet of another VPC, a missing right: never a crash loop and never a launch each tick."""
    state, at, tries = ControllerState(), NOW, 0
    for _ in range(6 * 60):
        plan = plan_for(state, at=at)
        launch = next((a for a in plan.actions if isinstance(a, Launch)), None)
        outcome = (
            refused(launch, kind=kind, scope="source", detail="InvalidAMIID.NotFound: no such image")
            if launch
            else None
        )
        tries += launch is not None
        state = after(state, at=at, launch=launch, outcome=outcome)
        at += MINUTE
    assert 3 <= tries <= 9
    told = plan_for(state, at=at).notes
    assert any("InvalidAMIID.NotFound" in note and "elastic doctor" in note for note in told)


def test_throttling_pauses_a_pool_for_a_moment_and_sets_nothing_aside():
    launch = a_launch()
    state = after(ControllerState(), launch=launch, outcome=refused(launch, kind="throttled", scope="region"))
    assert state.unavailable == {}
    assert state.pools["burst"].held_until == NOW + MINUTE
    assert not any("refused" in note for note in plan_for(state).notes)


def flying(*ids, listed=(), at=NOW):
    return ControllerState(
        in_flight={"t": InFlight(launch=a_launch(), asked_at=at, instance_ids=ids, listed_ids=listed)}
    )


def test_a_machine_that_several_whole_listings_lack_is_gone_and_one_that_one_lacks_is_not():
    """F006."""
    state = flying("i-1", listed=("i-1",))
    for number in range(1, MISSED_LISTINGS):
        state = after(state, at=NOW + number * MINUTE)
        assert "t" in state.in_flight
    back = after(state, at=NOW + MISSED_LISTINGS * MINUTE, instances=(an_instance("i-1", node_id=None, token="t"),))
    assert back.in_flight["t"].missed == {}
    gone = after(state, at=NOW + MISSED_LISTINGS * MINUTE)
    assert gone.in_flight == {}
    assert gone.pools["burst"].boots == (False,)


def test_a_machine_no_listing_ever_showed_is_no_boot_that_failed():
    state = flying("i-1")
    before = after(state, at=NOW + timedelta(seconds=LAUNCH_DEADLINE_S - 1))
    assert "t" in before.in_flight
    gone = after(before, at=NOW + timedelta(seconds=LAUNCH_DEADLINE_S))
    assert gone.in_flight == {}
    assert "burst" not in gone.pools


def test_two_boots_of_one_offering_that_fail_set_it_aside_and_one_that_joins_forgets_them():
    state = ControllerState()
    for number in range(2):
        token, name = f"t{number}", f"i-{number}"
        flight = InFlight(launch=a_launch(token=token), asked_at=NOW - timedelta(minutes=31), instance_ids=(name,))
        state = replace(state, in_flight={token: flight})
        assert aside(state) == set()
        state = after(state, instances=(an_instance(name, node_id=None, token=token),))
    assert aside(state, NOW + 14 * MINUTE) == {"x/a/spot"}
    assert state.unavailable["x/a/spot"].error_kind == "boot_failure"
    joined = replace(
        state, in_flight={"t9": InFlight(launch=a_launch(token="t9"), asked_at=NOW, instance_ids=("i-9",))}
    )
    node = a_node("i-9", pool="burst", instance_id="i-9")
    after_join = after(joined, instances=(an_instance("i-9", token="t9"),), nodes=(node,))
    assert after_join.failed_boots == {}


# Reservations, leases, quotas


def block(**changes):
    times = {"starts_at": NOW - timedelta(hours=1), "ends_at": NOW + timedelta(hours=3)}
    return offer(market=CapacityType.RESERVED, price_usd_per_hour=0.0, reservation_id="cr-1", **{**times, **changes})


@pytest.mark.parametrize(
    ("changes", "rented"),
    [
        ({}, True),
        ({"starts_at": NOW + MINUTE}, False),
        ({"ends_at": NOW + BLOCK_DRAIN}, False),
        ({"ends_at": NOW + BLOCK_DRAIN + MINUTE}, True),
    ],
)
def test_a_capacity_block_is_rented_only_while_it_lasts_long_enough_though_it_costs_nothing_more(changes, rented):
    policy = a_policy()
    types = (CapacityType.RESERVED,)
    policy = replace(
        policy,
        pools={**policy.pools, "burst": policy.pools["burst"].model_copy(update={"capacity_types": types})},
        classes={n: c.model_copy(update={"capacity_types": types}) for n, c in policy.classes.items()},
    )
    job = a_job("j", 8, submitted_at=LONG_AGO)
    seen = a_snapshot(jobs=(job,), nodes=(a_node("home", used=8),), offerings=(block(**changes),))
    launches = [a for a in make_plan(seen, Forecasts(), policy, ControllerState()).actions if isinstance(a, Launch)]
    assert bool(launches) == rented


@pytest.mark.parametrize(
    ("market", "left", "leaves"),
    [
        (CapacityType.RESERVED, timedelta(minutes=40), True),
        (CapacityType.RESERVED, timedelta(minutes=41), False),
        (CapacityType.SPOT, timedelta(minutes=15), True),
        (CapacityType.SPOT, timedelta(minutes=40), False),
    ],
)
def test_a_node_whose_time_is_set_is_closed_and_drained_before_it(market, left, leaves):
    machine = an_instance("i-1", capacity_type=market, ends_at=NOW + left)
    busy = a_node("i-1", used=8, pool="burst", instance_id="i-1", job_ids=("j",), capacity_type=market)
    plan = make_plan(a_snapshot(instances=(machine,), nodes=(busy,)), Forecasts(), a_policy(), ControllerState())
    assert bool([a for a in plan.actions if isinstance(a, Cordon)]) == leaves
    drains = [a for a in plan.actions if isinstance(a, Drain)]
    assert bool(drains) == leaves
    assert all(d.deadline < machine.ends_at for d in drains)


def test_a_quota_cuts_a_launch_to_what_it_leaves_and_says_so():
    short = tuple(replace(o, quota_nodes=2) for o in MARKET)
    plan = plan_for(ControllerState(), jobs=5, offerings=short)
    assert sum(a.nodes for a in plan.actions if isinstance(a, Launch)) == 2
    assert {w.rule for w in plan.withheld} == {"quota"}


def test_a_launch_names_at_most_fifteen_offerings_of_a_market_and_keeps_the_next_market():
    many = tuple(offer(f"k{n}", price_usd_per_hour=4.0 + n / 100) for n in range(30))
    policy = a_policy()
    pool = policy.pools["burst"].model_copy(update={"capacity_types": (CapacityType.SPOT, CapacityType.ON_DEMAND)})
    policy = replace(
        policy,
        pools={**policy.pools, "burst": pool},
        classes={n: c.model_copy(update={"capacity_types": pool.capacity_types}) for n, c in policy.classes.items()},
    )
    seen = a_snapshot(
        jobs=(a_job("j", 8, submitted_at=LONG_AGO),), nodes=(a_node("home", used=8),),
        offerings=(*many, offer(market=CapacityType.ON_DEMAND, price_usd_per_hour=9.0)),
    )  # fmt: skip
    (launch,) = [a for a in make_plan(seen, Forecasts(), policy, ControllerState()).actions if isinstance(a, Launch)]
    assert len(launch.offerings) == MOST_OFFERINGS + 1
    assert launch.offerings[-1].capacity_type is CapacityType.ON_DEMAND


def test_a_placement_score_breaks_near_ties_and_no_more():
    def first(*offerings):
        plan = plan_for(ControllerState(), offerings=offerings)
        return next(a for a in plan.actions if isinstance(a, Launch)).offerings[0].zone

    likely = offer(zone="b", price_usd_per_hour=4.1, score=9)
    assert first(offer(price_usd_per_hour=4.0, score=2), likely) == "b"
    assert first(offer(price_usd_per_hour=3.5, score=2), likely) == "a"


def test_estimated_prices_are_named_and_counted_as_such():
    guessed = tuple(replace(o, estimated=True, price_source="bundled table 2026-07") for o in MARKET)
    plan = plan_for(ControllerState(), offerings=guessed)
    assert plan.cost.estimated
    assert any("estimates" in n and "bundled table 2026-07" in n for n in plan.notes)
    assert not plan_for(ControllerState()).cost.estimated


# Ghosts, limits after a restart, money that is spent


def ghost_plan(machines, node_state=NodeState.READY, trouble=""):
    node = a_node("i-1", used=8, pool="burst", instance_id="i-1", job_ids=("j",), state=node_state)
    readings = (Reading(source="cloud:sim", read_at=NOW, error=trouble),)
    seen = a_snapshot(instances=machines, nodes=(node,), readings=readings)
    plan = make_plan(seen, Forecasts(), a_policy(), ControllerState())
    return [a for a in plan.actions if isinstance(a, Forget)]


def test_the_node_of_a_machine_that_has_ended_is_forgotten_whatever_it_seems_to_run():
    """F007."""
    ended = an_instance("i-1", state=InstanceState.TERMINATED)
    (forget,) = ghost_plan((ended,))
    assert (forget.node_id, forget.cluster) == ("i-1", "main")
    assert ghost_plan((an_instance("i-1"),)) == []


def test_a_ready_node_whose_machine_one_listing_lacks_is_left_alone_and_a_broken_one_is_not():
    """F006: absence is no end; F010: a ghost that is down as well is one."""
    assert ghost_plan(()) == []
    assert len(ghost_plan((), NodeState.DOWN)) == 1
    assert ghost_plan((), NodeState.DOWN, trouble="incomplete: page 2") == []


def test_ready_nodes_whose_machines_no_listing_shows_count_against_the_ceiling():
    """The first listing after a restart may lack machines: a limit is not broken for it."""
    hidden = tuple(
        a_node(f"i-{n}", used=8, pool="burst", instance_id=f"i-{n}") for n in range(a_policy().pools["burst"].max_nodes)
    )
    plan = plan_for(ControllerState(), nodes=hidden)
    assert not [a for a in plan.actions if isinstance(a, Launch)]
    assert {w.rule for w in plan.withheld} == {"pool_ceiling"}


@pytest.mark.parametrize(("spent", "sent"), [(49.0, True), (50.0, False)])
def test_when_the_days_money_is_spent_rented_nodes_take_no_new_work(spent, sent):
    """F014: or the spend would go on for as long as there is work."""
    policy = replace(a_policy(), money=Money(usd_per_day=50.0))
    state = ControllerState(spend=Spend(day=f"{NOW:%Y-%m-%d}", month=f"{NOW:%Y-%m}", usd_day=spent))
    seen = a_snapshot(
        jobs=(a_job("j", 8, submitted_at=LONG_AGO),),
        nodes=(a_node("home", used=8), a_node("i-1", pool="burst", instance_id="i-1")),
        instances=(an_instance("i-1"),),
    )
    plan = make_plan(seen, Forecasts(), policy, state)
    assert bool([a for a in plan.actions if isinstance(a, Route)]) == sent
