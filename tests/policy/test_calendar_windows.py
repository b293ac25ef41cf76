"""Windows of wall time: their grammar, overnight windows, and the days on which clocks change (F017, F018)."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from elastic.calendar_sources import resolve_calendar
from elastic.calendar_windows import daily_instants, hours_in, minus, parse_window, span_of, union
from elastic.planning.policy import CalendarSpec
from forecast.calendar import Calendar

NEW_YORK = ZoneInfo("America/New_York")
BERLIN = ZoneInfo("Europe/Berlin")


def calendar(zone: str, first: date, *, allow: tuple[str, ...], forbid: tuple[str, ...] = ()) -> Calendar:
    spec = CalendarSpec(time_zone=zone, allow=allow, forbid=forbid)
    return resolve_calendar("windows", spec, first=first, last=first + timedelta(days=14))


def test_an_overnight_window_belongs_to_the_day_it_starts_on() -> None:
    """F017."""
    nights = calendar("America/New_York", date(2026, 11, 30), allow=("20:00-06:00 Mon-Thu",))
    asked = {
        "Tue 01:00": datetime(2026, 12, 1, 1, tzinfo=NEW_YORK),
        "Fri 01:00": datetime(2026, 12, 4, 1, tzinfo=NEW_YORK),
        "Fri 21:00": datetime(2026, 12, 4, 21, tzinfo=NEW_YORK),
        "Sat 01:00": datetime(2026, 12, 5, 1, tzinfo=NEW_YORK),
    }
    answers = {name: nights.is_open(at) for name, at in asked.items()}
    assert answers == {"Tue 01:00": True, "Fri 01:00": True, "Fri 21:00": False, "Sat 01:00": False}


def test_a_window_may_end_at_midnight() -> None:
    """F017."""
    afternoons = calendar("America/New_York", date(2026, 12, 1), allow=("12:00-00:00 Wed",))
    assert afternoons.is_open(datetime(2026, 12, 2, 23, 59, tzinfo=NEW_YORK))
    assert not afternoons.is_open(datetime(2026, 12, 3, 0, 0, tzinfo=NEW_YORK))
    assert parse_window("12:00-24:00 Wed") == parse_window("12:00-00:00 Wed")


def test_an_edge_just_before_midnight_is_met_once_by_the_tick_after_it() -> None:
    """F017: edges are found by comparing with the time of the last look, not by looking at each day alone."""
    evenings = calendar("America/New_York", date(2026, 12, 1), allow=("18:00-23:59 Tue",))
    ticks = [datetime(2026, 12, 1, 23, 52, tzinfo=NEW_YORK) + timedelta(minutes=5 * n) for n in range(4)]
    closings = [evenings.changes(before, now) for before, now in pairwise(ticks)]
    edge = datetime(2026, 12, 1, 23, 59, tzinfo=NEW_YORK).astimezone(UTC)
    assert [t.strftime("%H:%M") for t in ticks] == ["23:52", "23:57", "00:02", "00:07"]
    assert closings == [(), ((edge, False),), ()]


def test_a_daily_midnight_is_neither_skipped_nor_doubled_by_the_spring_change() -> None:
    """F018."""
    zone = ZoneInfo("America/Los_Angeles")
    runs = daily_instants(date(2027, 3, 12), days=5, every_days=1, minute=0, zone=zone)
    local = [run.astimezone(zone) for run in runs]
    assert [f"{at:%Y-%m-%d %H:%M}" for at in local] == [f"2027-03-{day} 00:00" for day in (12, 13, 14, 15, 16)]
    gaps_h = [(b - a).total_seconds() / 3600 for a, b in pairwise(runs)]
    assert gaps_h == [24, 24, 23, 24]


def test_a_weekly_warm_up_stays_at_its_local_hour_over_the_change() -> None:
    """F018."""
    zone = ZoneInfo("Europe/Brussels")
    runs = daily_instants(date(2027, 3, 23), days=21, every_days=7, minute=16 * 60, zone=zone)
    assert [f"{run.astimezone(zone):%m-%d %H:%M}" for run in runs] == ["03-23 16:00", "03-30 16:00", "04-06 16:00"]
    assert [run.hour for run in runs] == [15, 14, 14]


def test_a_window_opens_each_day_over_the_spring_change() -> None:
    """F018, as a window: midnight of Los Angeles."""
    zone = ZoneInfo("America/Los_Angeles")
    midnights = calendar("America/Los_Angeles", date(2027, 3, 12), allow=("00:00-00:30",))
    opened = [start.astimezone(zone) for start, _ in midnights.spans[1:6]]
    assert [f"{at:%m-%d %H:%M}" for at in opened] == [f"03-{day} 00:00" for day in (12, 13, 14, 15, 16)]


def test_us_spring_change_2027_03_14_skips_an_hour() -> None:
    day = date(2027, 3, 14)
    assert hours_of(day, "01:00-04:00", NEW_YORK) == 2
    assert hours_of(day, "02:00-03:00", NEW_YORK) == 0  # there is no such hour
    # 02:30 does not exist: read with the offset before the change it is 03:30.
    assert hours_of(day, "02:30-05:00", NEW_YORK) == 1.5
    assert hours_of(day, "00:00-24:00", NEW_YORK) == 23


def test_eu_spring_change_2027_03_28_skips_an_hour() -> None:
    assert hours_of(date(2027, 3, 28), "00:00-24:00", BERLIN) == 23
    assert hours_of(date(2027, 3, 27), "22:00-06:00", BERLIN) == 7
    # Two weeks after America: in between the distance between the desks is an hour less.
    assert hours_of(date(2027, 3, 14), "00:00-24:00", BERLIN) == 24


def test_autumn_change_2026_11_01_repeats_an_hour_and_no_window_is_cut_short() -> None:
    day = date(2026, 11, 1)
    assert hours_of(day, "00:00-24:00", NEW_YORK) == 25
    assert hours_of(day, "01:00-02:00", NEW_YORK) == 2
    # 01:30 comes twice: a window ends at the second, begins at the first.
    assert hours_of(day, "00:00-01:30", NEW_YORK) == 2.5
    assert hours_of(day, "01:30-03:00", NEW_YORK) == 2.5
    assert hours_of(date(2026, 10, 25), "00:00-24:00", BERLIN) == 25


def hours_of(day: date, text: str, zone: ZoneInfo) -> float:
    window = parse_window(text)
    span = span_of(day, window.start_min, window.end_min, zone)
    return 0.0 if span is None else hours_in([span], *span)


def test_office_hours_keep_their_wall_time_through_the_year() -> None:
    spec = CalendarSpec(time_zone="Europe/Berlin", allow=("09:00-17:00 Mon-Fri",))
    year = resolve_calendar("office", spec, first=date(2027, 1, 1), last=date(2027, 12, 31))
    walls = {(s.astimezone(BERLIN).hour, e.astimezone(BERLIN).hour) for s, e in year.spans}
    assert walls == {(9, 17)}
    assert {start.hour for start, _ in year.spans} == {7, 8}


def test_forbid_cuts_out_of_allow() -> None:
    cut = calendar("UTC", date(2026, 12, 7), allow=("08:00-18:00 Mon",), forbid=("12:00-13:00 Tue",))
    assert cut.spans[0] == (datetime(2026, 12, 7, 8, tzinfo=UTC), datetime(2026, 12, 7, 18, tzinfo=UTC))
    noon = calendar("UTC", date(2026, 12, 7), allow=("08:00-18:00 Mon",), forbid=("12:00-13:00 Mon",))
    assert [f"{s:%H}-{e:%H}" for s, e in noon.spans[:2]] == ["08-12", "13-18"]


@pytest.mark.parametrize(
    ("text", "hours_a_week"),
    [
        ("09:00-18:00 Mon-Fri", 45),
        ("9:00-18:00 mon,wed", 18),
        ("20:00-06:00 Fri-Mon", 40),
        ("00:00-24:00", 168),
        ("08:00-09:00 Monday,Sun", 2),
        ("08:00-09:00  Mon, Tue", 2),
    ],
)
def test_days_are_ranges_lists_or_all(text: str, hours_a_week: float) -> None:
    window = parse_window(text)
    assert len(window.weekdays) * (window.end_min - window.start_min) / 60 == hours_a_week


@pytest.mark.parametrize(
    "text", ["", "always", "9-18", "08:00-08:00 Mon", "08:60-09:00", "24:00-06:00", "23:00-24:01", "08:00-09:00 Mo",
             "08:00-09:00 Mon-", "08:00 - 09:00 Mon", "08:00-09:00 Mon Tue", "08:00-09:00 Fri-Xxx", "-08:00-09:00"],
)  # fmt: skip
def test_a_window_nobody_can_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_window(text)


def test_union_and_minus_keep_spans_sorted_and_apart() -> None:
    def at(hour: float) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hour)

    assert union([(at(3), at(4)), (at(0), at(1)), (at(1), at(2)), (at(5), at(5))]) == [(at(0), at(2)), (at(3), at(4))]
    assert minus([(at(0), at(10))], [(at(2), at(3)), (at(9), at(12))]) == [(at(0), at(2)), (at(3), at(9))]
    assert minus([(at(0), at(1))], [(at(0), at(1))]) == []
