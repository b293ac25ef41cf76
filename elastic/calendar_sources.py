"""A calendar as people describe it -> the days and instants that planning reads. Called on load and once a day after.

Public holidays come from `holidays`, China's make-up workdays from `chinesecalendar`, sessions from
`exchange_calendars` (imported only for a calendar that names an exchange: slow). Where packaged data ends, the rest is
estimated (statutory holidays; a session each weekday) and `known_until` says from when on.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from elastic.calendar_exchanges import Sessions, exchange_sessions
from elastic.calendar_windows import minus, parse_days, parse_hours, parse_window, span_of, union
from elastic.planning.policy import CalendarSpec, OfficeCalendar, TradingCalendar
from forecast.calendar import Calendar, DayType, Span

DAY = timedelta(days=1)
# Five weeks each way: the forecast's profile of four weeks and a week to spare; resolving is repeated daily.
AROUND = timedelta(days=35)
FIRST_CHINESE_YEAR = 2004  # chinesecalendar's data begins here


@dataclass(frozen=True, slots=True, kw_only=True)
class CountryDays:
    """Public holidays and make-up workdays of a country; `known_until` is date.max where a rule gives every year."""

    off: frozenset[date]
    make_up: frozenset[date]
    known_until: date


def resolve_calendars(
    specs: Mapping[str, CalendarSpec], *, at: datetime, since: datetime | None = None, until: datetime | None = None
) -> dict[str, Calendar]:
    """Every calendar from five weeks before `at` to five weeks after it; from `since` and to `until` where given."""
    begin, end = min(at, since or at) - AROUND, max(at, until or at) + AROUND
    return {
        name: resolve_calendar(name, spec, first=_local(begin, spec), last=_local(end, spec))
        for name, spec in specs.items()
    }


def resolve_calendar(name: str, spec: CalendarSpec, *, first: date, last: date) -> Calendar:
    """Day types and opening spans of the local days `first` to `last`.

    Raises ValueError or LookupError for names and windows that `policy_file` would have complained about.
    """
    zone = ZoneInfo(spec.time_zone)
    # The day before: its windows may pass midnight.
    days = [first + DAY * step for step in range(-1, (last - first).days + 1)]
    country = country_days(spec.office.country if spec.office else None, days[0], days[-1])
    sessions = _sessions_of(spec, country, days[0], days[-1])
    types = {day: _day_type(day, spec, country, sessions) for day in days}
    opened = [
        *_office_spans(spec, country, days, zone),
        *_trading_spans(spec, sessions),
        *_window_spans(spec.allow, types, zone, allowing=True),
    ]
    closed = list(_window_spans(spec.forbid, types, zone, allowing=False))
    return Calendar(
        name=name,
        zone=spec.time_zone,
        day_types={day: kind for day, kind in types.items() if day >= first},
        spans=tuple(minus(opened, closed) if closed else union(opened)),
        known_until=min(_vouched(spec.office, country.known_until), _vouched(spec.trading, sessions.known_until)),
    )


def sources_at(spec: CalendarSpec, at: datetime) -> tuple[str, ...]:
    """Which parts of a calendar hold at an instant: `office 09:00-18:00`, `trading XNYS 09:30-13:00`, `allow ...`."""
    zone, today = ZoneInfo(spec.time_zone), _local(at, spec)
    days = [today + DAY * step for step in (-1, 0, 1)]
    country = country_days(spec.office.country if spec.office else None, days[0], days[-1])
    sessions = _sessions_of(spec, country, days[0], days[-1])
    types = {day: _day_type(day, spec, country, sessions) for day in days}
    named: list[tuple[str, Iterable[Span]]] = [("office", _office_spans(spec, country, days, zone))]
    if spec.trading is not None:
        named.append((f"trading {spec.trading.exchange}", _trading_spans(spec, sessions)))
    named += [(f"allow {text}", _window_spans((text,), types, zone, allowing=True)) for text in spec.allow]
    named += [(f"forbid {text}", _window_spans((text,), types, zone, allowing=False)) for text in spec.forbid]
    held = []
    for name, spans in named:
        for start, end in spans:
            if start <= at < end:
                hours = f" {start.astimezone(zone):%H:%M}-{end.astimezone(zone):%H:%M}"
                held.append(name if name.startswith(("allow", "forbid")) else name + hours)
    return tuple(held)


def country_days(country: str | None, first: date, last: date) -> CountryDays:
    """Days off and make-up workdays from `first` to `last`. `country` is an ISO code, with a subdivision after a dash.

    Raises LookupError for a country that `holidays` does not know.
    """
    if country is None:
        return CountryDays(off=frozenset(), make_up=frozenset(), known_until=date.max)
    return _country_days(country.upper(), first.year, last.year)


@lru_cache(maxsize=64)
def _country_days(country: str, first_year: int, last_year: int) -> CountryDays:
    import holidays

    code, _, subdivision = country.partition("-")
    years = range(first_year, last_year + 1)
    try:
        known = holidays.country_holidays(code, subdiv=subdivision or None, years=years)
    except NotImplementedError as unknown:
        raise LookupError(str(unknown)) from unknown
    off, make_up = set(known), set(getattr(known, "weekend_workdays", ()))
    until = date.max if known.end_year >= 2100 else date(known.end_year, 12, 31)
    if code == "CN":
        for year in years:
            if _chinese_year_is_known(year):
                off = {day for day in off if day.year != year} | set(_chinese_days(year, off=True))
                make_up = {day for day in make_up if day.year != year} | set(_chinese_days(year, off=False))
        until = _chinese_known_until(last_year)
    return CountryDays(off=frozenset(off), make_up=frozenset(make_up), known_until=until)


def _chinese_days(year: int, *, off: bool) -> Iterator[date]:
    """Days of a year off on weekdays, or worked on weekends."""
    import chinese_calendar

    day = date(year, 1, 1)
    while day.year == year:
        weekend = day.weekday() >= 5
        works = chinese_calendar.is_workday(day)
        if (off and not weekend and not works) or (not off and weekend and works):
            yield day
        day += DAY


def _chinese_year_is_known(year: int) -> bool:
    import chinese_calendar

    try:
        chinese_calendar.is_workday(date(year, 12, 31))
    except NotImplementedError:
        return False
    return True


def _chinese_known_until(last_year: int) -> date:
    """The end of the packaged data. The State Council announces each year's days in the autumn before."""
    known = [year for year in range(FIRST_CHINESE_YEAR, last_year + 2) if _chinese_year_is_known(year)]
    if not known:
        return date(FIRST_CHINESE_YEAR - 1, 12, 31)
    return date.max if known[-1] > last_year else date(known[-1], 12, 31)


