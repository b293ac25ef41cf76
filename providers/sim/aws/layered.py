"""Machines of the layer over moto: moto's own instances, with fleets, listings and ends as EC2 does them.

Used by `layer`. moto keeps the machines; what it cannot (client tokens, partial fleets, states that last, a clock
of one's own) is kept here.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from moto.backends import get_backend

from providers.sim.aws.trouble import ON_DEMAND, SPOT, AwsTrouble, Override, fill, refused

ACCOUNT_ID = "123456789012"  # moto's
LISTED_AFTER_END = timedelta(hours=1)  # EC2 shows a terminated machine for about so long
_CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48}


@dataclass(slots=True)
class _Machine:
    """What moto does not know of one machine. `ended_at`: when the cloud or we end it, perhaps in the future."""

    launched_at: datetime
    market: str
    token: str
    override: Override
    ended_at: datetime | None = None
    is_settled: bool = False  # its end has been told to moto


class LayeredMachines:
    """The machines of one region."""

    def __init__(self, now: Callable[[], datetime], trouble: AwsTrouble, *, region: str) -> None:
        self._now, self._trouble, self._region = now, trouble, region
        self._machines: dict[str, _Machine] = {}
        self._fleets: dict[str, tuple[str, dict[str, Any]]] = {}  # (wish, answer) by client token

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
        config, target = LaunchTemplateConfigs[0], TargetCapacitySpecification
        wish = json.dumps([config, target, SpotOptions, OnDemandOptions], sort_keys=True, default=str)
        if ClientToken in self._fleets:
            return self._again(ClientToken, wish)
        market = target.get("DefaultTargetCapacityType", ON_DEMAND)
        now = self._now()
        filling = fill(
            self._trouble,
            [self._override(o) for o in config["Overrides"]],
            int(target["TotalTargetCapacity"]),
            market=market,
            asked=SpotOptions or OnDemandOptions or {},
            alive={
                m: sum(x.market == m and not self._is_over(x, now) for x in self._machines.values())
                for m in (SPOT, ON_DEMAND)
            },
            at=now,
        )
        specification = config["LaunchTemplateSpecification"]
        answer: dict[str, Any] = {"FleetId": "", "Instances": [], "Errors": []}
        for override, count in filling.taken:
            answer["FleetId"], ids = self._made(
                specification, override, count, market, list(TagSpecifications), ClientToken
            )
            told = {"LaunchTemplateAndOverrides": _told(specification, override), "Lifecycle": market}
            answer["Instances"].append({**told, "InstanceIds": ids, "InstanceType": override.instance_type})
        answer["Errors"] = [
            {
                "LaunchTemplateAndOverrides": _told(specification, o),
                "Lifecycle": market,
                "ErrorCode": c,
                "ErrorMessage": m,
            }
            for o, c, m in filling.errors
        ]
        answer["FleetId"] = answer["FleetId"] or "fleet-00000000-0000-0000-0000-000000000000"
        if ClientToken:
            self._fleets[ClientToken] = wish, answer
        return answer

    def _again(self, token: str, wish: str) -> dict[str, Any]:
        asked, answer = self._fleets[token]
        if asked != wish:
            raise refused("IdempotentParameterMismatch", "The client token was used with other parameters")
        ids = [i for row in answer["Instances"] for i in row["InstanceIds"]]
        if ids and all(self._is_over(self._machines[i], self._now()) for i in ids):
            raise refused("IdempotentInstanceTerminated", "The instances of this client token have terminated")
        return answer

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

    def _made(
        self,
        specification: dict[str, Any],
        override: Override,
        count: int,
        market: str,
        tags: list[Mapping[str, Any]],
        token: str,
    ) -> tuple[str, list[str]]:
        """(fleet id, instance ids) of moto's own machines from one override."""
        template_id = specification["LaunchTemplateId"]
        if template_id not in self._moto.launch_templates:
            raise refused("InvalidLaunchTemplateId.NotFound", f"LaunchTemplate {template_id} does not exist")
        place = {"InstanceType": override.instance_type, "SubnetId": override.subnet_id}
        before = {i.id for i in self._moto.all_instances()}
        options = {"AllocationStrategy": "lowest-price"}
        fleet = self._moto.create_fleet(
            on_demand_options=options,
            spot_options=options,
            target_capacity_specification={
                "TotalTargetCapacity": count,
                "OnDemandTargetCapacity": 0 if market == SPOT else count,
                "SpotTargetCapacity": count if market == SPOT else 0,
                "DefaultTargetCapacityType": market,
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
        ids = [i.id for i in self._moto.all_instances() if i.id not in before]
        self._moto.create_tags(ids, {"aws:ec2:fleet-id": fleet.id, "aws:ec2launchtemplate:id": template_id})
        now = self._now()
        self._machines |= {i: _Machine(now, market, token, override) for i in ids}
        return str(fleet.id), ids

    # Life

    def interrupt(self, instance_id: str, *, notice_s: float) -> None:
        """The notice through EventBridge, and the end after it."""
        machine = self._machines[instance_id]
        machine.ended_at = self._now() + timedelta(seconds=notice_s)
        event = {
            "Source": "aws.ec2",
            "DetailType": "EC2 Spot Instance Interruption Warning",
            "Detail": json.dumps({"instance-id": instance_id, "instance-action": "terminate"}),
            "Resources": [f"arn:aws:ec2:{self._region}:{ACCOUNT_ID}:instance/{instance_id}"],
            "Time": self._now().timestamp(),
        }
        get_backend("events")[ACCOUNT_ID][self._region].put_events([event])

    def _is_over(self, machine: _Machine, now: datetime) -> bool:
        return machine.ended_at is not None and machine.ended_at <= now

    def _settle(self) -> None:
        """Tell moto of the machines whose end has come."""
        now = self._now()
        for instance_id, machine in self._machines.items():
            if self._is_over(machine, now) and not machine.is_settled:
                machine.is_settled = True
                self._moto.terminate_instances([instance_id])
                key = machine.override.instance_type, machine.override.zone, machine.market
                if key in self._trouble.stock:
                    self._trouble.stock[key] += 1

    def terminate_instances(self, *, InstanceIds: list[str]) -> dict[str, Any]:
        """All or none: one id that is not known is named, and nothing ends (F005)."""
        self._settle()
        now = self._now()
        for instance_id in InstanceIds:
            if instance_id not in self._machines:
                raise refused("InvalidInstanceID.NotFound", f"The instance ID '{instance_id}' does not exist")
        rows = []
        for instance_id in InstanceIds:
            machine = self._machines[instance_id]
            before = self._state(machine, now)
            if not self._is_over(machine, now):
                machine.ended_at = now
            after = self._state(machine, now)
            rows.append({"InstanceId": instance_id, "PreviousState": before, "CurrentState": after})
        self._settle()
        return {"TerminatingInstances": rows}

    def _state(self, machine: _Machine, now: datetime) -> dict[str, Any]:
        name = "running"
        if machine.ended_at is not None and machine.ended_at <= now:
            is_gone = now - machine.ended_at >= timedelta(seconds=self._trouble.shutting_down_s)
            name = "terminated" if is_gone else "shutting-down"
        elif now - machine.launched_at < timedelta(seconds=self._trouble.pending_s):
            name = "pending"
        return {"Name": name, "Code": _CODES[name]}

    # Listing

    def describe_instances(
        self,
        *,
        Filters: Iterable[Mapping[str, Any]] = (),
        InstanceIds: Iterable[str] = (),
        MaxResults: int = 1000,
        NextToken: str = "",
        **more: Any,
    ) -> dict[str, Any]:
        """Machines in pages of instances, those left out that no listing shows yet."""
        self._settle()
        wanted = list(InstanceIds)
        for instance_id in wanted:
            if instance_id not in self._machines:
                raise refused("InvalidInstanceID.NotFound", f"The instance ID '{instance_id}' does not exist")
        listed = {i.id: i for i in self._moto.all_instances() if i.id in self._machines}
        rows = [self._row(listed[i]) for i in (wanted or listed) if wanted or self._is_listed(i)]
        rows = [row for row in rows if all(self._has(row, f["Name"], set(f["Values"])) for f in Filters)]
        begin = int(NextToken or 0)
        page, more_there = rows[begin : begin + MaxResults], begin + MaxResults < len(rows)
        reservations = [{"ReservationId": "r-0a1b2c3d", "OwnerId": ACCOUNT_ID, "Instances": page}] if page else []
        return {"Reservations": reservations, **({"NextToken": str(begin + MaxResults)} if more_there else {})}

    def _is_listed(self, instance_id: str) -> bool:
        machine, trouble, now = self._machines[instance_id], self._trouble, self._now()
        if machine.ended_at is not None and now - machine.ended_at > LISTED_AFTER_END:
            return False
        is_new = (now - machine.launched_at).total_seconds() < trouble.hide_new_s
        return instance_id not in trouble.hidden_ids and not is_new

    def _row(self, instance: Any) -> dict[str, Any]:
        machine, now = self._machines[instance.id], self._now()
        row = {
            "InstanceId": instance.id,
            "InstanceType": instance.instance_type,
            "ImageId": instance.image_id,
            "State": self._state(machine, now),
            "Placement": {"AvailabilityZone": machine.override.zone, "Tenancy": "default"},
            "SubnetId": instance.subnet_id,
            "LaunchTime": machine.launched_at,
            "PrivateIpAddress": instance.private_ip,
            "ClientToken": machine.token,
            "Tags": [{"Key": t["key"], "Value": t["value"]} for t in instance.get_tags()],
        }
        if machine.market == SPOT:
            row["InstanceLifecycle"] = SPOT
        if machine.ended_at is not None and machine.ended_at <= now:
            row["StateTransitionReason"] = f"User initiated ({machine.ended_at:%Y-%m-%d %H:%M:%S} GMT)"
        if (now - machine.launched_at).total_seconds() < self._trouble.bare_s:
            row = {k: v for k, v in row.items() if k not in ("PrivateIpAddress", "SubnetId")}
        return row

    def _has(self, row: Mapping[str, Any], name: str, values: set[str]) -> bool:
        if name.startswith("tag:"):
            return any(t["Key"] == name[4:] and t["Value"] in values for t in row["Tags"])
        if name == "instance-state-name":
            return row["State"]["Name"] in values
        if name == "client-token":
            return row["ClientToken"] in values
        raise refused("InvalidParameterValue", f"The filter '{name}' is invalid")


def _told(specification: Mapping[str, Any], override: Override) -> dict[str, Any]:
    return {
        "LaunchTemplateSpecification": dict(specification),
        "Overrides": {
            "InstanceType": override.instance_type,
            "SubnetId": override.subnet_id,
            "AvailabilityZone": override.zone,
        },
    }
