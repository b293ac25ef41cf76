"""EC2's machines in memory: how they live, end and are listed, in pages that may lag. `ec2` launches them.

Quick enough for ten thousand: a row is made once, and made anew only when its machine changes, so that a listing that
somebody holds stays as it was told.
"""

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

from providers.sim.aws.trouble import ON_DEMAND, SPOT, AwsTrouble, refused

LISTED_AFTER_END = timedelta(hours=1)  # EC2 shows a terminated machine for about so long
MOST_A_PAGE = 1000  # DescribeInstances, `MaxResults`
_CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48}
_FORGOTTEN = "forgotten"  # no state of EC2: its id is unknown from here on
USER = "Client.UserInitiatedShutdown"
_WORDS = {
    USER: "User initiated shutdown",
    "Client.InstanceInitiatedShutdown": "Instance initiated shutdown",
    "Server.SpotInstanceTermination": "Spot instance termination",
    "Server.InternalError": "Internal error on launch",
}
_ONLY_WHILE_THERE = ("PrivateIpAddress", "SubnetId", "VpcId")  # a terminated machine has none
Row = dict[str, Any]


class FakeMachines:
    """The machines of one account and region. `on_launch` and `on_end` are told of machines by row and by id."""

    def __init__(self, now: Callable[[], datetime], trouble: AwsTrouble) -> None:
        self._now, self._trouble = now, trouble
        self._rows: dict[str, Row] = {}
        self._past: set[str] = set()  # ended so long ago that EC2 knows them no more
        self._changes: list[tuple[datetime, int, str, str, str]] = []  # (when, number, id, new state, why), sorted
        self._number = 0
        self._tag_index: dict[tuple[str, str], dict[str, None]] = {}
        self.on_launch: Callable[[Row], None] = lambda row: None
        self.on_end: Callable[[str], None] = lambda instance_id: None

    # Life

    def _add(self, row: Row) -> None:
        instance_id, at = row["InstanceId"], row["LaunchTime"]
        self._rows[instance_id] = row
        self._index(row["Tags"], instance_id)
        state, why = "running", ""
        if self._trouble.never_boot > 0:
            self._trouble.never_boot -= 1
            state, why = "terminated", "Server.InternalError"
        self._change_later(instance_id, state, at + timedelta(seconds=self._trouble.pending_s), why)
        self.on_launch(row)

    def end_later(self, instance_id: str, at: datetime) -> None:
        """The cloud takes a spot machine at an instant; another one powers itself off."""
        is_spot = self._rows[instance_id].get("InstanceLifecycle") == SPOT
        why = "Server.SpotInstanceTermination" if is_spot else "Client.InstanceInitiatedShutdown"
        self._change_later(instance_id, "shutting-down", at, why)

    def _change_later(self, instance_id: str, state: str, at: datetime, why: str = "") -> None:
        self._number += 1
        insort(self._changes, (at, self._number, instance_id, state, why))

    def _settle(self) -> None:
        """Let every change happen that is due by now."""
        now = self._now()
        while self._changes and self._changes[0][0] <= now:
            at, _, instance_id, state, why = self._changes.pop(0)
            if state == _FORGOTTEN:
                self._past.add(instance_id)
                self._unindex(instance_id)
            elif instance_id in self._rows:
                self._set(instance_id, state, at, why)

    def _set(self, instance_id: str, state: str, at: datetime, why: str) -> None:
        row = self._rows[instance_id]
        if _CODES[state] <= row["State"]["Code"]:
            return
        was_alive = is_alive(row)
        row = self._rows[instance_id] = {**row, "State": {"Name": state, "Code": _CODES[state]}}
        if state == "running":
            return
        if was_alive:
            row |= _reason(why, at)
            self._free(row)
        if state == "shutting-down":
            self._change_later(instance_id, "terminated", at + timedelta(seconds=self._trouble.shutting_down_s))
            return
        for key in _ONLY_WHILE_THERE:
            row.pop(key, None)
        self._change_later(instance_id, _FORGOTTEN, at + LISTED_AFTER_END)
        self.on_end(instance_id)

    def _free(self, row: Row) -> None:
        """What it held is there for others again."""
        key = row["InstanceType"], row["Placement"]["AvailabilityZone"], market_of(row)
        if key in self._trouble.stock:
            self._trouble.stock[key] += 1

    def terminate_instances(self, *, InstanceIds: list[str], **more: Any) -> dict[str, Any]:
        """All or none: one id that is not known is named, and nothing ends (F005)."""
        self._settle()
        self._check_known(InstanceIds)
        rows = []
        for instance_id in InstanceIds:
            before = self._rows[instance_id]["State"]
            self._set(instance_id, "shutting-down", self._now(), USER)
            row = {"InstanceId": instance_id, "PreviousState": before, "CurrentState": self._rows[instance_id]["State"]}
            rows.append(row)
        self._settle()
        return {"TerminatingInstances": rows}

    def _check_known(self, ids: Iterable[str]) -> None:
        for instance_id in ids:
            if not self._is_known(instance_id):
                raise refused("InvalidInstanceID.NotFound", f"The instance ID '{instance_id}' does not exist")

    def _is_known(self, instance_id: str) -> bool:
        row = self._rows.get(instance_id)
        return row is not None and instance_id not in self._past and not self._is_unknown_yet(row)

    def _is_unknown_yet(self, row: Row) -> bool:
        unknown_s = self._trouble.unknown_new_s
        return unknown_s > 0 and self._now() - row["LaunchTime"] < timedelta(seconds=unknown_s)

    def forget(self, instance_id: str) -> None:
        """An id that EC2 no longer knows."""
        self._unindex(instance_id)
        self._rows.pop(instance_id, None)

    def forget_past(self) -> None:
        """Drop the rows that no call shows any more: for runs so long that they would fill the memory."""
        self._settle()
        for instance_id in self._past:
            self._rows.pop(instance_id, None)
        self._past.clear()

    # Tags

    def create_tags(self, *, Resources: list[str], Tags: list[dict[str, str]], **more: Any) -> dict[str, Any]:
        """Set tags of machines."""
        self._settle()
        self._check_known(Resources)
        new = {t["Key"] for t in Tags}
        for instance_id in Resources:
            row = self._rows[instance_id]
            self._unindex(instance_id)
            tags = [*(t for t in row["Tags"] if t["Key"] not in new), *Tags]
            self._rows[instance_id] = {**row, "Tags": tags}
            self._index(tags, instance_id)
        return {}

    def _index(self, tags: Iterable[Mapping[str, str]], instance_id: str) -> None:
        for tag in tags:
            self._tag_index.setdefault((tag["Key"], tag["Value"]), {})[instance_id] = None

    def _unindex(self, instance_id: str) -> None:
        for tag in self._rows.get(instance_id, {}).get("Tags", ()):
            self._tag_index.get((tag["Key"], tag["Value"]), {}).pop(instance_id, None)

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
        MaxResults: int = 0,
        NextToken: str = "",
        **more: Any,
    ) -> dict[str, Any]:
        """Machines in pages, those left out that no listing shows yet. The token of the next page is the last id, so
        that no machine is skipped when others change between two pages."""
        self._settle()
        wanted = list(InstanceIds)
        if wanted and MaxResults:
            words = "The parameter instancesSet cannot be used with the parameter maxResults"
            raise refused("InvalidParameterCombination", words)
        self._check_known(wanted)
        size = min(MaxResults or MOST_A_PAGE, MOST_A_PAGE)
        ids = self._matching(wanted, list(Filters))
        ids = ids[bisect_right(ids, NextToken) :]
        page = [row for i in ids[:size] if (row := self._listed(i, direct=bool(wanted)))]
        following = ids[size - 1] if len(ids) > size else ""
        return {"Reservations": [{"ReservationId": "r-1", "Instances": page}], "NextToken": following}

    def _matching(self, wanted: list[str], filters: list[Mapping[str, Any]]) -> list[str]:
        found = set(wanted) if wanted else None
        takers = []
        for one in filters:
            name, values = one["Name"], one["Values"]
            if name.startswith("tag:") and not any(_is_pattern(v) for v in values):
                mine = {i for v in values for i in self._tag_index.get((name[4:], v), ())}
                found = mine if found is None else found & mine
            else:
                takers.append(_taker(one))
        ids: Iterable[str] = [i for i in self._rows if i not in self._past] if found is None else found
        for takes in takers:
            ids = [i for i in ids if takes(self._rows[i])]
        return sorted(ids)

    def _listed(self, instance_id: str, *, direct: bool) -> Row | None:
        """A row as a listing shows it now; None if it does not."""
        row, trouble = self._rows[instance_id], self._trouble
        if not (trouble.hide_new_s or trouble.bare_s or trouble.unknown_new_s or trouble.hidden_ids):
            return row
        age_s = (self._now() - row["LaunchTime"]).total_seconds()
        is_lagging = age_s < max(trouble.hide_new_s, trouble.unknown_new_s) or instance_id in trouble.hidden_ids
        if is_lagging and not direct:
            return None
        if age_s < trouble.bare_s:
            return {k: v for k, v in row.items() if k not in ("PrivateIpAddress", "PrivateDnsName", "SubnetId")}
        return row


