"""The AWS in memory behaves as AWS does where the adapter depends on it."""

import json
from datetime import timedelta

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, ParamValidationError

from providers.sim.aws.queue import QUEUE_URL
from providers.sim.aws.types import described
from tests.builders import NOW
from tests.providers.aws_memory import P4D, P4DE, A, B, World, code_of, errors, ids

# Fleets


def test_a_fleet_takes_the_cheapest_spot_pools_first_and_says_which_had_nothing():
    prices = {(P4D, A): [(NOW, 9.0)], (P4D, B): [(NOW, 3.0)]}
    world = World(stock={(P4D, A, "spot"): 0, (P4D, B, "spot"): 2}, spot_prices=prices)
    assert [i["LaunchTemplateAndOverrides"]["Overrides"]["AvailabilityZone"] for i in world.fleet(1)["Instances"]] == [
        B
    ]
    short = world.fleet(3, token="t2")
    assert len(ids(short)) == 1
    assert errors(short) == {(A, "InsufficientInstanceCapacity")}
    none = world.fleet(1, token="t3")
    assert ids(none) == []
    assert errors(none) == {(A, "InsufficientInstanceCapacity"), (B, "InsufficientInstanceCapacity")}


def test_on_demand_goes_by_the_priority_of_the_overrides():
    world = World(on_demand_prices={P4D: 40.0, P4DE: 20.0})
    answer = world.fleet(1, places=((P4D, A), (P4DE, A)), market="on-demand", AllocationStrategy="prioritized")
    assert answer["Instances"][0]["InstanceType"] == P4D


def test_all_or_none_in_one_zone():
    world = World(stock={(P4D, A, "spot"): 2, (P4D, B, "spot"): 4})
    answer = world.fleet(4, SingleAvailabilityZone=True, MinTargetCapacity=4)
    assert {r["Placement"]["AvailabilityZone"] for r in world.rows()} == {B}
    assert len(ids(answer)) == 4
    assert ids(world.fleet(3, token="t2", SingleAvailabilityZone=True, MinTargetCapacity=3)) == []
    assert world.trouble.stock[(P4D, A, "spot")] == 2, "what could not be filled took nothing"


def test_stock_comes_back_when_a_machine_ends():
    world = World(stock={(P4D, A, "spot"): 1, (P4D, B, "spot"): 0})
    (first,) = ids(world.fleet(1))
    assert ids(world.fleet(1, token="t2")) == []
    world.ec2.terminate_instances(InstanceIds=[first])
    assert len(ids(world.fleet(1, token="t3"))) == 1


def test_a_quota_holds_machines_that_live_and_no_others():
    world = World(quota_nodes={"spot": 2})
    first = ids(world.fleet(3))
    assert len(first) == 2
    over = world.fleet(1, token="t2")
    assert {code for _, code in errors(over)} == {"MaxSpotInstanceCountExceeded"}
    world.ec2.terminate_instances(InstanceIds=first[:1])
    assert len(ids(world.fleet(1, token="t3"))) == 1
    assert len(ids(world.fleet(5, token="t4", market="on-demand"))) == 5, "the other market has a quota of its own"


def test_a_client_token_gives_the_same_answer_is_bound_to_its_wish_and_ends_with_its_machines():
    world = World()
    first = world.fleet(2)
    assert ids(world.fleet(2)) == ids(first)
    assert len(world.rows()) == 2
    with pytest.raises(ClientError) as raised:
        world.fleet(3)
    assert code_of(raised) == "IdempotentParameterMismatch"
    world.ec2.terminate_instances(InstanceIds=ids(first))
    with pytest.raises(ClientError) as raised:
        world.fleet(2)
    assert code_of(raised) == "IdempotentInstanceTerminated"


@pytest.mark.parametrize(
    ("change", "code"),
    [("template", "InvalidLaunchTemplateId.NotFound"), ("subnet", "InvalidSubnetID.NotFound")],
)
def test_what_does_not_exist_is_refused(change, code):
    world = World()
    places = ((P4D, A),)
    if change == "template":
        world.template_id = "lt-0"
    else:
        places = ((P4D, "us-east-1x"),)
    with pytest.raises(ClientError) as raised:
        world.fleet(places=places)
    assert code_of(raised) == code


