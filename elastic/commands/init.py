"""`elastic init`: writes a commented policy for a site, from flags or answers."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from elastic.commands.output import Format, FormatOption, print_json, refuse

if TYPE_CHECKING:
    from elastic.policy_draft import Site

T = TypeVar("T")
KINDS = ("sim", "slurm", "kubernetes")
# The draft is checked at a fixed day within all packaged calendar data: it is judged by its shape, not by the date.
CHECKED_AT = datetime(2026, 6, 1, tzinfo=UTC)
_NAME = re.compile(r"^\w[\w.\-]{0,62}$")


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="where policy.yaml and schema.json are written")],
    nodes: Annotated[int | None, typer.Option("--nodes", min=1, help="on-prem nodes")] = None,
    gpus_per_node: Annotated[int | None, typer.Option("--gpus-per-node", min=1)] = None,
    gpu_model: Annotated[str | None, typer.Option("--gpu-model")] = None,
    time_zone: Annotated[str | None, typer.Option("--time-zone", help="IANA zone, such as Europe/London")] = None,
    country: Annotated[str | None, typer.Option("--country", help="for public holidays; none for none")] = None,
    cluster_kind: Annotated[str | None, typer.Option("--cluster-kind", help="sim, slurm or kubernetes")] = None,
    cloud: Annotated[str | None, typer.Option("--cloud", help="sim or aws; none to rent nothing")] = None,
    max_cloud_nodes: Annotated[int | None, typer.Option("--max-cloud-nodes", min=0)] = None,
    usd_per_day: Annotated[float | None, typer.Option("--usd-per-day", min=0, help="cap on rented nodes")] = None,
    team: Annotated[list[str] | None, typer.Option("--team", help="a team's scheduler account (repeat)")] = None,
    defaults: Annotated[bool, typer.Option("--defaults", help="ask nothing, take defaults")] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Write a commented policy, ready for `elastic policy check`. Asks for what no flag gives; overwrites nothing."""
    from elastic.policy_draft import Site

    target = folder / "policy.yaml"
    if target.exists():
        refuse(f"{target} exists and stays as it is. Name another DIR, or move the file away")
    ask = _Asking(defaults)
    chosen_cloud = ask("Cloud to rent in (none to rent nothing)", cloud, "aws", _named)
    rents = chosen_cloud.lower() != "none"
    chosen_country = ask("Country, for public holidays (none for none)", country, "US", _country)
    site = Site(
        nodes=ask("On-prem nodes", nodes, 4, _positive),
        gpus_per_node=ask("GPUs per node", gpus_per_node, 8, _positive),
        gpu_model=ask("GPU model", gpu_model, "a100", _named),
        time_zone=ask("Time zone", time_zone, "UTC", _zone),
        country=None if chosen_country.lower() == "none" else chosen_country,
        cluster_kind=ask("Cluster (sim, slurm or kubernetes)", cluster_kind, "slurm", _kind),
        cloud=chosen_cloud if rents else None,
        max_cloud_nodes=ask("Rented nodes at most", max_cloud_nodes, 8, int) if rents else 0,
        usd_per_day=ask("USD a day at most", usd_per_day, 500.0, float) if rents else 0.0,
        teams=_teams(ask("Teams, by scheduler account", ",".join(team) if team else None, "research", str)),
    )
    _write(folder, target, site)
    told = f"elastic policy check {target}"
    if output is Format.JSON:
        print_json({"policy": str(target), "schema": str(folder / "schema.json"), "next": told})
    else:
        typer.echo(f"{target} is written. Next: {told}")


class _Asking:
    """Takes a flag, or asks with a default; an answer that a check refuses is asked again, a flag is not."""

    def __init__(self, silent: bool) -> None:
        self._silent = silent

    def __call__(self, question: str, given: T | None, default: T, check: Callable[[T], T]) -> T:
        if given is not None or self._silent:
            try:
                return check(default if given is None else given)
            except ValueError as error:
                refuse(f"{question}: {error}")
        while True:  # ends with a good answer, or with the input
            try:
                return check(typer.prompt(question, default=default, err=True))
            except typer.Abort:
                refuse("No answer. Give flags (see --help), or --defaults")
            except ValueError as error:
                typer.echo(str(error), err=True)


def _positive(number: int) -> int:
    if number < 1:
        raise ValueError("at least 1")
    return number


def _named(name: str) -> str:
    if not name.strip() or not name.isprintable():
        raise ValueError("write a name")
    return name.strip()


def _kind(kind: str) -> str:
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is none of {', '.join(KINDS)}")
    return kind


def _zone(zone: str) -> str:
    from elastic.policy_calendar_checks import zone_words

    trouble = zone_words(zone)
    if trouble:
        raise ValueError(f"{trouble[0]}; {trouble[1]}")
    return zone


def _country(country: str) -> str:
    from elastic.calendar_sources import country_days

    try:
        if country.lower() != "none":
            country_days(country, CHECKED_AT.date(), CHECKED_AT.date())
    except LookupError as unknown:
        raise ValueError(f"{unknown}; an ISO code such as US, CN or DE-BY, or none") from unknown
    return country


def _teams(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    bad = [name for name in names if not _NAME.match(name)]
    if bad or not names:
        refuse(f"teams: {bad[0] if bad else 'nothing'!r} can't be a name; letters, digits, dash, dot and underscore")
    return names


def _write(folder: Path, target: Path, site: "Site") -> None:
    from elastic.policy_draft import draft_policy
    from elastic.policy_file import parse_policy
    from elastic.policy_schema import schema_text

    text = draft_policy(site)
    errors = parse_policy(text.encode(), file=str(target), at=CHECKED_AT).errors
    if errors:
        refuse("These answers make no policy that could be loaded; nothing was written.", *(str(e) for e in errors))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
        schema = folder / "schema.json"
        if not schema.exists():
            schema.write_text(schema_text(), encoding="utf-8")
    except OSError as error:
        refuse(f"{target}: {error.strerror or error}. Nothing else was written")
