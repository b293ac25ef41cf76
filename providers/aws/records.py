"""EC2's answers and EventBridge's messages -> facts. Pure; called by `instances`, `fleet` and `interruptions`.

A field that is missing is no error: listings are eventually consistent, an instance without an address yet is pending
all the same (F006). What cannot be read at all is left out and told.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from providers.aws.account import (
    ENDS_AT_TAG,
    POOL_TAG,
    TEAM_TAG,
    TOKEN_TAG,
)
from providers.facts import CapacityType, Instance, InstanceState, Interruption, InterruptionKind

# A stopped machine of ours is no capacity but still ours to end: it counts as running, never joins, and is given back.
_STATES = {
    "pending": InstanceState.PENDING,
    "running": InstanceState.RUNNING,
    "stopping": InstanceState.RUNNING,
    "stopped": InstanceState.RUNNING,
    "shutting-down": InstanceState.TERMINATING,
    "terminated": InstanceState.TERMINATED,
}
TEMPLATE_TAG = "aws:ec2launchtemplate:id"
Price = Callable[[str, str, CapacityType], tuple[float, str]]  # (type, zone, market) -> (USD an hour, source)


def tags_of(row: Mapping[str, Any]) -> dict[str, str]:
    """The tags of an EC2 object by key."""
    return {str(t.get("Key", "")): str(t.get("Value", "")) for t in row.get("Tags") or ()}


def capacity_type_of(row: Mapping[str, Any]) -> CapacityType:
    """How an instance is paid for: EC2 names the lifecycle only of spot and capacity blocks."""
    lifecycle = row.get("InstanceLifecycle", "")
    if lifecycle == "spot":
        return CapacityType.SPOT
    if lifecycle == "capacity-block" or row.get("CapacityReservationId"):
        return CapacityType.RESERVED
    return CapacityType.ON_DEMAND


def instance_of(row: Mapping[str, Any], *, cloud: str, region: str, gpus: int, price: Price) -> Instance | None:
    """One instance of a listing; None if it has no id or no launch time to count its age from."""
    instance_id, launched_at = row.get("InstanceId"), row.get("LaunchTime")
    if not instance_id or not isinstance(launched_at, datetime):
        return None
    launched_at = launched_at.astimezone(UTC)  # boto3 tells it in a zone of its own kind
    tags = tags_of(row)
    state = _STATES.get(str((row.get("State") or {}).get("Name", "")), InstanceState.PENDING)
    capacity_type = capacity_type_of(row)
    instance_type = str(row.get("InstanceType", ""))
    zone = str((row.get("Placement") or {}).get("AvailabilityZone", ""))
    usd, source = price(instance_type, zone, capacity_type)
    return Instance(
        id=str(instance_id),
        cloud=cloud,
        pool=tags.get(POOL_TAG, ""),
        token=tags.get(TOKEN_TAG, ""),
        team=tags.get(TEAM_TAG, ""),
        state=state,
        instance_type=instance_type,
        zone=zone,
        region=region,
        capacity_type=capacity_type,
        gpus=gpus,
        price_usd_per_hour=usd,
        price_source=source,
        requested_at=launched_at,
        running_since=launched_at if state is InstanceState.RUNNING else None,
        terminated_at=ended_at(row) if state is InstanceState.TERMINATED else None,
        ends_at=instant(tags.get(ENDS_AT_TAG, "")),
    )


def ended_at(row: Mapping[str, Any]) -> datetime | None:
    """When it was stopped, from `StateTransitionReason`: "User initiated (2026-12-01 10:00:00 GMT)"."""
    reason = str(row.get("StateTransitionReason") or "")
    begin, end = reason.rfind("("), reason.rfind(" GMT)")
    return instant(reason[begin + 1 : end].replace(" ", "T") + "+00:00") if 0 <= begin < end else None


def instant(text: str) -> datetime | None:
    """An ISO 8601 time, aware and in UTC; None for anything else."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.astimezone(UTC) if found.tzinfo else None