def test_arguments_are_checked_as_botocore_does():
    world = World()
    with pytest.raises(ParamValidationError):
        world.ec2.terminate_instances(InstanceId="i-1")
    with pytest.raises(ParamValidationError):
        world.ec2.create_fleet(ClientToken="t")
    with pytest.raises(AttributeError):
        world.ec2.run_instances(MinCount=1, MaxCount=1)


# Life and listings


def test_a_machine_pends_runs_shuts_down_and_ends_in_its_time():
    world = World(pending_s=30.0, shutting_down_s=60.0)
    (machine,) = ids(world.fleet(1))
    seen = []
    for wait_s in (0, 31):
        world.clock.wait(wait_s)
        seen.append(world.rows()[0]["State"]["Name"])
    answer = world.ec2.terminate_instances(InstanceIds=[machine])
    assert answer["TerminatingInstances"][0]["CurrentState"]["Name"] == "shutting-down"
    for wait_s in (0, 61):
        world.clock.wait(wait_s)
        seen.append(world.rows()[0]["State"]["Name"])
    assert seen == ["pending", "running", "shutting-down", "terminated"]
    assert "User initiated (2026-12-01 09:00:31 GMT)" in world.rows()[0]["StateTransitionReason"]
    world.clock.wait(3700)
    assert world.rows() == [], "EC2 shows an ended machine for about an hour"


def test_listings_come_in_pages_by_tag_and_state():
    world = World()
    world.fleet(7)
    mine = [{"Name": "tag:owner", "Values": ["me"]}]
    seen, token = [], None
    while token != "":
        page = world.ec2.describe_instances(Filters=mine, MaxResults=5, **({"NextToken": token} if token else {}))
        seen += [row["InstanceId"] for r in page["Reservations"] for row in r["Instances"]]
        token = page["NextToken"]
    assert len(seen) == len(set(seen)) == 7
    assert world.rows(Filters=[{"Name": "tag:owner", "Values": ["another"]}]) == []
    assert world.rows(Filters=[*mine, {"Name": "instance-state-name", "Values": ["terminated"]}]) == []


def test_one_unknown_id_keeps_a_whole_batch_alive_and_is_named():
    world = World()
    known = ids(world.fleet(2))
    with pytest.raises(ClientError, match="i-nobody") as raised:
        world.ec2.terminate_instances(InstanceIds=[known[0], "i-nobody", known[1]])
    assert code_of(raised) == "InvalidInstanceID.NotFound"
    assert {r["State"]["Name"] for r in world.rows()} == {"running"}


def test_listings_may_lag_and_leave_out():
    world = World(hide_new_s=60.0, bare_s=120.0)
    first, second = ids(world.fleet(2))
    assert world.rows() == []
    world.clock.wait(61)
    assert all("PrivateIpAddress" not in r for r in world.rows())
    world.clock.wait(60)
    assert all(r["PrivateIpAddress"] for r in world.rows())
    world.trouble.hidden_ids.add(first)
    assert [r["InstanceId"] for r in world.rows()] == [second]
    assert [r["InstanceId"] for r in world.rows(InstanceIds=[first])] == [first], "asked for by name it is there"


def test_a_new_id_may_not_be_known_at_all_for_a_while():
    world = World(unknown_new_s=60.0)
    (machine,) = ids(world.fleet(1))
    for call in (world.ec2.describe_instances, world.ec2.terminate_instances):
        with pytest.raises(ClientError) as raised:
            call(InstanceIds=[machine])
        assert code_of(raised) == "InvalidInstanceID.NotFound"
    world.clock.wait(61)
    assert world.rows(InstanceIds=[machine])


# Trouble