def is_alive(row: Mapping[str, Any]) -> bool:
    """Whether it pends or runs."""
    return row["State"]["Name"] in ("pending", "running")


def market_of(row: Mapping[str, Any]) -> str:
    """Of which market it is."""
    return str(row.get("InstanceLifecycle", ON_DEMAND))


def _reason(why: str, at: datetime) -> dict[str, Any]:
    who = "User" if why.startswith("Client") else "Service"
    return {
        "StateReason": {"Code": why, "Message": f"{why}: {_WORDS[why]}"},
        "StateTransitionReason": f"{who} initiated ({at:%Y-%m-%d %H:%M:%S} GMT)",
    }


_READERS: dict[str, Callable[[Row], Iterable[str]]] = {
    "availability-zone": lambda row: [row["Placement"]["AvailabilityZone"]],
    "client-token": lambda row: [row["ClientToken"]],
    "image-id": lambda row: [row["ImageId"]],
    "instance-id": lambda row: [row["InstanceId"]],
    "instance-lifecycle": lambda row: [row["InstanceLifecycle"]] if "InstanceLifecycle" in row else [],
    "instance-state-name": lambda row: [row["State"]["Name"]],
    "instance-type": lambda row: [row["InstanceType"]],
    "subnet-id": lambda row: [row["SubnetId"]] if "SubnetId" in row else [],
    "tag-key": lambda row: [t["Key"] for t in row["Tags"]],
}


def _reader(name: str) -> Callable[[Row], Iterable[str]]:
    if name.startswith("tag:"):
        return lambda row: [t["Value"] for t in row["Tags"] if t["Key"] == name[4:]]
    if name not in _READERS:
        raise refused("InvalidParameterValue", f"The filter '{name}' is invalid")
    return _READERS[name]


def _taker(one: Mapping[str, Any]) -> Callable[[Row], bool]:
    """Whether a filter takes a row; `*` and `?` stand for any text, as in EC2."""
    read, values = _reader(one["Name"]), set(one["Values"])
    patterns = [v for v in values if _is_pattern(v)]
    if not patterns:
        return lambda row: not values.isdisjoint(read(row))
    return lambda row: any(text in values or any(fnmatchcase(text, p) for p in patterns) for text in read(row))


def _is_pattern(value: str) -> bool:
    return "*" in value or "?" in value
