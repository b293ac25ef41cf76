"""What can be wrong with calendars: zones, countries, exchanges, windows, dates, data that ends too soon."""

from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from itertools import combinations
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from elastic.calendar_exchanges import exchange_sessions
from elastic.calendar_sources import AROUND, country_days, resolve_calendar
from elastic.calendar_windows import DAY_MIN, Window, parse_days, parse_hours, parse_window
from elastic.planning.policy import CalendarSpec, PolicyDocument
from elastic.policy_findings import Finding, Severity
from elastic.policy_words import nearest
from elastic.policy_yaml import Loc
from forecast.calendar import Calendar

HORIZON_DAYS = 2  # forecasts reach 48 hours: a calendar must
WARNING_DAYS = 45  # time enough to update a package, or to list next year's days

# Abbreviations mean several places, or one place without its change of clocks.
_ABBREVIATIONS = {
    "EST": "America/New_York",
    "EDT": "America/New_York",
    "EST5EDT": "America/New_York",
    "CST": "America/Chicago or Asia/Shanghai",
    "CDT": "America/Chicago",
    "CST6CDT": "America/Chicago",
    "MST": "America/Denver or America/Phoenix",
    "MST7MDT": "America/Denver",
    "PST": "America/Los_Angeles",
    "PDT": "America/Los_Angeles",
    "PST8PDT": "America/Los_Angeles",
    "HST": "Pacific/Honolulu",
    "GMT": "UTC or Europe/London",
    "BST": "Europe/London",
    "WET": "Europe/Lisbon",
    "CET": "Europe/Paris",
    "MET": "Europe/Paris",
    "CEST": "Europe/Paris",
    "EET": "Europe/Helsinki",
    "MSK": "Europe/Moscow",
    "IST": "Asia/Kolkata, Europe/Dublin or Asia/Jerusalem",
    "SGT": "Asia/Singapore",
    "HKT": "Asia/Hong_Kong",
    "JST": "Asia/Tokyo",
    "KST": "Asia/Seoul",
    "AEST": "Australia/Sydney",
}


def zone_words(zone: str) -> tuple[str, str] | None:
    """(message, hint) for a time zone that is unknown or means several places; None for a good one."""
    if zone == "UTC":
        return None
    if zone.upper() in _ABBREVIATIONS:
        return f"{zone!r} is no place", f"write {_ABBREVIATIONS[zone.upper()]}"
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return f"no time zone {zone!r}", _zone_hint(zone)
    return None if "/" in zone else (f"{zone!r} is no place", "write Area/City, such as Europe/London, or UTC")


def _zone_hint(zone: str) -> str:
    known = sorted(name for name in available_timezones() if "/" in name)
    hint = nearest(zone.replace(" ", "_"), known)
    if hint.startswith("did"):
        return hint
    cities = {name.rpartition("/")[2].lower(): name for name in known}
    city = cities.get(zone.rpartition("/")[2].replace(" ", "_").lower())
    return f"did you mean {city}?" if city else "write Area/City, such as Europe/London, or UTC"


def calendar_findings(document: PolicyDocument, *, at: datetime) -> Iterator[Finding]:
    """Everything wrong with the calendars of a policy."""
    used = {h.calendar for p in document.pools.values() for h in p.headroom}
    used |= {name for team in document.teams.values() for name in team.calendars}
    # A name that is not there may be a misspelt one that is: then nothing is said of calendars nobody follows.
    misspelt = any(name is not None and name not in document.calendars for name in used)
    readers: list[Loc] = [("teams", team, "calendars") for team in document.teams]
    readers += [("pools", pool, "headroom") for pool in document.pools]
    for name, spec in document.calendars.items():
        here: Loc = ("calendars", name)
        troubles = list(_spec_findings(here, spec, at))
        yield from troubles
        if not troubles:
            yield from _resolved_findings(here, spec, at)
        if name not in used and not misspelt:
            yield Finding(
                loc=here,
                uses=(("teams",), ("pools",), *readers),
                of_key=True,
                severity=Severity.WARNING,
                message="no team and no headroom follows this calendar",
                hint="name it under a team's calendars, or delete it",
            )


