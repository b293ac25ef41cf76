"""SQS in memory: delivered at least once, told again when not deleted in time; EventBridge's envelopes go in."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

QUEUE_URL = "https://sqs.us-east-1.amazonaws.com/123456789012/notices"


@dataclass(slots=True)
class _Message:
    body: str
    visible_at: datetime
    deliveries: int = 0


class FakeQueue:
    """One queue."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._messages: dict[str, _Message] = {}
        self._number = 0

    def announce(self, kind: str, instance_id: str, detail: dict[str, Any]) -> None:
        """An event about an instance, as EventBridge delivers it."""
        at = self._now()
        envelope = {
            "version": "0", "id": f"event-{self._number + 1}", "detail-type": kind, "source": "aws.ec2",
            "account": "123456789012", "time": at.isoformat().replace("+00:00", "Z"), "region": "us-east-1",
            "resources": [f"arn:aws:ec2:us-east-1:123456789012:instance/{instance_id}"],
            "detail": {"instance-id": instance_id, **detail},
        }  # fmt: skip
        self.put(json.dumps(envelope))

    def put(self, body: str) -> None:
        """A message of any kind."""
        self._number += 1
        self._messages[f"m-{self._number}"] = _Message(body, self._now())

    def __len__(self) -> int:
        return len(self._messages)

    def receive_message(
        self, *, QueueUrl: str, MaxNumberOfMessages: int = 1, WaitTimeSeconds: int = 0, VisibilityTimeout: int = 30
    ) -> dict[str, Any]:
        """At most ten that are visible now."""
        now = self._now()
        rows: list[dict[str, str]] = []
        for name, message in self._messages.items():
            if message.visible_at <= now and len(rows) < min(10, MaxNumberOfMessages):
                message.deliveries += 1
                message.visible_at = now + timedelta(seconds=VisibilityTimeout)
                handle = f"{name}#{message.deliveries}"
                rows.append({"MessageId": name, "ReceiptHandle": handle, "Body": message.body})
        return {"Messages": rows} if rows else {}

    def delete_message_batch(self, *, QueueUrl: str, Entries: list[dict[str, str]]) -> dict[str, Any]:
        """By the handle of the newest delivery; an older one deletes nothing, as SQS does."""
        done = []
        for entry in Entries:
            name, _, delivery = entry["ReceiptHandle"].partition("#")
            message = self._messages.get(name)
            if message is not None and str(message.deliveries) == delivery:
                del self._messages[name]
            done.append({"Id": entry["Id"]})
        return {"Successful": done, "Failed": []}

    def get_queue_attributes(self, *, QueueUrl: str, AttributeNames: list[str]) -> dict[str, Any]:
        """Its ARN, its policy and how many messages wait."""
        policy = {"Statement": [{"Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}}]}
        return {
            "Attributes": {
                "QueueArn": "arn:aws:sqs:us-east-1:123456789012:notices",
                "ApproximateNumberOfMessages": str(len(self)),
                "Policy": json.dumps(policy),
            }
        }
