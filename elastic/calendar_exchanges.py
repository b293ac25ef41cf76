"""Trading sessions by exchange, from `exchange_calendars`; past its data estimated. Used by `calendar_sources`."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from elastic.planning.policy import TradingCalendar
from forecast.calendar import Span

DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One trading day in UTC; `pause` is the lunch break."""

    opens: datetime
    closes: datetime
    pause: Span | None
    half: bool

    def spans(self, trading: TradingCalendar) -> list[Span]:
        """When the desk is at work for it: widened at its outer edges, open while the lunch break is not."""
        opens, closes = (
            self.opens - timedelta(seconds=trading.before_s),
            self.closes + timedelta(seconds=trading.after_s),
        )
        if self.pause is None:
            return [(opens, closes)]
        return [(opens, self.pause[0]), (self.pause[1], closes)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """Sessions by local date of an exchange."""

    by_day: Mapping[date, Session] = field(default_factory=dict)
    known_until: date = date.max


def exchange_sessions(exchange: str, first: date, last: date) -> Sessions:
    """Sessions from `first` to `last`; past the packaged data every weekday is taken for one with the last known hours.

    Raises LookupError for an exchange that `exchange_calendars` does not know.
    """
    # Whole months: the daily look then finds the answer of yesterday.
    begin = first.replace(day=1)
    end = (last.replace(day=1) + timedelta(days=32)).replace(day=1) - DAY
    return _exchange_sessions(exchange, begin, end)


@lru_cache(maxsize=32)
def _exchange_sessions(exchange: str, first: date, last: date) -> Sessions:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package's own use of pandas
        import exchange_calendars
        from exchange_calendars import calendar_utils
        from exchange_calendars.errors import InvalidCalendarName

        try:
            name = exchange_calendars.resolve_alias(exchange)
            kind = calendar_utils._default_calendar_factories[name]
        except (InvalidCalendarName, KeyError) as unknown:
            raise LookupError(f"no exchange {exchange!r}") from unknown
        earliest, latest = kind.bound_min(), kind.bound_max()
        known_from = earliest.date() if earliest is not None else date.min
        known_until = latest.date() if latest is not None else date.max
        if last < known_from:
            return Sessions(known_until=known_until)
        # Past the data's end its last two months are still read, as the model of the sessions to come.
        begin = max(known_from, min(first, known_until - 60 * DAY))
        try:
            source = exchange_calendars.get_calendar(name, start=str(begin), end=str(min(last, known_until)))
        except (ValueError, NotImplementedError) as unusable:
            # A few of the package's calendars fail within pandas, or before their own first years.
            raise LookupError(f"no sessions of exchange {exchange!r} can be read for {first} to {last}") from unusable
        zone = ZoneInfo(str(source.tz))
        early = {stamp.date() for stamp in source.early_closes}
        schedule = source.schedule
        rows = [
            (row.Index.date(), row.open, row.close, row.break_start, row.break_end) for row in schedule.itertuples()
        ]
    by_day = {}
    for day, opens, closes, break_start, break_end in rows:
        pause = None if break_start is None or break_start != break_start else (_utc(break_start), _utc(break_end))
        by_day[day] = Session(opens=_utc(opens), closes=_utc(closes), pause=pause, half=day in early)
    by_day.update(_estimated(by_day, zone, known_until, last))
    return Sessions(by_day={d: s for d, s in by_day.items() if first <= d <= last}, known_until=known_until)


def _estimated(known: Mapping[date, Session], zone: ZoneInfo, known_until: date, last: date) -> dict[date, Session]:
    """A session with the last whole one's hours on every weekday after the data's end."""
    whole = [session for session in known.values() if not session.half]
    if known_until >= last or not whole:
        return {}
    model, made = whole[-1], {}

    def on(day: date, at: datetime) -> datetime:
        clock: time = at.astimezone(zone).time()
        return datetime.combine(day, clock, tzinfo=zone).astimezone(UTC)

    day = known_until + DAY
    while day <= last:
        if day.weekday() < 5:
            pause = (on(day, model.pause[0]), on(day, model.pause[1])) if model.pause else None
            made[day] = Session(opens=on(day, model.opens), closes=on(day, model.closes), pause=pause, half=False)
        day += DAY
    return made


def _utc(stamp: datetime) -> datetime:
    return datetime.fromtimestamp(stamp.timestamp(), UTC)
