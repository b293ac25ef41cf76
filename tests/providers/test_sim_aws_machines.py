"""Machines, fleets, listings and templates of the AWS in memory, in the details an adapter may trip over."""

import threading
from datetime import timedelta

import pytest
from botocore.exceptions import ClientError

from providers.sim.aws.fake import FakeAws
from providers.sim.aws.market import IMAGE
from providers.sim.aws.trouble import AwsTrouble, Override, pick
from tests.builders import NOW
from tests.providers.aws_memory import P4D, P4DE, A, B, World, code_of, errors, ids


def a_reservation(nodes=2, *, name="cr-1", kind=P4D, zone=A):
    return {
        "CapacityReservationId": name, "InstanceType": kind, "AvailabilityZone": zone, "State": "active",
        "TotalInstanceCount": nodes, "AvailableInstanceCount": nodes,
    }  # fmt: skip


def in_reservation(world, name="cr-1"):
    target = {"CapacityReservationTarget": {"CapacityReservationId": name}}
    world.template_id = world.template("reserved", CapacityReservationSpecification=target)


# How a fleet is filled

WAYS = {kind: Override(instance_type=kind, zone=A, subnet_id="", priority=n) for n, kind in enumerate("xyz")}


@pytest.mark.parametrize(
    ("strategy", "market", "first"),
    [
        ("", "spot", "y"),
        ("lowest-price", "spot", "y"),
        ("price-capacity-optimized", "spot", "y"),
        ("capacity-optimized", "spot", "z"),
        ("capacity-optimized-prioritized", "spot", "z"),
        ("prioritized", "on-demand", "x"),
        ("lowest-price", "on-demand", "z"),
    ],
)
def test_each_strategy_has_an_order_of_its_own(strategy, market, first):
    spot = {("x", A): [(NOW, 3.0)], ("y", A): [(NOW, 1.0)], ("z", A): [(NOW, 2.0)]}
    stock = {("x", A, "spot"): 1, ("y", A, "spot"): 2, ("z", A, "spot"): 9}
    trouble = AwsTrouble(spot_prices=spot, stock=stock, on_demand_prices={"x": 30.0, "y": 20.0, "z": 10.0})
    taken = pick(trouble, list(WAYS.values()), 4, market=market, strategy=strategy, at=NOW)
    assert next(iter(taken)) == WAYS[first]
    assert sum(taken.values()) == 4


def test_a_fleet_of_a_single_type_never_mixes_them():
    world = World(stock={(P4D, A, "spot"): 2, (P4D, B, "spot"): 1, (P4DE, A, "spot"): 2, (P4DE, B, "spot"): 2})
    places = tuple((kind, zone) for kind in (P4D, P4DE) for zone in (A, B))
    answer = world.fleet(4, places=places, SingleInstanceType=True, MinTargetCapacity=4)
    assert {i["InstanceType"] for i in answer["Instances"]} == {P4DE}
    assert len(ids(answer)) == 4


def test_a_minimum_is_for_fleets_of_one_zone_or_type():
    with pytest.raises(ClientError) as raised:
        World().fleet(2, MinTargetCapacity=2)
    assert code_of(raised) == "InvalidParameterCombination"


def test_a_fleet_that_a_quota_cuts_short_says_so():
    world = World(quota_nodes={"spot": 2})
    answer = world.fleet(3)
    assert len(ids(answer)) == 2
    assert {code for _, code in errors(answer)} == {"MaxSpotInstanceCountExceeded"}
    none = world.fleet(3, token="t2", SingleAvailabilityZone=True, MinTargetCapacity=3)
    assert ids(none) == []
    assert {code for _, code in errors(none)} == {"MaxSpotInstanceCountExceeded"}


def test_what_can_never_start_is_an_error_of_its_override_and_the_others_serve():
    world = World()
    world.aws.market.not_offered.add((P4D, A))
    answer = world.fleet(2)
    assert errors(answer) == {(A, "InvalidFleetConfiguration")}
    assert {r["Placement"]["AvailabilityZone"] for r in world.rows()} == {B}
    world.template_id = world.template("other", ImageId="ami-0")
    wrong = world.fleet(1, token="t2")
    assert ids(wrong) == []
    assert {code for _, code in errors(wrong)} == {"InvalidAMIID.NotFound"}


