"""The bill of Cost Explorer: one day, our tag only, every page, machines apart from what hangs on them."""

from datetime import date

import pytest

from providers.aws.account import AwsAccount
from providers.aws.bill import MOST_PAGES, Bill, is_machine
from providers.aws.calls import Calls
from providers.errors import UnknownTrouble, Unreachable
from providers.sim.aws.fake import FakeAws
from tests.builders import NOW

DAY = date(2026, 12, 1)


class Clock:
    def now(self):
        return NOW

    def wait(self, seconds, *, until=None):
        raise AssertionError("nothing is waited for here")


class Explorer:
    """Cost Explorer with some pages."""

    def __init__(self, *pages):
        self.pages, self.asked = list(pages), []

    def get_cost_and_usage(self, **asked):
        self.asked.append(asked)
        return self.pages[min(len(self.asked), len(self.pages)) - 1]


def a_page(*groups, unit="USD", estimated=False, token=None):
    made = [{"Keys": [kind], "Metrics": {"UnblendedCost": {"Amount": usd, "Unit": unit}}} for kind, usd in groups]
    page = {"ResultsByTime": [{"Groups": made, "Estimated": estimated, "Total": {}}]}
    return {**page, **({"NextPageToken": token} if token else {})}


def a_bill(client):
    account = AwsAccount(name="aws", region="us-east-1", owner="site", controller="desk", subnets={})
    return Bill(Calls(lambda service: client, Clock()), account)


def test_every_page_counts_and_usage_types_are_added_up_dearest_first():
    explorer = Explorer(
        a_page(("USE1-SpotUsage:p4d.24xlarge", "100.5"), ("EBS:VolumeUsage.gp3", "1.25"), token="more"),
        a_page(("USE1-SpotUsage:p4d.24xlarge", "0.5"), ("BoxUsage:g5.xlarge", "3")),
    )
    billed = a_bill(explorer).day(DAY)
    assert billed.by_usage == (
        ("USE1-SpotUsage:p4d.24xlarge", 101.0), ("BoxUsage:g5.xlarge", 3.0), ("EBS:VolumeUsage.gp3", 1.25),
    )  # fmt: skip
    assert (billed.usd, billed.compute_usd, billed.is_final) == (105.25, 104.0, True)
    assert [asked.get("NextPageToken") for asked in explorer.asked] == [None, "more"]


def test_only_our_controllers_machines_of_this_region_and_day_are_asked_for():
    explorer = Explorer(a_page())
    a_bill(explorer).day(date(2026, 12, 31))
    (asked,) = explorer.asked
    assert asked["TimePeriod"] == {"Start": "2026-12-31", "End": "2027-01-01"}
    wanted = {"Key": "elastic:controller", "Values": ["desk"], "MatchOptions": ["EQUALS"]}
    assert {"Tags": wanted} in asked["Filter"]["And"]
    assert {"Dimensions": {"Key": "REGION", "Values": ["us-east-1"]}} in asked["Filter"]["And"]


def test_the_question_is_one_that_aws_takes():
    """botocore's own model checks the arguments."""
    aws = FakeAws(lambda: NOW)
    aws.rest.bills["2026-12-01"] = [("SpotUsage:g5.xlarge", 7.5), ("DataTransfer-Out-Bytes", 0.5)]
    bill = a_bill(aws.clients("ce"))
    assert (bill.day(DAY).usd, bill.day(DAY).compute_usd) == (8.0, 7.5)
    assert bill.day(date(2026, 12, 2)).by_usage == ()


def test_a_day_that_aws_still_counts_is_not_final():
    explorer = Explorer(a_page(("BoxUsage:x", "1"), estimated=True, token="more"), a_page())
    assert not a_bill(explorer).day(DAY).is_final


@pytest.mark.parametrize(
    ("page", "words"),
    [
        (a_page(("BoxUsage:x", "1"), unit="CNY"), "in CNY"),
        (a_page(("BoxUsage:x", "a lot")), "'a lot'"),
        (a_page(("BoxUsage:x", "NaN")), "no number"),
    ],
)
def test_what_cannot_be_read_as_dollars_is_told_and_not_guessed(page, words):
    with pytest.raises(UnknownTrouble, match=words):
        a_bill(Explorer(page)).day(DAY)


def test_a_listing_that_never_ends_is_none():
    explorer = Explorer(a_page(token="again"))
    with pytest.raises(Unreachable, match="pages"):
        a_bill(explorer).day(DAY)
    assert len(explorer.asked) == MOST_PAGES


@pytest.mark.parametrize(
    ("usage_type", "machine"),
    [
        ("SpotUsage:g5.xlarge", True), ("USE1-BoxUsage:p5.48xlarge", True), ("APN1-UnusedBox:p5.48xlarge", True),
        ("USW2-EBS:VolumeUsage.gp3", False), ("USE1-DataTransfer-Out-Bytes", False),
        ("PublicIPv4:InUseAddress", False), ("", False),
    ],
)  # fmt: skip
def test_machines_are_told_from_what_hangs_on_them(usage_type, machine):
    assert is_machine(usage_type) is machine