def _spec_findings(here: Loc, spec: CalendarSpec, at: datetime) -> Iterator[Finding]:
    if trouble := zone_words(spec.time_zone):
        yield Finding(loc=(*here, "time_zone"), message=trouble[0], hint=trouble[1])
    yield from _dates(here, "holidays", spec.holidays)
    for key in ("allow", "forbid"):
        yield from _texts((*here, key), getattr(spec, key), parse_window)
    yield from _office_findings((*here, "office"), spec, at)
    yield from _trading_findings((*here, "trading"), spec, at)
    yield from _opposite_wishes(here, spec)
    if spec.office is None and spec.trading is None and not spec.allow:
        yield Finding(
            loc=here,
            uses=tuple((*here, key) for key in ("office", "trading", "allow")),
            of_key=True,
            message="never open: no office, no trading, no `allow`",
            hint='give one of them; always open is allow: ["00:00-24:00"]',
        )


def _office_findings(here: Loc, spec: CalendarSpec, at: datetime) -> Iterator[Finding]:
    office = spec.office
    if office is None:
        return
    yield from _texts((*here, "hours"), (office.hours,), parse_hours, one=True)
    yield from _texts((*here, "days"), (office.days,), _plain_days, one=True)
    if office.half_day_hours is not None:
        yield from _texts((*here, "half_day_hours"), (office.half_day_hours,), parse_hours, one=True)
    elif office.half_days:
        yield Finding(
            loc=(*here, "half_days"),
            uses=((*here, "half_day_hours"),),
            message="half days without hours",
            hint="add `half_day_hours: 09:00-13:00`",
        )
    for key in ("half_days", "holidays", "workdays"):
        yield from _dates(here, key, getattr(office, key))
    yield from _date(here, "complete_until", office.complete_until)
    for one, other in combinations(("half_days", "holidays", "workdays"), 2):
        for day in sorted(set(getattr(office, one)) & set(getattr(office, other))):
            yield Finding(
                loc=(*here, other), message=f"{day} is among {one} as well", hint="a day is one kind of day; keep one"
            )
    try:
        country_days(office.country, at.date(), at.date())
    except LookupError:
        import holidays

        code, _, part = (office.country or "").partition("-")
        regions = holidays.list_supported_countries().get(code.upper())
        hint = nearest(part, list(regions)) if regions and part else "an ISO code such as US, CN, DE or DE-BY"
        yield Finding(loc=(*here, "country"), message=f"no public holidays of {office.country!r}", hint=hint)


def _plain_days(text: str) -> None:
    weekdays, on_work, on_holidays = parse_days(text)
    if on_work or on_holidays or not weekdays:
        raise ValueError(f"{text!r}: an office's days are weekdays; write Mon-Fri or Mon,Wed")


def _trading_findings(here: Loc, spec: CalendarSpec, at: datetime) -> Iterator[Finding]:
    if spec.trading is None:
        return
    yield from _dates(here, "closed", spec.trading.closed)
    yield from _date(here, "complete_until", spec.trading.complete_until)
    try:
        exchange_sessions(spec.trading.exchange, (at - AROUND).date(), (at + AROUND).date())
    except LookupError as unknown:
        import exchange_calendars

        names = exchange_calendars.get_calendar_names(include_aliases=True)
        hint = nearest(spec.trading.exchange, [name for name in names if name != spec.trading.exchange])
        hint = hint if hint.startswith("did") else "a market identifier code such as XNYS, XSHG, XLON"
        if spec.trading.exchange in names:
            hint = "write its hours as an office, and its holidays as a list"
        yield Finding(loc=(*here, "exchange"), message=str(unknown), hint=hint)


