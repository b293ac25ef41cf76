"""Day types and opening hours of a calendar as plain data. Pure: days come resolved from `elastic.calendar_sources`.

Planning asks whether a window is open; forecasters ask what type of day it is.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from zoneinfo import ZoneInfo

Span = tuple[datetime, datetime]  # [start, end), aware


class DayType(StrEnum):
    """What kind of day it is for the people of a calendar."""

    TRADING = "trading"
    HALF = "half"
    MAKE_UP = "make-up workday"
    WORKDAY = "workday"
    HOLIDAY = "holiday"
    WEEKEND = "weekend"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """Opening spans in UTC, sorted and apart, and the type of each local day. `known_until` ends the data.

    Raises ValueError when the spans are empty in themselves, out of order or touch: look-ups rest on that.
    """

    name: str
    zone: str
    day_types: Mapping[date, DayType] = field(default_factory=dict)
    spans: tuple[Span, ...] = ()
    known_until: date = date.max

    def __post_init__(self) -> None:
        edges = [edge for span in self.spans for edge in span]
        for before, after in pairwise(edges):
            if before >= after:
                raise ValueError(f"calendar {self.name}: spans not sorted and apart at {after.isoformat()}")

    def is_open(self, at: datetime) -> bool:
        """Whether `at` (aware) lies in a span [start, end)."""
        number = bisect_right(self.spans, at, key=_start)
        return number > 0 and at < self.spans[number - 1][1]

    def next_change(self, at: datetime) -> datetime | None:
        """The first span edge after `at`, None when no more are known."""
        number = bisect_right(self.spans, at, key=_start)
        if number > 0 and at < self.spans[number - 1][1]:
            return self.spans[number - 1][1]
        return self.spans[number][0] if number < len(self.spans) else None

    def changes(self, since: datetime, until: datetime) -> tuple[tuple[datetime, bool], ...]:
        """Edges in (since, until] with whether the calendar opens there.

        Ask from the time of the last look and no edge is missed or met twice, however late the look is (F017).
        """
        edges = ((edge, opens) for span in self.spans for edge, opens in zip(span, (True, False), strict=True))
        return tuple((edge, opens) for edge, opens in edges if since < edge <= until)

    def day_type(self, day: date) -> DayType:
        """The type of a local date; days without data are told by weekday."""
        known = self.day_types.get(day)
        if known is not None:
            return known
        return DayType.WEEKEND if day.weekday() >= 5 else DayType.WORKDAY

    def local_day(self, at: datetime) -> date:
        """The calendar's own date at an instant."""
        return at.astimezone(ZoneInfo(self.zone)).date()

    def ends_within(self, at: datetime, *, days: int) -> bool:
        """Whether the calendar's data ends before `at` plus `days`."""
        return self.known_until != date.max and self.local_day(at) + timedelta(days=days) > self.known_until


def _start(span: Span) -> datetime:
    return span[0]
