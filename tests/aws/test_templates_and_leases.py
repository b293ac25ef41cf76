"""What every machine starts with (launch templates) and until when it lives (its lease)."""

from base64 import b64decode
from dataclasses import replace
from datetime import timedelta

import pytest

from elastic.planning.state import Result
from providers.aws.account import CONTROLLER_TAG, ENDS_AT_TAG, OWNER_TAG, NodeShape
from providers.aws.cloud import AwsCloud
from providers.aws.records import tags_of
from providers.aws.templates import USER_DATA_LIMIT_BYTES, template_content
from providers.errors import InvalidRequest
from providers.facts import CapacityType, LaunchRequest
from providers.sim.aws.market import GROUP, IMAGE
from providers.sim.aws.trouble import AwsTrouble
from tests.aws.site import P4D, ZONES, AwsSite, a_job, launches
from tests.contract.stand_aws import an_account

SHAPE = NodeShape(
    image_id=IMAGE, security_group_ids=(GROUP,), instance_profile="node", user_data="#!/bin/sh\ntrue\n", key_name="k"
)


def launch(site, *, token="t", pool="burst", nodes=1, types=CapacityType.SPOT):
    offerings = tuple(o for o in site.cloud.read().offerings if o.capacity_type is types)
    request = LaunchRequest(
        token=token, pool=pool, cluster="main", nodes=nodes, gang=False, offerings=offerings
    )  # fmt: skip
    return site.cloud.launch(request)


def templates(site):
    return list(site.aws.ec2.templates.values())


# Content


