"""Tables for people of what `elastic policy when` and `elastic policy diff` found."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from elastic.policy_diff import PolicyDiff, Quantity
    from elastic.policy_when import PolicyAt

MAX_ROWS = 30  # of settings and of windows; --format json has all
FILE_WIDTH = 160  # columns where the output is no terminal


def show_when(answer: "PolicyAt", zone: str) -> None:
    """Print an answer of `policy_at`, times in a zone."""
    console = _console()

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    say(f"{_time(answer.at, zone)}, mode {answer.mode}, policy {answer.content_hash}")
    _show_calendars(console, answer, zone)
    _show_pools(console, answer)
    _show_teams(console, answer)
    caps = ", ".join(f"{key} {_number(value)}" for key, value in answer.money.items())
    say(f"money: {caps}")
    say(
        "guard: "
        + ", ".join(f"{key} {value:g}" for key, value in answer.guard.items() if isinstance(value, int | float))
    )
    if answer.next_change is not None:
        at, name = answer.next_change
        say(f"next change: {_time(at, zone)} (calendar {name})")


def _show_calendars(console: Console, answer: "PolicyAt", zone: str) -> None:
    if not answer.calendars:
        return
    table = _table("calendar", "now", "its day", "holds", "next change", "data until")
    for calendar in answer.calendars:
        upcoming = "-"
        if calendar.next_change is not None:
            upcoming = f"{'closes' if calendar.is_open else 'opens'} {_time(calendar.next_change, zone)}"
        table.add_row(
            calendar.name,
            "open" if calendar.is_open else "closed",
            f"{calendar.day}, {calendar.day_type}",
            "; ".join(calendar.holds) or "-",
            upcoming,
            calendar.known_until or "-",
        )
    console.print(table)


def _show_pools(console: Console, answer: "PolicyAt") -> None:
    table = _table("pool", "place", "floor GPUs", "ceiling GPUs", "headroom GPUs", "capacity")
    for pool in answer.pools:
        ceiling = "not given" if pool.ceiling_gpus is None else str(pool.ceiling_gpus)
        table.add_row(
            pool.name,
            pool.place,
            str(pool.floor_gpus),
            ceiling,
            str(pool.headroom_gpus),
            ", ".join(pool.capacity_types),
        )
    console.print(table)


def _show_teams(console: Console, answer: "PolicyAt") -> None:
    if not answer.teams:
        return
    table = _table("team", "at work", "guaranteed", "burst ceiling", "USD a day", "USD a month", "cache workers")
    for team in answer.teams:
        table.add_row(
            team.name,
            "yes" if team.at_work else "no",
            str(team.guaranteed_gpus),
            _number(team.burst_ceiling_gpus),
            _number(team.usd_per_day),
            _number(team.usd_per_month),
            f"{team.cache_workers}: {team.cache_reason}" if team.cache_workers is not None else "-",
        )
    console.print(table)


def show_diff(found: "PolicyDiff", zone: str) -> None:
    """Print what `compare_policies` found, times in a zone; figures that stay the same are left to --format json."""
    console = _console()

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    hours = (found.until - found.since).total_seconds() / 3600
    say(f"{_time(found.since, zone)} to {_time(found.until, zone)}, {hours:g} h")
    if not found.settings:
        say("no setting differs")
    else:
        table = _table("setting", "A", "B")
        for setting in found.settings[:MAX_ROWS]:
            table.add_row(setting.path, _number(setting.before), _number(setting.after))
        console.print(table)
        _say_more(say, len(found.settings))
    if found.windows:
        table = _table("calendar", "in B", "from", "to")
        for change in found.windows[:MAX_ROWS]:
            words = "open" if change.opens else "closed"
            table.add_row(change.calendar, words, _time(change.start, zone), _time(change.end, zone))
        console.print(table)
        _say_more(say, len(found.windows))
    for title, quantities in (
        ("calendar", found.calendars),
        ("pool", found.pools),
        ("team", found.teams),
        ("money", found.money),
    ):
        _show_quantities(console, title, quantities)
    if not found.windows and not any(
        q.before != q.after for q in (*found.calendars, *found.pools, *found.teams, *found.money)
    ):
        say("no window and no figure differs in this time")
    for sentence in found.meaning:
        say(f"  {sentence}")


def _show_quantities(console: Console, title: str, quantities: Iterable["Quantity"]) -> None:
    rows = [q for q in quantities if q.before != q.after or q.usd_before != q.usd_after]
    if not rows:
        return
    priced = any(q.usd_before is not None or q.usd_after is not None for q in rows)
    table = _table(title, "what", "A", "B", "change", "unit", *(("USD A", "USD B", "USD change") if priced else ()))
    for q in rows:
        money: tuple[str, ...] = ()
        if priced:
            known = q.usd_before is not None or q.usd_after is not None
            change = (q.usd_after or 0.0) - (q.usd_before or 0.0) if known else None
            money = (_number(q.usd_before), _number(q.usd_after), _signed(change))
        table.add_row(q.owner, q.name, _number(q.before), _number(q.after), _signed(q.delta), q.unit, *money)
    console.print(table)


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=FILE_WIDTH)


def _table(owner: str, *columns: str) -> Table:
    """A table whose first column, the names, is never cut."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(owner, no_wrap=True)
    for column in columns:
        table.add_column(column)
    return table


def _say_more(say: Callable[[str], None], count: int) -> None:
    if count > MAX_ROWS:
        say(f"and {count - MAX_ROWS} more (--format json has all)")


def _number(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:,.1f}".removesuffix(".0")
    if isinstance(value, list):
        return ", ".join(str(part) for part in value)
    return str(value)


def _signed(value: float | None) -> str:
    if value is None:
        return "-"
    return "=" if abs(value) < 0.05 else f"{value:+,.1f}".removesuffix(".0")


def _time(at: datetime, zone: str) -> str:
    local = at.astimezone(ZoneInfo(zone))
    return f"{local:%a %Y-%m-%d %H:%M} {local:%Z}"
