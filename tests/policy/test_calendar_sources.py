"""Real calendars: public holidays, make-up workdays, sessions, half days, and where their data ends (F019)."""

from datetime import UTC, date, datetime, time
from zoneinfo import ZoneInfo

import pytest

from elastic.calendar_exchanges import exchange_sessions
from elastic.calendar_sources import (
    country_days,
    resolve_calendar,
    resolve_calendars,
    sources_at,
)
from elastic.planning.policy import CalendarSpec, OfficeCalendar, TradingCalendar
from forecast.calendar import Calendar, DayType

SHANGHAI = ZoneInfo("Asia/Shanghai")
NEW_YORK = ZoneInfo("America/New_York")
MADRID = ZoneInfo("Europe/Madrid")


def resolve(spec: CalendarSpec, first: date, last: date) -> Calendar:
    return resolve_calendar("tested", spec, first=first, last=last)


def spans_on(calendar: Calendar, day: date) -> list[str]:
    zone = ZoneInfo(calendar.zone)
    local = [(s.astimezone(zone), e.astimezone(zone)) for s, e in calendar.spans]
    return [f"{s:%H:%M}-{e:%H:%M}" for s, e in local if s.date() == day]


def test_a_holiday_list_closes_the_windows_that_start_on_it_and_no_other() -> None:
    """F019."""
    windows = ("08:00-18:00 Mon-Fri", "20:00-06:00 Mon-Fri")
    speech = CalendarSpec(time_zone="Europe/Madrid", holidays=("2026-12-25",), allow=windows)
    other = CalendarSpec(time_zone="Europe/Madrid", allow=windows)
    calendars = resolve_calendars({"speech": speech, "other": other}, at=datetime(2026, 12, 20, tzinfo=UTC))
    asked = [datetime(2026, 12, 25, hour, tzinfo=MADRID) for hour in (1, 10, 21)]
    assert [calendars["speech"].is_open(at) for at in asked] == [True, False, False]  # 01:00 began on 24 December
    assert [calendars["other"].is_open(at) for at in asked] == [True, True, True]
    assert calendars["speech"].day_type(date(2026, 12, 25)) is DayType.HOLIDAY
    assert calendars["other"].day_type(date(2026, 12, 25)) is DayType.WORKDAY


def test_a_holiday_is_read_in_the_zone_of_its_team() -> None:
    """F019: in Auckland it is 25 December long before it is in Madrid."""
    spec = CalendarSpec(time_zone="Pacific/Auckland", holidays=("2026-12-25",), allow=("08:00-18:00 Mon-Fri",))
    calendar = resolve(spec, date(2026, 12, 20), date(2026, 12, 31))
    assert not calendar.is_open(datetime(2026, 12, 24, 21, tzinfo=UTC))  # 10:00 on the 25th there
    assert calendar.is_open(datetime(2026, 12, 23, 21, tzinfo=UTC))
    assert calendar.local_day(datetime(2026, 12, 24, 21, tzinfo=UTC)) == date(2026, 12, 25)


def test_2026_10_10_is_a_make_up_workday_in_china_and_no_session_in_shanghai() -> None:
    saturday = date(2026, 10, 10)
    both = CalendarSpec(
        time_zone="Asia/Shanghai",
        office=OfficeCalendar(country="CN", hours="09:00-18:00"),
        trading=TradingCalendar(exchange="XSHG", before_s=3600),
    )
    trading_only = CalendarSpec(time_zone="Asia/Shanghai", trading=TradingCalendar(exchange="XSHG"))
    week = (date(2026, 9, 28), date(2026, 10, 16))
    assert saturday not in exchange_sessions("XSHG", *week).by_day
    desk = resolve(both, *week)
    assert desk.day_type(saturday) is DayType.MAKE_UP
    assert spans_on(desk, saturday) == ["09:00-18:00"]
    assert resolve(trading_only, *week).day_type(saturday) is DayType.WEEKEND
    assert spans_on(resolve(trading_only, *week), saturday) == []
    # An ordinary trading day begins an hour before the open at 09:30 and lasts as long as the office.
    assert desk.day_type(date(2026, 10, 9)) is DayType.TRADING
    assert spans_on(desk, date(2026, 10, 9)) == ["08:30-18:00"]
    # Golden Week.
    assert {desk.day_type(date(2026, 10, day)) for day in (1, 2, 5, 6, 7)} == {DayType.HOLIDAY}
    assert desk.day_type(date(2026, 10, 3)) is DayType.WEEKEND


