"""Machines of the layer over moto: moto's own instances, with fleets, listings and ends as EC2 does them.

Used by `layer`. moto keeps the machines; what it cannot (client tokens, partial fleets, states that last, a clock
of one's own) is kept here.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from moto.backends import get_backend
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS

from providers.sim.aws.listing import NO_START, RECLAIMED, USER, Machine, is_known, is_listed, row_of, state_of, takes
from providers.sim.aws.trouble import ON_DEMAND, SPOT, AwsTrouble, Filling, Override, fill, refused

ACCOUNT_ID = "123456789012"  # moto's
INTERRUPTION = "EC2 Spot Instance Interruption Warning"
MOST_A_PAGE = 1000  # DescribeInstances, `MaxResults`
_RESERVATION_FULL = (
    "ReservationCapacityExceeded",
    "The requested reservation does not have sufficient compatible and available capacity for this request.",
)
_ENDED_STATES = ("shutting-down", "terminated")


class LayeredMachines:
    """The machines of one region."""

    def __init__(
        self, now: Callable[[], datetime], trouble: AwsTrouble, *, region: str, reservations: list[dict[str, Any]]
    ) -> None:
        self._now, self._trouble, self._region, self.reservations = now, trouble, region, reservations
        self._machines: dict[str, Machine] = {}
        self._fleets: dict[str, tuple[str, dict[str, Any]]] = {}  # (wish, answer) by client token
        self._empty_fleets = 0  # those that brought nothing

    @property
    def _moto(self) -> Any:
        return get_backend("ec2")[ACCOUNT_ID][self._region]

    # Launching

    def create_fleet(
        self,
        *,
        LaunchTemplateConfigs: list[dict[str, Any]],
        TargetCapacitySpecification: dict[str, Any],
        ClientToken: str = "",
        SpotOptions: Mapping[str, Any] | None = None,
        OnDemandOptions: Mapping[str, Any] | None = None,
        TagSpecifications: Iterable[Mapping[str, Any]] = (),
        **more: Any,
    ) -> dict[str, Any]:
        """An instant fleet: filled by the shared rule, made by moto one override at a time."""
        self._settle()
        config, target, tags = LaunchTemplateConfigs[0], TargetCapacitySpecification, list(TagSpecifications)
        wish = json.dumps([config, target, SpotOptions, OnDemandOptions, tags], sort_keys=True, default=str)
        if ClientToken in self._fleets:
            return self._again(ClientToken, wish)
        specification, options = config["LaunchTemplateSpecification"], SpotOptions or OnDemandOptions or {}
        _check_minimum(options)
        template = self._template(specification)
        reservation = self._reservation(template)
        overrides = [self._override(o) for o in config["Overrides"]]
        market = target.get("DefaultTargetCapacityType", ON_DEMAND)
        wrong = {o: words for o in overrides if (words := self._unusable(template, o, reservation))}
        able = [o for o in overrides if o not in wrong]
        filling = self._filled(able, int(target["TotalTargetCapacity"]), market, options, reservation)
        answer = self._made(filling, specification, market, tags, ClientToken, reservation)
        troubles = [*((o, *words) for o, words in wrong.items()), *filling.errors]
        answer["Errors"] = [
            {**_told(specification, o, market), "ErrorCode": code, "ErrorMessage": words} for o, code, words in troubles
        ]
        if ClientToken:
            self._fleets[ClientToken] = wish, answer
        return answer

    def _again(self, token: str, wish: str) -> dict[str, Any]:
        asked, answer = self._fleets[token]
        if asked != wish:
            raise refused("IdempotentParameterMismatch", "The client token was used with other parameters")
        ids = [i for row in answer["Instances"] for i in row["InstanceIds"]]
        if ids and all(self._machines[i].is_over(self._now()) for i in ids):
            raise refused("IdempotentInstanceTerminated", "The instances of this client token have terminated")
        return answer

    def _template(self, specification: Mapping[str, Any]) -> Any:
        """moto's launch template, in the version that is asked for."""
        template_id = specification.get("LaunchTemplateId", "")
        found = self._moto.launch_templates.get(template_id)
        if found is None:
            raise refused("InvalidLaunchTemplateId.NotFound", f"LaunchTemplate {template_id} does not exist")
        return found.get_version(specification.get("Version", "$Default"))

    def _override(self, asked: Mapping[str, Any]) -> Override:
        for subnets in self._moto.subnets.values():
            for subnet in subnets.values():
                if subnet.id == asked["SubnetId"]:
                    return Override(
                        instance_type=asked["InstanceType"],
                        zone=subnet.availability_zone,
                        subnet_id=subnet.id,
                        priority=float(asked.get("Priority", 0.0)),
                    )
        raise refused("InvalidSubnetID.NotFound", f"The subnet ID '{asked['SubnetId']}' does not exist")

    def _reservation(self, template: Any) -> dict[str, Any] | None:
        """The reservation or capacity block that the template names."""
        target = template.data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
        wanted = target.get("CapacityReservationId")
        found = [row for row in self.reservations if row["CapacityReservationId"] == wanted]
        if wanted and not found:
            words = f"The capacity reservation '{wanted}' does not exist"
            raise refused("InvalidCapacityReservationId.NotFound", words)
        return found[0] if found else None

    def _unusable(
        self, template: Any, override: Override, reservation: Mapping[str, Any] | None
    ) -> tuple[str, str] | None:
        """(code, message) where EC2 could not start even one machine so. As an error of the override: that is where
        EC2 tells what is wrong in a template (karpenter-provider-aws#3922) or not offered in a zone (its #404)."""
        image = template.image_id
        if not image:
            return "MissingParameter", "The request must contain the parameter ImageId"
        if not image.startswith("resolve:ssm:") and image not in self._moto.amis:
            return "InvalidAMIID.NotFound", f"The image id '[{image}]' does not exist"
        offered = INSTANCE_TYPE_OFFERINGS["availability-zone"][self._region]
        kind, zone = override.instance_type, override.zone
        if not any(row["InstanceType"] == kind and row["Location"] == zone for row in offered):
            where = f"is not supported in your requested Availability Zone ({zone})."
            return "InvalidFleetConfiguration", f"Your requested instance type ({kind}) {where}"
        if reservation and (kind, zone) != (reservation["InstanceType"], reservation["AvailabilityZone"]):
            return _RESERVATION_FULL
        return None

    def _filled(
        self, overrides: Sequence[Override], nodes: int, market: str, asked: Mapping[str, Any],
        reservation: dict[str, Any] | None,
    ) -> Filling:  # fmt: skip
        """What the market, or the template's reservation, gives."""
        now = self._now()
        alive = {
            m: sum(x.market == m and not x.is_over(now) for x in self._machines.values()) for m in (SPOT, ON_DEMAND)
        }
        if reservation is None:
            return fill(self._trouble, overrides, nodes, market=market, asked=asked, alive=alive, at=now)
        room = min(nodes, reservation["AvailableInstanceCount"])
        full = tuple((o, *_RESERVATION_FULL) for o in overrides if room < nodes)
        if room < max(1, asked.get("MinTargetCapacity", 1)):
            return Filling(taken=(), errors=full)
        # What is reserved comes from its own stock, not from what the market has left.
        source = str(reservation["CapacityReservationId"])
        filling = fill(self._trouble, overrides, room, market=source, asked=asked, alive=alive, at=now)
        reservation["AvailableInstanceCount"] -= sum(count for _, count in filling.taken)
        return Filling(taken=filling.taken, errors=(*filling.errors, *full))

    def _made(
        self, filling: Filling, specification: dict[str, Any], market: str, tags: list[Mapping[str, Any]], token: str,
        reservation: dict[str, Any] | None,
    ) -> dict[str, Any]:  # fmt: skip
        """moto's own machines for every override, as one fleet."""
        fleet_id, instances = "", []
        for override, count in filling.taken:
            piece, ids = self._rented(override, count, specification, market, tags)
            fleet_id = fleet_id or piece
            marks = {"aws:ec2:fleet-id": fleet_id, "aws:ec2launchtemplate:id": specification["LaunchTemplateId"]}
            self._moto.create_tags(ids, marks)
            for instance_id in ids:
                self._machines[instance_id] = self._new(market, token, override, reservation)
            told = {"InstanceIds": ids, "InstanceType": override.instance_type}
            instances.append({**_told(specification, override, market), **told})
        self._empty_fleets += not fleet_id
        return {
            "FleetId": fleet_id or f"fleet-00000000-0000-0000-0000-{self._empty_fleets:012x}",
            "Instances": instances,
        }

    def _new(self, market: str, token: str, override: Override, reservation: dict[str, Any] | None) -> Machine:
        now, trouble = self._now(), self._trouble
        made = Machine(now, market, token, override, str(reservation["CapacityReservationId"]) if reservation else "")
        if trouble.never_boot > 0:
            trouble.never_boot -= 1
            made.ended_at, made.why = now + timedelta(seconds=trouble.pending_s), NO_START
        return made

    def _rented(
        self, override: Override, count: int, specification: dict[str, Any], market: str, tags: list[Mapping[str, Any]]
    ) -> tuple[str, list[str]]:  # fmt: skip
        """(moto's fleet id, its instance ids) for one override."""
        before = {i.id for i in self._moto.all_instances()}
        options = {"AllocationStrategy": "lowest-price"}
        place = {"InstanceType": override.instance_type, "SubnetId": override.subnet_id}
        fleet = self._moto.create_fleet(
            on_demand_options=options,
            spot_options=options,
            target_capacity_specification={
                "TotalTargetCapacity": count,
                "OnDemandTargetCapacity": 0 if market == SPOT else count,
                "SpotTargetCapacity": count if market == SPOT else 0,
                "DefaultTargetCapacityType": SPOT if market == SPOT else ON_DEMAND,
            },
            launch_template_configs=[{"LaunchTemplateSpecification": specification, "Overrides": [place]}],
            excess_capacity_termination_policy="termination",
            replace_unhealthy_instances=False,
            terminate_instances_with_expiration=True,
            fleet_type="instant",
            valid_from=None,
            valid_until=None,
            tag_specifications=[dict(t) for t in tags],
        )
        return str(fleet.id), [i.id for i in self._moto.all_instances() if i.id not in before]

    # Life

    def interrupt(self, instance_id: str, *, notice_s: float) -> bool:
        """The notice through EventBridge, and the end after it. False if the machine is not there any more."""
        self._settle()
        machine, now = self._machines.get(instance_id), self._now()
        if machine is None or machine.is_over(now):
            return False
        machine.ended_at, machine.why = now + timedelta(seconds=notice_s), RECLAIMED
        self.announce(INTERRUPTION, instance_id, {"instance-action": "terminate"})
        return True

    def announce(self, kind: str, instance_id: str, detail: Mapping[str, Any]) -> None:
        """An event of EC2 about a machine: EventBridge's rules decide who hears of it."""
        event = {
            "Source": "aws.ec2",
            "DetailType": kind,
            "Detail": json.dumps({"instance-id": instance_id, **detail}),
            "Resources": [f"arn:aws:ec2:{self._region}:{ACCOUNT_ID}:instance/{instance_id}"],
            "Time": self._now().timestamp(),
        }
        get_backend("events")[ACCOUNT_ID][self._region].put_events([event])

    def _settle(self) -> None:
        """Bring moto and this layer together: machines made or ended past us, and those whose end has come."""
        now = self._now()
        for instance in self._moto.all_instances():
            if instance.id not in self._machines:
                self._machines[instance.id] = self._stranger(instance)
            machine = self._machines[instance.id]
            if instance.state in _ENDED_STATES and not machine.is_settled:
                machine.ended_at, machine.is_settled = now, True
        for instance_id, machine in self._machines.items():
            if machine.is_over(now) and not machine.is_settled:
                machine.is_settled = True
                self._moto.terminate_instances([instance_id])
                key = machine.override.instance_type, machine.override.zone, machine.market
                if key in self._trouble.stock:
                    self._trouble.stock[key] += 1
                for row in self.reservations:
                    row["AvailableInstanceCount"] += row["CapacityReservationId"] == machine.reservation_id

    def _stranger(self, instance: Any) -> Machine:
        """A machine that somebody made with RunInstances."""
        place = Override(instance_type=instance.instance_type, zone=instance.placement.zone, subnet_id="")
        return Machine(self._now(), instance.lifecycle or ON_DEMAND, instance.client_token or "", place)

    def _known(self, instance_id: str) -> Machine:
        machine = self._machines.get(instance_id)
        if machine is None or not is_known(machine, self._now(), self._trouble):
            raise refused("InvalidInstanceID.NotFound", f"The instance ID '{instance_id}' does not exist")
        return machine

    def terminate_instances(self, *, InstanceIds: list[str]) -> dict[str, Any]:
        """All or none: one id that is not known is named, and nothing ends (F005)."""
        self._settle()
        now, rows = self._now(), []
        for instance_id, machine in [(i, self._known(i)) for i in InstanceIds]:
            before = state_of(machine, now, self._trouble)
            if not machine.is_over(now):
                machine.ended_at, machine.why = now, USER
            after = state_of(machine, now, self._trouble)
            rows.append({"InstanceId": instance_id, "PreviousState": before, "CurrentState": after})
        self._settle()
        return {"TerminatingInstances": rows}

    # Listing

    def describe_instances(
        self,
        *,
        Filters: Iterable[Mapping[str, Any]] = (),
        InstanceIds: Iterable[str] = (),
        MaxResults: int = 0,
        NextToken: str = "",
        **more: Any,
    ) -> dict[str, Any]:
        """Machines in pages of instances, those left out that no listing shows yet. The token of the next page is the
        last id, so that none is skipped when others change between two pages."""
        self._settle()
        now, trouble, wanted = self._now(), self._trouble, list(InstanceIds)
        if wanted and MaxResults:
            words = "The parameter instancesSet cannot be used with the parameter maxResults"
            raise refused("InvalidParameterCombination", words)
        for instance_id in wanted:
            self._known(instance_id)
        moto = {i.id: i for i in self._moto.all_instances()}
        ids = sorted(i for i in wanted or moto if wanted or is_listed(i, self._machines[i], now, trouble))
        rows = [row_of(moto[i], self._machines[i], now, trouble) for i in ids if i > NextToken]
        rows = [row for row in rows if all(takes(row, f["Name"], f["Values"]) for f in Filters)]
        size = min(MaxResults or MOST_A_PAGE, MOST_A_PAGE)
        page = rows[:size]
        reservations = [{"ReservationId": "r-0a1b2c3d", "OwnerId": ACCOUNT_ID, "Instances": page}] if page else []
        return {"Reservations": reservations, **({"NextToken": page[-1]["InstanceId"]} if len(rows) > size else {})}


def _told(specification: Mapping[str, Any], override: Override, market: str) -> dict[str, Any]:
    place = {
        "InstanceType": override.instance_type,
        "SubnetId": override.subnet_id,
        "AvailabilityZone": override.zone,
    }
    return {
        "LaunchTemplateAndOverrides": {"LaunchTemplateSpecification": dict(specification), "Overrides": place},
        "Lifecycle": market,
    }


def _check_minimum(options: Mapping[str, Any]) -> None:
    """A minimum is for fleets of one zone or one type only (CreateFleet, `MinTargetCapacity`)."""
    if options.get("MinTargetCapacity") and not (
        options.get("SingleAvailabilityZone") or options.get("SingleInstanceType")
    ):
        words = "MinTargetCapacity needs SingleAvailabilityZone or SingleInstanceType"
        raise refused("InvalidParameterCombination", words)
