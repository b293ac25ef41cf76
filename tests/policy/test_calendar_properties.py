"""Random windows in random zones: spans stay sorted and apart, and agree with a slow evaluation by the wall clock."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from elastic.calendar_sources import resolve_calendar
from elastic.calendar_windows import DAY_MIN, WEEKDAYS
from elastic.planning.policy import CalendarSpec

ZONES = ("UTC", "America/New_York", "Europe/Berlin", "Asia/Shanghai", "Australia/Lord_Howe", "America/St_Johns")
FIRST = date(2026, 10, 12)  # five weeks that hold the autumn changes of Europe and America
DAYS = 35

minutes = st.integers(min_value=0, max_value=DAY_MIN - 1)
hours = st.tuples(minutes, minutes).filter(lambda pair: pair[0] != pair[1])
days = st.sets(st.sampled_from(range(7)), min_size=1)
windows = st.lists(st.tuples(hours, days), max_size=4)


def text_of(window: tuple[tuple[int, int], set[int]]) -> str:
    (start, end), weekdays = window
    named = ",".join(WEEKDAYS[day] for day in sorted(weekdays))
    return f"{start // 60:02d}:{start % 60:02d}-{end // 60:02d}:{end % 60:02d} {named}"


def holds(window: tuple[tuple[int, int], set[int]], wall: datetime) -> bool:
    """By the wall clock alone: today's window, or yesterday's that passed midnight."""
    (start, end), weekdays = window
    minute, today = wall.hour * 60 + wall.minute, wall.weekday()
    if start < end:
        return today in weekdays and start <= minute < end
    return (today in weekdays and minute >= start) or ((today - 1) % 7 in weekdays and minute < end)


def near_a_change(at: datetime, zone: ZoneInfo) -> bool:
    """Whether the clocks change within a day: there a wall time may be missing or meant twice."""
    offsets = {(at + timedelta(hours=h)).astimezone(zone).utcoffset() for h in (-26, 0, 26)}
    return len(offsets) > 1


@settings(max_examples=60, deadline=None)
@given(
    zone=st.sampled_from(ZONES),
    allow=windows.filter(bool),
    forbid=windows,
    asked=st.lists(st.integers(min_value=0, max_value=DAYS * DAY_MIN - 1), min_size=1, max_size=40),
)
def test_a_resolved_calendar_agrees_with_the_wall_clock(
    zone: str,
    allow: list[tuple[tuple[int, int], set[int]]],
    forbid: list[tuple[tuple[int, int], set[int]]],
    asked: list[int],
) -> None:
    spec = CalendarSpec(
        time_zone=zone, allow=tuple(text_of(w) for w in allow), forbid=tuple(text_of(w) for w in forbid)
    )
    calendar = resolve_calendar("random", spec, first=FIRST, last=FIRST + timedelta(days=DAYS))
    edges = [edge for span in calendar.spans for edge in span]
    assert all(before < after for before, after in pairwise(edges))
    place = ZoneInfo(zone)
    midnight = datetime.combine(FIRST, datetime.min.time(), tzinfo=place).astimezone(UTC)
    for minute in asked:
        at = midnight + timedelta(minutes=minute)
        if near_a_change(at, place):
            continue
        wall = at.astimezone(place)
        expected = any(holds(w, wall) for w in allow) and not any(holds(w, wall) for w in forbid)
        assert calendar.is_open(at) is expected, (wall, spec)


@settings(max_examples=40, deadline=None)
@given(zone=st.sampled_from(ZONES), allow=windows.filter(bool), minute=st.integers(0, DAYS * DAY_MIN - 1))
def test_the_next_change_is_where_the_answer_changes_first(
    zone: str, allow: list[tuple[tuple[int, int], set[int]]], minute: int
) -> None:
    spec = CalendarSpec(time_zone=zone, allow=tuple(text_of(w) for w in allow))
    calendar = resolve_calendar("random", spec, first=FIRST, last=FIRST + timedelta(days=DAYS))
    at = datetime.combine(FIRST, datetime.min.time(), tzinfo=UTC) + timedelta(minutes=minute)
    change = calendar.next_change(at)
    if change is None:
        assert all(end <= at for _, end in calendar.spans)
        return
    assert change > at
    assert calendar.is_open(change) is not calendar.is_open(at)
    assert calendar.is_open(change - timedelta(microseconds=1)) is calendar.is_open(at)
    assert [edge for edge, _ in calendar.changes(at, change)] == [change]