def test_the_lunch_break_of_shanghai_is_closed_without_an_office() -> None:
    spec = CalendarSpec(time_zone="Asia/Shanghai", trading=TradingCalendar(exchange="XSHG", after_s=1800))
    calendar = resolve(spec, date(2026, 11, 2), date(2026, 11, 6))
    assert spans_on(calendar, date(2026, 11, 3)) == ["09:30-11:30", "13:00-15:30"]


def test_half_days_of_new_york() -> None:
    spec = CalendarSpec(time_zone="America/New_York", trading=TradingCalendar(exchange="XNYS"))
    calendar = resolve(spec, date(2026, 11, 20), date(2026, 12, 31))
    assert calendar.day_type(date(2026, 11, 26)) is DayType.HOLIDAY  # Thanksgiving
    for half in (date(2026, 11, 27), date(2026, 12, 24)):
        assert calendar.day_type(half) is DayType.HALF
        assert spans_on(calendar, half) == ["09:30-13:00"]
    assert spans_on(calendar, date(2026, 12, 23)) == ["09:30-16:00"]


def test_an_office_open_while_the_exchange_is_not_is_a_workday_and_the_reverse_a_trading_day() -> None:
    spec = CalendarSpec(
        time_zone="America/New_York",
        office=OfficeCalendar(country="US"),
        trading=TradingCalendar(exchange="XNYS"),
    )
    calendar = resolve(spec, date(2026, 3, 30), date(2026, 11, 30))
    assert calendar.day_type(date(2026, 4, 3)) is DayType.WORKDAY  # Good Friday
    assert spans_on(calendar, date(2026, 4, 3)) == ["09:00-18:00"]
    assert calendar.day_type(date(2026, 10, 12)) is DayType.TRADING  # Columbus Day
    assert spans_on(calendar, date(2026, 10, 12)) == ["09:30-16:00"]
    assert calendar.day_type(date(2026, 12, 25)) is DayType.WORKDAY  # past what was resolved: told by weekday
    assert calendar.day_type(date(2026, 11, 26)) is DayType.HOLIDAY


def test_the_lists_of_an_office_outrank_its_country() -> None:
    office = OfficeCalendar(
        country="GB",
        half_day_hours="09:00-12:00",
        half_days=("2026-12-24",),
        holidays=("2026-12-29",),
        workdays=("2026-12-28", "2026-12-19"),
    )
    calendar = resolve(CalendarSpec(time_zone="Europe/London", office=office), date(2026, 12, 14), date(2027, 1, 4))
    assert calendar.day_type(date(2026, 12, 24)) is DayType.HALF
    assert spans_on(calendar, date(2026, 12, 24)) == ["09:00-12:00"]
    assert calendar.day_type(date(2026, 12, 25)) is DayType.HOLIDAY
    assert calendar.day_type(date(2026, 12, 28)) is DayType.MAKE_UP  # Boxing Day observed, yet worked
    assert calendar.day_type(date(2026, 12, 29)) is DayType.HOLIDAY
    assert calendar.day_type(date(2026, 12, 19)) is DayType.MAKE_UP  # a Saturday
    assert spans_on(calendar, date(2026, 12, 19)) == ["09:00-18:00"]


def test_a_working_week_may_be_another_than_monday_to_friday() -> None:
    office = OfficeCalendar(country=None, days="Sun-Thu")
    calendar = resolve(CalendarSpec(time_zone="Asia/Dubai", office=office), date(2026, 11, 1), date(2026, 11, 14))
    kinds = [calendar.day_type(date(2026, 11, day)) for day in (5, 6, 7, 8)]  # Thursday to Sunday
    assert kinds == [DayType.WORKDAY, DayType.WEEKEND, DayType.WEEKEND, DayType.WORKDAY]


def test_work_and_hol_windows_follow_the_day_types() -> None:
    spec = CalendarSpec(
        time_zone="Asia/Shanghai",
        office=OfficeCalendar(country="CN", hours="09:00-18:00"),
        allow=("20:00-22:00 Work", "10:00-11:00 Hol"),
    )
    calendar = resolve(spec, date(2026, 9, 28), date(2026, 10, 16))
    assert spans_on(calendar, date(2026, 10, 10)) == ["09:00-18:00", "20:00-22:00"]
    assert spans_on(calendar, date(2026, 10, 5)) == ["10:00-11:00"]
    assert spans_on(calendar, date(2026, 10, 11)) == []


def test_forbid_holds_on_holidays_and_cuts_sessions() -> None:
    spec = CalendarSpec(
        time_zone="America/New_York", trading=TradingCalendar(exchange="XNYS"), forbid=("10:00-11:00 Tue",)
    )
    calendar = resolve(spec, date(2026, 12, 7), date(2026, 12, 11))
    assert spans_on(calendar, date(2026, 12, 8)) == ["09:30-10:00", "11:00-16:00"]


