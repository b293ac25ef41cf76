"""The queue of notices: told until recorded, deleted only then; foreign, broken, old, repeated messages do no harm."""

import json
from datetime import timedelta

import pytest
from botocore.exceptions import ClientError

from providers.aws.account import AwsAccount
from providers.aws.calls import Calls
from providers.aws.interruptions import FOREIGN_AFTER, OLD_AFTER, Interruptions
from providers.facts import InterruptionKind
from tests.builders import NOW
from tests.providers.test_aws_calls import Clock


class Queue:
    """SQS as far as it matters: a message that is received is told again until it is deleted by its newest handle."""

    def __init__(self):
        self.bodies, self.deliveries, self.refuse = {}, 0, None

    def put(self, name, body):
        self.bodies[name] = body

    def receive_message(self, **asked):
        if self.refuse:
            raise ClientError({"Error": {"Code": self.refuse}}, "ReceiveMessage")
        self.deliveries += 1
        rows = list(self.bodies.items())[: asked["MaxNumberOfMessages"]]
        return {"Messages": [{"Body": b, "ReceiptHandle": f"{n}#{self.deliveries}"} for n, b in rows]} if rows else {}

    def delete_message_batch(self, **asked):
        for entry in asked["Entries"]:
            name, delivery = entry["ReceiptHandle"].split("#")
            if int(delivery) == self.deliveries:
                self.bodies.pop(name, None)
        return {}


def body(event_id="e-1", instance_id="i-1", kind="EC2 Spot Instance Interruption Warning", at=NOW):
    return json.dumps(
        {"id": event_id, "detail-type": kind, "time": at.isoformat(), "detail": {"instance-id": instance_id}}
    )


class Desk:
    """A listener with machine i-1 of ours."""

    def __init__(self):
        self.queue, self.clock, self.woken, self.ours = Queue(), Clock(), 0, {"i-1"}
        account = AwsAccount(name="aws", region="r", owner="o", controller="c", subnets={}, queue_url="q")
        self.calls = Calls(lambda service: self.queue, self.clock)
        self.notices = Interruptions(account, self.calls, self.clock, is_ours=lambda i: i in self.ours, woken=self.wake)

    def wake(self):
        self.woken += 1

    def told(self):
        return [(n.instance_id, n.kind) for n in self.notices.notices(self.clock.now())]


@pytest.fixture
def desk():
    return Desk()


SPOT = ("i-1", InterruptionKind.SPOT_INTERRUPTION)


def test_a_notice_wakes_the_loop_is_told_until_recorded_and_only_then_deleted(desk):
    desk.queue.put("m", body())
    desk.notices.poll()
    assert (desk.woken, desk.told()) == (1, [SPOT])
    assert desk.told() == [SPOT]
    assert "m" in desk.queue.bodies
    desk.notices.acknowledge(["e-1/i-1"])
    assert desk.told() == []
    assert desk.queue.bodies == {}


def test_a_message_delivered_again_is_one_notice_and_its_newest_handle_deletes_it(desk):
    desk.queue.put("m", body())
    for _ in range(3):
        desk.notices.poll()
    assert (desk.woken, desk.told()) == (1, [SPOT])
    desk.notices.acknowledge(["e-1/i-1"])
    assert desk.queue.bodies == {}


def test_one_that_comes_once_more_after_it_was_settled_is_only_deleted(desk):
    desk.queue.put("m", body())
    desk.notices.poll()
    desk.notices.acknowledge(["e-1/i-1"])
    desk.queue.put("again", body())
    desk.notices.poll()
    assert (desk.woken, desk.told(), desk.queue.bodies) == (1, [], {})


def test_a_notice_about_a_machine_no_listing_shows_yet_waits_for_it(desk):
    """Listings lag: the machine may have been launched a moment ago."""
    desk.ours.clear()
    desk.queue.put("m", body())
    desk.notices.poll()
    assert desk.told() == []
    desk.ours.add("i-1")
    assert desk.told() == [SPOT]


def test_a_notice_about_somebody_elses_machine_is_settled_after_a_while(desk):
    desk.queue.put("m", body(instance_id="i-foreign"))
    desk.notices.poll()
    desk.clock.at += FOREIGN_AFTER
    assert desk.told() == []
    assert desk.queue.bodies == {}
    assert desk.notices.dropped == {"not of ours": 1}


def test_an_old_notice_is_settled_without_an_effect(desk):
    desk.queue.put("m", body(at=NOW - OLD_AFTER - timedelta(minutes=3)))
    desk.notices.poll()
    assert desk.told() == []
    assert desk.queue.bodies == {}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"detail": {}}', body(kind="EC2 Something New"), body(instance_id=3)])
def test_a_broken_or_strange_message_is_counted_and_deleted_and_wakes_nobody(desk, text):
    desk.queue.put("m", text)
    desk.queue.put("n", body())
    desk.notices.poll()
    assert desk.told() == [SPOT]
    assert set(desk.queue.bodies) == {"n"}
    assert sum(desk.notices.dropped.values()) == 1


def test_a_change_of_state_wakes_the_loop_and_is_deleted_at_once(desk):
    desk.queue.put("m", body(kind="EC2 Instance State-change Notification"))
    desk.notices.poll()
    assert (desk.woken, desk.told(), desk.queue.bodies) == (1, [], {})


def test_a_message_about_two_machines_goes_when_both_are_recorded(desk):
    desk.ours.add("i-2")
    detail = {"startTime": "2026-12-05T13:00:00Z", "affectedEntities": [{"entityValue": "i-1"}, {"entityValue": "i-2"}]}
    text = {"id": "e-9", "detail-type": "AWS Health Event", "time": NOW.isoformat(), "detail": detail}
    desk.queue.put("m", json.dumps(text))
    desk.notices.poll()
    desk.notices.acknowledge(["e-9/i-1"])
    assert desk.told() == [("i-2", InterruptionKind.SCHEDULED)]
    assert "m" in desk.queue.bodies
    desk.notices.acknowledge(["e-9/i-2"])
    assert desk.queue.bodies == {}


def test_many_messages_are_taken_ten_at_a_time(desk):
    for number in range(25):
        desk.queue.put(f"m{number}", body(event_id=f"e-{number}"))
    counts = []
    for _ in range(3):
        counts.append(desk.notices.poll())
        desk.notices.acknowledge([n.id for n in desk.notices.notices(NOW)])
    assert counts == [10, 10, 5]
    assert desk.queue.bodies == {}


def test_a_queue_that_cannot_be_read_is_told_and_the_thread_ends_when_asked(desk):
    desk.queue.refuse = "AWS.SimpleQueueService.NonExistentQueue"
    desk.notices.start()
    thread = desk.notices._thread
    for _ in range(100):
        if desk.notices.trouble:
            break
        thread.join(0.02)
    assert "NonExistentQueue" in desk.notices.trouble
    desk.notices.stop()
    thread.join(5)
    assert not thread.is_alive()
