"""Prices, scores, quotas and the bill: what moto has no sense of or lacks."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.real.aws.aws_process import AwsProcess, Site

P4D = "p4d.24xlarge"
DAY = datetime(2026, 11, 20, tzinfo=UTC)


def _prices(aws: AwsProcess, **asked: object) -> list[tuple[str, str, float]]:
    """(zone, instant, USD) of the history of one type."""
    pages = aws.client("ec2").get_paginator("describe_spot_price_history").paginate(InstanceTypes=[P4D], **asked)
    rows = [row for page in pages for row in page["SpotPriceHistory"]]
    return [(r["AvailabilityZone"], r["Timestamp"].isoformat(), float(r["SpotPrice"])) for r in rows]


def test_spot_prices_are_a_series_of_each_zone_from_what_held_at_the_start(aws_like: AwsProcess) -> None:
    series = [[(DAY + timedelta(hours=h)).isoformat(), usd] for h, usd in ((0, 9.0), (6, 10.0), (12, 11.5))]
    aws_like.trouble(spot_prices={f"{P4D}/us-east-1b": series})
    found = _prices(aws_like, StartTime=DAY + timedelta(hours=7), AvailabilityZone="us-east-1b")
    assert [(zone, usd) for zone, _, usd in found] == [("us-east-1b", 10.0), ("us-east-1b", 11.5)]
    assert found[0][1] == (DAY + timedelta(hours=6)).isoformat()


def test_spot_prices_of_the_future_are_not_told(aws_like: AwsProcess) -> None:
    now = datetime.fromisoformat(aws_like.steer("counts")["now"])
    series = [[DAY.isoformat(), 9.0], [(now + timedelta(hours=1)).isoformat(), 99.0]]
    aws_like.trouble(spot_prices={f"{P4D}/us-east-1a": series})
    assert [usd for _, _, usd in _prices(aws_like, AvailabilityZone="us-east-1a")] == [9.0]
    aws_like.advance(3700)
    assert [usd for _, _, usd in _prices(aws_like, AvailabilityZone="us-east-1a")] == [99.0]


def test_spot_prices_come_in_pages(aws_like: AwsProcess) -> None:
    series = [[(DAY + timedelta(minutes=n)).isoformat(), 9.0 + n / 1000] for n in range(25)]
    aws_like.trouble(spot_prices={f"{P4D}/us-east-1a": series})
    page = {"PaginationConfig": {"PageSize": 10}}
    found = _prices(aws_like, StartTime=DAY, AvailabilityZone="us-east-1a", **page)
    assert [usd for _, _, usd in found] == [usd for _, usd in series]


def test_placement_scores_name_zones_by_the_ids_the_account_knows(site: Site) -> None:
    names = {z["ZoneId"]: z["ZoneName"] for z in site.ec2.describe_availability_zones()["AvailabilityZones"]}
    site.aws.trouble(scores={f"{P4D}/us-east-1a": 9, f"{P4D}/us-east-1b": 2})
    answer = site.ec2.get_spot_placement_scores(
        InstanceTypes=[P4D, "p5.48xlarge", "p5e.48xlarge"],
        TargetCapacity=8,
        SingleAvailabilityZone=True,
        RegionNames=["us-east-1"],
    )
    scores = {names[row["AvailabilityZoneId"]]: row["Score"] for row in answer["SpotPlacementScores"]}
    assert scores["us-east-1a"] == 9
    assert set(scores) == set(names.values())


def test_price_list_tells_the_on_demand_price_of_a_type(aws_like: AwsProcess) -> None:
    aws_like.trouble(on_demand_prices={P4D: 21.96})
    answer = aws_like.client("pricing").get_products(
        ServiceCode="AmazonEC2", Filters=[{"Type": "TERM_MATCH", "Field": "instanceType", "Value": P4D}]
    )
    (row,) = [json.loads(text) for text in answer["PriceList"]]
    (term,) = row["terms"]["OnDemand"].values()
    (price,) = term["priceDimensions"].values()
    assert row["product"]["attributes"]["instanceType"] == P4D
    assert float(price["pricePerUnit"]["USD"]) == 21.96


def test_quotas_of_gpu_vcpus_are_told(aws_like: AwsProcess) -> None:
    aws_like.trouble(vcpu_quotas={"L-417A185B": 192.0})
    answer = aws_like.client("service-quotas").get_service_quota(ServiceCode="ec2", QuotaCode="L-417A185B")
    assert answer["Quota"]["Value"] == 192.0


def test_a_quota_that_is_not_there_is_refused_in_the_services_own_way(aws_like: AwsProcess) -> None:
    quotas = aws_like.client("service-quotas")
    with pytest.raises(quotas.exceptions.NoSuchResourceException):
        quotas.get_service_quota(ServiceCode="ec2", QuotaCode="L-00000000")


def test_a_seeded_bill_comes_back_by_usage_type(aws_like: AwsProcess) -> None:
    aws_like.steer("bill", day="2026-11-20", lines=[["USE1-BoxUsage:p4d.24xlarge", 120.5], ["USE1-SpotUsage:g5", 3.25]])
    answer = aws_like.client("ce").get_cost_and_usage(
        TimePeriod={"Start": "2026-11-20", "End": "2026-11-21"},
        Granularity="DAILY",
        Metrics=["UnblendedCost"],
        GroupBy=[{"Type": "DIMENSION", "Key": "USAGE_TYPE"}],
    )
    groups = answer["ResultsByTime"][0]["Groups"]
    usd = {g["Keys"][0]: float(g["Metrics"]["UnblendedCost"]["Amount"]) for g in groups}
    assert usd == {"USE1-BoxUsage:p4d.24xlarge": 120.5, "USE1-SpotUsage:g5": 3.25}
