"""The bill over HTTP, with boto3, from the AWS on loopback."""

from datetime import UTC, date, datetime, timedelta

from elastic.costs import Cost, CostKey
from elastic.reconcile import reconcile
from providers.aws.account import AwsAccount
from providers.aws.bill import Bill
from providers.aws.calls import Calls
from providers.clock import SystemClock
from tests.real.aws.aws_process import REGION, AwsProcess

DAY = date(2026, 12, 1)


def test_a_billed_day_is_read_and_held_against_ours(aws_like: AwsProcess) -> None:
    aws_like.steer("bill", day=DAY.isoformat(), lines=[["SpotUsage:p4d.24xlarge", 240.5], ["EBS:VolumeUsage.gp3", 2.5]])
    account = AwsAccount(name="aws", region=REGION, owner="site", controller="desk", subnets={})
    billed = Bill(Calls(aws_like.client, SystemClock()), account).day(DAY)
    assert (billed.usd, billed.compute_usd) == (243.0, 240.5)
    key = CostKey(DAY.isoformat(), "aws", "burst", "", "j", "job", "p4d.24xlarge/a/spot", "spot price", False)
    made_at = datetime(2026, 12, 5, tzinfo=UTC) + timedelta(hours=7)
    found = reconcile(billed, [(key, Cost(86_400.0, 240.0))], watched_h=24.0, made_at=made_at)
    assert found.agrees
    assert found.causes == ("2.50 USD billed beside machines, not costed here: EBS:VolumeUsage.gp3 2.50",)
    assert aws_like.counts()["GetCostAndUsage"] == 1


def test_a_day_without_a_bill_is_an_empty_one(aws_like: AwsProcess) -> None:
    account = AwsAccount(name="aws", region=REGION, owner="site", controller="desk", subnets={})
    billed = Bill(Calls(aws_like.client, SystemClock()), account).day(DAY)
    assert (billed.usd, billed.by_usage) == (0.0, ())
