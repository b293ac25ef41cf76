"""A small AWS for tests of offerings: the read calls about types, zones, prices, quotas, reservations and scores."""

import json
from collections import Counter
from datetime import timedelta

from botocore.exceptions import ClientError, EndpointConnectionError

from providers.aws.account import AwsAccount
from providers.aws.calls import Calls
from providers.aws.offerings import OfferingBook
from tests.builders import NOW

SUBNETS = {"us-east-1a": "subnet-a", "us-east-1b": "subnet-b"}
DAY = timedelta(days=1)


class HandClock:
    """A clock that a test sets."""

    def __init__(self, at=NOW):
        self.at = at

    def now(self):
        return self.at

    def wait(self, seconds, *, until=None):
        self.at += timedelta(seconds=seconds)


def a_type(name="p4d.24xlarge", *, model="A100", gpus=8, cpus=96):
    """As `describe_instance_types` tells it."""
    return {
        "InstanceType": name,
        "VCpuInfo": {"DefaultVCpus": cpus},
        "MemoryInfo": {"SizeInMiB": 1179648},
        "GpuInfo": {"Gpus": [{"Name": model, "Count": gpus, "MemoryInfo": {"SizeInMiB": 40960}}]},
        "InstanceStorageInfo": {"TotalSizeInGB": 8000},
        "NetworkInfo": {"NetworkPerformance": "4x 100 Gigabit"},
    }  # fmt: skip


def a_spot_row(name="p4d.24xlarge", zone="us-east-1a", *, usd="6.5", at=NOW - DAY, product="Linux/UNIX"):
    """As `describe_spot_price_history` tells it."""
    return {
        "InstanceType": name, "AvailabilityZone": zone, "SpotPrice": usd, "Timestamp": at, "ProductDescription": product
    }  # fmt: skip


def a_list_item(name="p4d.24xlarge", *, usd="22.0", region="us-east-1", system="Linux"):
    """As `get_products` tells it: a JSON text."""
    return json.dumps(
        {
            "product": {
                "attributes": {
                    "instanceType": name, "regionCode": region, "operatingSystem": system, "tenancy": "Shared",
                    "preInstalledSw": "NA", "capacitystatus": "Used", "marketoption": "OnDemand",
                }
            },
            "terms": {"OnDemand": {"X": {"priceDimensions": {"Y": {"unit": "Hrs", "pricePerUnit": {"USD": usd}}}}}},
        }
    )  # fmt: skip


def a_reservation(id="cr-1", name="p4d.24xlarge", zone="us-east-1a", **changes):
    """As `describe_capacity_reservations` tells it."""
    return {
        "CapacityReservationId": id, "InstanceType": name, "AvailabilityZone": zone, "State": "active",
        "InstancePlatform": "Linux/UNIX", "TotalInstanceCount": 4, "AvailableInstanceCount": 3,
        "StartDate": NOW - DAY, "EndDateType": "unlimited", **changes,
    }  # fmt: skip


class Market:
    """What AWS would answer, and which calls it got. `refused` by operation: an AWS code, or "down" for silence."""

    def __init__(self):
        self.types = [a_type()]
        self.zones = [("p4d.24xlarge", "us-east-1a"), ("p4d.24xlarge", "us-east-1b")]
        self.spot = [a_spot_row(), a_spot_row(zone="us-east-1b", usd="7.25")]
        self.price_list = [a_list_item()]
        self.quotas = {"L-417A185B": 960.0, "L-7212CCBC": 192.0}
        self.reservations = []
        self.scores = []
        self.refused = {}
        self.asked = []
        self.counts = Counter()

    def __call__(self, service):
        return _Client(self)

    def answer(self, operation, asked):
        self.asked.append((operation, asked))
        self.counts[operation] += 1
        trouble = self.refused.get(operation)
        if trouble == "down":
            raise EndpointConnectionError(endpoint_url="https://aws.invalid")
        if trouble:
            raise ClientError({"Error": {"Code": trouble, "Message": "no"}}, operation)
        return getattr(self, f"_{operation}")(asked)

    def last(self, operation):
        return next(asked for name, asked in reversed(self.asked) if name == operation)

    def _describe_instance_types(self, asked):
        wanted = [v for f in asked.get("Filters", ()) for v in f["Values"]]
        return {"InstanceTypes": [t for t in self.types if not wanted or t.get("InstanceType") in wanted]}

    def _describe_instance_type_offerings(self, asked):
        wanted = asked["Filters"][0]["Values"]
        rows = [{"InstanceType": name, "Location": zone} for name, zone in self.zones if name in wanted]
        return {"InstanceTypeOfferings": rows}

    def _describe_spot_price_history(self, asked):
        """Changes since the start, and the price that held then; newest first, as EC2 does."""
        begun = {}
        for row in sorted(self.spot, key=lambda r: r["Timestamp"]):
            key = (row["InstanceType"], row["AvailabilityZone"])
            begun[key] = [r for r in begun.get(key, ()) if r["Timestamp"] > asked["StartTime"]] + [row]
        rows = [row for series in begun.values() for row in series]
        return {"SpotPriceHistory": sorted(rows, key=lambda r: r["Timestamp"], reverse=True)}

    def _get_products(self, asked):
        return {"PriceList": self.price_list}

    def _get_service_quota(self, asked):
        code = asked["QuotaCode"]
        if code not in self.quotas:
            raise ClientError({"Error": {"Code": "NoSuchResourceException", "Message": "no"}}, "GetServiceQuota")
        return {"Quota": {"QuotaCode": code, "Value": self.quotas[code]}}

    def _describe_capacity_reservations(self, asked):
        return {"CapacityReservations": self.reservations}

    def _describe_availability_zones(self, asked):
        rows = [("use1-az4", "us-east-1a"), ("use1-az6", "us-east-1b")]
        return {"AvailabilityZones": [{"ZoneId": id, "ZoneName": name} for id, name in rows]}

    def _get_spot_placement_scores(self, asked):
        return {"SpotPlacementScores": self.scores}


class _Client:
    def __init__(self, market):
        self._market = market

    def __getattr__(self, operation):
        return lambda **asked: self._market.answer(operation, asked)


class Desk:
    """A book over a market with a clock."""

    def __init__(self, market=None, *, at=NOW, **account):
        self.market, self.clock = market or Market(), HandClock(at)
        wanted = {"instance_types": ("p4d.24xlarge",), "subnets": SUBNETS} | account
        self.account = AwsAccount(name="aws", region="us-east-1", owner="quant", controller="one", **wanted)
        self.calls = Calls(self.market, self.clock)
        self.book = OfferingBook(self.account, self.calls, self.clock)

    def read(self, after=timedelta()):
        """Refresh some time later and return the offerings."""
        self.clock.at += after
        for _ in range(8):  # as many ticks as it has sources: each renews one of those that grew old
            self.book.refresh(self.clock.at)
        return self.book.offerings(self.clock.at)

    def by_key(self, after=timedelta()):
        return {o.key: o for o in self.read(after)}

    @property
    def trouble(self):
        return "\n".join(self.book.trouble)
