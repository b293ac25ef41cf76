"""The fold of the memory, over any history that may be written down: it never fails, counts nothing twice, and gives
the same from a checkpoint, from a slim record and from the whole."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from elastic.codec import state_from_json, state_to_json
from elastic.planning.advance import KEEP_BOOTS, advance, slim
from elastic.planning.flights import IN_FLIGHT_S, JOIN_DEADLINE_S
from elastic.planning.plan import Launch, Move, Plan, Purpose, Terminate
from elastic.planning.policy import Guard
from elastic.planning.shortage import JITTER_SHARE, QUOTA_S, SET_ASIDE_MAX_S, SET_ASIDE_S
from elastic.planning.snapshot import Reading
from elastic.planning.state import ControllerState, Outcome, Record, Result
from providers.facts import (
    CapacityType,
    InstanceState,
    Interruption,
    InterruptionKind,
    NodeState,
    OfferingFailure,
)
from tests.builders import NOW, a_node, a_snapshot, an_instance, an_offering

KINDS = ["insufficient_capacity", "quota_exceeded", "throttled", "unreachable", "access_denied"]
OFFERINGS = tuple(
    an_offering(zone=zone, capacity_type=kind)
    for zone in "ab"
    for kind in (CapacityType.SPOT, CapacityType.ON_DEMAND)
)  # fmt: skip


@st.composite
def histories(draw):
    """Ticks of a few launches: their machines boot, join, are hidden, taken and given back in any way."""
    at, records, launched = NOW - timedelta(hours=3), [], {}
    for tick in range(1, draw(st.integers(1, 14)) + 1):
        at += timedelta(seconds=draw(st.sampled_from([0, 1, 60, 60, 60, 300, 1200, 40_000])))
        instances, nodes, notices = [], [], []
        for token, (nodes_asked, asked_at) in launched.items():
            for number in range(nodes_asked):
                fate = draw(st.sampled_from(["pending", "joined", "joining", "hidden", "terminated", "interrupted"]))
                name = f"{token}-{number}"
                if fate == "hidden":
                    continue
                state = {"pending": InstanceState.PENDING, "terminated": InstanceState.TERMINATED}
                instances.append(
                    an_instance(
                        name, token=token, requested_at=asked_at, state=state.get(fate, InstanceState.RUNNING),
                        team=draw(st.sampled_from(["alpha", ""])),
                    )
                )  # fmt: skip
                if fate in ("joined", "joining"):
                    node_state = NodeState.READY if fate == "joined" else NodeState.JOINING
                    nodes.append(a_node(name, pool="burst", instance_id=name, state=node_state))
                if fate == "interrupted":
                    notices.append(
                        Interruption(id=f"n-{name}", cloud="sim", instance_id=name, noticed_at=at, ends_at=None,
                                     kind=draw(st.sampled_from(InterruptionKind)))
                    )  # fmt: skip
        actions, outcomes = draw(decisions(tick, launched, at))
        error = draw(st.sampled_from(["", "", "unreachable"]))
        prices = draw(st.sampled_from([4.0, 4.2, 0.004, 90.0, None]))
        snapshot = a_snapshot(
            at=at,
            instances=tuple(instances),
            nodes=tuple(nodes),
            interruptions=tuple(notices),
            offerings=tuple(replace(o, price_usd_per_hour=prices) for o in OFFERINGS),
            readings=(Reading(source="cloud:sim", read_at=at, error=error),),
        )
        plan = Plan(id=f"p{tick}", at=at, policy_hash="h", actions=tuple(actions))
        records.append(
            Record(tick=tick, snapshot=snapshot, plan=plan, outcomes=tuple(outcomes), guard=Guard(breaker_failures=2))
        )
    return records


@st.composite
def decisions(draw, tick, launched, at):
    """Actions of a tick with what became of them."""
    actions, outcomes = [], []
    for number in range(draw(st.integers(0, 2))):
        token, nodes = f"t{tick}x{number}", draw(st.integers(1, 3))
        result = draw(st.sampled_from(Result))
        got = nodes if result is Result.DONE else nodes // 2 if result is Result.PARTIAL else 0
        kind = draw(st.sampled_from(KINDS)) if result is Result.FAILED else ""
        failures = draw(st.lists(st.sampled_from(OFFERINGS), max_size=2, unique=True))
        launch = Launch(
            pool="burst", nodes=nodes, gang=False, offerings=OFFERINGS, token=token, needed_by=at, reason="why"
        )
        actions.append(launch)
        outcomes.append(
            Outcome(
                action_key=launch.key, result=result, error_kind=kind,
                provider_ids=tuple(f"{token}-{n}" for n in range(got)),
                failures=tuple(
                    OfferingFailure(offering_key=o.key, error_kind=draw(st.sampled_from(KINDS)), detail="")
                    for o in failures
                ),
            )
        )  # fmt: skip
        if got or kind == "unreachable":
            launched[token] = (got or nodes, at)
    if draw(st.booleans()):
        moved = Move(job_id=draw(st.sampled_from("jk")), cluster="main", from_node_ids=("a",), to_pool="onprem",
                     to_node_ids=("b",), purpose=Purpose.HOME, reason="why")  # fmt: skip
        actions.append(moved)
        outcomes.append(Outcome(action_key=moved.key, result=draw(st.sampled_from(Result))))
    if launched and draw(st.booleans()):
        token = draw(st.sampled_from(sorted(launched)))
        gone = Terminate(instance_id=f"{token}-0", cloud="sim", pool="burst", reason="idle")
        actions.append(gone)
        outcomes.append(Outcome(action_key=gone.key, result=draw(st.sampled_from(Result))))
    return actions, outcomes


def fold(records, state=None):
    states = [state or ControllerState()]
    for record in records:
        states.append(advance(states[-1], record))
    return states


@settings(max_examples=250, deadline=None)
@given(histories(), st.data())
def test_a_fold_from_any_checkpoint_gives_the_same_as_the_whole(records, data):
    states = fold(records)
    cut = data.draw(st.integers(0, len(records)))
    middle = state_from_json(state_to_json(states[cut]))
    assert middle == states[cut]
    assert fold(records[cut:], middle)[-1] == states[-1]


@settings(max_examples=120, deadline=None)
@given(histories())
def test_a_slim_record_folds_like_the_whole_one(records):
    """What the ledger keeps of a quiet tick is what the fold reads."""
    state, known = ControllerState(), None
    slimmed = ControllerState()
    for record in records:
        acted = any(o.result is not Result.SKIPPED for o in record.outcomes)
        kept = record if acted else slim(record, known_offerings=known)
        state, slimmed = advance(state, record), advance(slimmed, kept)
        known = record.snapshot.offerings
    assert slimmed == state


@settings(max_examples=250, deadline=None)
@given(histories())
def test_spend_is_never_negative_and_each_machine_is_paid_once_for_each_second(records):
    states = fold(records)
    usd, last = 0.0, None
    for record, state in zip(records, states[1:], strict=True):
        spend, at = state.spend, record.snapshot.at
        assert min([spend.usd_day, spend.usd_month, *spend.team_usd_day.values()], default=0.0) >= 0
        assert sum(spend.team_usd_day.values()) <= spend.usd_day + 1e-9
        assert spend.usd_day <= spend.usd_month + 1e-9
        if last is not None:
            for one in record.snapshot.instances:
                if one.state is not InstanceState.TERMINATED:
                    seconds = max(0.0, (at - max(one.requested_at, last)).total_seconds())
                    usd += one.price_usd_per_hour * seconds / 3600
        last = at
    months = {r.snapshot.at.month for r in records}
    if len(months) == 1:
        assert abs(states[-1].spend.usd_month - usd) < 1e-6


@settings(max_examples=250, deadline=None)
@given(histories())
def test_no_machine_is_counted_twice_and_none_is_waited_for_for_ever(records):
    """F002, F006, F008."""
    for record, state in zip(records, fold(records)[1:], strict=True):
        at = record.snapshot.at
        ids = [i for f in state.in_flight.values() for i in f.instance_ids]
        assert len(ids) == len(set(ids))
        for token, flight in state.in_flight.items():
            assert token == flight.launch.token
            assert len(flight.instance_ids) <= flight.launch.nodes
            assert set(flight.listed_ids) <= set(flight.instance_ids)
            assert (at - flight.asked_at).total_seconds() < IN_FLIGHT_S or flight.asked_at == at


@settings(max_examples=120, deadline=None)
@given(histories())
def test_a_launch_that_may_have_taken_effect_is_in_flight_right_after_its_tick(records):
    """F002: also one whose answer never came."""
    for record, state in zip(records, fold(records)[1:], strict=True):
        done = {o.action_key: o for o in record.outcomes}
        for launch in [a for a in record.plan.actions if isinstance(a, Launch)]:
            outcome = done[launch.key]
            may_live = outcome.result in (Result.DONE, Result.PARTIAL) or outcome.error_kind == "unreachable"
            assert (launch.token in state.in_flight) == may_live


@settings(max_examples=120, deadline=None)
@given(histories())
def test_each_machine_boots_or_fails_at_most_once(records):
    """The breaker counts each machine's boot once: in all no more boots than machines."""
    machines, boots = set(), 0
    states = fold(records)
    for record, before, after in zip(records, states, states[1:], strict=False):
        for action, outcome in zip(record.plan.actions, record.outcomes, strict=True):
            if isinstance(action, Launch) and (outcome.provider_ids or outcome.error_kind == "unreachable"):
                machines |= {f"{action.token}-{n}" for n in range(action.nodes)}
        old, new = before.pools.get("burst"), after.pools.get("burst")
        if new is not None:
            assert len(new.boots) <= KEEP_BOOTS
            boots += max(0, len(new.boots) - (len(old.boots) if old else 0))
    assert boots <= len(machines)


@settings(max_examples=120, deadline=None)
@given(histories())
def test_an_offering_is_set_aside_for_a_limited_time_that_grows(records):
    """F003."""
    longest = max(SET_ASIDE_MAX_S, QUOTA_S) * (1 + JITTER_SHARE)
    states = fold(records)
    for record, before, after in zip(records, states, states[1:], strict=False):
        at = record.snapshot.at
        for key, aside in after.unavailable.items():
            left_s = (aside.until - at).total_seconds()
            assert left_s <= longest
            if before.unavailable.get(key) != aside:
                assert left_s >= SET_ASIDE_S
                assert aside.strikes >= 1


@settings(max_examples=120, deadline=None)
@given(histories())
def test_a_price_that_jumps_out_of_its_band_is_never_remembered(records):
    """F015."""
    band = Guard().price_band
    last = {}
    for state in fold(records)[1:]:
        for key, price in state.prices.items():
            assert price > 0
            assert key not in last or last[key] / band <= price <= last[key] * band
        last = dict(state.prices)


def test_the_deadlines_are_in_order():
    """A boot failure is told before a launch is closed unseen."""
    assert JOIN_DEADLINE_S < IN_FLIGHT_S