def _vouched(part: OfficeCalendar | TradingCalendar | None, known_until: date) -> date:
    """The end of the packaged data, or the later date up to which the policy's own lists fill it."""
    if part is None or part.complete_until is None:
        return known_until
    return max(known_until, date.fromisoformat(part.complete_until))


def _sessions_of(spec: CalendarSpec, country: CountryDays, first: date, last: date) -> Sessions:
    if spec.trading is None:
        return Sessions()
    known = exchange_sessions(spec.trading.exchange, first, last)
    closed = {date.fromisoformat(day) for day in (*spec.trading.closed, *spec.holidays)}
    # An estimated session is a guess: the office's public holidays know better.
    closed |= {day for day in country.off if day > known.known_until}
    return Sessions(
        by_day={day: session for day, session in known.by_day.items() if day not in closed},
        known_until=known.known_until,
    )


def _day_type(day: date, spec: CalendarSpec, country: CountryDays, sessions: Sessions) -> DayType:
    """What a day is: a session outranks the office, the policy's own holidays outrank both."""
    if day.isoformat() in spec.holidays:
        return DayType.HOLIDAY
    session = sessions.by_day.get(day)
    if session is not None:
        return DayType.HALF if session.half else DayType.TRADING
    if spec.office is not None:
        return _office_day_type(day, spec.office, country)
    if day.weekday() >= 5:
        return DayType.WEEKEND
    return DayType.WORKDAY if spec.trading is None else DayType.HOLIDAY


def _office_day_type(day: date, office: OfficeCalendar, country: CountryDays) -> DayType:
    text, works = day.isoformat(), day.weekday() in parse_days(office.days)[0]
    if text in office.holidays:
        return DayType.HOLIDAY
    if text in office.half_days:
        return DayType.HALF
    if text in office.workdays or day in country.make_up:
        return DayType.MAKE_UP if not works or day in country.off else DayType.WORKDAY
    if not works:
        return DayType.WEEKEND
    return DayType.HOLIDAY if day in country.off else DayType.WORKDAY


def _office_spans(spec: CalendarSpec, country: CountryDays, days: Iterable[date], zone: ZoneInfo) -> Iterator[Span]:
    office = spec.office
    if office is None:
        return
    hours = {DayType.WORKDAY: office.hours, DayType.MAKE_UP: office.hours, DayType.HALF: office.half_day_hours}
    for day in days:
        open_hours = hours.get(_office_day_type(day, office, country))
        if open_hours is None or day.isoformat() in spec.holidays:
            continue
        span = span_of(day, *parse_hours(open_hours), zone)
        if span is not None:
            yield span


def _trading_spans(spec: CalendarSpec, sessions: Sessions) -> Iterator[Span]:
    if spec.trading is not None:
        for session in sessions.by_day.values():
            yield from session.spans(spec.trading)


def _window_spans(
    texts: Iterable[str], types: Mapping[date, DayType], zone: ZoneInfo, *, allowing: bool
) -> Iterator[Span]:
    for text in texts:
        window = parse_window(text)
        for day, kind in types.items():
            holds = window.starts_on(day, kind) if allowing else window.forbids_on(day, kind)
            span = span_of(day, window.start_min, window.end_min, zone) if holds else None
            if span is not None:
                yield span


def _local(at: datetime, spec: CalendarSpec) -> date:
    return at.astimezone(ZoneInfo(spec.time_zone)).date()