def test_a_reservation_gives_what_it_holds_and_takes_it_back():
    world = World(stock={(P4D, A, "on-demand"): 0})
    world.aws.market.reservations.append(a_reservation(2))
    in_reservation(world)
    first = world.fleet(3, market="on-demand")
    assert len(ids(first)) == 2, "though the market itself has nothing"
    assert errors(first) == {(A, "ReservationCapacityExceeded"), (B, "ReservationCapacityExceeded")}
    assert {r["CapacityReservationId"] for r in world.rows()} == {"cr-1"}

    def left():
        return world.ec2.describe_capacity_reservations()["CapacityReservations"][0]["AvailableInstanceCount"]

    assert left() == 0
    assert ids(world.fleet(1, token="t2", market="on-demand")) == []
    world.ec2.terminate_instances(InstanceIds=ids(first)[:1])
    assert left() == 1
    whole = {"SingleAvailabilityZone": True, "MinTargetCapacity": 2}
    assert ids(world.fleet(2, token="t3", market="on-demand", **whole)) == []
    assert left() == 1, "all or none took none"


def test_a_capacity_block_is_a_lifecycle_of_its_own_and_an_unknown_reservation_is_refused():
    world = World()
    world.aws.market.reservations.append(a_reservation())
    in_reservation(world)
    world.fleet(1, places=((P4D, A),), market="capacity-block")
    assert world.rows()[0]["InstanceLifecycle"] == "capacity-block"
    world.aws.market.reservations.clear()
    with pytest.raises(ClientError) as raised:
        world.fleet(1, token="t2", market="capacity-block")
    assert code_of(raised) == "InvalidCapacityReservationId.NotFound"


# What a row tells


def test_a_row_is_told_as_ec2_does():
    world = World()
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "owner", "Value": "template"}, {"Key": "of", "Value": "t"}]}]
    world.template_id = world.template("tagged", TagSpecifications=tags)
    answer = world.fleet(1, places=((P4D, A),), market="on-demand")
    (row,) = world.rows()
    assert "InstanceLifecycle" not in row, "only spot machines and blocks have one"
    assert {t["Key"]: t["Value"] for t in row["Tags"]} == {
        "owner": "me",
        "of": "t",
        "aws:ec2:fleet-id": answer["FleetId"],
        "aws:ec2launchtemplate:id": world.template_id,
        "aws:ec2launchtemplate:version": "1",
    }
    assert (row["ImageId"], row["ClientToken"], row["LaunchTime"]) == (IMAGE, "t", NOW)
    assert row["PrivateDnsName"] == f"ip-{row['PrivateIpAddress'].replace('.', '-')}.ec2.internal"
    world.fleet(300, token="t2")
    assert len({r["PrivateIpAddress"] for r in world.rows()}) == 301


def test_the_reason_of_an_end_says_who_ended_it():
    world = World()
    mine, taken, off = (
        ids(world.fleet(1, token=token, market=market))[0]
        for token, market in (("1", "spot"), ("2", "spot"), ("3", "on-demand"))
    )
    world.ec2.terminate_instances(InstanceIds=[mine])
    world.aws.interrupt(taken, notice_s=0)
    world.aws.ec2.end_later(off, NOW)
    told = {r["InstanceId"]: r for r in world.rows()}
    assert {i: r["StateReason"]["Code"] for i, r in told.items()} == {
        mine: "Client.UserInitiatedShutdown",
        taken: "Server.SpotInstanceTermination",
        off: "Client.InstanceInitiatedShutdown",
    }
    assert told[taken]["StateTransitionReason"] == "Service initiated (2026-12-01 09:00:00 GMT)"
    assert all("PrivateIpAddress" not in r for r in told.values()), "an ended machine has no address"


def test_a_start_that_ec2_cannot_do_ends_while_it_pends_and_gives_its_stock_back():
    world = World(pending_s=30.0, never_boot=1, stock={(P4D, A, "spot"): 2, (P4D, B, "spot"): 0})
    ended = []
    world.aws.ec2.on_end = ended.append
    lame, sound = ids(world.fleet(2))
    assert {r["State"]["Name"] for r in world.rows()} == {"pending"}
    world.clock.wait(31)
    told = {r["InstanceId"]: r for r in world.rows()}
    assert {i: r["State"]["Name"] for i, r in told.items()} == {lame: "terminated", sound: "running"}
    assert told[lame]["StateReason"]["Code"] == "Server.InternalError"
    assert (ended, world.trouble.stock[(P4D, A, "spot")]) == ([lame], 1)


