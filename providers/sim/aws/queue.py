"""SQS in memory: delivered at least once, told again when not deleted in time; EventBridge's envelopes go in."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError

from providers.sim.aws.trouble import refused

MOST_AT_ONCE = 10  # messages a call (SQS)
QUEUE_URL = "https://sqs.us-east-1.amazonaws.com/123456789012/notices"


@dataclass(slots=True)
class _Message:
    body: str
    visible_at: datetime
    deliveries: int = 0


class FakeQueue:
    """One queue. No call of it waits: a long poll of an empty one is answered at once."""

    def __init__(self, now: Callable[[], datetime], *, region: str) -> None:
        self._now, self._region = now, region
        self._messages: dict[str, _Message] = {}
        self._number = 0

    def announce(self, kind: str, instance_id: str, detail: dict[str, Any]) -> None:
        """An event about an instance, as EventBridge delivers it."""
        at = self._now()
        envelope = {
            "version": "0", "id": f"event-{self._number + 1}", "detail-type": kind, "source": "aws.ec2",
            "account": "123456789012", "time": at.isoformat().replace("+00:00", "Z"), "region": self._region,
            "resources": [f"arn:aws:ec2:{self._region}:123456789012:instance/{instance_id}"],
            "detail": {"instance-id": instance_id, **detail},
        }  # fmt: skip
        self.put(json.dumps(envelope))

    def put(self, body: str, *, delay_s: float = 0.0) -> str:
        """A message of any kind; returns its id."""
        self._number += 1
        message_id = f"m-{self._number}"
        self._messages[message_id] = _Message(body, self._now() + timedelta(seconds=delay_s))
        return message_id

    def __len__(self) -> int:
        return len(self._messages)

    def get_queue_url(self, *, QueueName: str, **more: Any) -> dict[str, Any]:
        """Of the one queue."""
        if QueueName != QUEUE_URL.rpartition("/")[2]:
            raise _no_queue()
        return {"QueueUrl": QUEUE_URL}

    def send_message(self, *, QueueUrl: str, MessageBody: str, DelaySeconds: int = 0, **more: Any) -> dict[str, Any]:
        """One more message."""
        _check(QueueUrl)
        return {"MessageId": self.put(MessageBody, delay_s=DelaySeconds)}

    def receive_message(
        self, *, QueueUrl: str, MaxNumberOfMessages: int = 1, VisibilityTimeout: int = 30, **more: Any
    ) -> dict[str, Any]:
        """At most ten that are visible now."""
        _check(QueueUrl)
        if not 1 <= MaxNumberOfMessages <= MOST_AT_ONCE:
            words = f"Value {MaxNumberOfMessages} for parameter MaxNumberOfMessages is invalid"
            raise refused("InvalidParameterValue", words)
        now = self._now()
        rows: list[dict[str, str]] = []
        for name, message in self._messages.items():
            if message.visible_at <= now and len(rows) < MaxNumberOfMessages:
                message.deliveries += 1
                message.visible_at = now + timedelta(seconds=VisibilityTimeout)
                handle = f"{name}#{message.deliveries}"
                rows.append({"MessageId": name, "ReceiptHandle": handle, "Body": message.body})
        return {"Messages": rows} if rows else {}

    def delete_message_batch(self, *, QueueUrl: str, Entries: list[dict[str, str]]) -> dict[str, Any]:
        """By the handle of the newest delivery; an older one deletes nothing, as SQS does."""
        _check(QueueUrl)
        if not 1 <= len(Entries) <= MOST_AT_ONCE:
            code = "AWS.SimpleQueueService.TooManyEntriesInBatchRequest"
            raise refused(code, f"A batch has 1 to {MOST_AT_ONCE} entries, this one {len(Entries)}")
        for entry in Entries:
            self._delete(entry["ReceiptHandle"])
        return {"Successful": [{"Id": entry["Id"]} for entry in Entries], "Failed": []}

    def delete_message(self, *, QueueUrl: str, ReceiptHandle: str) -> dict[str, Any]:
        """The same for one."""
        _check(QueueUrl)
        self._delete(ReceiptHandle)
        return {}

    def _delete(self, handle: str) -> None:
        name, _, delivery = handle.partition("#")
        message = self._messages.get(name)
        if message is not None and str(message.deliveries) == delivery:
            del self._messages[name]

    def get_queue_attributes(self, *, QueueUrl: str, **more: Any) -> dict[str, Any]:
        """Its ARN, its policy and how many messages wait."""
        _check(QueueUrl)
        policy = {"Statement": [{"Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}}]}
        return {
            "Attributes": {
                "QueueArn": f"arn:aws:sqs:{self._region}:123456789012:notices",
                "ApproximateNumberOfMessages": str(len(self)),
                "Policy": json.dumps(policy),
            }
        }


def _check(queue_url: str) -> None:
    if queue_url != QUEUE_URL:
        raise _no_queue()


def _no_queue() -> ClientError:
    return refused("AWS.SimpleQueueService.NonExistentQueue", "The specified queue does not exist.")
