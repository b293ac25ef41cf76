"""The controller's policy: what it allows, what it must not, and that every call of the adapter is in it."""

import json
import re

import pytest

from providers.aws.account import AwsAccount, NodeShape
from providers.aws.rights import actions_of, rights
from tests.real.terraform.engine import POLICY_INPUTS, controller_policy
from tests.real.terraform.iam import allows, changes_something, statements
from tests.real.terraform.programs import ROOT

EC2 = "arn:aws:ec2:us-east-1:123456789012"
MACHINE = f"{EC2}:instance/i-0123456789abcdef0"
NODE_ROLE, QUEUE = str(POLICY_INPUTS["node_role_arn"]), str(POLICY_INPUTS["queue_arn"])
OWNER, CONTROLLER, MADE_BY = "elastic:owner", "elastic:controller", "elastic:made-by"
OURS = {OWNER: "desk", CONTROLLER: "main", MADE_BY: "controller"}
# what IAM takes in the policies of one role that are written inline, white space not counted
MOST_LETTERS = 10_240


def asked(tags):
    """The condition keys of a call that makes something with these tags."""
    return {f"aws:RequestTag/{k}": v for k, v in tags.items()} | {"aws:TagKeys": list(tags)}


def carried(tags):
    """The condition keys of a call on something with these tags."""
    return {f"aws:ResourceTag/{k}": v for k, v in tags.items()}


@pytest.mark.parametrize("action", ["ec2:CreateFleet", "ec2:RunInstances"])
@pytest.mark.parametrize("kind", ["instance", "fleet"])
def test_machines_are_rented_with_all_our_tags_only(policy, action, kind):
    place = f"{EC2}:{kind}/*"
    assert allows(policy, action, place, context=asked(OURS))
    for missing in OURS:
        assert not allows(policy, action, place, context=asked({k: v for k, v in OURS.items() if k != missing}))
    assert not allows(policy, action, place, context=asked(OURS | {OWNER: "others"}))
    assert not allows(policy, action, place, context=asked(OURS | {MADE_BY: "terraform"}))


def test_machines_start_only_in_our_subnets_and_groups_and_from_our_templates(policy):
    assert allows(policy, "ec2:RunInstances", f"{EC2}:subnet/subnet-0123456789abcdef0")
    assert not allows(policy, "ec2:RunInstances", f"{EC2}:subnet/subnet-0fedcba9876543210")
    assert allows(policy, "ec2:CreateFleet", f"{EC2}:security-group/sg-0123456789abcdef0")
    assert not allows(policy, "ec2:CreateFleet", f"{EC2}:security-group/sg-0fedcba9876543210")
    template = f"{EC2}:launch-template/lt-0123456789abcdef0"
    assert allows(policy, "ec2:CreateFleet", template, context=carried(OURS))
    assert not allows(policy, "ec2:CreateFleet", template, context=carried(OURS | {MADE_BY: "somebody"}))
    assert not allows(policy, "ec2:RunInstances", f"{EC2}:key-pair/mine")


@pytest.mark.parametrize(
    ("tags", "may"),
    [
        (OURS, True),
        (OURS | {MADE_BY: "terraform"}, False),
        (OURS | {OWNER: "others"}, False),
        ({OWNER: "desk"}, False),
        ({MADE_BY: "controller"}, False),
        ({}, False),
    ],
)
def test_only_our_own_machines_and_templates_are_ended(policy, tags, may):
    assert allows(policy, "ec2:TerminateInstances", MACHINE, context=carried(tags)) is may
    template = f"{EC2}:launch-template/lt-0123456789abcdef0"
    assert allows(policy, "ec2:DeleteLaunchTemplate", template, context=carried(tags)) is may


def test_nothing_that_exists_can_be_made_ours(policy):
    others = carried({OWNER: "others", MADE_BY: "controller"})
    assert not allows(policy, "ec2:CreateTags", MACHINE, context=asked(OURS))
    assert not allows(policy, "ec2:CreateTags", MACHINE, context=asked(OURS) | others)
    assert not allows(policy, "ec2:CreateTags", MACHINE, context=asked(OURS) | carried(OURS))
    assert allows(policy, "ec2:CreateTags", MACHINE, context=asked(OURS) | {"ec2:CreateAction": "RunInstances"})
    assert not allows(policy, "ec2:CreateTags", MACHINE, context=asked(OURS) | {"ec2:CreateAction": "CreateImage"})


def test_a_lease_is_renewed_on_our_machines_and_no_other_tag_with_it(policy):
    lease = {"elastic:ends-at": "2026-12-01T12:00:00+00:00"}
    assert allows(policy, "ec2:CreateTags", MACHINE, context=asked(lease) | carried(OURS))
    assert not allows(policy, "ec2:CreateTags", MACHINE, context=asked(lease) | carried({OWNER: "others"}))
    assert not allows(policy, "ec2:CreateTags", MACHINE, context=asked(lease | {OWNER: "x"}) | carried(OURS))