def _texts(loc: Loc, texts: tuple[str, ...], parse: Callable[[str], object], *, one: bool = False) -> Iterator[Finding]:
    for number, text in enumerate(texts):
        try:
            parse(text)
        except ValueError as error:
            message, _, hint = str(error).partition("; ")
            yield Finding(loc=loc if one else (*loc, number), message=message, hint=hint)


def _dates(here: Loc, key: str, texts: tuple[str, ...]) -> Iterator[Finding]:
    for number, text in enumerate(texts):
        yield from _date((*here, key), number, text)


def _date(here: Loc, key: str | int, text: str | None) -> Iterator[Finding]:
    try:
        if text is not None and date.fromisoformat(text).isoformat() != text:
            raise ValueError
    except ValueError:
        yield Finding(loc=(*here, key), message=f"{text!r} is no date", hint="write YYYY-MM-DD, such as 2026-12-25")


def _opposite_wishes(here: Loc, spec: CalendarSpec) -> Iterator[Finding]:
    """An `allow` and a `forbid` window that meet: which of them is meant can't be told."""
    allowed, forbidden = _windows(spec.allow), _windows(spec.forbid)
    for number, forbid in forbidden.items():
        for other, allow in allowed.items():
            minute = _first_meeting(allow, forbid)
            if minute is None:
                continue
            day, rest = divmod(minute, DAY_MIN)
            when = f"{('Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun')[day]} {rest // 60:02d}:{rest % 60:02d}"
            yield Finding(
                loc=(*here, "forbid", number),
                uses=((*here, "allow"),),
                message=f"forbids what `allow` {spec.allow[other]!r} wishes, first on {when}",
                hint="make the windows end where the other begins",
            )


def _windows(texts: tuple[str, ...]) -> dict[int, Window]:
    windows = {}
    for number, text in enumerate(texts):
        try:
            windows[number] = parse_window(text)
        except ValueError:
            continue  # it has a complaint of its own
    return windows


def _first_meeting(one: Window, other: Window) -> int | None:
    """The first minute of a plain week in which both hold; windows on Work days are taken as Mon-Fri."""
    week = 7 * DAY_MIN
    meetings = []
    for a in _weekly(one):
        for b in _weekly(other):
            for shift in (-week, 0, week):
                start, end = max(a[0], b[0] + shift), min(a[1], b[1] + shift)
                if start < end:
                    meetings.append(start % week)
    return min(meetings, default=None)


def _weekly(window: Window) -> list[tuple[int, int]]:
    days = window.weekdays | (frozenset(range(5)) if window.on_work else frozenset())
    return [(day * DAY_MIN + window.start_min, day * DAY_MIN + window.end_min) for day in sorted(days)]


def _resolved_findings(here: Loc, spec: CalendarSpec, at: datetime) -> Iterator[Finding]:
    first, last = ((at + step).astimezone(ZoneInfo(spec.time_zone)).date() for step in (-timedelta(days=1), AROUND))
    calendar = resolve_calendar(str(here[-1]), spec, first=first, last=max(last, first + timedelta(days=WARNING_DAYS)))
    if not calendar.spans:
        yield Finding(loc=here, of_key=True, message="never open in the next five weeks", hint="check days and forbid")
    for days, severity in ((HORIZON_DAYS, Severity.ERROR), (WARNING_DAYS, Severity.WARNING)):
        if calendar.ends_within(at, days=days):
            yield _ends_soon(here, spec, calendar, severity)
            return


def _ends_soon(here: Loc, spec: CalendarSpec, calendar: Calendar, severity: Severity) -> Finding:
    part = "trading" if spec.trading is not None and spec.office is None else "office"
    lists = "closed" if part == "trading" else "holidays and workdays"
    words = "before the forecast's horizon" if severity is Severity.ERROR else "soon; later days are estimated"
    return Finding(
        loc=here,
        of_key=True,
        data_ends=True,
        severity=severity,
        message=f"calendar data ends on {calendar.known_until}, {words}",
        hint=f"update the calendar packages, or list the days under {part}.{lists} and set {part}.complete_until",
    )
