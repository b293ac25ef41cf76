"""The whole life of rented machines with no more rights than terraform gives the controller, and none of them idle."""

from copy import deepcopy
from dataclasses import replace
from datetime import timedelta

import pytest

from providers.aws.account import NodeShape
from providers.aws.bill import Bill
from providers.aws.cloud import AwsCloud
from providers.aws.doctor import PoolWish, Verdict, examine
from providers.errors import AccessDenied, InvalidRequest
from providers.facts import CapacityType, InstanceState, LaunchRequest
from providers.sim.aws.fake import FakeAws
from providers.sim.aws.market import GROUP, IMAGE, subnet_of
from tests.contract.stand_aws import NOW, TYPE, SteeredClock, an_account
from tests.real.aws.limited import LimitedAws
from tests.real.terraform import programs
from tests.real.terraform.engine import POLICY_INPUTS, controller_policy
from tests.real.terraform.iam import statements

PARAMETER = "/elastic/base/images/burst"
PROFILE, NODE_ROLE = "elastic-desk-node", str(POLICY_INPUTS["node_role_arn"])
TYPES = (TYPE, "p4d.made-up", "p4d.too")  # as many as placement scores are asked for
WISH = PoolWish(
    name="burst", gpu_model="a100", gpus_per_node=8, max_nodes=4, instance_types=TYPES, zones=(),
    capacity_types=(CapacityType.SPOT, CapacityType.ON_DEMAND),
)  # fmt: skip
SHAPE = NodeShape(
    image_id=f"resolve:ssm:{PARAMETER}", security_group_ids=(GROUP,), instance_profile=PROFILE, key_name="desk"
)
SUBNETS = {zone: subnet_of(zone) for zone in ("us-east-1a", "us-east-1b", "us-east-1c")}
ACCOUNT = replace(an_account(), subnets=SUBNETS, shapes={"burst": SHAPE}, wants_scores=True, instance_types=TYPES)
INPUTS = {
    **POLICY_INPUTS,
    "role_name": "elastic-controller",  # who the AWS in memory says we are
    "owner": ACCOUNT.owner,
    "controller": ACCOUNT.controller,
    "queue_arn": "arn:aws:sqs:us-east-1:123456789012:notices",
    "subnet_ids": list(ACCOUNT.subnets.values()),
    "security_group_ids": [GROUP],
    "instance_types": ["p4d.*"],
    "key_names": ["desk"],
}
BLOCK = {
    "CapacityReservationId": "cr-1", "InstanceType": TYPE, "AvailabilityZone": "us-east-1a", "State": "active",
    "TotalInstanceCount": 2, "AvailableInstanceCount": 2, "StartDate": NOW, "EndDateType": "limited",
    "EndDate": NOW + timedelta(days=2), "ReservationType": "capacity-block", "InstanceMatchCriteria": "targeted",
}  # fmt: skip
GONE = (InstanceState.TERMINATING, InstanceState.TERMINATED)


class Life:
    """A controller's adapter over an AWS in memory that a policy guards."""

    def __init__(self, policy):
        self.clock = SteeredClock()
        self.aws = FakeAws(self.clock.now)
        kinds = self.aws.market.types
        kinds |= {name: {**kinds[TYPE], "InstanceType": name} for name in TYPES}
        self.aws.rest.parameters[PARAMETER] = IMAGE
        self.aws.market.reservations.append(dict(BLOCK))
        self.aws.rest.bills[NOW.date().isoformat()] = [(f"USE1-SpotUsage:{TYPE}", 12.5)]
        self.guard = LimitedAws(self.aws, policy, node_roles={PROFILE: NODE_ROLE})
        self.cloud = AwsCloud(ACCOUNT, self.guard.clients, self.clock)

    def launch(self, token, nodes, kind=CapacityType.SPOT, *, gang=False):
        offerings = tuple(o for o in self.cloud.read().offerings if o.capacity_type is kind)
        request = LaunchRequest(
            token=token, cluster="main", pool="burst", team="rates", nodes=nodes, gang=gang, offerings=offerings
        )
        return self.cloud.launch(request).instances

    def lived(self):
        """From the first look to the last template; what came of it."""
        cloud = self.cloud
        found = {"checks": examine(cloud, [WISH], self.clock.now())}
        found["single"] = self.launch("single", 1)
        found["gang"] = self.launch("gang", 3, gang=True)
        found["on-demand"] = self.launch("on-demand", 1, CapacityType.ON_DEMAND)
        found["block"] = self.launch("block", 1, CapacityType.RESERVED)
        self.aws.interrupt(found["single"][0].id)
        cloud.notices.poll()
        found["notices"] = cloud.read().interruptions
        cloud.acknowledge([n.id for n in found["notices"]])
        self.clock.wait(180)
        cloud.read()  # the notice was no joke: it has ended
        self.clock.wait(timedelta(hours=13).total_seconds())
        cloud.read()
        found["leases"] = {i.id: i.ends_at for i in cloud.read().instances if i.state not in GONE}
        cloud.terminate([i.id for i in cloud.read().instances])
        found["alive"] = [i for i in cloud.read().instances if i.state not in GONE]
        found["templates"] = len(self.aws.templates.rows)
        self.clock.wait(timedelta(days=8).total_seconds())
        cloud.read()
        found["billed"] = Bill(cloud.calls, ACCOUNT).day(NOW.date())
        return found


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    try:
        with programs.alone():
            command = programs.engine()
    except programs.Missing as missing:
        pytest.skip(f"no Terraform engine: {missing}")
    return controller_policy(command, tmp_path_factory.mktemp("least-privilege"), inputs=INPUTS)


