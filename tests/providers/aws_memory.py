"""The AWS in memory with one launch template, as the tests of it use it."""

from providers.sim.aws.fake import FakeAws
from providers.sim.aws.market import IMAGE, subnet_of
from providers.sim.aws.trouble import AwsTrouble
from tests.contract.stand_aws import SteeredClock

P4D, P4DE = "p4d.24xlarge", "p4de.24xlarge"
A, B = "us-east-1a", "us-east-1b"


class World:
    """A fake, its clock and one launch template."""

    def __init__(self, **trouble):
        self.clock = SteeredClock()
        self.trouble = AwsTrouble(**trouble)
        self.aws = FakeAws(self.clock.now, trouble=self.trouble, wait=self.clock.wait)
        self.ec2, self.sqs = self.aws.clients("ec2"), self.aws.clients("sqs")
        self.template_id = self.template("one")

    def template(self, name, **content):
        """A launch template's id."""
        content = {"ImageId": IMAGE, **content}
        made = self.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=content)
        return made["LaunchTemplate"]["LaunchTemplateId"]

    def fleet(self, nodes=1, *, places=((P4D, A), (P4D, B)), token="t", market="spot", **options):
        overrides = [
            {"InstanceType": t, "SubnetId": subnet_of(z), "Priority": float(n)} for n, (t, z) in enumerate(places)
        ]
        return self.ec2.create_fleet(
            Type="instant",
            ClientToken=token,
            LaunchTemplateConfigs=[
                {
                    "LaunchTemplateSpecification": {"LaunchTemplateId": self.template_id, "Version": "$Latest"},
                    "Overrides": overrides,
                }
            ],
            TargetCapacitySpecification={"TotalTargetCapacity": nodes, "DefaultTargetCapacityType": market},
            **{"SpotOptions" if market == "spot" else "OnDemandOptions": options},
            TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "owner", "Value": "me"}]}],
        )

    def rows(self, **asked):
        pages = self.ec2.describe_instances(**asked)
        return [row for r in pages["Reservations"] for row in r["Instances"]]


def ids(answer):
    return [i for row in answer["Instances"] for i in row["InstanceIds"]]


def errors(answer):
    return {
        (e["LaunchTemplateAndOverrides"]["Overrides"]["AvailabilityZone"], e["ErrorCode"]) for e in answer["Errors"]
    }


def code_of(raised):
    return raised.value.response["Error"]["Code"]
