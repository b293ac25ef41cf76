"""The calendar as planning and forecasting see it: spans, edges, day types."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest

from forecast.calendar import Calendar, DayType

MONDAY = datetime(2026, 11, 30, tzinfo=UTC)


def hours(start: float, end: float) -> tuple[datetime, datetime]:
    return MONDAY + timedelta(hours=start), MONDAY + timedelta(hours=end)


DESK = Calendar(name="desk", zone="Asia/Tokyo", spans=(hours(9, 12), hours(13, 18), hours(33, 42)))


@pytest.mark.parametrize(
    ("hour", "is_open", "next_hour"),
    [
        (0, False, 9),
        (9, True, 12),
        (11.99, True, 12),
        (12, False, 13),
        (13, True, 18),
        (20, False, 33),
        (42, False, None),
    ],
)
def test_a_span_is_open_from_its_start_and_closed_at_its_end(
    hour: float, is_open: bool, next_hour: float | None
) -> None:
    at = MONDAY + timedelta(hours=hour)
    assert DESK.is_open(at) is is_open
    assert DESK.next_change(at) == (None if next_hour is None else MONDAY + timedelta(hours=next_hour))


def test_a_calendar_without_spans_is_never_open() -> None:
    empty = Calendar(name="never", zone="UTC")
    assert not empty.is_open(MONDAY)
    assert empty.next_change(MONDAY) is None
    assert empty.changes(MONDAY, MONDAY + timedelta(days=400)) == ()


def test_each_edge_is_told_once_whatever_the_ticks() -> None:
    """F017: also by a tick that comes a day late."""
    ticks = [MONDAY, MONDAY + timedelta(hours=9), MONDAY + timedelta(hours=12, minutes=5), MONDAY + timedelta(hours=60)]
    told = [edge for before, now in pairwise(ticks) for edge in DESK.changes(before, now)]
    assert [(edge - MONDAY).total_seconds() / 3600 for edge, _ in told] == [9, 12, 13, 18, 33, 42]
    assert [opens for _, opens in told] == [True, False] * 3


@pytest.mark.parametrize(
    "spans", [(hours(9, 9),), (hours(9, 8),), (hours(9, 12), hours(12, 13)), (hours(5, 6), hours(1, 2))]
)
def test_spans_that_are_empty_touching_or_out_of_order_are_refused(
    spans: tuple[tuple[datetime, datetime], ...],
) -> None:
    with pytest.raises(ValueError, match="sorted and apart"):
        Calendar(name="bad", zone="UTC", spans=spans)


def test_days_without_data_are_told_by_weekday() -> None:
    calendar = Calendar(name="c", zone="UTC", day_types={date(2026, 12, 1): DayType.HOLIDAY})
    assert calendar.day_type(date(2026, 12, 1)) is DayType.HOLIDAY
    assert calendar.day_type(date(2026, 12, 2)) is DayType.WORKDAY
    assert calendar.day_type(date(2026, 12, 5)) is DayType.WEEKEND


def test_the_local_day_is_the_calendars_own() -> None:
    assert DESK.local_day(MONDAY + timedelta(hours=16)) == date(2026, 12, 1)


def test_the_end_of_the_data_is_seen_from_the_local_day() -> None:
    calendar = Calendar(name="c", zone="UTC", known_until=date(2026, 12, 31))
    assert not calendar.ends_within(datetime(2026, 12, 1, tzinfo=UTC), days=30)
    assert calendar.ends_within(datetime(2026, 12, 2, tzinfo=UTC), days=30)
    assert not Calendar(name="rules", zone="UTC").ends_within(datetime(2026, 12, 2, tzinfo=UTC), days=40_000)