def test_hooks_are_told_of_every_launch_and_of_an_end_once():
    world = World(shutting_down_s=30.0)
    launched, ended = [], []
    world.aws.ec2.on_launch, world.aws.ec2.on_end = lambda row: launched.append(row["InstanceId"]), ended.append
    machines = ids(world.fleet(3))
    world.fleet(3)  # the same token: no launch
    assert launched == machines
    world.ec2.terminate_instances(InstanceIds=machines[:1])
    world.ec2.terminate_instances(InstanceIds=machines[:1])
    assert ended == [], "shutting down is no end"
    world.clock.wait(31)
    world.rows()
    world.clock.wait(31)
    world.rows()
    assert ended == machines[:1]


# Listings


def test_a_listing_that_somebody_holds_stays_as_it_was_told():
    world = World()
    (machine,) = ids(world.fleet(1))
    held = world.rows()
    world.ec2.terminate_instances(InstanceIds=[machine])
    world.ec2.create_tags(Resources=[machine], Tags=[{"Key": "owner", "Value": "other"}])
    assert held[0]["State"]["Name"] == "running"
    assert {"Key": "owner", "Value": "me"} in held[0]["Tags"]


def test_no_machine_is_skipped_when_others_end_between_two_pages():
    world = World()
    machines = ids(world.fleet(6))
    running = [{"Name": "instance-state-name", "Values": ["running"]}]
    page = world.ec2.describe_instances(Filters=running, MaxResults=5)
    world.ec2.terminate_instances(InstanceIds=machines[:3])
    rest = world.ec2.describe_instances(Filters=running, MaxResults=5, NextToken=page["NextToken"])
    assert [r["InstanceId"] for part in rest["Reservations"] for r in part["Instances"]] == machines[5:]


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("tag-key", "owner", 2),
        ("tag:owner", "m*", 2),
        ("tag:owner", "x*", 0),
        ("instance-type", "p4d.*", 2),
        ("instance-type", "p4d", 0),
        ("availability-zone", A, 1),
        ("client-token", "2", 1),
        ("instance-lifecycle", "spot", 1),
        ("image-id", IMAGE, 2),
        ("instance-state-name", "runn?ng", 2),
        ("instance-state-name", "pending", 0),
    ],
)
def test_filters_of_listings(name, value, found):
    world = World()
    world.fleet(1, places=((P4D, A),), token="1")
    world.fleet(1, places=((P4D, B),), token="2", market="on-demand")
    assert len(world.rows(Filters=[{"Name": name, "Values": [value, "nothing"]}])) == found


def test_listings_ec2_would_refuse_are_refused():
    world = World()
    machines = ids(world.fleet(1))
    with pytest.raises(ClientError) as raised:
        world.rows(Filters=[{"Name": "colour", "Values": ["red"]}])
    assert code_of(raised) == "InvalidParameterValue"
    with pytest.raises(ClientError) as raised:
        world.rows(InstanceIds=machines, MaxResults=5)
    assert code_of(raised) == "InvalidParameterCombination"


def test_a_tag_that_changed_is_found_by_its_new_value_alone_and_unknown_machines_get_none():
    world = World()
    (machine,) = ids(world.fleet(1))
    world.ec2.create_tags(Resources=[machine], Tags=[{"Key": "owner", "Value": "other"}])
    assert world.rows(Filters=[{"Name": "tag:owner", "Values": ["me"]}]) == []
    assert len(world.rows(Filters=[{"Name": "tag:owner", "Values": ["other"]}])) == 1
    with pytest.raises(ClientError) as raised:
        world.ec2.create_tags(Resources=["i-nobody"], Tags=[{"Key": "a", "Value": "b"}])
    assert code_of(raised) == "InvalidInstanceID.NotFound"


def test_an_hour_after_its_end_an_id_is_unknown_and_its_row_can_be_dropped():
    world = World()
    old, new = ids(world.fleet(2))
    world.ec2.terminate_instances(InstanceIds=[old])
    assert len(world.rows()) == 2
    world.clock.wait(3601)
    assert [r["InstanceId"] for r in world.rows(Filters=[{"Name": "tag:owner", "Values": ["me"]}])] == [new]
    with pytest.raises(ClientError) as raised:
        world.ec2.terminate_instances(InstanceIds=[new, old])
    assert code_of(raised) == "InvalidInstanceID.NotFound"
    assert set(world.aws.ec2.truth()) == {old, new}, "the truth keeps it"
    world.aws.ec2.forget_past()
    assert set(world.aws.ec2.truth()) == {new}


def test_a_later_page_may_break_once():
    world = World(broken_pages={"describe_instances": 1})
    world.fleet(6)
    token = world.ec2.describe_instances(MaxResults=5)["NextToken"]
    with pytest.raises(ClientError) as raised:
        world.ec2.describe_instances(MaxResults=5, NextToken=token)
    assert code_of(raised) == "InternalError"
    assert len(world.rows(MaxResults=5, NextToken=token)) == 1


