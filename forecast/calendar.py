"""Day types and opening hours of a calendar as plain data. Pure: the days come resolved from `elastic.calendar_sources`.

Planning asks whether a window is open; forecasters ask what type of day it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo


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
    """Opening spans in UTC, sorted and apart, and the type of each local day. `known_until` ends the data."""

    name: str
    zone: str
    day_types: Mapping[date, DayType] = field(default_factory=dict)
    spans: tuple[tuple[datetime, datetime], ...] = ()
    known_until: date = date.max

    def is_open(self, at: datetime) -> bool:
        """Whether `at` (aware) lies in a span [start, end)."""
        return any(start <= at < end for start, end in self.spans)

    def next_change(self, at: datetime) -> datetime | None:
        """The first span edge after `at`, None when no more are known."""
        edges = [edge for span in self.spans for edge in span if edge > at]
        return min(edges, default=None)

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
