"""The guard has the last word: whatever it is asked, nothing goes past a ceiling or cap, and nothing gets lost."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from math import ceil

from hypothesis import given, settings
from hypothesis import strategies as st

from elastic.planning.desk import Desk
from elastic.planning.guard import guard
from elastic.planning.plan import (
    Cordon,
    Displace,
    Drain,
    Launch,
    Move,
    Purpose,
    ResizeCacheGroup,
    Route,
    Terminate,
    Uncordon,
    WarmCacheGroup,
)
from elastic.planning.policy import Budget, Guard, Mode, Money, Pool, Team
from elastic.planning.snapshot import Reading
from elastic.planning.state import ControllerMode, ControllerState, InFlight, PoolMemory, Spend
from forecast.forecaster import Forecasts
from providers.facts import CapacityType, InstanceState
from tests.builders import NOW, a_policy, a_snapshot, an_instance, an_offering

POOLS = ("burst", "second")
TEAMS = ("alpha", "beta", "")
maybe_usd = st.sampled_from([None, None, None, None, 0.0, 30.0, 50.0, 100.0, 200.0, 500.0])
spent_usd = st.sampled_from([0.0, 0.0, 0.0, 3.0, 20.0, 150.0])
SELDOM = 8  # what stops everything is drawn once in so many times


def offerings():
    prices = st.sampled_from([None, 0.0, 0.004, 1.0, 4.0, 4.0, 4.0, 4.5, 5.0, 12.0, 12.0, 19.0])
    one = st.builds(
        lambda price, zone, kind: an_offering(price_usd_per_hour=price, zone=zone, capacity_type=kind),
        prices,
        st.sampled_from("abc"),
        st.sampled_from([CapacityType.SPOT, CapacityType.ON_DEMAND]),
    )
    return st.lists(one, min_size=2, max_size=4, unique_by=lambda o: o.key).map(tuple)


def a_launch(number, pool, nodes, gang, ranked, team):
    return Launch(
        pool=pool, nodes=nodes, gang=gang, offerings=ranked, token=f"t{number}", needed_by=NOW, reason="why", team=team
    )


def launches(number):
    return st.builds(
        lambda pool, nodes, gang, ranked, team: a_launch(number, pool, nodes, gang, ranked, team),
        st.sampled_from([*POOLS * SELDOM, "gone"]),
        st.sampled_from([1, 1, 2, 3, 5, 8, 13, 30]),
        st.sampled_from([False, False, True]),
        offerings(),
        st.sampled_from(TEAMS),
    )


def others(number):
    name, cluster, why = f"n{number}", "main", "why"
    return st.sampled_from(
        [
            Terminate(instance_id=f"i{number}", cloud="sim", pool="burst", reason=why),
            Terminate(instance_id=f"i{number}", cloud="sim", pool="gone", reason=why, node_id=name, cluster=cluster),
            Route(job_id=name, cluster=cluster, pool="onprem", reason=why),
            Move(job_id=name, cluster=cluster, from_node_ids=("a",), to_pool="onprem", to_node_ids=("b",),
                 purpose=Purpose.HOME, reason=why),
            Displace(job_id=name, cluster=cluster, for_job_id="", reason=why),
            Cordon(node_id=name, cluster=cluster, reason=why),
            Uncordon(node_id=name, cluster=cluster, reason=why),
            Drain(node_id=name, cluster=cluster, deadline=None, reason=why),
            ResizeCacheGroup(name=name, service="sim", workers=3, reason=why),
            WarmCacheGroup(name=name, service="sim", reason=why),
        ]
    )  # fmt: skip


@st.composite
def policies(draw):
    """Ceilings and caps low enough to be met."""
    burst = {
        name: Pool(
            place="burst", cluster="main", cloud="sim", gpu_model="gpu", gpus_per_node=8,
            max_nodes=draw(st.sampled_from([0, 10, 20, 30, 60])),
        )
        for name in POOLS
    }  # fmt: skip
    return a_policy(
        mode=draw(st.sampled_from([Mode.ACT] * SELDOM + [Mode.ADVISE, Mode.OBSERVE])),
        pools={"onprem": Pool(place="on-prem", cluster="main", gpu_model="gpu", gpus_per_node=8, nodes=4), **burst},
        teams={
            "alpha": Team(burst_ceiling_gpus=draw(st.sampled_from([None, 0, 40, 80, 160]))),
            "beta": Team(budget=Budget(usd_per_day=draw(maybe_usd), usd_per_month=draw(maybe_usd))),
        },
        money=Money(
            usd_per_hour=draw(maybe_usd),
            usd_per_day=draw(maybe_usd),
            usd_per_month=draw(maybe_usd),
            approval_above_usd=draw(maybe_usd),
        ),
        guard=Guard(
            launch_ceiling_nodes=draw(st.sampled_from([1, 10, 40, 100])), removal_ceiling=draw(st.floats(0, 1))
        ),
    )


@st.composite
def memories(draw):
    """What is in flight, paused, lost and spent."""
    flights = {
        f"f{n}": InFlight(launch=replace(draw(launches(0)), pool="burst", token=f"f{n}"), asked_at=NOW)
        for n in range(draw(st.sampled_from([0, 0, 1])))
    }
    memory = PoolMemory(
        paused_until=draw(st.sampled_from([None, None, None, NOW - timedelta(minutes=5), NOW + timedelta(minutes=5)])),
        losses=(NOW,) * draw(st.sampled_from([0, 0, 0, 3, 4])),
    )
    return ControllerState(
        mode=draw(st.sampled_from([ControllerMode.NORMAL] * SELDOM + list(ControllerMode))),
        in_flight=flights,
        pools={"burst": memory} if draw(st.booleans()) else {},
        prices=draw(st.sampled_from([{}, {"x/a/spot": 4.0}])),
        spend=Spend(
            day="2026-12-01", month="2026-12", usd_day=draw(spent_usd), usd_month=draw(spent_usd),
            team_usd_day={"beta": draw(spent_usd)}, team_usd_month={"beta": draw(spent_usd)},
        ),
    )  # fmt: skip


@st.composite
def questions(draw):
    """A desk and what somebody wants done on it."""
    instances = tuple(
        an_instance(
            f"i{n}",
            pool=draw(st.sampled_from(POOLS)),
            team=draw(st.sampled_from(TEAMS)),
            state=draw(st.sampled_from(InstanceState)),
            price_usd_per_hour=draw(st.sampled_from([1.0, 4.0, 12.0])),
        )
        for n in range(draw(st.sampled_from([0, 1, 3, 6])))
    )
    readings = tuple(
        Reading(source=source, read_at=NOW, error=draw(st.sampled_from([""] * SELDOM + ["unreachable"])))
        for source in ("cluster:main", "cloud:sim")
    )
    actions = [draw(st.one_of(launches(n), launches(n), others(n))) for n in range(draw(st.sampled_from([1, 2, 4, 8])))]
    snapshot = a_snapshot(instances=instances, readings=readings)
    return Desk(snapshot, Forecasts(), draw(policies()), draw(memories())), actions


def worst_usd(actions):
    """What launches cost an hour if the cloud takes the dearest offering of each."""
    return sum(a.nodes * dearest(a) for a in actions)


def dearest(launch):
    return max((o.price_usd_per_hour or 0.0 for o in launch.offerings), default=0.0)


def alive(desk):
    return [i for i in desk.snapshot.instances if i.state is not InstanceState.TERMINATED]


def in_flight_nodes(desk, **wanted):
    flights = [f.launch for f in desk.state.in_flight.values()]
    return sum(f.nodes for f in flights if all(getattr(f, k) == v for k, v in wanted.items()))


@settings(max_examples=250, deadline=None)
@given(questions())
def test_nothing_goes_past_a_ceiling_or_a_cap_whatever_is_asked(question):
    desk, actions = question
    allowed, _ = guard(desk, actions)
    bought = [a for a in allowed if isinstance(a, Launch)]
    rules, policy = desk.policy.guard, desk.policy
    assert sum(a.nodes for a in bought) <= rules.launch_ceiling_nodes
    for pool in {a.pool for a in bought}:
        nodes = sum(a.nodes for a in bought if a.pool == pool)
        here = len([i for i in alive(desk) if i.pool == pool]) + in_flight_nodes(desk, pool=pool)
        assert here + nodes <= policy.pools[pool].max_nodes
    running = sum(i.price_usd_per_hour for i in alive(desk))
    running += sum(f.launch.nodes * dearest(f.launch) for f in desk.state.in_flight.values())
    usd, spend = running + worst_usd(bought), desk.state.spend
    if bought:
        for cap, spent in (
            (policy.money.usd_per_hour, 0.0),
            (policy.money.usd_per_day, spend.usd_day),
            (policy.money.usd_per_month, spend.usd_month),
        ):
            assert cap is None or spent + usd <= cap + 1e-3
    for launch in bought:
        approval = policy.money.approval_above_usd
        assert approval is None or worst_usd([launch]) <= approval + 1e-3
        assert launch.team != "beta" or spend.team_usd_day["beta"] < (policy.teams["beta"].budget.usd_per_day or 1e9)
    ceiling = policy.teams["alpha"].burst_ceiling_gpus
    if ceiling is not None and any(a.team == "alpha" for a in bought):
        held = sum(i.gpus for i in alive(desk) if i.team == "alpha") + 8 * in_flight_nodes(desk, team="alpha")
        assert held + sum(8 * a.nodes for a in bought if a.team == "alpha") <= ceiling


@settings(max_examples=120, deadline=None)
@given(questions())
def test_every_action_is_allowed_or_withheld_with_a_reason_and_nothing_is_invented(question):
    desk, actions = question
    allowed, withheld = guard(desk, actions)
    assert all(w.rule and w.detail for w in withheld)
    asked, answered = Counter(), Counter()
    for action in actions:
        asked[action.key] += action.nodes if isinstance(action, Launch) else 1
    for action in [*allowed, *(w.action for w in withheld)]:
        answered[action.key.removesuffix("-rest")] += action.nodes if isinstance(action, Launch) else 1
    assert answered == asked
    given_order = [a.key for a in actions]
    assert [a.key for a in allowed] == [key for key in given_order if key in {a.key for a in allowed}]
    for action in allowed:
        original = next(a for a in actions if a.key == action.key)
        if isinstance(action, Launch):
            assert {o.key for o in action.offerings} <= {o.key for o in original.offerings}
            assert action.offerings, "a launch without an offering"
            assert (action.pool, action.team, action.gang) == (original.pool, original.team, original.gang)
        else:
            assert action == original


@settings(max_examples=120, deadline=None)
@given(questions())
def test_a_gang_is_let_through_whole_or_not_at_all(question):
    """F012."""
    desk, actions = question
    allowed, withheld = guard(desk, actions)
    asked = {a.key: a.nodes for a in actions if isinstance(a, Launch) and a.gang}
    for action in allowed:
        assert action.key not in asked or action.nodes == asked[action.key]
    assert not {a.key for a in allowed} & {w.action.key for w in withheld if getattr(w.action, "gang", False)}


@settings(max_examples=120, deadline=None)
@given(questions())
def test_no_facts_no_action_and_no_action_where_the_policy_only_looks(question):
    """F024."""
    desk, actions = question
    allowed, _ = guard(desk, actions)
    kinds = {type(a) for a in allowed}
    if desk.policy.mode is not Mode.ACT or desk.state.mode is ControllerMode.PAUSED:
        assert allowed == []
    if desk.state.mode is ControllerMode.PROTECTED or desk.snapshot.trouble():
        assert Launch not in kinds
    if desk.snapshot.trouble():
        assert Terminate not in kinds
    if desk.snapshot.trouble("cluster:"):
        assert kinds <= {ResizeCacheGroup, WarmCacheGroup}


@settings(max_examples=120, deadline=None)
@given(questions())
def test_removals_of_a_tick_stay_under_their_ceiling(question):
    """F011."""
    desk, actions = question
    allowed, _ = guard(desk, actions)
    gone = Counter(a.pool for a in allowed if isinstance(a, Terminate))
    for pool, nodes in gone.items():
        here = len([i for i in alive(desk) if i.pool == pool])
        assert nodes <= max(1, ceil(desk.policy.guard.removal_ceiling * here))


@settings(max_examples=150, deadline=None)
@given(questions())
def test_what_was_allowed_is_allowed_again(question):
    desk, actions = question
    allowed, _ = guard(desk, actions)
    assert guard(desk, allowed) == (allowed, [])