def test_past_the_end_of_chinas_data_days_are_estimated_and_the_end_is_stated() -> None:
    spec = CalendarSpec(time_zone="Asia/Shanghai", office=OfficeCalendar(country="CN"))
    calendar = resolve(spec, date(2040, 1, 1), date(2040, 12, 31))
    assert calendar.known_until.month == 12
    assert calendar.known_until.year < 2040
    assert calendar.day_type(date(2040, 10, 1)) is DayType.HOLIDAY  # National Day, by law
    assert calendar.ends_within(datetime(2040, 1, 2, tzinfo=UTC), days=2)


def test_past_the_end_of_an_exchanges_data_weekdays_are_taken_for_sessions() -> None:
    spec = CalendarSpec(
        time_zone="Asia/Shanghai",
        trading=TradingCalendar(exchange="XSHG", closed=("2040-05-01",), complete_until="2040-12-31"),
    )
    calendar = resolve(spec, date(2040, 4, 23), date(2040, 5, 6))
    assert spans_on(calendar, date(2040, 4, 24)) == ["09:30-11:30", "13:00-15:00"]
    assert spans_on(calendar, date(2040, 4, 28)) == []
    assert spans_on(calendar, date(2040, 5, 1)) == []
    assert calendar.known_until == date(2040, 12, 31)
    # With an office, its public holidays are no sessions either.
    both = resolve(
        CalendarSpec(
            time_zone="Asia/Shanghai", office=OfficeCalendar(country="CN"), trading=TradingCalendar(exchange="XSHG")
        ),
        date(2040, 9, 24),
        date(2040, 10, 12),
    )
    assert both.day_type(date(2040, 10, 1)) is DayType.HOLIDAY
    assert both.day_type(date(2040, 9, 27)) is DayType.TRADING


def test_history_of_2020_knows_the_extended_spring_festival_of_shanghai() -> None:
    spec = CalendarSpec(
        time_zone="Asia/Shanghai", office=OfficeCalendar(country="CN"), trading=TradingCalendar(exchange="XSHG")
    )
    calendar = resolve(spec, date(2020, 1, 13), date(2020, 5, 15))
    assert calendar.day_type(date(2020, 1, 31)) is DayType.HOLIDAY
    assert calendar.day_type(date(2020, 1, 19)) is DayType.MAKE_UP
    assert calendar.day_type(date(2020, 5, 9)) is DayType.MAKE_UP
    assert calendar.day_type(date(2020, 2, 3)) is DayType.TRADING


@pytest.mark.parametrize("country", ["XX", "DE-XX", ""])
def test_an_unknown_country_is_a_lookup_error(country: str) -> None:
    with pytest.raises(LookupError):
        country_days(country, date(2026, 1, 1), date(2026, 12, 31))


def test_a_subdivision_has_its_own_holidays() -> None:
    year = (date(2026, 1, 1), date(2026, 12, 31))
    epiphany = date(2026, 1, 6)
    assert epiphany in country_days("DE-BY", *year).off
    assert epiphany not in country_days("DE-BE", *year).off


def test_an_exchange_that_never_closes_is_always_open() -> None:
    spec = CalendarSpec(time_zone="UTC", trading=TradingCalendar(exchange="24/7"))
    calendar = resolve(spec, date(2026, 11, 2), date(2026, 11, 15))
    assert len(calendar.spans) == 1
    assert calendar.is_open(datetime(2026, 11, 7, 23, 59, tzinfo=UTC))


def test_an_unknown_exchange_is_a_lookup_error() -> None:
    with pytest.raises(LookupError):
        exchange_sessions("NOWHERE", date(2026, 1, 1), date(2026, 2, 1))


def test_what_holds_at_an_instant_is_named_with_its_hours() -> None:
    spec = CalendarSpec(
        time_zone="America/New_York",
        office=OfficeCalendar(country="US", hours="08:00-18:30"),
        trading=TradingCalendar(exchange="XNYS"),
        allow=("20:00-06:00 Mon-Fri",),
        forbid=("12:00-12:30 Fri",),
    )
    half_day = datetime.combine(date(2026, 11, 27), time(12, 15), tzinfo=NEW_YORK)
    assert sources_at(spec, half_day) == ("office 08:00-18:30", "trading XNYS 09:30-13:00", "forbid 12:00-12:30 Fri")
    assert sources_at(spec, half_day.replace(hour=2)) == ()  # the night before Thanksgiving's holiday has no window