def test_planned_errors_come_once_outages_last_and_lost_replies_take_effect():
    world = World(errors={"create_fleet": [("InternalError", "x", 500)]}, lost_replies={"create_fleet": 1})
    with pytest.raises(ClientError, match="InternalError"):
        world.fleet()
    assert world.rows() == []
    with pytest.raises(ConnectionClosedError):
        world.fleet()
    assert len(world.rows()) == 1
    world.trouble.outages["describe_instances"] = "Unavailable", NOW + timedelta(minutes=5)
    for _ in range(3):
        with pytest.raises(ClientError, match="Unavailable"):
            world.rows()
    world.clock.wait(301)
    assert world.rows()
    assert world.aws.counts["describe_instances"] == 6


def test_a_delay_waits_on_the_given_clock_and_a_dry_run_does_nothing():
    world = World(delay_s={"create_fleet": 10.0})
    world.fleet()
    assert world.clock.at == NOW + timedelta(seconds=10)
    with pytest.raises(ClientError, match="DryRunOperation"):
        world.ec2.describe_instances(DryRun=True)


# Market and queue


def test_a_type_that_never_existed_is_offered_as_soon_as_it_is_there():
    world = World()
    world.aws.market.types["p9.96xlarge"] = described(
        "p9.96xlarge", 384, 4_194_304, 16, "X900", "NVIDIA", 294_912, 60_000, "6400 Gigabit"
    )
    world.aws.market.not_offered.add(("p9.96xlarge", B))
    wanted = [{"Name": "instance-type", "Values": ["p9.96xlarge"]}]
    assert len(world.ec2.describe_instance_types(Filters=wanted)["InstanceTypes"]) == 1
    zones = world.ec2.describe_instance_type_offerings(LocationType="availability-zone", Filters=wanted)
    assert {r["Location"] for r in zones["InstanceTypeOfferings"]} == {A, "us-east-1c"}
    assert world.trouble.spot_price("p9.96xlarge", A, NOW) > 0


def test_the_spot_history_tells_the_price_that_held_and_every_change_since():
    series = [(NOW - timedelta(days=3), 5.0), (NOW - timedelta(hours=2), 6.0), (NOW + timedelta(hours=1), 7.0)]
    world = World(spot_prices={(P4D, A): series})

    def told():
        rows = world.ec2.describe_spot_price_history(
            StartTime=NOW - timedelta(days=1), InstanceTypes=[P4D], ProductDescriptions=["Linux/UNIX"]
        )["SpotPriceHistory"]
        return [float(r["SpotPrice"]) for r in rows if r["AvailabilityZone"] == A]

    assert told() == [5.0, 6.0]
    world.clock.wait(3601)
    assert told() == [5.0, 6.0, 7.0]


def test_a_notice_is_an_event_in_the_queue_and_the_end_of_its_machine():
    world = World()
    (machine,) = ids(world.fleet(1))
    world.aws.interrupt(machine)
    (message,) = world.sqs.receive_message(QueueUrl=QUEUE_URL)["Messages"]
    event = json.loads(message["Body"])
    assert event["detail-type"] == "EC2 Spot Instance Interruption Warning"
    assert event["detail"] == {"instance-id": machine, "instance-action": "terminate"}
    world.clock.wait(119)
    assert world.rows()[0]["State"]["Name"] == "running"
    world.clock.wait(2)
    assert world.rows()[0]["State"]["Name"] == "terminated"


def test_a_message_comes_again_until_its_newest_handle_is_deleted():
    world = World()
    world.aws.rebalance("i-1")

    def receive():
        return world.sqs.receive_message(QueueUrl=QUEUE_URL, VisibilityTimeout=30).get("Messages", [])

    def delete(message):
        entries = [{"Id": "0", "ReceiptHandle": message["ReceiptHandle"]}]
        world.sqs.delete_message_batch(QueueUrl=QUEUE_URL, Entries=entries)

    (first,) = receive()
    assert receive() == [], "not visible for a while"
    world.clock.wait(31)
    (second,) = receive()
    assert second["MessageId"] == first["MessageId"]
    delete(first)
    assert len(world.aws.queue) == 1
    delete(second)
    assert len(world.aws.queue) == 0


def test_a_thousand_machines_are_one_call():
    world = World()
    assert len(ids(world.fleet(1000))) == 1000
    assert len(world.rows()) == 1000
    assert world.aws.counts["create_fleet"] == 1