# Templates and threads


def test_a_template_is_made_once_a_name_and_found_by_name_id_and_tag():
    world = World()
    tags = [{"ResourceType": "launch-template", "Tags": [{"Key": "owner", "Value": "me"}]}]
    asked = {"LaunchTemplateName": "two", "LaunchTemplateData": {"ImageId": IMAGE}, "TagSpecifications": tags}
    made = world.ec2.create_launch_template(**asked, ClientToken="x")["LaunchTemplate"]
    assert "Data" not in made
    assert world.ec2.create_launch_template(**asked, ClientToken="x")["LaunchTemplate"] == made
    with pytest.raises(ClientError) as raised:
        world.ec2.create_launch_template(**asked, ClientToken="y")
    assert code_of(raised) == "InvalidLaunchTemplateName.AlreadyExistsException"
    template_id = made["LaunchTemplateId"]
    for way in (
        {"LaunchTemplateNames": ["two"]},
        {"LaunchTemplateIds": [template_id]},
        {"Filters": [{"Name": "tag:owner", "Values": ["me"]}]},
    ):
        assert world.ec2.describe_launch_templates(**way)["LaunchTemplates"] == [made]
    with pytest.raises(ClientError) as raised:
        world.ec2.describe_launch_templates(LaunchTemplateNames=["two", "three"])
    assert code_of(raised) == "InvalidLaunchTemplateName.NotFoundException"
    first = world.ec2.describe_launch_templates(MaxResults=1)
    second = world.ec2.describe_launch_templates(MaxResults=1, NextToken=first["NextToken"])
    assert [t["LaunchTemplateName"] for p in (first, second) for t in p["LaunchTemplates"]] == ["one", "two"]
    assert not second["NextToken"]
    world.ec2.delete_launch_template(LaunchTemplateId=template_id)
    with pytest.raises(ClientError) as raised:
        world.ec2.delete_launch_template(LaunchTemplateId=template_id)
    assert code_of(raised) == "InvalidLaunchTemplateId.NotFound"


def test_launches_from_several_threads_are_all_there_and_a_delay_holds_nobody_else():
    started, goes_on = threading.Event(), threading.Event()

    def wait(seconds):
        started.set()
        assert goes_on.wait(30)

    world = World()
    world.aws = FakeAws(world.clock.now, trouble=AwsTrouble(), wait=wait)
    world.ec2 = world.aws.clients("ec2")
    world.template_id = world.template("one")
    world.aws.trouble.delay_s["create_fleet"] = 1.0
    slow = threading.Thread(target=world.fleet, kwargs={"token": "slow"})
    slow.start()
    assert started.wait(30)
    world.aws.trouble.delay_s.clear()
    threads = [threading.Thread(target=world.fleet, args=(50,), kwargs={"token": f"t{n}"}) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len({r["InstanceId"] for r in world.rows()}) == 200, "while the slow call still waits"
    goes_on.set()
    slow.join(30)
    assert len(world.rows()) == 201
    assert world.aws.counts["create_fleet"] == 5


def test_ten_thousand_machines_are_ten_pages():
    world = World()
    world.aws = FakeAws(world.clock.now, checks_arguments=False)
    world.ec2 = world.aws.clients("ec2")
    world.template_id = world.template("one")
    for number in range(20):
        world.fleet(500, token=f"t{number}")
    seen, pages, token = set(), 0, ""
    while token or not pages:
        page = world.ec2.describe_instances(Filters=[{"Name": "tag:owner", "Values": ["me"]}], NextToken=token)
        seen |= {r["InstanceId"] for part in page["Reservations"] for r in part["Instances"]}
        pages, token = pages + 1, page["NextToken"]
    assert (len(seen), pages) == (10_000, 10)
    with pytest.raises(TypeError):
        world.ec2.terminate_instances(InstanceId="i-1")  # unchecked, it is still no argument of the call


def test_a_machine_that_has_ended_gets_no_notice():
    world = World()
    (machine,) = ids(world.fleet(1))
    world.aws.interrupt(machine)
    world.clock.wait(121)
    for gone in (machine, "i-nobody"):
        with pytest.raises(ClientError) as raised:
            world.aws.interrupt(gone)
        assert code_of(raised) == "InvalidInstanceID.NotFound"
    assert len(world.aws.queue) == 1
    assert world.clock.now() - NOW == timedelta(seconds=121)
