"""What EC2 tells about its market, in memory: types, zones, spot prices, scores, the price list, the network."""

import json
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from providers.sim.aws.trouble import AwsTrouble, refused
from providers.sim.aws.types import ROWS, described

ZONES = ("a", "b", "c")
PRODUCT = "Linux/UNIX"  # of which spot prices are told
VPC, GROUP, IMAGE = "vpc-0a1b2c3d", "sg-0a1b2c3d", "ami-0a1b2c3d"


def subnet_of(zone: str) -> str:
    """The subnet of a zone: one each."""
    return f"subnet-0a1b2c3{zone[-1]}"


class FakeMarket:
    """The market of one region."""

    def __init__(self, now: Callable[[], datetime], trouble: AwsTrouble, *, region: str) -> None:
        self._now, self._trouble, self._region = now, trouble, region
        self.zone_ids = {f"{region}{letter}": f"use1-az{number}" for number, letter in enumerate(ZONES, start=1)}
        self.types: dict[str, dict[str, Any]] = {row[0]: described(*row) for row in ROWS}
        self.not_offered: set[tuple[str, str]] = set()  # (type, zone)
        self.reservations: list[dict[str, Any]] = []
        self.images: dict[str, dict[str, Any]] = {IMAGE: _image(IMAGE)}

    @property
    def zones(self) -> list[str]:
        """Their names."""
        return list(self.zone_ids)

    def describe_instance_types(
        self, *, Filters: Any = (), InstanceTypes: Iterable[str] = (), MaxResults: int = 0, NextToken: str = "",
        **more: Any,
    ) -> dict[str, Any]:  # fmt: skip
        """Every type, those a filter names, or those asked for: then each has to be there."""
        wanted = list(InstanceTypes)
        if missing := [name for name in wanted if name not in self.types]:
            words = f"The following supplied instance types do not exist: [{', '.join(missing)}]"
            raise refused("InvalidInstanceType", words)
        names = _values(Filters, "instance-type") | set(wanted)
        rows = [row for name, row in self.types.items() if not names or name in names]
        return _page("InstanceTypes", rows, MaxResults, NextToken)

    def describe_instance_type_offerings(
        self, *, Filters: Any = (), MaxResults: int = 0, NextToken: str = "", **more: Any
    ) -> dict[str, Any]:
        """Which type is offered in which zone."""
        names = _values(Filters, "instance-type")
        rows = [
            {"InstanceType": name, "LocationType": "availability-zone", "Location": zone}
            for name in self.types
            for zone in self.zones
            if (not names or name in names) and (name, zone) not in self.not_offered
        ]
        return _page("InstanceTypeOfferings", rows, MaxResults, NextToken)

    def describe_spot_price_history(
        self, *, StartTime: datetime | None = None, InstanceTypes: Iterable[str] = (), NextToken: str = "",
        AvailabilityZone: str = "", MaxResults: int = 1000, ProductDescriptions: Iterable[str] = (PRODUCT,),
        EndTime: datetime | None = None, **more: Any,
    ) -> dict[str, Any]:  # fmt: skip
        """Changes since then, and the one that held then, in pages; without a start those that hold now."""
        since, until = StartTime or self._now(), EndTime or self._now()
        products = list(ProductDescriptions)
        rows = [
            {
                "InstanceType": name, "AvailabilityZone": zone, "ProductDescription": PRODUCT,
                "SpotPrice": f"{usd:.6f}", "Timestamp": at,
            }
            for name in InstanceTypes or self.types
            for zone in self.zones
            if AvailabilityZone in ("", zone) and PRODUCT in products
            for at, usd in self._changes(name, zone, since)
            if at <= until
        ]  # fmt: skip
        return _page("SpotPriceHistory", rows, MaxResults, NextToken)

    def _changes(self, name: str, zone: str, since: datetime) -> list[tuple[datetime, float]]:
        now, series = self._now(), self._trouble.spot_prices.get((name, zone))
        if series is None:
            return [(since - timedelta(hours=1), self._trouble.spot_price(name, zone, now))]
        past = [row for row in series if row[0] <= now]
        before = [row for row in past if row[0] <= since]
        return [*before[-1:], *(row for row in past if row[0] > since)]

    def get_spot_placement_scores(self, *, InstanceTypes: list[str], **more: Any) -> dict[str, Any]:
        """The best score of the types in each zone."""
        rows = [
            {
                "Region": self._region,
                "AvailabilityZoneId": self.zone_ids[zone],
                "Score": max(self._trouble.scores.get((name, zone), 5) for name in InstanceTypes),
            }
            for zone in self.zones
        ]
        return {"SpotPlacementScores": rows}

    def describe_availability_zones(self, **more: Any) -> dict[str, Any]:
        """The zones with their ids."""
        rows = [
            {"ZoneName": name, "ZoneId": zone_id, "RegionName": self._region, "State": "available"}
            for name, zone_id in self.zone_ids.items()
        ]
        return {"AvailabilityZones": rows}

    def describe_capacity_reservations(self, **more: Any) -> dict[str, Any]:
        """What a test has reserved."""
        return {"CapacityReservations": self.reservations}

    def describe_subnets(self, *, SubnetIds: Iterable[str] = (), **more: Any) -> dict[str, Any]:
        """One subnet a zone."""
        rows = {subnet_of(z): z for z in self.zones}
        missing = [s for s in SubnetIds if s not in rows]
        if missing:
            raise refused("InvalidSubnetID.NotFound", f"The subnet ID '{missing[0]}' does not exist")
        found = [
            {"SubnetId": s, "AvailabilityZone": z, "VpcId": VPC, "AvailableIpAddressCount": 4000}
            for s, z in rows.items()
            if not SubnetIds or s in SubnetIds
        ]
        return {"Subnets": found}

    def describe_security_groups(self, *, GroupIds: Iterable[str] = (), **more: Any) -> dict[str, Any]:
        """One group."""
        if any(g != GROUP for g in GroupIds):
            raise refused("InvalidGroup.NotFound", "The security group does not exist")
        return {"SecurityGroups": [{"GroupId": GROUP, "VpcId": VPC}]}

    def describe_images(self, *, ImageIds: Iterable[str] = (), **more: Any) -> dict[str, Any]:
        """One image, and those a test has added to `images`."""
        wanted = list(ImageIds)
        for image in wanted:
            if image not in self.images:
                raise refused("InvalidAMIID.NotFound", f"The image id '[{image}]' does not exist")
        return {"Images": [row for image, row in self.images.items() if not wanted or image in wanted]}

    def get_products(self, *, Filters: Any = (), **more: Any) -> dict[str, Any]:
        """The price list of one type."""
        wanted = [name for f in Filters if f["Field"] == "instanceType" for name in f["Value"].split(",")]
        return {"PriceList": [self._listed(name) for name in wanted or self.types]}

    def _listed(self, name: str) -> str:
        attributes = {
            "instanceType": name, "regionCode": self._region, "operatingSystem": "Linux", "tenancy": "Shared",
            "preInstalledSw": "NA", "capacitystatus": "Used", "marketoption": "OnDemand",
        }  # fmt: skip
        price = {"unit": "Hrs", "pricePerUnit": {"USD": f"{self._trouble.on_demand_price(name)}"}}
        terms = {"OnDemand": {"T": {"priceDimensions": {"D": price}}}}
        return json.dumps({"product": {"attributes": attributes}, "terms": terms})


def _image(image_id: str) -> dict[str, Any]:
    row = {"ImageId": image_id, "State": "available", "RootDeviceName": "/dev/sda1", "Architecture": "x86_64"}
    return {**row, "Name": "gpu-node"}


def _page(key: str, rows: list[dict[str, Any]], size: int, token: str) -> dict[str, Any]:
    """One page; without a size all that is left."""
    begin = int(token or 0)
    end = begin + size if size and begin + size < len(rows) else 0
    return {key: rows[begin : end or None], "NextToken": str(end) if end else ""}


def _values(filters: Any, name: str) -> set[str]:
    return {value for f in filters or () if f["Name"] == name for value in f["Values"]}
