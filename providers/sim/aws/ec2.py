"""EC2 Fleet in memory: instant fleets with client tokens, filled by the shared rule, made of `machines`. For `fake`."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from providers.sim.aws.machines import FakeMachines, Row, is_alive, market_of
from providers.sim.aws.market import VPC, FakeMarket, subnet_of
from providers.sim.aws.templates import FakeTemplates
from providers.sim.aws.trouble import ON_DEMAND, SPOT, AwsTrouble, Filling, Override, Words, fill, refused

_RESERVATION_FULL = (
    "ReservationCapacityExceeded",
    "The requested reservation does not have sufficient compatible and available capacity for this request.",
)


class FakeEc2(FakeMachines):
    """The machines of one account and region, and the fleets that make them."""

    def __init__(
        self, now: Callable[[], datetime], trouble: AwsTrouble, *, market: FakeMarket, templates: FakeTemplates
    ) -> None:
        super().__init__(now, trouble)
        self._market, self._templates = market, templates
        self.templates = templates.rows
        self._fleets: dict[str, tuple[str, dict[str, Any]]] = {}  # (what was asked, the answer) by client token

    def create_fleet(
        self,
        *,
        Type: str,
        LaunchTemplateConfigs: list[dict[str, Any]],
        TargetCapacitySpecification: dict[str, Any],
        ClientToken: str = "",
        SpotOptions: Mapping[str, Any] | None = None,
        OnDemandOptions: Mapping[str, Any] | None = None,
        TagSpecifications: Sequence[Mapping[str, Any]] = (),
        **more: Any,
    ) -> dict[str, Any]:
        """An instant fleet. The same token again gives the same answer; with another wish it is refused."""
        if Type != "instant" or len(LaunchTemplateConfigs) != 1:
            raise NotImplementedError("only instant fleets of one launch template are known here")
        self._settle()
        (config,), target = LaunchTemplateConfigs, TargetCapacitySpecification
        options = SpotOptions or OnDemandOptions or {}
        wish = json.dumps([config, target, options, TagSpecifications], sort_keys=True)
        if ClientToken in self._fleets:
            return self._again(ClientToken, wish)
        _check_options(options)
        template = self._templates.found(config["LaunchTemplateSpecification"])
        overrides = [self._override(o) for o in config["Overrides"]]
        market = target.get("DefaultTargetCapacityType", ON_DEMAND)
        filling = self._filled(template, overrides, target["TotalTargetCapacity"], market, options)
        tags = {**_instance_tags(template["Data"].get("TagSpecifications", ())), **_instance_tags(TagSpecifications)}
        answer = self._made(filling, template, market, tags, ClientToken)
        if ClientToken:
            self._fleets[ClientToken] = wish, answer
        return answer

    def _again(self, token: str, wish: str) -> dict[str, Any]:
        asked, answer = self._fleets[token]
        if asked != wish:
            raise refused("IdempotentParameterMismatch", "The client token was used with other parameters")
        ids = [i for row in answer["Instances"] for i in row["InstanceIds"]]
        if ids and not any(is_alive(self._rows[i]) for i in ids if i in self._rows):
            raise refused("IdempotentInstanceTerminated", "The instances of this client token have terminated")
        return answer

    # Filling

    def _override(self, asked: Mapping[str, Any]) -> Override:
        zone = next((z for z in self._market.zones if subnet_of(z) == asked["SubnetId"]), "")
        if not zone:
            raise refused("InvalidSubnetID.NotFound", f"The subnet ID '{asked['SubnetId']}' does not exist")
        return Override(
            instance_type=asked["InstanceType"],
            zone=zone,
            subnet_id=asked["SubnetId"],
            priority=asked.get("Priority", 0.0),
        )

    def _filled(
        self, template: Row, overrides: Sequence[Override], nodes: int, market: str, options: Mapping[str, Any]
    ) -> Filling:
        """What the market, or the template's reservation, gives; what can never start is told beside it."""
        reservation = self._reservation(template)
        wrong = {o: words for o in overrides if (words := self._wrong(template, o, reservation))}
        able = [o for o in overrides if o not in wrong]
        alive = {
            m: sum(market_of(row) == m and is_alive(row) for row in self._rows.values()) for m in (SPOT, ON_DEMAND)
        }
        room = nodes if reservation is None else min(nodes, reservation["AvailableInstanceCount"])
        if reservation is not None and room < max(1, options.get("MinTargetCapacity", 1)):
            return Filling(taken=(), errors=tuple((o, *wrong.get(o, _RESERVATION_FULL)) for o in overrides))
        # What is reserved comes from its own stock, not from what the market has left.
        source = market if reservation is None else str(reservation["CapacityReservationId"])
        filling = fill(self._trouble, able, room, market=source, asked=options, alive=alive, at=self._now())
        errors = [*((o, *words) for o, words in wrong.items()), *filling.errors]
        if reservation is not None:
            reservation["AvailableInstanceCount"] -= sum(count for _, count in filling.taken)
            errors += [(o, *_RESERVATION_FULL) for o in able if room < nodes]
        return Filling(taken=filling.taken, errors=tuple(errors))

    def _reservation(self, template: Row) -> Row | None:
        specification = template["Data"].get("CapacityReservationSpecification", {})
        reservation_id = specification.get("CapacityReservationTarget", {}).get("CapacityReservationId", "")
        if not reservation_id:
            return None
        for row in self._market.reservations:
            if row["CapacityReservationId"] == reservation_id:
                return row
        words = f"The capacity reservation '{reservation_id}' does not exist"
        raise refused("InvalidCapacityReservationId.NotFound", words)

    def _wrong(self, template: Row, override: Override, reservation: Row | None) -> Words | None:
        """(code, message) where EC2 could not start even one machine so. EC2 tells it as an error of the override
        (karpenter-provider-aws#3922, #404)."""
        image = template["Data"].get("ImageId", "")
        kind, zone = override.instance_type, override.zone
        if not image:
            return "MissingParameter", "The request must contain the parameter ImageId"
        if image not in self._market.images and not image.startswith("resolve:ssm:"):
            return "InvalidAMIID.NotFound", f"The image id '[{image}]' does not exist"
        if kind not in self._market.types or (kind, zone) in self._market.not_offered:
            where = f"is not supported in your requested Availability Zone ({zone})."
            return "InvalidFleetConfiguration", f"Your requested instance type ({kind}) {where}"
        if reservation and (kind, zone) != (reservation["InstanceType"], reservation["AvailabilityZone"]):
            return _RESERVATION_FULL
        return None

    def _free(self, row: Row) -> None:
        super()._free(row)
        for reservation in self._market.reservations:
            if reservation["CapacityReservationId"] == row.get("CapacityReservationId"):
                reservation["AvailableInstanceCount"] += 1

    # Making

    def _made(
        self, filling: Filling, template: Row, market: str, tags: Mapping[str, str], token: str
    ) -> dict[str, Any]:  # fmt: skip
        self._number += 1
        fleet_id = f"fleet-{self._number:012x}"
        all_tags = {
            **tags,
            "aws:ec2:fleet-id": fleet_id,
            "aws:ec2launchtemplate:id": template["LaunchTemplateId"],
            "aws:ec2launchtemplate:version": "1",
        }
        common = {"Tags": [{"Key": k, "Value": v} for k, v in all_tags.items()], "ClientToken": token}
        common["ImageId"] = template["Data"]["ImageId"] if filling.taken else ""
        if reservation := self._reservation(template):
            common["CapacityReservationId"] = reservation["CapacityReservationId"]
        if market != ON_DEMAND:
            common["InstanceLifecycle"] = market
        instances = []
        for override, count in filling.taken:
            ids = [self._new(override, common) for _ in range(count)]
            instances.append(
                {**_told(template, override, market), "InstanceIds": ids, "InstanceType": override.instance_type}
            )
        errors = [
            {**_told(template, override, market), "ErrorCode": code, "ErrorMessage": message}
            for override, code, message in filling.errors
        ]
        return {"FleetId": fleet_id, "Errors": errors, "Instances": instances}

    def _new(self, override: Override, common: Mapping[str, Any]) -> str:
        self._number += 1
        number = self._number
        instance_id = f"i-{number:017x}"
        address = f"10.{number // 62_500 % 250}.{number // 250 % 250}.{number % 250 + 1}"
        row: Row = {
            "InstanceId": instance_id,
            "InstanceType": override.instance_type,
            "State": {"Name": "pending", "Code": 0},
            "Placement": {"AvailabilityZone": override.zone, "Tenancy": "default"},
            "SubnetId": override.subnet_id,
            "VpcId": VPC,
            "LaunchTime": self._now(),
            "PrivateIpAddress": address,
            "PrivateDnsName": f"ip-{address.replace('.', '-')}.ec2.internal",
            "StateTransitionReason": "",
            **common,
        }
        self._add(row)
        return instance_id


def _check_options(options: Mapping[str, Any]) -> None:
    """A minimum is for fleets of one zone or one type only (CreateFleet, `MinTargetCapacity`)."""
    is_single = options.get("SingleAvailabilityZone") or options.get("SingleInstanceType")
    if options.get("MinTargetCapacity") and not is_single:
        words = "MinTargetCapacity needs SingleAvailabilityZone or SingleInstanceType"
        raise refused("InvalidParameterCombination", words)


def _instance_tags(specifications: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {t["Key"]: t["Value"] for s in specifications if s["ResourceType"] == "instance" for t in s["Tags"]}


def _told(template: Row, override: Override, market: str) -> dict[str, Any]:
    place = {
        "InstanceType": override.instance_type,
        "SubnetId": override.subnet_id,
        "AvailabilityZone": override.zone,
    }
    specification = {"LaunchTemplateId": template["LaunchTemplateId"], "Version": "1"}
    return {
        "LaunchTemplateAndOverrides": {"LaunchTemplateSpecification": specification, "Overrides": place},
        "Lifecycle": market,
    }
