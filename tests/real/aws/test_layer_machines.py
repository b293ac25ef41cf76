"""Listings and ends: lagging, paged and in states that last, as EC2's are."""

import pytest
from botocore.exceptions import ClientError

from tests.real.aws.aws_process import Site


def test_pages_count_machines_and_together_hold_each_of_them_once(site: Site) -> None:
    ids = site.rent(12)
    first = site.ec2.describe_instances(MaxResults=5)
    assert len([row for r in first["Reservations"] for row in r["Instances"]]) == 5
    assert first["NextToken"]
    pages = site.listed(PaginationConfig={"PageSize": 5})
    assert sorted(row["InstanceId"] for row in pages) == sorted(ids)


def test_no_machine_is_skipped_when_others_end_between_two_pages(site: Site) -> None:
    site.rent(12)
    running = [{"Name": "instance-state-name", "Values": ["running"]}]
    first = site.ec2.describe_instances(MaxResults=5, Filters=running)
    seen = [row["InstanceId"] for r in first["Reservations"] for row in r["Instances"]]
    site.ec2.terminate_instances(InstanceIds=seen[:3])
    rest = site.listed(Filters=running, PaginationConfig={"StartingToken": first["NextToken"], "PageSize": 5})
    assert len({*seen, *(row["InstanceId"] for row in rest)}) == 12


def test_a_later_page_may_be_unreadable_while_the_first_is_not(site: Site) -> None:
    site.rent(12)
    site.aws.trouble(broken_pages={"describe_instances": 1})
    first = site.ec2.describe_instances(MaxResults=5)
    with pytest.raises(ClientError, match="InternalError"):
        site.ec2.describe_instances(MaxResults=5, NextToken=first["NextToken"])
    assert site.ec2.describe_instances(MaxResults=5, NextToken=first["NextToken"])["Reservations"]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("client-token", ["launch-1"]),
        ("instance-lifecycle", ["spot"]),
        ("instance-type", ["g5.2*"]),
        ("availability-zone", ["us-east-1b"]),
        ("launch-time", ["20??-*"]),
        ("tag-key", ["aws:ec2:fleet-id"]),
        ("tag:owner", ["research", "others"]),
        ("instance-state-name", ["pending", "running"]),
    ],
)
def test_filters_take_the_machines_they_mean(site: Site, name: str, values: list[str]) -> None:
    answer = site.fleet(site.template(), ["g5.2xlarge/b"], 1, token="launch-1")
    mine = answer["Instances"][0]["InstanceIds"]
    other = site.ec2.run_instances(
        ImageId=site.image, InstanceType="g5.xlarge", MinCount=1, MaxCount=1, SubnetId=site.subnets["us-east-1a"]
    )
    other_id = other["Instances"][0]["InstanceId"]
    found = {row["InstanceId"] for row in site.listed(Filters=[{"Name": name, "Values": values}])}
    takes_both = name in ("launch-time", "instance-state-name")
    assert found == {*mine, other_id} if takes_both else found == set(mine)


def test_a_filter_that_ec2_does_not_have_is_refused(site: Site) -> None:
    site.rent(1)
    with pytest.raises(ClientError, match="The filter 'colour' is invalid"):
        site.listed(Filters=[{"Name": "colour", "Values": ["blue"]}])


def test_hidden_machines_are_left_out_of_listings_and_told_by_id(site: Site) -> None:
    ids = site.rent(3)
    site.aws.trouble(hidden_ids=[ids[1]])
    assert {row["InstanceId"] for row in site.listed()} == {ids[0], ids[2]}
    assert site.states(ids[1]) == ["running"]


def test_new_machines_are_listed_late_and_their_ids_unknown_at_first(site: Site) -> None:
    site.aws.trouble(hide_new_s=60.0, unknown_new_s=20.0)
    ids = site.rent(2)
    assert site.listed() == []
    with pytest.raises(ClientError, match=r"InvalidInstanceID\.NotFound"):
        site.states(ids[0])
    site.aws.advance(30)
    assert site.listed() == []
    assert site.states(*ids) == ["running", "running"]
    site.aws.advance(40)
    assert len(site.listed()) == 2


