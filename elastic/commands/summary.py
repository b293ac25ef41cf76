"""`elastic summary`: a day's use, waits, spend and avoided cost, from the service's ledger."""

from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from elastic.commands.ledger_option import DataOption, LedgerOption, asked_ledger
from elastic.commands.output import FINDING, Format, FormatOption, print_json, refuse


def summary(
    day: Annotated[str | None, typer.Option("--day", help="a UTC day, ISO [default: the newest watched]")] = None,
    data: DataOption = Path("var"),
    ledger: LedgerOption = "",
    output: FormatOption = Format.TEXT,
) -> None:
    """A day in figures: use, waits, spend, and what was not spent against counterfactuals that are named.

    Example: [bold]elastic summary --day 2026-03-02[/bold]
    """
    from elastic.ledger_books import LedgerBooks
    from elastic.ledger_port import LedgerError
    from elastic.summary import summary_dict, summary_text

    asked = _day(day)
    kept = asked_ledger(data, ledger)
    books = LedgerBooks(kept)
    try:
        known = books.known_days()
        wanted = asked or (known[-1] if known else None)
        found = books.day(wanted) if wanted else None
    except LedgerError as trouble:
        refuse(str(trouble))
    finally:
        kept.close()
    if found is None:
        span = f"it has {known[0]} to {known[-1]}" if known else "no day was written yet"
        typer.secho(f"{kept.shown}: {wanted or 'nothing'} was not watched; {span}", err=True, fg=typer.colors.YELLOW)
        raise typer.Exit(FINDING)
    if output is Format.JSON:
        print_json(summary_dict(found))
    else:
        typer.echo(summary_text(found))


def _day(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text.strip()).isoformat()
    except ValueError:
        refuse(f"--day {text}: no day. Write it like 2026-03-02")
