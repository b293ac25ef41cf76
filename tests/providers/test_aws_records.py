"""EC2's answers and the queue's messages as facts: what is missing is no error, what is nonsense is told."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.aws.records import instance_of, message_of
from providers.facts import CapacityType, InstanceState, InterruptionKind

AT = datetime(2026, 12, 1, 10, 0, tzinfo=UTC)


def row(**changes):
    parts = {
        "InstanceId": "i-0a1",
        "InstanceType": "p4d.24xlarge",
        "LaunchTime": AT,
        "State": {"Name": "running", "Code": 16},
        "Placement": {"AvailabilityZone": "us-east-1a"},
        "InstanceLifecycle": "spot",
        "Tags": [
            {"Key": "elastic:pool", "Value": "burst"},
            {"Key": "elastic:token", "Value": "t1"},
            {"Key": "elastic:team", "Value": "rates"},
            {"Key": "elastic:ends-at", "Value": "2026-12-02T10:00:00+00:00"},
        ],
    }
    return {key: value for key, value in {**parts, **changes}.items() if value is not None}


def read(raw):
    return instance_of(raw, cloud="aws", region="us-east-1", gpus=8, price=lambda kind, zone, market: (9.5, "test"))


def test_an_instance_is_read_with_its_tags_price_and_lease():
    found = read(row())
    assert (found.pool, found.token, found.team, found.zone) == ("burst", "t1", "rates", "us-east-1a")
    assert (found.state, found.capacity_type, found.price_usd_per_hour) == (
        InstanceState.RUNNING, CapacityType.SPOT, 9.5,
    )  # fmt: skip
    assert found.running_since == AT
    assert found.ends_at == AT + timedelta(days=1)


@pytest.mark.parametrize("missing", ["State", "Placement", "Tags", "InstanceType", "InstanceLifecycle"])
def test_a_listing_that_lacks_a_field_still_shows_the_machine(missing):
    """F006: eventually consistent listings cost nobody a machine."""
    assert read(row(**{missing: None})).id == "i-0a1"


@pytest.mark.parametrize("missing", ["InstanceId", "LaunchTime"])
def test_without_an_id_or_a_launch_time_there_is_no_machine(missing):
    assert read(row(**{missing: None})) is None


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("pending", InstanceState.PENDING),
        ("running", InstanceState.RUNNING),
        ("stopped", InstanceState.RUNNING),
        ("shutting-down", InstanceState.TERMINATING),
        ("terminated", InstanceState.TERMINATED),
        ("something-new", InstanceState.PENDING),
    ],
)
def test_states_of_ec2_are_ours(name, state):
    assert read(row(State={"Name": name})).state is state


@pytest.mark.parametrize(
    ("changes", "market"),
    [
        ({"InstanceLifecycle": None}, CapacityType.ON_DEMAND),
        ({"InstanceLifecycle": "capacity-block"}, CapacityType.RESERVED),
        ({"InstanceLifecycle": None, "CapacityReservationId": "cr-1"}, CapacityType.RESERVED),
    ],
)
def test_how_a_machine_is_paid_for_is_read(changes, market):
    assert read(row(**changes)).capacity_type is market


def test_a_machine_that_ended_says_when():
    reason = "User initiated (2026-12-01 11:30:00 GMT)"
    found = read(row(State={"Name": "terminated"}, StateTransitionReason=reason))
    assert found.terminated_at == datetime(2026, 12, 1, 11, 30, tzinfo=UTC)
    assert read(row(State={"Name": "terminated"}, StateTransitionReason="")).terminated_at is None


# Messages


def envelope(kind="EC2 Spot Instance Interruption Warning", **changes):
    parts = {
        "version": "0",
        "id": "e-1",
        "detail-type": kind,
        "source": "aws.ec2",
        "time": "2026-12-01T10:00:00Z",
        "region": "us-east-1",
        "detail": {"instance-id": "i-0a1", "instance-action": "terminate"},
    }
    return json.dumps({**parts, **changes})


def test_a_spot_notice_names_its_machine_and_when_it_goes():
    (notice,) = message_of(envelope(), cloud="aws").notices
    assert (notice.id, notice.instance_id, notice.kind) == ("e-1/i-0a1", "i-0a1", InterruptionKind.SPOT_INTERRUPTION)
    assert notice.ends_at - notice.noticed_at == timedelta(seconds=120)


def test_a_rebalance_hint_has_no_end_and_a_change_of_state_is_only_a_reason_to_look():
    (hint,) = message_of(envelope("EC2 Instance Rebalance Recommendation"), cloud="aws").notices
    assert (hint.kind, hint.ends_at) == (InterruptionKind.REBALANCE, None)
    changed = message_of(envelope("EC2 Instance State-change Notification"), cloud="aws")
    assert (changed.notices, changed.changed_ids, changed.trouble) == ((), ("i-0a1",), "")


def test_a_scheduled_event_names_every_machine_it_affects():
    detail = {
        "eventTypeCategory": "scheduledChange",
        "startTime": "Sat, 05 Dec 2026 13:00:00 GMT",
        "affectedEntities": [{"entityValue": "i-0a1"}, {"entityValue": "i-0b2"}, {"entityValue": "vol-1"}],
    }
    found = message_of(envelope("AWS Health Event", detail=detail), cloud="aws")
    assert [n.instance_id for n in found.notices] == ["i-0a1", "i-0b2"]
    assert {n.ends_at for n in found.notices} == {datetime(2026, 12, 5, 13, tzinfo=UTC)}
    assert len({n.id for n in found.notices}) == 2


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("", "no JSON"),
        ("[1]", "no event"),
        ('{"detail": 3}', "no event"),
        (envelope(id=""), "without an id or a time"),
        (envelope(time="soon"), "without an id or a time"),
        (envelope(detail={}), "names no instance"),
        (envelope(detail={"instance-id": 7}), "names no instance"),
        (envelope("EC2 Something Else"), "an event we do not follow"),
        ("[" * 5000, "no JSON"),
        ("x" * 300_000, "longer than"),
    ],
)
def test_what_is_no_notice_says_why(body, why):
    found = message_of(body, cloud="aws")
    assert why in found.trouble
    assert found.notices == ()


LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=20)
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner))
KINDS = st.sampled_from(
    ["AWS Health Event", "EC2 Spot Instance Interruption Warning", "EC2 Instance Rebalance Recommendation"]
)


@given(kind=KINDS, detail=JSON, more=st.dictionaries(st.sampled_from(["id", "time", "source"]), JSON))
def test_no_message_whatever_breaks_the_reader(kind, detail, more):
    found = message_of(envelope(kind, detail=detail, **more), cloud="aws")
    assert bool(found.trouble) != bool(found.notices)


@given(raw=st.dictionaries(st.sampled_from([*row()]), JSON))
def test_no_listing_whatever_breaks_the_reader_of_instances(raw):
    raw = {k: v for k, v in raw.items() if k not in ("State", "Placement", "Tags") or v is None}
    is_readable = bool(raw.get("InstanceId", "i-0a1")) and "LaunchTime" not in raw
    assert (read({**row(), **raw}) is not None) == is_readable
