"""The slow beats of the service: forecasts, calendar check, daily summary, reconciliation with the clouds' bills, sweep
of old records. Times in the policy's zone; `beats` says what becomes of missed and failed runs."""

from collections.abc import Callable
from datetime import datetime, timedelta

from elastic.beats import Beat, Daily, Every
from elastic.books import Books
from elastic.costs_bills import Bills, reconcile_due
from elastic.forecasting import ForecastDesk
from elastic.ledger import SqlLedger
from elastic.ledger_books import LedgerBooks
from elastic.planning.policy import Policy
from elastic.summary import summary_text
from forecast.calendar import Calendar
from forecast.forecaster import Forecasts

CALENDAR_DAYS = 45  # warn this long before a calendar's data ends: time to install the next year's
MINUTE_OF = {"calendar check": 6 * 60, "daily summary": 10, "sweep": 3 * 60 + 30, "reconciliation": 7 * 60}
KEEP_COSTS_BY_JOB = timedelta(days=92)  # a quarter; older days are kept without their jobs


def slow_beats(
    *,
    policy: Callable[[], Policy],
    books: Books,
    desk: ForecastDesk,
    ledger: SqlLedger,
    say: Callable[[str], None],
    bills: Bills | None = None,
) -> list[Beat]:
    """What runs beside the ticks. `bills` tell what a cloud billed for a day; without any nothing is reconciled."""
    zone = policy().time_zone
    kept = LedgerBooks(ledger)

    def forecast(now: datetime) -> str:
        return refresh_forecasts(now, policy=policy(), books=books, desk=desk)

    def calendars(now: datetime) -> str:
        line = calendar_line(policy(), now)
        if line:
            say(line)
        return line

    def summary(now: datetime) -> str:
        text = yesterday_text(kept, now)
        if text:
            say(text)
        return text

    def sweep(now: datetime) -> str:
        merged = kept.costs.merge_jobs(f"{now - KEEP_COSTS_BY_JOB:%Y-%m-%d}")
        return f"{ledger.prune(now)} old record(s) dropped" + (f", {merged} cost(s) merged" if merged else "")

    def reconciliation(now: datetime) -> str:
        lines = reconcile_due(now, bills=bills or {}, books=kept)
        for line in lines:
            say(line)
        return "; ".join(lines)

    def daily(name: str, run: Callable[[datetime], str], grace: timedelta) -> Beat:
        return Beat(name=name, when=Daily(MINUTE_OF[name], zone), run=run, grace=grace)

    refresh = Every(policy().forecast.refresh_s)
    return [
        Beat(name="forecasts", when=refresh, run=forecast, grace=timedelta(seconds=refresh.seconds), at_start=True),
        daily("calendar check", calendars, timedelta(hours=12)),
        daily("daily summary", summary, timedelta(hours=20)),
        daily("sweep", sweep, timedelta(hours=20)),
        *([daily("reconciliation", reconciliation, timedelta(hours=20))] if bills else []),
    ]


def refresh_forecasts(now: datetime, *, policy: Policy, books: Books, desk: ForecastDesk) -> str:
    """New forecasts of every series. ValueError (the beat is tried again) when none could be made at all."""
    books.learn_runtimes()
    series = books.series(now)
    if not series:
        return "no demand seen yet: plans are made without forecasts"
    made = desk.refresh(series, calendar_of=calendar_chooser(policy), at=now)
    if not made.made:
        key, why = next(iter(made.trouble.items()))
        return f"no forecast yet, plans are made without: {key}: {why}"
    return f"{len(made.made)} forecast(s) made" + (f", {len(made.trouble)} not" if made.trouble else "")


def calendar_chooser(policy: Policy) -> Callable[[str], Calendar]:
    """By demand key: a team's first calendar; for pools and the total the policy's first; without any: weekdays."""
    plain = Calendar(name="weekdays", zone=policy.time_zone)
    first = next(iter(policy.calendars.values()), plain)

    def choose(key: str) -> Calendar:
        team = policy.teams.get(key)
        names = team.calendars if team else ()
        return next((policy.calendars[n] for n in names if n in policy.calendars), first)

    return choose


def calendar_line(policy: Policy, now: datetime) -> str:
    """Calendars whose data ends soon; '' when all reach far enough."""
    ending = [c for c in policy.calendars.values() if c.ends_within(now, days=CALENDAR_DAYS)]
    told = ", ".join(f"{c.name} on {c.known_until:%Y-%m-%d}" for c in ending)
    return f"calendar data ends soon ({told}): install newer calendar packages" if told else ""


def yesterday_text(books: LedgerBooks, now: datetime) -> str:
    """The summary of the newest UTC day that is over; '' if it was not watched."""
    day = books.day(f"{now - timedelta(days=1):%Y-%m-%d}")
    return summary_text(day) if day else ""


def forecasts_for(desk: ForecastDesk, books: Books, policy: Policy, now: datetime) -> Forecasts:
    """What a tick may look ahead with: the newest forecasts that are fresh enough, and runtimes."""
    return Forecasts(demand=desk.forecasts(now, max_age_s=policy.forecast.max_age_s), runtimes=books.runtimes)
