"""Times that people write on the command line."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from elastic.commands.output import refuse

# Calendars and zones say nothing useful outside.
FIRST_YEAR, LAST_YEAR = 1990, 2199


def instant(option: str, text: str | None, *, zone: str = "UTC") -> datetime:
    """The instant in UTC of an ISO time; without an offset it is in `zone`. None: now. Refuses what is no time."""
    if text is None:
        from elastic.wiring import system_now

        return system_now()
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        refuse(f"{option} {text}: no time. Write it like 2026-03-02 or 2026-03-02T09:00+01:00")
    if not FIRST_YEAR <= at.year <= LAST_YEAR:
        refuse(f"{option} {text}: write a year from {FIRST_YEAR} to {LAST_YEAR}")
    return (at if at.tzinfo else at.replace(tzinfo=ZoneInfo(zone))).astimezone(UTC)


def zone_of(name: str) -> ZoneInfo:
    """The zone that `--tz` names; refuses what is none."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        refuse(f"--tz {name}: no IANA zone. Write it like Europe/London or Asia/Shanghai")