def test_a_machine_starts_with_tokens_for_metadata_encrypted_volumes_and_no_public_address():
    content = template_content(an_account(), SHAPE)
    assert content["MetadataOptions"]["HttpTokens"] == "required"
    assert content["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
    assert [d["Ebs"]["Encrypted"] for d in content["BlockDeviceMappings"]] == [True]
    assert [d["Ebs"]["DeleteOnTermination"] for d in content["BlockDeviceMappings"]] == [True]
    assert [n["AssociatePublicIpAddress"] for n in content["NetworkInterfaces"]] == [False]
    assert [n["Groups"] for n in content["NetworkInterfaces"]] == [[GROUP]]
    assert content["InstanceInitiatedShutdownBehavior"] == "terminate", "the dead-man switch must leave nothing behind"
    assert content["IamInstanceProfile"] == {"Name": "node"}
    assert content["KeyName"] == "k"
    assert b64decode(content["UserData"]).decode() == SHAPE.user_data
    tags = {t["Key"] for s in content["TagSpecifications"] if s["ResourceType"] == "volume" for t in s["Tags"]}
    assert tags == {OWNER_TAG, CONTROLLER_TAG}, "volumes tell whose they are"


def test_what_is_not_named_is_not_in_the_template():
    content = template_content(an_account(), NodeShape(image_id=IMAGE))
    assert not {"UserData", "KeyName", "IamInstanceProfile", "CapacityReservationSpecification"} & set(content)


def test_a_capacity_block_is_named_by_its_reservation():
    content = template_content(an_account(), SHAPE, reservation_id="cr-1", is_block=True)
    target = {"CapacityReservationTarget": {"CapacityReservationId": "cr-1"}}
    assert content["CapacityReservationSpecification"] == target
    assert content["InstanceMarketOptions"] == {"MarketType": "capacity-block"}


def test_user_data_over_16_kib_is_refused_before_any_call():
    long = NodeShape(image_id=IMAGE, user_data="x" * (USER_DATA_LIMIT_BYTES + 1))
    site = AwsSite([a_job("j")], shapes={"burst": long})
    site.cloud.read()
    before = site.calls.copy()
    with pytest.raises(InvalidRequest, match="1 bytes over"):
        launch(site)
    assert not {"create_fleet", "create_launch_template", "describe_launch_templates"} & set(site.calls - before)
    assert template_content(an_account(), replace(long, user_data="x" * USER_DATA_LIMIT_BYTES))


# How many


def test_a_template_is_named_by_its_content_and_made_once():
    site = AwsSite()
    for n in range(5):
        launch(site, token=f"t{n}")
    launch(site, token="dear", types=CapacityType.ON_DEMAND)
    assert len(templates(site)) == 1
    assert (site.calls["create_launch_template"], site.calls["describe_launch_templates"]) == (1, 1)
    (template,) = templates(site)
    assert template["LaunchTemplateName"].startswith("elastic-main-1-")
    assert tags_of(template)[OWNER_TAG] == "research"


def test_another_process_finds_the_template_and_makes_none():
    site = AwsSite()
    launch(site)
    site.cloud = AwsCloud(site.account, site.aws.clients, site.clock)
    launch(site, token="t2")
    assert (len(templates(site)), site.calls["create_launch_template"]) == (1, 1)


def test_another_content_is_another_template_with_another_name():
    site = AwsSite()
    launch(site)
    account = replace(site.account, shapes={"burst": replace(site.account.shapes["burst"], root_volume_gib=300)})
    site.cloud = AwsCloud(account, site.aws.clients, site.clock)
    launch(site, token="t2")
    assert len({t["LaunchTemplateName"] for t in templates(site)}) == 2


def test_a_template_whose_answer_was_lost_or_that_another_made_first_is_used():
    site = AwsSite([a_job("j")], trouble=AwsTrouble(lost_replies={"create_launch_template": 1}))
    site.run(15)
    assert len(templates(site)) == 1
    assert len(site.alive()) == 1


def test_a_template_that_somebody_removed_is_made_again():
    site = AwsSite()
    launch(site)
    site.aws.ec2.templates.clear()
    with pytest.raises(Exception, match="LaunchTemplate"):
        launch(site, token="t2")
    assert len(launch(site, token="t2").instances) == 1
    assert len(templates(site)) == 1


# How long


def days_go_by(site, days):
    for _ in range(days * 4):
        site.clock.wait(6 * 3600)
        site.cloud.read()


def test_a_template_that_nothing_wanted_for_a_week_is_removed():
    site = AwsSite()
    (machine,) = launch(site).instances
    site.cloud.terminate([machine.id])
    days_go_by(site, 6)
    assert len(templates(site)) == 1
    days_go_by(site, 2)
    assert templates(site) == []
    assert site.calls["delete_launch_template"] == 1
    assert len(launch(site, token="t2").instances) == 1, "made again when it is wanted again"


def test_a_template_that_a_machine_was_made_from_is_never_removed():
    site = AwsSite()
    launch(site)
    days_go_by(site, 20)
    assert len(templates(site)) == 1
    assert site.calls["delete_launch_template"] == 0


def test_a_template_of_another_controller_is_left_alone():
    site = AwsSite()
    site.account = replace(site.account, controller="another")
    site.cloud = AwsCloud(site.account, site.aws.clients, site.clock)
    (machine,) = launch(site).instances
    site.cloud.terminate([machine.id])
    site.cloud = AwsCloud(replace(site.account, controller="main-1"), site.aws.clients, site.clock)
    days_go_by(site, 20)
    assert len(templates(site)) == 1


# Leases


def end_of(site):
    (machine,) = site.cloud.read().instances
    return machine.ends_at


def test_a_lease_is_renewed_in_one_call_for_all_when_less_than_half_of_it_is_left():
    site = AwsSite()
    launch(site, nodes=40)
    began = site.clock.now()
    site.clock.wait(11.9 * 3600)
    site.cloud.read()
    assert site.calls["create_tags"] == 0
    site.clock.wait(0.3 * 3600)
    site.cloud.read()
    assert site.calls["create_tags"] == 1
    site.clock.wait(60)
    ends = {i.ends_at for i in site.cloud.read().instances}
    assert ends == {began + timedelta(hours=12.2 + 24)}
    assert site.calls["create_tags"] == 1


def test_a_machine_that_is_kept_for_days_is_never_at_its_end():
    site = AwsSite()
    launch(site)
    for _ in range(24 * 4):
        site.clock.wait(3600)
        assert end_of(site) - site.clock.now() > timedelta(hours=10)
    assert site.calls["create_tags"] <= 9


def test_a_lease_that_cannot_be_renewed_now_is_renewed_at_the_next_look():
    site = AwsSite()
    launch(site)
    site.clock.wait(13 * 3600)
    site.trouble.errors["create_tags"] = [("InternalError", "down", 500)]
    site.cloud.read()
    short = end_of(site)
    site.clock.wait(660)
    site.cloud.read()
    site.clock.wait(1)
    assert end_of(site) > short


def test_the_end_of_a_capacity_block_is_not_ours_to_move():
    site = AwsSite()
    (machine,) = launch(site).instances
    site.aws.ec2.truth()[machine.id] |= {"CapacityReservationId": "cr-1", "InstanceLifecycle": "capacity-block"}
    before = end_of(site)
    site.clock.wait(20 * 3600)
    site.cloud.read()
    site.clock.wait(1)
    assert end_of(site) == before
    assert site.calls["create_tags"] == 0


def test_the_lease_of_a_machine_in_another_reservation_is_renewed():
    site = AwsSite()
    (machine,) = launch(site, types=CapacityType.ON_DEMAND).instances
    site.aws.ec2.truth()[machine.id]["CapacityReservationId"] = "cr-1"
    before = end_of(site)
    site.clock.wait(20 * 3600)
    site.cloud.read()
    site.clock.wait(1)
    assert end_of(site) > before


def test_an_end_asked_for_that_is_sooner_than_the_lease_is_the_end():
    site = AwsSite()
    offerings = tuple(o for o in site.cloud.read().offerings if o.capacity_type is CapacityType.SPOT)
    ends_at = site.clock.now() + timedelta(hours=2)
    request = LaunchRequest(
        token="t", pool="burst", cluster="main", nodes=1, gang=False, offerings=offerings, ends_at=ends_at
    )  # fmt: skip
    (machine,) = site.cloud.launch(request).instances
    assert machine.ends_at == ends_at
    assert end_of(site) == ends_at
    (row,) = site.aws.ec2.truth().values()
    assert tags_of(row)[ENDS_AT_TAG] == ends_at.isoformat(timespec="seconds")


# Bad settings


def test_a_pool_without_an_image_or_a_zone_without_a_subnet_is_our_fault_and_no_call():
    site = AwsSite()
    site.cloud.read()
    with pytest.raises(InvalidRequest, match="pool nobody"):
        launch(site, pool="nobody")
    site.cloud = AwsCloud(replace(site.account, subnets={}), site.aws.clients, site.clock)
    elsewhere = tuple(o for o in AwsCloud(site.account, site.aws.clients, site.clock).read().offerings)
    request = LaunchRequest(token="t", pool="burst", cluster="main", nodes=1, gang=False, offerings=elsewhere)
    with pytest.raises(InvalidRequest, match="no subnet"):
        site.cloud.launch(request)
    assert site.calls["create_fleet"] == 0


@pytest.mark.parametrize("code", ["InvalidAMIID.NotFound", "InvalidSubnetID.NotFound", "UnauthorizedOperation"])
def test_a_launch_that_can_never_succeed_is_told_and_nothing_crashes(code):
    trouble = AwsTrouble(errors={"create_fleet": [(code, "no", 400)] * 100})
    site = AwsSite([a_job("j")], trouble=trouble)
    site.run(10)
    told = [o for r in site.records for o in r.outcomes if o.result is Result.FAILED]
    assert told
    assert all(code in o.detail for o in told)
    assert len(launches(site.records)) == site.calls["create_fleet"]
    assert {o.zone for o in site.records[-1].snapshot.offerings if o.instance_type == P4D} == set(ZONES)
