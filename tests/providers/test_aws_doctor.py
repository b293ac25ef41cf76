"""The doctor of an account: what keeps a policy from renting is found, with its fix, and nothing is changed."""

from dataclasses import replace

import pytest

from providers.aws.account import AwsAccount, NodeShape
from providers.aws.cloud import AwsCloud
from providers.aws.doctor import PoolWish, Verdict, examine
from providers.facts import CapacityType
from providers.sim.aws.fake import FakeAws
from providers.sim.aws.market import GROUP, IMAGE, subnet_of
from tests.builders import NOW
from tests.providers.test_aws_calls import Clock

QUEUE = "https://sqs.us-east-1.amazonaws.com/123456789012/notices"
WISH = PoolWish(
    name="burst", gpu_model="a100", gpus_per_node=8, max_nodes=20, instance_types=(), zones=(),
    capacity_types=(CapacityType.SPOT, CapacityType.ON_DEMAND),
)  # fmt: skip
WRITES = ("create_fleet", "run_instances", "terminate_instances", "create_tags", "delete_launch_template")


class Office:
    """An account that is ready, and what to change about it."""

    def __init__(self):
        self.clock = Clock()
        self.aws = FakeAws(self.clock.now)
        self.account = AwsAccount(
            name="aws", region="us-east-1", owner="desk", controller="one",
            subnets={z: subnet_of(z) for z in self.aws.market.zones},
            shapes={"burst": NodeShape(image_id=IMAGE, security_group_ids=(GROUP,))}, gpu_models=("a100",),
            queue_url=QUEUE,
        )  # fmt: skip

    def found(self, wish=WISH):
        cloud = AwsCloud(self.account, self.aws.clients, self.clock)
        return examine(cloud, [wish], NOW)

    def bad(self, wish=WISH):
        return {c.subject: c for c in self.found(wish) if c.verdict is not Verdict.OK}

    def change(self, **fields):
        self.account = replace(self.account, **fields)


@pytest.fixture
def office():
    return Office()


def test_a_ready_account_has_no_complaint_and_nothing_was_made(office):
    assert office.bad() == {}
    assert sum(office.aws.counts[name] for name in WRITES) == 0
    assert office.aws.ec2.templates == {}
    assert len(office.found()) > 8


def test_without_credentials_there_is_one_complaint_that_says_what_to_do(office):
    office.aws.trouble.errors["get_caller_identity"] = [("ExpiredToken", "the token is old", 403)]
    (only,) = office.found()
    assert (only.subject, only.verdict) == ("identity", Verdict.FAILED)
    assert "AWS_PROFILE" in only.fix


def test_a_denied_permission_is_named_with_the_module_that_grants_it(office):
    office.aws.rest.denied = {"ec2:TerminateInstances"}
    check = office.bad()["permissions"]
    assert "ec2:TerminateInstances" in check.detail
    assert "controller-role" in check.fix


def test_every_permission_is_asked_with_the_resources_and_tags_of_its_call(office):
    asked = []
    simulate = office.aws.rest.simulate_principal_policy

    def listening(**arguments):
        asked.append(arguments)
        return simulate(**arguments)

    office.aws.rest.simulate_principal_policy = listening
    office.found()
    ends = next(a for a in asked if "ec2:TerminateInstances" in a["ActionNames"])
    assert ends["ResourceArns"] == ["arn:aws:ec2:us-east-1:123456789012:instance/i-0123456789abcdef0"]
    keys = {e["ContextKeyName"]: e["ContextKeyValues"] for e in ends["ContextEntries"]}
    assert keys == {"aws:ResourceTag/elastic:owner": ["desk"], "aws:ResourceTag/elastic:made-by": ["controller"]}
    assert {a["PolicySourceArn"] for a in asked} == {"arn:aws:iam::123456789012:role/elastic-controller"}


@pytest.mark.parametrize(
    ("fields", "subject", "words"),
    [
        ({"subnets": {"us-east-1a": "subnet-0ffffffff"}}, "subnet subnet-0ffffffff", "does not exist"),
        (
            {"subnets": {"us-east-1b": subnet_of("us-east-1a")}},
            f"subnet {subnet_of('us-east-1a')}",
            "not in us-east-1b",
        ),
        (
            {"queue_url": "https://sqs.us-east-1.amazonaws.com/999999999999/notices"},
            "queue",
            "it belongs to account 999999999999",
        ),
        ({"queue_url": ""}, "queue", "none is named"),
        (
            {"shapes": {"burst": NodeShape(image_id="ami-0ffffffff", security_group_ids=(GROUP,))}},
            "image ami-0ffffffff",
            "does not exist",
        ),
        (
            {"shapes": {"burst": NodeShape(image_id=IMAGE, security_group_ids=("sg-0ffffffff",))}},
            "security group sg-0ffffffff",
            "does not exist",
        ),
        (
            {"shapes": {"burst": NodeShape(image_id=IMAGE, root_device="/dev/xvda")}},
            f"image {IMAGE}",
            "its root device is /dev/sda1",
        ),
    ],
)
def test_what_is_not_there_is_told_with_a_fix(office, fields, subject, words):
    office.change(**fields)
    check = office.bad()[subject]
    assert words in check.detail
    assert check.fix


def test_a_group_of_another_vpc_is_told(office):
    office.aws.market.describe_security_groups = lambda **asked: {
        "SecurityGroups": [{"GroupId": GROUP, "VpcId": "vpc-other"}]
    }
    assert "vpc-other" in office.bad()[f"security group {GROUP}"].detail


def test_an_image_in_a_parameter_is_looked_up(office):
    office.aws.rest.parameters["/elastic/image"] = IMAGE
    office.change(shapes={"burst": NodeShape(image_id="resolve:ssm:/elastic/image", security_group_ids=(GROUP,))})
    assert office.bad() == {}


def test_a_type_that_no_zone_offers_is_told(office):
    wish = replace(WISH, instance_types=("p4d.24xlarge", "p9.large"))
    office.change(instance_types=("p4d.24xlarge", "p9.large"))
    assert "p9.large is offered in no zone" in office.bad(wish)["pool burst"].detail


def test_a_shape_that_nothing_offers_is_told(office):
    assert "nothing offers nodes of 8 x b300" in office.bad(replace(WISH, gpu_model="b300"))["pool burst"].detail


def test_a_quota_below_the_ceiling_is_told_in_nodes(office):
    office.aws.trouble.vcpu_quotas = {"L-7212CCBC": 192.0, "L-417A185B": 0.0}
    found = [c for c in office.found() if c.subject == "pool burst" and "quota" in c.detail]
    assert {c.verdict for c in found} == {Verdict.WARNING, Verdict.FAILED}
    assert any("the spot quota leaves 2 node(s), the policy's ceiling is 20" in c.detail for c in found)


def test_a_price_source_that_is_denied_is_a_warning(office):
    office.aws.trouble.errors["get_products"] = [("AccessDeniedException", "no", 400)] * 9
    assert office.bad()["prices and quotas"].verdict is Verdict.WARNING
