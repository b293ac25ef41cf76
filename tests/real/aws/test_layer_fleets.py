"""Launches: what EC2 Fleet does and moto does not."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.real.aws.aws_process import Site, ids_of

GONE = ("shutting-down", "terminated")


def _codes(answer: dict[str, Any]) -> set[str]:
    return {row["ErrorCode"] for row in answer["Errors"]}


def _places(site: Site, answer: dict[str, Any]) -> dict[tuple[str, str], int]:
    """Machines by type and zone, as DescribeInstances shows them."""
    found: dict[tuple[str, str], int] = {}
    for row in site.listed(InstanceIds=ids_of(answer)):
        place = row["InstanceType"], row["Placement"]["AvailabilityZone"]
        found[place] = found.get(place, 0) + 1
    return found


def test_same_client_token_brings_the_very_same_answer_and_no_more_machines(site: Site) -> None:
    template = site.template()
    first = site.fleet(template, ["g5.xlarge/a", "g5.xlarge/b"], 3, token="launch-1")
    again = site.fleet(template, ["g5.xlarge/a", "g5.xlarge/b"], 3, token="launch-1")
    assert {k: again[k] for k in ("FleetId", "Instances", "Errors")} == {
        k: first[k] for k in ("FleetId", "Instances", "Errors")
    }
    assert len(site.listed()) == 3


def test_client_token_with_another_wish_is_refused(site: Site) -> None:
    template = site.template()
    site.fleet(template, ["g5.xlarge/a"], 1, token="launch-1")
    with pytest.raises(ClientError, match="IdempotentParameterMismatch"):
        site.fleet(template, ["g5.xlarge/a"], 2, token="launch-1")
    assert len(site.listed()) == 1


def test_client_token_whose_machines_ended_is_refused_and_rents_nothing(site: Site) -> None:
    template = site.template()
    ids = ids_of(site.fleet(template, ["g5.xlarge/a"], 2, token="launch-1"))
    site.ec2.terminate_instances(InstanceIds=ids)
    with pytest.raises(ClientError, match="IdempotentInstanceTerminated"):
        site.fleet(template, ["g5.xlarge/a"], 2, token="launch-1")
    assert set(site.states(*ids)) <= set(GONE)
    assert len(site.listed()) == 2


def test_machines_are_in_the_subnet_type_and_market_that_were_asked(site: Site) -> None:
    answer = site.fleet(site.template(), ["g5.2xlarge/d"], 2)
    rows = site.listed(InstanceIds=ids_of(answer))
    assert {row["SubnetId"] for row in rows} == {site.subnets["us-east-1d"]}
    assert {row["InstanceType"] for row in rows} == {"g5.2xlarge"}
    assert {row["InstanceLifecycle"] for row in rows} == {"spot"}
    on_demand = site.fleet(site.template("other"), ["g5.2xlarge/d"], 1, market="on-demand")
    assert "InstanceLifecycle" not in site.listed(InstanceIds=ids_of(on_demand))[0]


def test_machines_of_one_fleet_carry_its_id_whatever_their_offering(site: Site) -> None:
    site.aws.trouble(stock={"g5.xlarge/us-east-1a/spot": 1})
    answer = site.fleet(site.template(), ["g5.xlarge/a", "g5.xlarge/b"], 3)
    tags = [{t["Key"]: t["Value"] for t in row["Tags"]} for row in site.listed(InstanceIds=ids_of(answer))]
    assert [t["aws:ec2:fleet-id"] for t in tags] == [answer["FleetId"]] * 3
    assert {t["owner"] for t in tags} == {"research"}


def test_stock_of_one_type_zone_and_market_runs_out_alone(site: Site) -> None:
    site.aws.trouble(stock={"g5.xlarge/us-east-1a/spot": 2, "g5.xlarge/us-east-1b/spot": 0})
    template = site.template()
    answer = site.fleet(template, ["g5.xlarge/a", "g5.xlarge/b"], 5)
    assert _places(site, answer) == {("g5.xlarge", "us-east-1a"): 2}
    dry = [row["LaunchTemplateAndOverrides"]["Overrides"]["AvailabilityZone"] for row in answer["Errors"]]
    assert dry == ["us-east-1b"]
    assert _codes(answer) == {"InsufficientInstanceCapacity"}
    assert _places(site, site.fleet(template, ["g5.2xlarge/a"], 2)) == {("g5.2xlarge", "us-east-1a"): 2}
    assert len(ids_of(site.fleet(template, ["g5.xlarge/a"], 1, market="on-demand"))) == 1


def test_ended_machines_come_back_into_the_stock(site: Site) -> None:
    site.aws.trouble(stock={"g5.xlarge/us-east-1a/spot": 1})
    template = site.template()
    ids = ids_of(site.fleet(template, ["g5.xlarge/a"], 1))
    assert ids_of(site.fleet(template, ["g5.xlarge/a"], 1)) == []
    site.ec2.terminate_instances(InstanceIds=ids)
    assert len(ids_of(site.fleet(template, ["g5.xlarge/a"], 1))) == 1


def test_spot_takes_the_cheapest_offering_and_on_demand_the_first_ranked(site: Site) -> None:
    long_ago = "2026-01-01T00:00:00+00:00"
    prices = {"g5.xlarge/us-east-1a": [[long_ago, 0.9]], "g5.xlarge/us-east-1b": [[long_ago, 0.4]]}
    site.aws.trouble(spot_prices=prices)
    template, places = site.template(), ["g5.xlarge/a", "g5.xlarge/b"]
    assert _places(site, site.fleet(template, places, 2)) == {("g5.xlarge", "us-east-1b"): 2}
    assert _places(site, site.fleet(template, places, 2, market="on-demand")) == {("g5.xlarge", "us-east-1a"): 2}


def test_minimum_in_a_single_zone_is_met_in_one_zone_or_not_at_all(site: Site) -> None:
    site.aws.trouble(stock={f"g5.xlarge/us-east-1{zone}/spot": n for zone, n in (("a", 3), ("b", 5))})
    template, places = site.template(), ["g5.xlarge/a", "g5.xlarge/b"]
    gang = {"SingleAvailabilityZone": True, "MinTargetCapacity": 4}
    assert _places(site, site.fleet(template, places, 4, **gang)) == {("g5.xlarge", "us-east-1b"): 4}
    none = site.fleet(template, places, 4, **gang)
    assert ids_of(none) == []
    assert "UnfulfillableCapacity" in _codes(none)
    assert len(site.listed()) == 4


def test_a_fleet_may_bring_a_part_of_a_gang_when_told_to(site: Site) -> None:
    site.aws.trouble(stock={"g5.xlarge/us-east-1a/spot": 3}, keeps_minimum=False)
    answer = site.fleet(site.template(), ["g5.xlarge/a"], 4, SingleAvailabilityZone=True, MinTargetCapacity=4)
    assert len(ids_of(answer)) == 3


def test_a_minimum_without_a_single_zone_or_type_is_refused(site: Site) -> None:
    with pytest.raises(ClientError, match="InvalidParameterCombination"):
        site.fleet(site.template(), ["g5.xlarge/a"], 2, MinTargetCapacity=2)
    assert site.listed() == []


def test_a_reservation_gives_what_it_holds_and_its_machines_say_so(site: Site) -> None:
    row = {
        "CapacityReservationId": "cr-0123456789abcdef0", "InstanceType": "p4d.24xlarge", "State": "active",
        "AvailabilityZone": "us-east-1a", "InstancePlatform": "Linux/UNIX", "ReservationType": "capacity-block",
        "TotalInstanceCount": 2, "AvailableInstanceCount": 2,
        "StartDate": "2026-12-01T00:00:00+00:00", "EndDate": "2026-12-08T11:30:00+00:00",
    }  # fmt: skip
    site.aws.steer("reservations", rows=[row])
    (told,) = site.ec2.describe_capacity_reservations()["CapacityReservations"]
    assert told["EndDate"].isoformat() == row["EndDate"]
    target = {"CapacityReservationTarget": {"CapacityReservationId": row["CapacityReservationId"]}}
    template = site.template(
        CapacityReservationSpecification=target, InstanceMarketOptions={"MarketType": "capacity-block"}
    )
    answer = site.fleet(template, ["p4d.24xlarge/b", "p4d.24xlarge/a"], 3, market="capacity-block")
    assert _places(site, answer) == {("p4d.24xlarge", "us-east-1a"): 2}
    assert _codes(answer) == {"ReservationCapacityExceeded"}
    rows = site.listed(InstanceIds=ids_of(answer))
    assert {r["InstanceLifecycle"] for r in rows} == {"capacity-block"}
    assert {r["CapacityReservationId"] for r in rows} == {row["CapacityReservationId"]}
    assert ids_of(site.fleet(template, ["p4d.24xlarge/a"], 1, market="capacity-block")) == []
    site.ec2.terminate_instances(InstanceIds=ids_of(answer)[:1])
    assert len(ids_of(site.fleet(template, ["p4d.24xlarge/a"], 1, market="capacity-block"))) == 1


def test_quota_closes_its_market_only_and_counts_machines_that_run(site: Site) -> None:
    site.aws.trouble(quota_nodes={"spot": 2})
    template = site.template()
    ids = ids_of(site.fleet(template, ["g5.xlarge/a"], 3))
    assert len(ids) == 2
    full = site.fleet(template, ["g5.xlarge/a"], 1)
    assert ids_of(full) == []
    assert _codes(full) == {"MaxSpotInstanceCountExceeded"}
    assert len(ids_of(site.fleet(template, ["g5.xlarge/a"], 1, market="on-demand"))) == 1
    site.ec2.terminate_instances(InstanceIds=ids[:1])
    assert len(ids_of(site.fleet(template, ["g5.xlarge/a"], 1))) == 1


def test_unknown_image_is_an_error_of_every_offering(site: Site) -> None:
    answer = site.fleet(site.template(ImageId="ami-0123456789abcdef0"), ["g5.xlarge/a", "g5.xlarge/b"], 1)
    assert ids_of(answer) == []
    assert _codes(answer) == {"InvalidAMIID.NotFound"}
    assert len(answer["Errors"]) == 2


def test_type_that_a_zone_does_not_offer_leaves_the_other_offerings_alone(site: Site) -> None:
    answer = site.fleet(site.template(), ["p4d.24xlarge/e", "p4d.24xlarge/a"], 2)
    assert _places(site, answer) == {("p4d.24xlarge", "us-east-1a"): 2}
    assert _codes(answer) == {"InvalidFleetConfiguration"}
    assert "us-east-1e" in answer["Errors"][0]["ErrorMessage"]


def test_unknown_subnet_or_template_refuses_the_whole_call(site: Site) -> None:
    template = site.template()
    site.subnets["us-east-1a"] = "subnet-0123456789abcdef0"
    with pytest.raises(ClientError, match=r"InvalidSubnetID\.NotFound"):
        site.fleet(template, ["g5.xlarge/a"], 1)
    with pytest.raises(ClientError, match=r"InvalidLaunchTemplateId\.NotFound"):
        site.fleet("lt-0123456789abcdef0", ["g5.xlarge/b"], 1)
    assert site.listed() == []


def test_template_keeps_what_moto_does_not_apply(site: Site) -> None:
    data: dict[str, Any] = {
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        "BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"Encrypted": True, "VolumeSize": 100}}],
    }
    template = site.template(**data)
    versions = site.ec2.describe_launch_template_versions(LaunchTemplateId=template)["LaunchTemplateVersions"]
    kept = versions[0]["LaunchTemplateData"]
    assert kept["MetadataOptions"]["HttpTokens"] == "required"
    assert kept["BlockDeviceMappings"][0]["Ebs"]["Encrypted"] is True


def test_dry_run_says_so_and_rents_nothing(site: Site) -> None:
    config = {"LaunchTemplateSpecification": {"LaunchTemplateId": site.template(), "Version": "$Latest"}}
    with pytest.raises(ClientError, match="DryRunOperation"):
        site.ec2.create_fleet(
            DryRun=True, LaunchTemplateConfigs=[config], TargetCapacitySpecification={"TotalTargetCapacity": 1}
        )
    assert site.listed() == []
