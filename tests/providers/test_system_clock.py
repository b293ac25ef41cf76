"""The clock of the machine: aware times, and waits that end when they may."""

from datetime import UTC, timedelta

from providers.clock import SystemClock


def test_the_time_is_aware_and_in_utc() -> None:
    assert SystemClock().now().tzinfo is UTC


def test_a_wait_lasts_as_long_as_asked() -> None:
    clock = SystemClock()
    before = clock.now()
    clock.wait(0.05)
    assert clock.now() - before >= timedelta(seconds=0.045)


def test_a_wait_ends_soon_after_it_may() -> None:
    clock = SystemClock()
    looks: list[int] = []

    def enough() -> bool:
        looks.append(1)
        return len(looks) >= 2

    before = clock.now()
    clock.wait(60, until=enough)
    assert len(looks) == 2
    assert clock.now() - before < timedelta(seconds=5)
    clock.wait(60, until=lambda: True)


def test_no_time_is_no_wait() -> None:
    SystemClock().wait(0)
    SystemClock().wait(-1, until=lambda: False)
