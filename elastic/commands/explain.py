"""`elastic explain`: why - a tick, a job or a node, from the service's ledger or a replay's files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn
from zoneinfo import ZoneInfo

import typer

from elastic.commands.instant import instant, zone_of
from elastic.commands.ledger_option import DataOption, LedgerOption, asked_ledger
from elastic.commands.output import FINDING, Format, FormatOption, print_json, refuse

if TYPE_CHECKING:
    from elastic.explain import Decisions


def explain(
    tick: Annotated[str | None, typer.Option("--tick", metavar="T", help="a tick's number, or an ISO time")] = None,
    job: Annotated[str | None, typer.Option("--job", metavar="J", help="a job's id")] = None,
    node: Annotated[str | None, typer.Option("--node", metavar="N", help="a node's or machine's id")] = None,
    replay: Annotated[Path | None, typer.Option("--replay", metavar="DIR", help="the folder of a replay")] = None,
    data: DataOption = Path("var"),
    ledger: LedgerOption = "",
    tz: Annotated[str, typer.Option("--tz", metavar="Z", help="show (and read) times in this zone")] = "UTC",
    output: FormatOption = Format.TEXT,
) -> None:
    """Why: what was known, which options there were at what price, what was withheld and by which rule.

    Examples: [bold]elastic explain --job 1234[/bold], [bold]elastic explain --tick 2026-03-02T09:00[/bold],
    [bold]elastic explain --node i-sim-000001 --replay out/desk[/bold]
    """
    from elastic.explain_sources import LedgerDecisions, ReplayDecisions, SourceError
    from elastic.ledger_port import LedgerError

    if sum(one is not None for one in (tick, job, node)) != 1:
        refuse("name one thing to explain: --tick T, --job J or --node N")
    zone = zone_of(tz)
    kept = None if replay else asked_ledger(data, ledger)
    try:
        source: Decisions = ReplayDecisions(replay) if replay else LedgerDecisions(kept or asked_ledger(data, ledger))
        text, values = _told(source, tick=tick, job=job, node=node, zone=zone)
    except (LedgerError, SourceError) as trouble:
        refuse(str(trouble))
    finally:
        if kept is not None:
            kept.close()
    if output is Format.JSON:
        print_json(values)
    else:
        typer.echo(text)


def _told(
    source: "Decisions", *, tick: str | None, job: str | None, node: str | None, zone: ZoneInfo
) -> tuple[str, dict[str, Any]]:
    """The story as text and as values; exit 1 where nothing is known of it."""
    from elastic.explain import job_story, node_story
    from elastic.explain_text import job_dict, job_text, node_dict, node_text, tick_dict, tick_text

    if job is not None:
        of_job = job_story(source, job) or _unknown(f"no job {job}", source)
        return job_text(of_job, zone=zone), job_dict(of_job)
    if node is not None:
        of_node = node_story(source, node) or _unknown(f"no node {node}", source)
        return node_text(of_node, zone=zone), node_dict(of_node)
    asked = tick or ""
    record = source.tick(int(asked)) if asked.isdecimal() else source.at(instant("--tick", asked, zone=zone.key))
    found = record or _unknown(f"no tick {asked} that was kept", source)
    return tick_text(found, zone=zone), tick_dict(found)


def _unknown(what: str, source: "Decisions") -> NoReturn:
    typer.secho(f"{source.where} knows {what}", err=True, fg=typer.colors.YELLOW)
    raise typer.Exit(FINDING)