def test_only_the_role_of_nodes_is_passed_and_only_to_machines(policy):
    to_ec2 = {"iam:PassedToService": "ec2.amazonaws.com"}
    assert allows(policy, "iam:PassRole", NODE_ROLE, context=to_ec2)
    assert not allows(policy, "iam:PassRole", NODE_ROLE, context={"iam:PassedToService": "lambda.amazonaws.com"})
    assert not allows(policy, "iam:PassRole", "arn:aws:iam::123456789012:role/admin", context=to_ec2)


def test_only_the_one_queue_and_our_parameters_are_read(policy):
    assert allows(policy, "sqs:DeleteMessage", QUEUE)
    assert not allows(policy, "sqs:DeleteMessage", QUEUE + "-dead")
    assert not allows(policy, "sqs:SendMessage", QUEUE)
    parameters = "arn:aws:ssm:us-east-1:123456789012:parameter"
    assert allows(policy, "ssm:GetParameters", f"{parameters}/elastic/base/images/burst")
    assert not allows(policy, "ssm:GetParameters", f"{parameters}/elastic/nodes/munge-key")


def test_a_list_of_types_limits_what_is_rented(engine_command, tmp_path):
    limited = controller_policy(engine_command, tmp_path, {**POLICY_INPUTS, "instance_types": ["p5.48xlarge", "g6.*"]})

    def may(kind, **more):
        return allows(limited, "ec2:RunInstances", f"{EC2}:{kind}/*", context=asked(OURS) | more)

    assert may("instance", **{"ec2:InstanceType": "g6.12xlarge"})
    assert not may("instance", **{"ec2:InstanceType": "x2iedn.32xlarge"})
    assert may("fleet")


def test_a_statement_on_everything_only_reads(policy):
    wide = [s for s in statements(policy) if "*" in s["Resource"]]
    assert wide
    assert [a for s in wide for a in s["Action"] if changes_something(a)] == []
    assert not any("*" in a for s in statements(policy) for a in s["Action"])


def test_the_policy_of_a_large_site_fits_into_a_role(engine_command, tmp_path):
    large = {
        "subnet_ids": [f"subnet-{n:017x}" for n in range(30)],
        "security_group_ids": [f"sg-{n:017x}" for n in range(5)],
        "instance_types": [f"p{n}.48xlarge" for n in range(30)],
        "log_group_arn": "arn:aws:logs:us-east-1:123456789012:log-group:/elastic/desk",
    }
    policy = controller_policy(engine_command, tmp_path, POLICY_INPUTS | large)
    assert len(re.sub(r"\s", "", json.dumps(policy))) <= MOST_LETTERS


# The adapter's calls

CALL = re.compile(r'\.(?:read|write|pages)\(\s*"([a-z0-9-]+)",\s*"([a-z_0-9]+)"')
PREFIX = {"service-quotas": "servicequotas"}
# What EC2 does with our permissions when a fleet is made.
IN_OUR_NAME = {"iam:PassRole", "ssm:GetParameters"}
# In AWS this call goes by the permission of another.
UNDER = {"sqs:DeleteMessageBatch": "sqs:DeleteMessage"}


def calls_of_the_adapter():
    for path in sorted((ROOT / "providers" / "aws").glob("*.py")):
        for service, operation in CALL.findall(path.read_text()):
            action = "".join(word.capitalize() for word in operation.split("_"))
            yield UNDER.get(f"{service}:{action}", f"{PREFIX.get(service, service)}:{action}")


def asked_by_doctor():
    account = AwsAccount(
        name="aws", region="us-east-1", owner="o", controller="c", subnets={"us-east-1a": "subnet-1"},
        shapes={"burst": NodeShape(image_id="resolve:ssm:/elastic/image")}, wants_scores=True,
        queue_url="https://sqs.us-east-1.amazonaws.com/123456789012/notices",
    )  # fmt: skip
    return actions_of(rights(account, account_id="123456789012"))


def test_every_call_of_the_adapter_has_its_permission(policy):
    allowed = {action for s in statements(policy) for action in s["Action"]}
    called = set(calls_of_the_adapter())
    assert {"ec2:CreateFleet", "ec2:TerminateInstances"} <= called
    assert sorted(called - allowed) == []
    assert sorted(set(asked_by_doctor()) - allowed) == []


def test_no_permission_is_there_without_a_call(policy):
    text = "".join(path.read_text() for path in sorted((ROOT / "providers" / "aws").glob("*.py")))

    def is_named(action):
        operation = re.sub(r"(?<!^)(?=[A-Z])", "_", action.split(":")[1]).lower()
        return f'"{operation}"' in text or f'"{action}"' in text

    allowed = {action for s in statements(policy) for action in s["Action"]}
    assert sorted(action for action in allowed - IN_OUR_NAME if not is_named(action)) == []