def test_the_whole_life_of_machines_needs_no_more_than_the_controllers_policy(policy):
    life = Life(policy)
    found = life.lived()
    assert not life.guard.refused
    assert {c.verdict for c in found["checks"]} == {Verdict.OK}, [c for c in found["checks"] if c.fix]
    assert [len(found[kind]) for kind in ("single", "gang", "on-demand", "block")] == [1, 3, 1, 1]
    assert [n.instance_id for n in found["notices"]] == [found["single"][0].id]
    assert len(life.aws.queue) == 0
    kept = {i.id for i in (*found["gang"], *found["on-demand"])}
    assert all(found["leases"][i] > NOW + timedelta(hours=30) for i in kept), "renewed"
    assert not found["alive"]
    assert found["templates"] == 2
    assert not life.aws.templates.rows, "unused ones are removed"
    assert found["billed"].usd == 12.5


def without(policy, sid, key, entry):
    """The policy without one entry of a statement, or without the statement where it was the last one."""
    cut = deepcopy(policy)
    cut["Statement"] = list(statements(cut))
    mine = next(s for s in cut["Statement"] if s["Sid"] == sid)
    mine[key].remove(entry)
    cut["Statement"] = [s for s in cut["Statement"] if s["Action"] and s["Resource"]]
    return cut


def refused_in_a_life(policy):
    life = Life(policy)
    try:
        life.lived()
    except (
        AccessDenied,
        InvalidRequest,
        IndexError,
    ):  # a life that was cut short: nothing came, so nothing can be looked at
        assert life.guard.refused
    return life.guard.refused


def test_each_action_of_the_policy_is_needed_somewhere_in_that_life(policy):
    entries = [(s["Sid"], action) for s in statements(policy) for action in s["Action"]]
    assert len(entries) > 25
    idle = [entry for entry in entries if not refused_in_a_life(without(policy, entry[0], "Action", entry[1]))]
    assert not idle


def test_each_resource_of_the_policy_is_needed_somewhere_in_that_life(policy):
    entries = [(s["Sid"], arn) for s in statements(policy) for arn in s["Resource"]]
    idle = [entry for entry in entries if not refused_in_a_life(without(policy, entry[0], "Resource", entry[1]))]
    # AWS's own parameters: for sites that start from an image of AWS
    assert idle == [("ReadParameters", "arn:aws:ssm:us-east-1::parameter/aws/service/*")]


@pytest.mark.parametrize(
    ("change", "action"),
    [
        ({"owner": "others"}, "ec2:CreateLaunchTemplate"),
        ({"controller": "second"}, "ec2:CreateLaunchTemplate"),
        ({"shapes": {"burst": replace(SHAPE, security_group_ids=("sg-0fedcba9",))}}, "ec2:CreateFleet"),
        ({"shapes": {"burst": replace(SHAPE, key_name="another")}}, "ec2:CreateFleet"),
    ],
)
def test_what_the_policy_was_not_made_for_is_refused(policy, change, action):
    life = Life(policy)
    life.cloud = AwsCloud(replace(ACCOUNT, **change), life.guard.clients, life.clock)
    with pytest.raises(AccessDenied):
        life.launch("single", 1)
    assert life.guard.refused[-1].action == action
    assert not life.aws.ec2.truth()


def test_machines_of_others_are_not_ended_even_if_the_adapter_asked(policy):
    life = Life(policy)
    (mine,) = life.launch("single", 1)
    life.aws.ec2.create_tags(Resources=[mine.id], Tags=[{"Key": "elastic:owner", "Value": "others"}])
    with pytest.raises(AccessDenied):
        life.cloud.terminate([mine.id])
    assert life.aws.ec2.truth()[mine.id]["State"]["Name"] == "running"
