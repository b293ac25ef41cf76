"""`elastic policy`: check a file, compare two, ask what holds at an instant, print the schema."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from zoneinfo import ZoneInfo

import typer

from elastic.commands.instant import instant
from elastic.commands.output import FINDING, Format, FormatOption, print_json, refuse

if TYPE_CHECKING:
    from elastic.policy_diff import PolicyDiff, Side
    from elastic.policy_file import PolicyReading

app = typer.Typer(help="Policies: check, compare, ask.", no_args_is_help=True)

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="a policy in YAML")]
AtOption = Annotated[str | None, typer.Option("--at", metavar="T", help="ISO time [default: now]")]
FURTHEST_DAYS = 366


@app.command("check")
def check(file: FileArgument, at: AtOption = None, output: FormatOption = Format.TEXT) -> None:
    """Everything wrong with a policy: file, line, column, path and a hint.

    Exit 0 when the service could load it (warnings do not hinder that), 1 when not, 2 when the file can't be read.
    """
    from elastic.policy_file import read_policy

    reading = read_policy(file, at=instant("--at", at))
    if not reading.content_hash:
        refuse(*(f"{c.file}: {c.message}. {c.hint}".removesuffix(". ") for c in reading.complaints))
    if output is Format.JSON:
        print_json(_check_as_dict(file, reading))
    else:
        for complaint in reading.complaints:
            typer.echo(str(complaint))
        typer.echo(_verdict(file, reading))
    if reading.errors:
        raise typer.Exit(FINDING)


def _check_as_dict(file: Path, reading: "PolicyReading") -> dict[str, object]:
    from dataclasses import asdict

    return {
        "file": str(file),
        "ok": not reading.errors,
        "content_hash": reading.content_hash,
        "complaints": [asdict(c) for c in reading.complaints],
    }


def _verdict(file: Path, reading: "PolicyReading") -> str:
    errors = len(reading.errors)
    warnings = len(reading.complaints) - errors
    told = f"{warnings} warning{'s' * (warnings != 1)}"
    if errors:
        return f"{file}: {errors} error{'s' * (errors != 1)}, {told}; the service would not load it"
    return f"{file}: ok ({told}), content {reading.content_hash}"


@app.command("schema")
def schema() -> None:
    """The JSON Schema of policies, for editors (policies/schema.json)."""
    from elastic.policy_schema import schema_text

    typer.echo(schema_text(), nl=False)


@app.command("when")
def when(
    file: FileArgument,
    at: AtOption = None,
    tz: Annotated[str | None, typer.Option("--tz", metavar="Z", help="show (and read) times in this zone")] = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Which windows, sizes and limits hold at an instant, past or future, and what changes next.

    A time without an offset is in --tz, otherwise in the policy's own time_zone. Days past the end of the calendars'
    data are estimated; the table says from when on.
    """
    from elastic.policy_when import policy_at

    zone = _zone("--tz", tz) or _loaded(file, instant("--at", at)).document.time_zone
    moment = instant("--at", at, zone=zone)
    side = _loaded(file, moment)
    answer = policy_at(side.policy, side.document, moment)
    if output is Format.JSON:
        print_json({"file": str(file), "time_zone": zone, **_in_zone(answer.as_dict(), zone)})
        return
    from elastic.commands.policy_tables import show_when

    show_when(answer, zone)


@app.command("diff")
def diff(
    before: Annotated[Path, typer.Argument(metavar="A", help="the policy as it is")],
    after: Annotated[Path, typer.Argument(metavar="B", help="the policy as it would be")],
    since: Annotated[str | None, typer.Option("--from", metavar="T", help="ISO time [default: now]")] = None,
    days: Annotated[float, typer.Option("--days", min=0.01, max=FURTHEST_DAYS)] = 7,
    price: Annotated[
        list[str] | None, typer.Option("--price", help="POOL=USD of one GPU-hour, e.g. a100-spot=1.2 (repeat)")
    ] = None,
    worker_price: Annotated[
        list[str] | None, typer.Option("--worker-price", help="CACHE=USD of one worker-hour (repeat)")
    ] = None,
    tz: Annotated[str | None, typer.Option("--tz", metavar="Z", help="show (and read) times in this zone")] = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """What would change from A to B over some days: settings, windows, GPU-hours and USD, per team and pool."""
    from elastic.policy_diff import Stretch, compare_policies

    zone = _zone("--tz", tz) or _loaded(after, instant("--from", since)).document.time_zone
    start = instant("--from", since, zone=zone)
    end = start + timedelta(days=days)
    old, new = _loaded(before, start, until=end), _loaded(after, start, until=end)
    pools = {*old.policy.pools, *new.policy.pools}
    caches = {*old.policy.caches, *new.policy.caches}
    stretch = Stretch(
        since=start,
        until=end,
        prices=_prices("--price", price, pools),
        worker_prices=_prices("--worker-price", worker_price, caches),
    )
    found: PolicyDiff = compare_policies(old, new, stretch)
    if output is Format.JSON:
        print_json({"a": str(before), "b": str(after), "time_zone": zone, **_in_zone(found.as_dict(), zone)})
        return
    from elastic.commands.policy_tables import show_diff

    show_diff(found, zone)


def _loaded(file: Path, at: datetime, *, until: datetime | None = None) -> "Side":
    """A policy that can be used; refuses any other with all its complaints."""
    from elastic.policy_diff import Side
    from elastic.policy_file import read_policy

    reading = read_policy(file, at=at, until=until, data_may_end=True)
    if reading.policy is None or reading.document is None:
        refuse(*(str(c) for c in reading.errors))
    return Side(policy=reading.policy, document=reading.document)


def _zone(option: str, zone: str | None) -> str | None:
    from elastic.policy_calendar_checks import zone_words

    trouble = zone_words(zone) if zone is not None else None
    if trouble:
        refuse(f"{option}: {trouble[0]}; {trouble[1]}")
    return zone


def _prices(option: str, pairs: list[str] | None, known: set[str]) -> dict[str, float]:
    from elastic.policy_words import nearest

    prices = {}
    for pair in pairs or []:
        name, _, amount = pair.partition("=")
        try:
            usd = float(amount)
        except ValueError:
            usd = -1.0
        if not 0 <= usd < float("inf"):
            refuse(f"{option} {pair}: write NAME=USD, such as {option} {next(iter(sorted(known)), 'name')}=1.2")
        if name not in known:
            refuse(f"{option} {pair}: no {name!r} in these policies; {nearest(name, sorted(known))}")
        prices[name] = usd
    return prices


def _in_zone(value: object, zone: str) -> dict[str, object]:
    """A copy of plain values with every time written in a zone."""

    def written(inner: object) -> object:
        if isinstance(inner, dict):
            return {key: written(v) for key, v in inner.items()}
        if isinstance(inner, list | tuple):
            return [written(v) for v in inner]
        if isinstance(inner, datetime):
            return inner.astimezone(UTC if zone == "UTC" else ZoneInfo(zone)).isoformat()
        return inner

    result = written(value)
    assert isinstance(result, dict)
    return result
