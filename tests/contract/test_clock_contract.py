"""What every `Clock` promises (`providers/ports.py`)."""

from datetime import timedelta

import pytest

from tests.contract.stands import CLOCKS


@pytest.fixture(params=CLOCKS)
def clock(request):
    return CLOCKS[request.param]()


def test_the_time_is_aware_in_utc_and_never_runs_back(clock):
    seen = []
    for _ in range(5):
        seen.append(clock.now())
        clock.wait(0.01)
    assert all(at.utcoffset() == timedelta(0) for at in seen)
    assert seen == sorted(seen)


def test_a_wait_is_at_least_as_long_as_asked(clock):
    before = clock.now()
    clock.wait(0.2)
    assert clock.now() - before >= timedelta(seconds=0.19)


def test_a_wait_that_may_end_at_once_does(clock):
    before = clock.now()
    clock.wait(3600, until=lambda: True)
    assert clock.now() - before < timedelta(seconds=60)


def test_a_wait_that_nobody_ends_is_as_long_as_one_without_a_condition(clock):
    before = clock.now()
    clock.wait(0.2, until=lambda: False)
    assert timedelta(seconds=0.19) <= clock.now() - before < timedelta(seconds=60)


def test_a_wait_of_nothing_returns(clock):
    before = clock.now()
    clock.wait(0)
    clock.wait(0, until=lambda: False)
    assert clock.now() - before < timedelta(seconds=5)