def test_new_machines_lack_their_address_for_a_while(site: Site) -> None:
    site.aws.trouble(bare_s=45.0)
    site.rent(2)
    assert all("PrivateIpAddress" not in row for row in site.listed())
    site.aws.advance(50)
    assert all(row["PrivateIpAddress"] for row in site.listed())


def test_pending_and_shutting_down_last_by_the_clouds_clock(site: Site) -> None:
    site.aws.trouble(pending_s=30.0, shutting_down_s=60.0)
    ids = site.rent(1)
    assert site.states(*ids) == ["pending"]
    site.aws.advance(31)
    assert site.states(*ids) == ["running"]
    ending = site.ec2.terminate_instances(InstanceIds=ids)["TerminatingInstances"][0]
    assert (ending["PreviousState"]["Name"], ending["CurrentState"]["Name"]) == ("running", "shutting-down")
    site.aws.advance(30)
    assert site.states(*ids) == ["shutting-down"]
    site.aws.advance(31)
    row = site.listed(InstanceIds=ids)[0]
    assert row["State"]["Name"] == "terminated"
    assert row["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    assert row["StateTransitionReason"].startswith("User initiated (")


def test_machines_that_never_boot_end_while_they_pend(site: Site) -> None:
    site.aws.trouble(never_boot=1, pending_s=20.0, shutting_down_s=60.0)
    ids = site.rent(2)
    assert site.states(*ids) == ["pending", "pending"]
    site.aws.advance(21)
    rows = site.listed(InstanceIds=ids)
    assert sorted(row["State"]["Name"] for row in rows) == ["running", "terminated"]
    failed = next(row for row in rows if row["State"]["Name"] == "terminated")
    assert failed["StateReason"]["Code"] == "Server.InternalError"
    assert "PrivateIpAddress" not in failed


def test_terminated_machines_are_listed_for_an_hour_and_then_unknown(site: Site) -> None:
    ids = site.rent(1)
    site.ec2.terminate_instances(InstanceIds=ids)
    site.aws.advance(3500)
    assert [row["State"]["Name"] for row in site.listed()] == ["terminated"]
    site.aws.advance(200)
    assert site.listed() == []
    with pytest.raises(ClientError, match=r"InvalidInstanceID\.NotFound"):
        site.states(*ids)


def test_terminate_names_one_missing_id_a_call_and_ends_none(site: Site) -> None:
    """F005: five ids, two of them long gone."""
    old = site.rent(2)
    site.ec2.terminate_instances(InstanceIds=old)
    site.aws.advance(3700)
    alive = site.rent(3)
    wanted = [alive[0], old[0], alive[1], old[1], alive[2]]
    for missing in old:
        with pytest.raises(ClientError) as refused:
            site.ec2.terminate_instances(InstanceIds=wanted)
        assert refused.value.response["Error"]["Code"] == "InvalidInstanceID.NotFound"
        assert [i for i in wanted if i in str(refused.value)] == [missing]
        assert site.states(*alive) == ["running"] * 3
        wanted.remove(missing)
    site.ec2.terminate_instances(InstanceIds=wanted)
    assert site.states(*alive) == ["terminated"] * 3


def test_machines_of_others_are_seen_and_ended_like_ours(site: Site) -> None:
    answer = site.ec2.run_instances(
        ImageId=site.image, InstanceType="g5.xlarge", MinCount=2, MaxCount=2, SubnetId=site.subnets["us-east-1c"]
    )
    ids = [row["InstanceId"] for row in answer["Instances"]]
    assert {row["Placement"]["AvailabilityZone"] for row in site.listed(InstanceIds=ids)} == {"us-east-1c"}
    site.ec2.terminate_instances(InstanceIds=ids)
    assert site.states(*ids) == ["terminated", "terminated"]


def test_tags_set_later_are_listed_and_found(site: Site) -> None:
    ids = site.rent(2)
    site.ec2.create_tags(Resources=ids[:1], Tags=[{"Key": "elastic:note", "Value": "kept"}])
    found = site.listed(Filters=[{"Name": "tag:elastic:note", "Values": ["kept"]}])
    assert [row["InstanceId"] for row in found] == ids[:1]
