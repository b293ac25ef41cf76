"""Windows of local wall time, `HH:MM-HH:MM DAYS`: their grammar and the instants they mean. Pure.

A window that passes midnight belongs to the day it starts on. Used by `calendar_sources` and by the policy checks.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from forecast.calendar import DayType, Span

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
DAY_MIN = 24 * 60
_HOURS = re.compile(r"^(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})$")
_DAYS_HINT = "days are Mon to Sun, as Mon-Fri or Mon,Wed; Work (make-up workdays too); Hol (holidays)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A stretch of wall time and the days it starts on. `end_min` is past 1440 when it ends on the next day."""

    start_min: int
    end_min: int
    weekdays: frozenset[int] = frozenset(range(7))
    on_work: bool = False
    on_holidays: bool = False

    def starts_on(self, day: date, day_type: DayType) -> bool:
        """Whether an allowing window starts on a day: its weekdays leave holidays out."""
        if day_type is DayType.HOLIDAY:
            return self.on_holidays
        return day.weekday() in self.weekdays or (self.on_work and day_type is not DayType.WEEKEND)

    def forbids_on(self, day: date, day_type: DayType) -> bool:
        """Whether a forbidding window starts on a day: its weekdays hold on holidays as well."""
        return day.weekday() in self.weekdays or self.starts_on(day, day_type)


def parse_hours(text: str) -> tuple[int, int]:
    """`HH:MM-HH:MM` -> minutes from midnight, the end past 1440 when it lies on the next day. Raises ValueError."""
    match = _HOURS.match(text.strip())
    if not match:
        raise ValueError(f"{text!r} are no hours; write HH:MM-HH:MM, such as 09:00-18:00")
    start_h, start_m, end_h, end_m = (int(part) for part in match.groups())
    start, end = start_h * 60 + start_m, end_h * 60 + end_m
    if start_h > 23 or start_m > 59 or end_m > 59 or end > DAY_MIN:
        raise ValueError(f"{text!r}: there is no such time of day; hours go from 00:00 to 24:00")
    if start == end:
        raise ValueError(f"{text!r} starts when it ends; write 00:00-24:00 for a whole day")
    return start, end if end > start else end + DAY_MIN


def parse_days(text: str) -> tuple[frozenset[int], bool, bool]:
    """`Mon-Fri`, `Mon,Wed`, `Fri-Mon`, `Work`, `Hol` -> (weekdays with Monday 0, Work named, Hol named)."""
    weekdays: set[int] = set()
    words = {word.strip().lower() for word in text.split(",")}
    for word in words - {"work", "hol"}:
        first, dash, last = (part.strip() for part in word.partition("-"))
        start, end = _weekday(first, text), _weekday(last, text) if dash else _weekday(first, text)
        weekdays |= {(start + step) % 7 for step in range((end - start) % 7 + 1)}
    return frozenset(weekdays), "work" in words, "hol" in words


def parse_window(text: str) -> Window:
    """`HH:MM-HH:MM DAYS`; without DAYS it holds every day. Raises ValueError with what to write."""
    hours, _, days = text.strip().partition(" ")
    if days.strip().startswith("-") or hours.endswith("-"):
        raise ValueError(f"{text!r}: write the hours without spaces, HH:MM-HH:MM, then the days")
    start, end = parse_hours(hours)
    if not days.strip():
        return Window(start_min=start, end_min=end)
    weekdays, on_work, on_holidays = parse_days(days)
    return Window(start_min=start, end_min=end, weekdays=weekdays, on_work=on_work, on_holidays=on_holidays)


def span_of(day: date, start_min: int, end_min: int, zone: ZoneInfo) -> Span | None:
    """The instants in UTC of wall times on a local day; None where a change of clocks leaves nothing.

    A time that the spring change skips is read with the offset before it (RFC 5545, 3.3.5); of a time that the autumn
    change repeats, a start is the first and an end the second, so that no window is shorter than written.
    """
    start, end = instant_of(day, start_min, zone, fold=0), instant_of(day, end_min, zone, fold=1)
    return (start, end) if start < end else None


def instant_of(day: date, minute: int, zone: ZoneInfo, *, fold: int) -> datetime:
    """The instant in UTC of a wall time, given as minutes from the local midnight of `day` (may pass 1440)."""
    days, minute_of_day = divmod(minute, DAY_MIN)
    clock = time(minute_of_day // 60, minute_of_day % 60)
    wall = datetime.combine(day + timedelta(days=days), clock, tzinfo=zone)
    first = wall.astimezone(UTC)
    second = wall.replace(fold=1).astimezone(UTC)
    # Skipped times have second < first; only a repeated time has two instants to choose from.
    return second if fold and second > first else first


def daily_instants(first: date, *, days: int, every_days: int, minute: int, zone: ZoneInfo) -> tuple[datetime, ...]:
    """The instants in UTC of a wall time on each `every_days`-th local day from `first`: one a day, none skipped or
    doubled by a change of clocks (F018)."""
    return tuple(instant_of(first + timedelta(days=step), minute, zone, fold=0) for step in range(0, days, every_days))


def union(spans: Iterable[Span]) -> list[Span]:
    """Sorted, disjoint, not touching spans that cover the same instants."""
    merged: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def minus(spans: Iterable[Span], removed: Iterable[Span]) -> list[Span]:
    """The instants of `spans` that no span of `removed` covers."""
    cuts = union(removed)
    left: list[Span] = []
    first = 0  # cuts before it end before anything still to come
    for start, end in union(spans):
        while first < len(cuts) and cuts[first][1] <= start:
            first += 1
        number = first
        while number < len(cuts) and cuts[number][0] < end:
            cut_start, cut_end = cuts[number]
            if start < cut_start:
                left.append((start, cut_start))
            start, number = max(start, cut_end), number + 1
        if start < end:
            left.append((start, end))
    return left


def hours_in(spans: Iterable[Span], since: datetime, until: datetime) -> float:
    """Hours of disjoint spans within [since, until)."""
    seconds = sum(max(0.0, (min(end, until) - max(start, since)).total_seconds()) for start, end in spans)
    return seconds / 3600


def _weekday(word: str, text: str) -> int:
    short = word[:3].capitalize()
    full = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    if short not in WEEKDAYS or word not in (short.lower(), full[WEEKDAYS.index(short)]):
        raise ValueError(f"{word!r} in {text!r} is no day; {_DAYS_HINT}")
    return WEEKDAYS.index(short)
