"""Every call goes through one rate: bounded, shared, slower after throttling; reads are repeated, writes never."""

from collections import deque
from datetime import timedelta

import pytest
from botocore.exceptions import ClientError

from providers.aws.calls import READ_ATTEMPTS, Calls
from providers.errors import AccessDenied, InvalidRequest, Throttled, Unreachable
from tests.builders import NOW


class Clock:
    """Time that passes only by waiting."""

    def __init__(self):
        self.at, self.waited_s = NOW, 0.0

    def now(self):
        return self.at

    def wait(self, seconds, *, until=None):
        self.waited_s += seconds
        self.at += timedelta(seconds=seconds)


class Client:
    """Answers in turn; an exception is raised; {} when nothing is planned."""

    def __init__(self, *answers):
        self.answers, self.asked = deque(answers), []

    def describe_instances(self, **asked):
        self.asked.append(asked)
        answer = self.answers.popleft() if self.answers else {}
        if isinstance(answer, Exception):
            raise answer
        return answer

    create_fleet = describe_instances


def refused(code, status=400):
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "x")


def calls_of(*answers):
    clock, client = Clock(), Client(*answers)
    return Calls(lambda service: client, clock), client, clock


@pytest.mark.parametrize("code", ["RequestLimitExceeded", "InternalError"])
def test_a_read_is_repeated_a_few_times_with_growing_pauses(code):
    calls, client, clock = calls_of(*[refused(code)] * (READ_ATTEMPTS - 1), {"ok": 1})
    assert calls.read("ec2", "describe_instances") == {"ok": 1}
    assert len(client.asked) == READ_ATTEMPTS
    assert clock.waited_s > 0


def test_a_read_that_never_gets_an_answer_ends_after_a_few_attempts():
    calls, client, _ = calls_of(*[refused("InternalError", 500)] * 50)
    with pytest.raises(Unreachable):
        calls.read("ec2", "describe_instances")
    assert len(client.asked) == READ_ATTEMPTS


def test_a_read_that_is_denied_is_not_repeated():
    calls, client, _ = calls_of(refused("UnauthorizedOperation", 403))
    with pytest.raises(AccessDenied):
        calls.read("ec2", "describe_instances")
    assert len(client.asked) == 1


@pytest.mark.parametrize(("code", "kind"), [("RequestLimitExceeded", Throttled), ("InternalError", Unreachable)])
def test_a_write_is_never_repeated(code, kind):
    calls, client, _ = calls_of(refused(code))
    with pytest.raises(kind):
        calls.write("ec2", "create_fleet")
    assert len(client.asked) == 1
    assert calls.counts["create_fleet"] == 1


def test_throttling_slows_every_caller_down_and_calls_that_pass_speed_up_again():
    """F004."""
    calls, _, _ = calls_of(*[refused("RequestLimitExceeded")] * 3)
    full = calls.rate("ec2").per_s
    for _ in range(3):
        with pytest.raises(Throttled):
            calls.write("ec2", "create_fleet")
    slow = calls.rate("ec2").per_s
    assert slow == full / 8
    calls.write("ec2", "create_fleet")
    assert slow < calls.rate("ec2").per_s < full


def test_when_throttled_for_long_calls_are_not_even_sent():
    calls, client, clock = calls_of(*[refused("RequestLimitExceeded")] * 1000)
    for _ in range(200):
        with pytest.raises(Throttled):
            calls.write("ec2", "create_fleet")
    minutes = max(clock.waited_s / 60, 1)
    assert len(client.asked) < 30 * minutes


def test_throttling_of_one_service_leaves_the_others_alone():
    calls, _, _ = calls_of(refused("RequestLimitExceeded"))
    with pytest.raises(Throttled):
        calls.write("ec2", "create_fleet")
    assert calls.rate("sqs").per_s > calls.rate("ec2").per_s


def test_pages_are_read_to_the_end_and_never_told_short():
    """F024 (d): two pages and the second throttled."""
    first, second = {"Reservations": [1, 2], "NextToken": "n"}, {"Reservations": [3]}
    calls, client, _ = calls_of(first, refused("RequestLimitExceeded"), second)
    assert list(calls.pages("ec2", "describe_instances", key="Reservations")) == [1, 2, 3]
    assert client.asked[-1] == {"NextToken": "n"}
    calls, _, _ = calls_of(first, *[refused("RequestLimitExceeded")] * READ_ATTEMPTS)
    with pytest.raises(Throttled):
        list(calls.pages("ec2", "describe_instances", key="Reservations"))


def test_a_listing_that_never_ends_is_no_listing():
    calls, _, _ = calls_of(*[{"Reservations": [1], "NextToken": "n"}] * 1000)
    with pytest.raises(Unreachable):
        list(calls.pages("ec2", "describe_instances", key="Reservations"))


def test_nonsense_we_send_is_our_fault():
    from botocore.exceptions import ParamValidationError

    calls, _, _ = calls_of(ParamValidationError(report="no such key"))
    with pytest.raises(InvalidRequest):
        calls.write("ec2", "create_fleet")
