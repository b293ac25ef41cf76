"""How the layer shows one machine in DescribeInstances, and whether a filter takes it. Pure; used by `layered`."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

from providers.sim.aws.trouble import ON_DEMAND, AwsTrouble, Override, refused

LISTED_AFTER_END = timedelta(hours=1)  # EC2 shows a terminated machine for about so long
USER, RECLAIMED, NO_START = "Client.UserInitiatedShutdown", "Server.SpotInstanceTermination", "Server.InternalError"
_WORDS = {USER: "User initiated shutdown", RECLAIMED: "Spot instance termination", NO_START: "Internal error on launch"}
_CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48}
_NETWORK = ("PrivateIpAddress", "SubnetId")  # a terminated machine has none, a new one may lack them for a while
Row = Mapping[str, Any]


@dataclass(slots=True)
class Machine:
    """What moto does not know of one machine. `ended_at`: when the cloud or its owner ends it, perhaps in the
    future."""

    launched_at: datetime
    market: str
    token: str
    override: Override
    reservation_id: str = ""
    ended_at: datetime | None = None
    why: str = USER  # it ends
    is_settled: bool = False  # its end has been told to moto

    def is_over(self, now: datetime) -> bool:
        """Whether it is ending or has ended."""
        return self.ended_at is not None and self.ended_at <= now


def state_of(machine: Machine, now: datetime, trouble: AwsTrouble) -> dict[str, Any]:
    """Its state, by the cloud's clock."""
    name = "running"
    if machine.ended_at is not None and machine.ended_at <= now:
        is_gone = now - machine.ended_at >= timedelta(seconds=trouble.shutting_down_s) or machine.why == NO_START
        name = "terminated" if is_gone else "shutting-down"
    elif now - machine.launched_at < timedelta(seconds=trouble.pending_s):
        name = "pending"
    return {"Name": name, "Code": _CODES[name]}


def is_known(machine: Machine, now: datetime, trouble: AwsTrouble) -> bool:
    """Whether EC2 knows its id when it is asked for by name: not right after its launch, not long after its end."""
    if machine.ended_at is not None and now - machine.ended_at > LISTED_AFTER_END:
        return False
    return (now - machine.launched_at).total_seconds() >= trouble.unknown_new_s


def is_listed(instance_id: str, machine: Machine, now: datetime, trouble: AwsTrouble) -> bool:
    """Whether a listing shows it."""
    is_new = (now - machine.launched_at).total_seconds() < max(trouble.hide_new_s, trouble.unknown_new_s)
    return is_known(machine, now, trouble) and instance_id not in trouble.hidden_ids and not is_new


def row_of(instance: Any, machine: Machine, now: datetime, trouble: AwsTrouble) -> dict[str, Any]:
    """moto's `instance` as EC2 shows it."""
    row = {
        "InstanceId": instance.id,
        "InstanceType": instance.instance_type,
        "ImageId": instance.image_id,
        "State": state_of(machine, now, trouble),
        "Placement": {"AvailabilityZone": machine.override.zone, "Tenancy": "default"},
        "SubnetId": instance.subnet_id,
        "LaunchTime": machine.launched_at,
        "PrivateIpAddress": instance.private_ip,
        "ClientToken": machine.token,
        "Tags": [{"Key": t["key"], "Value": t["value"]} for t in instance.get_tags()],
    }
    if machine.market != ON_DEMAND:
        row["InstanceLifecycle"] = machine.market
    if machine.reservation_id:
        row["CapacityReservationId"] = machine.reservation_id
    if machine.ended_at is not None and machine.ended_at <= now:
        row |= _reason(machine.why, machine.ended_at)
    is_bare = (now - machine.launched_at).total_seconds() < trouble.bare_s or row["State"]["Name"] == "terminated"
    return {k: v for k, v in row.items() if k not in _NETWORK} if is_bare else row


def _reason(why: str, at: datetime) -> dict[str, Any]:
    who = "User" if why.startswith("Client") else "Service"
    return {
        "StateTransitionReason": f"{who} initiated ({at:%Y-%m-%d %H:%M:%S} GMT)",
        "StateReason": {"Code": why, "Message": f"{why}: {_WORDS[why]}"},
    }


_VALUES: dict[str, Callable[[Row], Iterable[str | None]]] = {
    "availability-zone": lambda row: [row["Placement"]["AvailabilityZone"]],
    "client-token": lambda row: [row["ClientToken"]],
    "image-id": lambda row: [row["ImageId"]],
    "instance-id": lambda row: [row["InstanceId"]],
    "instance-lifecycle": lambda row: [row.get("InstanceLifecycle")],
    "instance-state-name": lambda row: [row["State"]["Name"]],
    "instance-type": lambda row: [row["InstanceType"]],
    "launch-time": lambda row: [f"{row['LaunchTime']:%Y-%m-%dT%H:%M:%S.000Z}"],
    "subnet-id": lambda row: [row.get("SubnetId")],
    "tag-key": lambda row: [t["Key"] for t in row["Tags"]],
}


def takes(row: Row, name: str, patterns: Iterable[str]) -> bool:
    """Whether one filter takes the row; `*` and `?` stand for any text, as in EC2. Refused if there is no such
    filter."""
    if name.startswith("tag:"):
        values: Iterable[str | None] = [t["Value"] for t in row["Tags"] if t["Key"] == name[4:]]
    elif name in _VALUES:
        values = _VALUES[name](row)
    else:
        raise refused("InvalidParameterValue", f"The filter '{name}' is invalid")
    texts = [value for value in values if value is not None]
    return any(fnmatchcase(text, pattern) for text in texts for pattern in patterns)