# Messages of the queue


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What one message of the queue says. `notices` are about instances that may be ours; `changed_ids` changed their
    state: worth a look at the listing; `trouble` says why nothing could be read from it."""

    id: str
    sent_at: datetime | None = None
    notices: tuple[Interruption, ...] = ()
    changed_ids: tuple[str, ...] = ()
    trouble: str = ""


SPOT_NOTICE_S = 120.0  # the instance goes two minutes after the notice (EC2 user guide)
MAX_BODY_BYTES = 262_144  # SQS's own limit of a message


def message_of(body: str, *, cloud: str, notice_s: float = SPOT_NOTICE_S) -> Message:
    """One message: an EventBridge envelope. Never raises: what is not one is told as `trouble`."""
    if len(body) > MAX_BODY_BYTES:
        return Message(id="", trouble="longer than a message of the queue may be")
    try:
        envelope = json.loads(body)
    except (ValueError, RecursionError):
        return Message(id="", trouble="no JSON")
    if not isinstance(envelope, dict) or not isinstance(envelope.get("detail"), dict):
        return Message(id="", trouble="no event with a `detail`")
    event_id, kind = str(envelope.get("id") or ""), str(envelope.get("detail-type") or "")
    sent_at = instant(str(envelope.get("time") or ""))
    if not event_id or sent_at is None:
        return Message(id=event_id, trouble=f"{kind or 'an event'} without an id or a time")
    read = _READERS.get(kind)
    if read is None:
        return Message(id=event_id, sent_at=sent_at, trouble=f"an event we do not follow: {kind or 'no detail-type'}")
    return read(_Event(event_id, sent_at, envelope, cloud, notice_s))


@dataclass(frozen=True, slots=True)
class _Event:
    id: str
    at: datetime
    envelope: Mapping[str, Any]
    cloud: str
    notice_s: float

    @property
    def detail(self) -> Mapping[str, Any]:
        return dict(self.envelope["detail"])

    def notice(self, instance_id: str, kind: InterruptionKind, ends_at: datetime | None) -> Interruption:
        return Interruption(
            id=f"{self.id}/{instance_id}",
            cloud=self.cloud,
            instance_id=instance_id,
            kind=kind,
            noticed_at=self.at,
            ends_at=ends_at,
        )

    def said(self, kind: InterruptionKind, ids: tuple[str, ...], ends_at: datetime | None) -> Message:
        if not ids:
            return Message(id=self.id, sent_at=self.at, trouble=f"a {kind.value} event that names no instance")
        return Message(id=self.id, sent_at=self.at, notices=tuple(self.notice(i, kind, ends_at) for i in ids))


def _instance_id(event: _Event) -> tuple[str, ...]:
    found = event.detail.get("instance-id")
    return (found,) if isinstance(found, str) and found else ()


def _spot(event: _Event) -> Message:
    ends_at = datetime.fromtimestamp(event.at.timestamp() + event.notice_s, UTC)
    return event.said(InterruptionKind.SPOT_INTERRUPTION, _instance_id(event), ends_at)


def _rebalance(event: _Event) -> Message:
    return event.said(InterruptionKind.REBALANCE, _instance_id(event), None)


def _state_change(event: _Event) -> Message:
    return Message(id=event.id, sent_at=event.at, changed_ids=_instance_id(event))


def _health(event: _Event) -> Message:
    """A scheduled change or an issue of the hardware, from AWS Health: it names what it affects."""
    detail = event.detail
    affected = detail.get("affectedEntities")
    entities = affected if isinstance(affected, list) else []
    ids = [str(e.get("entityValue", "")) for e in entities if isinstance(e, dict)]
    starts_at = _health_time(str(detail.get("startTime") or ""))
    return event.said(InterruptionKind.SCHEDULED, tuple(i for i in ids if i.startswith("i-")), starts_at)


def _health_time(text: str) -> datetime | None:
    """AWS Health writes times as `Sat, 05 Dec 2026 13:00:00 GMT`; ISO is taken as well."""
    try:
        return datetime.strptime(text, "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC)
    except ValueError:
        return instant(text)


_READERS: Mapping[str, Callable[[_Event], Message]] = {
    "EC2 Spot Instance Interruption Warning": _spot,
    "EC2 Instance Rebalance Recommendation": _rebalance,
    "EC2 Instance State-change Notification": _state_change,
    "AWS Health Event": _health,
}
