"""EC2's machines in memory: fleets with client tokens, templates, listings in pages that lag, terminations.

Quick enough for ten thousand machines: listed rows are made once and changed only when their state does.
"""

import json
from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from providers.sim.aws.market import subnet_of
from providers.sim.aws.trouble import ON_DEMAND, SPOT, AwsTrouble, Filling, Override, fill, refused

LISTED_AFTER_END = timedelta(hours=1)  # EC2 shows a terminated machine for about so long
MOST_TEMPLATES = 5000  # EC2's limit a region
_CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48}
Row = dict[str, Any]


class FakeEc2:
    """The machines of one account and region. `on_launch` and `on_end` are told of machines by row and by id."""

    def __init__(self, now: Callable[[], datetime], trouble: AwsTrouble, *, region: str) -> None:
        self._now, self._trouble, self._region = now, trouble, region
        self._rows: dict[str, Row] = {}
        self._changes: list[tuple[datetime, int, str, str]] = []  # (when, number, id, new state), sorted
        self._number = 0
        self._fleets: dict[str, tuple[str, dict[str, Any]]] = {}  # (what was asked, the answer) by client token
        self._tag_index: dict[tuple[str, str], dict[str, None]] = {}
        self.templates: dict[str, Row] = {}
        self.on_launch: Callable[[Row], None] = lambda row: None
        self.on_end: Callable[[str], None] = lambda instance_id: None

    # Launching

    def create_fleet(
        self,
        *,
        LaunchTemplateConfigs: list[dict[str, Any]],
        TargetCapacitySpecification: dict[str, Any],
        ClientToken: str = "",
        SpotOptions: Mapping[str, Any] | None = None,
        OnDemandOptions: Mapping[str, Any] | None = None,
        TagSpecifications: Sequence[Mapping[str, Any]] = (),
        **more: Any,
    ) -> dict[str, Any]:
        """An instant fleet. The same token again gives the same answer; with another wish it is refused."""
        self._settle()
        config = LaunchTemplateConfigs[0]
        target = TargetCapacitySpecification
        wish = json.dumps([config, target, SpotOptions, OnDemandOptions, TagSpecifications], sort_keys=True)
        if ClientToken in self._fleets:
            return self._again(ClientToken, wish)
        template = self._template(config["LaunchTemplateSpecification"]["LaunchTemplateId"])
        market = target.get("DefaultTargetCapacityType", ON_DEMAND)
        overrides = [self._override(o) for o in config["Overrides"]]
        alive = {
            m: sum(self._market(r) == m and self._is_alive(r) for r in self._rows.values()) for m in (SPOT, ON_DEMAND)
        }
        filling = fill(
            self._trouble,
            overrides,
            target["TotalTargetCapacity"],
            market=market,
            asked=SpotOptions or OnDemandOptions or {},
            alive=alive,
            at=self._now(),
        )
        tags = {t["Key"]: t["Value"] for s in TagSpecifications if s["ResourceType"] == "instance" for t in s["Tags"]}
        answer = self._fleet_answer(filling, template, market, tags, ClientToken)
        if ClientToken:
            self._fleets[ClientToken] = wish, answer
        return answer

    def _again(self, token: str, wish: str) -> dict[str, Any]:
        asked, answer = self._fleets[token]
        if asked != wish:
            raise refused("IdempotentParameterMismatch", "The client token was used with other parameters")
        ids = [i for row in answer["Instances"] for i in row["InstanceIds"]]
        if ids and not any(self._is_alive(self._rows[i]) for i in ids if i in self._rows):
            raise refused("IdempotentInstanceTerminated", "The instances of this client token have terminated")
        return answer

    def _template(self, template_id: str) -> Row:
        found = self.templates.get(template_id)
        if found is None:
            raise refused("InvalidLaunchTemplateId.NotFound", f"LaunchTemplate {template_id} does not exist")
        return found

    def _override(self, asked: Mapping[str, Any]) -> Override:
        zone = next((f"{self._region}{z}" for z in "abcdef" if subnet_of(z) == asked["SubnetId"]), "")
        if not zone:
            raise refused("InvalidSubnetID.NotFound", f"The subnet ID '{asked['SubnetId']}' does not exist")
        return Override(
            instance_type=asked["InstanceType"],
            zone=zone,
            subnet_id=asked["SubnetId"],
            priority=asked.get("Priority", 0.0),
        )

    def _fleet_answer(
        self, filling: Filling, template: Row, market: str, tags: Mapping[str, str], token: str
    ) -> dict[str, Any]:
        self._number += 1
        fleet_id = f"fleet-{self._number:012x}"
        all_tags = {**tags, "aws:ec2:fleet-id": fleet_id, "aws:ec2launchtemplate:id": template["LaunchTemplateId"]}
        instances = []
        for override, count in filling.taken:
            ids = [self._made(override, market, all_tags, token) for _ in range(count)]
            instances.append(
                {
                    "LaunchTemplateAndOverrides": _told(template, override),
                    "Lifecycle": market,
                    "InstanceIds": ids,
                    "InstanceType": override.instance_type,
                }
            )
        errors = [
            {
                "LaunchTemplateAndOverrides": _told(template, override),
                "Lifecycle": market,
                "ErrorCode": code,
                "ErrorMessage": message,
            }
            for override, code, message in filling.errors
        ]
        return {"FleetId": fleet_id, "Errors": errors, "Instances": instances}

    def _made(self, override: Override, market: str, tags: Mapping[str, str], token: str) -> str:
        self._number += 1
        instance_id, at = f"i-{self._number:017x}", self._now()
        row: Row = {
            "InstanceId": instance_id,
            "InstanceType": override.instance_type,
            "State": {"Name": "pending", "Code": 0},
            "Placement": {"AvailabilityZone": override.zone},
            "SubnetId": override.subnet_id,
            "LaunchTime": at,
            "PrivateIpAddress": f"10.0.{self._number // 250 % 250}.{self._number % 250 + 1}",
            "Tags": [{"Key": k, "Value": v} for k, v in tags.items()],
            "ClientToken": token,
            "StateTransitionReason": "",
        }
        if market != ON_DEMAND:
            row["InstanceLifecycle"] = market
        self._rows[instance_id] = row
        for tag in tags.items():
            self._tag_index.setdefault(tag, {})[instance_id] = None
        self._change_later(instance_id, "running", at + timedelta(seconds=self._trouble.pending_s))
        self.on_launch(row)
        return instance_id

    # Life

    def end_later(self, instance_id: str, at: datetime) -> None:
        """The cloud takes a machine at an instant."""
        self._change_later(instance_id, "shutting-down", at)

    def _change_later(self, instance_id: str, state: str, at: datetime) -> None:
        self._number += 1
        insort(self._changes, (at, self._number, instance_id, state))

    def _settle(self) -> None:
        """Let every change happen that is due by now."""
        now = self._now()
        while self._changes and self._changes[0][0] <= now:
            at, _, instance_id, state = self._changes.pop(0)
            row = self._rows.get(instance_id)
            if row is not None:
                self._set(row, state, at)

    def _set(self, row: Row, state: str, at: datetime) -> None:
        before = _CODES[row["State"]["Name"]]
        if _CODES[state] <= before:
            return
        row["State"] = {"Name": state, "Code": _CODES[state]}
        if state == "shutting-down":
            row["StateTransitionReason"] = f"User initiated ({at:%Y-%m-%d %H:%M:%S} GMT)"
            self._change_later(row["InstanceId"], "terminated", at + timedelta(seconds=self._trouble.shutting_down_s))
            key = row["InstanceType"], row["Placement"]["AvailabilityZone"], self._market(row)
            if key in self._trouble.stock:
                self._trouble.stock[key] += 1
        elif state == "terminated":
            row["EndedAt"] = at
            self.on_end(row["InstanceId"])

    def terminate_instances(self, *, InstanceIds: list[str]) -> dict[str, Any]:
        """All or none: one id that is not known is named, and nothing ends (F005)."""
        self._settle()
        for instance_id in InstanceIds:
            if not self._is_known(instance_id):
                words = f"The instance ID '{instance_id}' does not exist"
                raise refused("InvalidInstanceID.NotFound", words, action="TerminateInstances")
        rows = []
        for instance_id in InstanceIds:
            row = self._rows[instance_id]
            before = dict(row["State"])
            self._set(row, "shutting-down", self._now())
            rows.append({"InstanceId": instance_id, "PreviousState": before, "CurrentState": dict(row["State"])})
        self._settle()
        return {"TerminatingInstances": rows}

    def _is_known(self, instance_id: str) -> bool:
        row = self._rows.get(instance_id)
        unknown = timedelta(seconds=self._trouble.unknown_new_s)
        return row is not None and (not unknown or self._now() - row["LaunchTime"] >= unknown)

    def forget(self, instance_id: str) -> None:
        """An id that EC2 no longer knows."""
        self._rows.pop(instance_id, None)

    def create_tags(self, *, Resources: list[str], Tags: list[dict[str, str]]) -> dict[str, Any]:
        """Set tags of machines."""
        for instance_id in Resources:
            kept = [t for t in self._rows[instance_id]["Tags"] if t["Key"] not in {n["Key"] for n in Tags}]
            self._rows[instance_id]["Tags"] = [*kept, *Tags]
            for tag in Tags:
                self._tag_index.setdefault((tag["Key"], tag["Value"]), {})[instance_id] = None
        return {}

    # Listing

    def truth(self) -> dict[str, Row]:
        """Every machine by id as it is now, whatever listings show."""
        self._settle()
        return self._rows

    def describe_instances(
        self,
        *,
        Filters: Iterable[Mapping[str, Any]] = (),
        InstanceIds: Iterable[str] = (),
        MaxResults: int = 1000,
        NextToken: str = "",
        **more: Any,
    ) -> dict[str, Any]:
        """Machines in pages, those left out that no listing shows yet."""
        self._settle()
        wanted = list(InstanceIds)
        for instance_id in wanted:
            if not self._is_known(instance_id):
                raise refused("InvalidInstanceID.NotFound", f"The instance ID '{instance_id}' does not exist")
        ids = wanted or self._matching(list(Filters))
        begin = int(NextToken or 0)
        page = [row for i in ids[begin : begin + MaxResults] if (row := self._listed(i, direct=bool(wanted)))]
        following = str(begin + MaxResults) if begin + MaxResults < len(ids) else ""
        return {"Reservations": [{"ReservationId": "r-1", "Instances": page}], "NextToken": following}

    def _matching(self, filters: list[Mapping[str, Any]]) -> list[str]:
        found: list[str] | None = None
        for one in filters:
            name, values = one["Name"], set(one["Values"])
            if name.startswith("tag:"):
                mine = {i: None for v in values for i in self._tag_index.get((name[4:], v), {})}
                found = list(mine) if found is None else [i for i in found if i in mine]
            else:
                found = [i for i in (self._rows if found is None else found) if self._has(i, name, values)]
        return [i for i in (self._rows if found is None else found) if i in self._rows]

    def _has(self, instance_id: str, name: str, values: set[str]) -> bool:
        row = self._rows[instance_id]
        if name == "instance-state-name":
            return row["State"]["Name"] in values
        if name == "client-token":
            return row["ClientToken"] in values
        raise refused("InvalidParameterValue", f"The filter '{name}' is invalid")

    def _listed(self, instance_id: str, *, direct: bool) -> Row | None:
        """A row as a listing shows it now; None if it does not."""
        row, trouble, now = self._rows[instance_id], self._trouble, self._now()
        if "EndedAt" in row and now - row["EndedAt"] > LISTED_AFTER_END:
            return None
        if not direct and instance_id in trouble.hidden_ids:
            return None
        age_s = (now - row["LaunchTime"]).total_seconds() if trouble.hide_new_s or trouble.bare_s else 0.0
        if trouble.hide_new_s and age_s < trouble.hide_new_s and not direct:
            return None
        if trouble.bare_s and age_s < trouble.bare_s:
            return {k: v for k, v in row.items() if k not in ("PrivateIpAddress", "SubnetId")}
        return row

    @staticmethod
    def _is_alive(row: Row) -> bool:
        return row["State"]["Name"] in ("pending", "running")

    @staticmethod
    def _market(row: Row) -> str:
        return str(row.get("InstanceLifecycle", ON_DEMAND))

    # Launch templates

    def create_launch_template(
        self,
        *,
        LaunchTemplateName: str,
        LaunchTemplateData: Mapping[str, Any],
        TagSpecifications: Any = (),
        **more: Any,
    ) -> dict[str, Any]:
        """One of a name."""
        if any(t["LaunchTemplateName"] == LaunchTemplateName for t in self.templates.values()):
            code = "InvalidLaunchTemplateName.AlreadyExistsException"
            raise refused(code, "Launch template name already in use.")
        if len(self.templates) >= MOST_TEMPLATES:
            raise refused("LaunchTemplateLimitExceeded", "too many launch templates")
        self._number += 1
        row: Row = {
            "LaunchTemplateId": f"lt-{self._number:017x}",
            "LaunchTemplateName": LaunchTemplateName,
            "CreateTime": self._now(),
            "Tags": [t for s in TagSpecifications for t in s["Tags"]],
            "Data": LaunchTemplateData,
        }
        self.templates[row["LaunchTemplateId"]] = row
        return {"LaunchTemplate": row}

    def describe_launch_templates(
        self, *, LaunchTemplateNames: Iterable[str] = (), Filters: Any = (), **more: Any
    ) -> dict[str, Any]:
        """By name or by tag."""
        names = set(LaunchTemplateNames)
        rows = [t for t in self.templates.values() if not names or t["LaunchTemplateName"] in names]
        if names and not rows:
            code = "InvalidLaunchTemplateName.NotFoundException"
            raise refused(code, "At least one of the launch templates specified in the request does not exist.")
        for one in Filters:
            key = one["Name"].removeprefix("tag:")
            rows = [t for t in rows if any(g["Key"] == key and g["Value"] in one["Values"] for g in t["Tags"])]
        return {"LaunchTemplates": rows}

    def delete_launch_template(self, *, LaunchTemplateId: str, **more: Any) -> dict[str, Any]:
        """Gone."""
        return {"LaunchTemplate": self.templates.pop(LaunchTemplateId, None) or self._template(LaunchTemplateId)}


def _told(template: Row, override: Override) -> dict[str, Any]:
    return {
        "LaunchTemplateSpecification": {"LaunchTemplateId": template["LaunchTemplateId"], "Version": "1"},
        "Overrides": {
            "InstanceType": override.instance_type,
            "SubnetId": override.subnet_id,
            "AvailabilityZone": override.zone,
        },
    }
