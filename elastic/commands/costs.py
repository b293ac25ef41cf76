"""`elastic costs`: what rented machines have cost, for whom and why, what is committed, and what the bill says."""

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elastic.commands.ledger_option import DataOption, LedgerOption, asked_ledger
from elastic.commands.output import FINDING, Format, FormatOption, print_json, refuse
from elastic.commands.tables import say, show_table
from elastic.costs_report import CURRENCY, By, CostLine, CostReport

if TYPE_CHECKING:
    from elastic.ledger import SqlLedger

MOST_LINES = 50  # of jobs on a terminal; --format json has all


def costs(
    by: Annotated[By, typer.Option("--by", help="what the lines are")] = By.TEAM,
    month: Annotated[str | None, typer.Option("--month", help="a month, like 2026-12 [default: the newest]")] = None,
    day: Annotated[str | None, typer.Option("--day", help="a day instead of a month, like 2026-12-24")] = None,
    reconciled: Annotated[
        bool, typer.Option("--reconciled", help="only the days held against the cloud's bill")
    ] = False,
    data: DataOption = Path("var"),
    ledger: LedgerOption = "",
    output: FormatOption = Format.TEXT,
) -> None:
    """What rented machines cost by team, pool, job, day or offering: accrued (each second at the price that held),
    committed (what cannot be stopped any more), how much rests on estimates, and what the bill says. Days are UTC days.

    Examples: [bold]elastic costs[/bold], [bold]elastic costs --by job --day 2026-12-24[/bold],
    [bold]elastic costs --month 2026-12 --by day --format json[/bold]
    """
    from elastic.costs_report import report_dict
    from elastic.ledger_port import LedgerError

    asked = _asked(month, day)
    kept = asked_ledger(data, ledger)
    try:
        report = _report(kept, by, asked)
    except LedgerError as trouble:
        refuse(str(trouble))
    finally:
        kept.close()
    if output is Format.JSON:
        print_json(report_dict(report))
    elif reconciled:
        _show_reconciled(report)
    else:
        _show(report)


def _asked(month: str | None, day: str | None) -> str | None:
    """A day or a month as its ISO text."""
    if month is not None and day is not None:
        refuse("--month and --day: give one of them")
    if day is not None:
        try:
            return date.fromisoformat(day.strip()).isoformat()
        except ValueError:
            refuse(f"--day {day}: no day. Write it like 2026-12-24")
    if month is None:
        return None
    try:
        return date.fromisoformat(f"{month.strip()}-01").isoformat()[:7]
    except ValueError:
        refuse(f"--month {month}: no month. Write it like 2026-12")


def _report(kept: "SqlLedger", by: By, asked: str | None) -> CostReport:
    """The report; exit 1 where nothing was watched."""
    from elastic.costs_books import cost_report, known_days

    days = known_days(kept)
    wanted = asked or (days[-1][:7] if days else "")
    if not any(day.startswith(wanted) for day in days):
        span = f"there are days from {days[0]} to {days[-1]}" if days else "no day was written yet"
        told = f"{kept.shown}: {wanted or 'nothing'} was not watched; {span}"
        typer.secho(told, err=True, fg=typer.colors.YELLOW)
        raise typer.Exit(FINDING)
    first, last = (wanted, wanted) if len(wanted) == len("2026-12-24") else (f"{wanted}-01", f"{wanted}-31")
    return cost_report(kept, by=by, first=first, last=last)


def _show(report: CostReport) -> None:
    span = report.first if report.first == report.last else report.first[:7]
    until = f", written up to {report.written_until:%Y-%m-%d %H:%M}" if report.written_until else ""
    say(f"{span} (UTC days), in {CURRENCY}{until}")
    shown = report.lines[:MOST_LINES]
    show_table(
        (report.by.value, "node-hours", f"accrued {CURRENCY}", "estimated", f"committed {CURRENCY}"),
        [_row(line) for line in (*shown, report.total)],
        numbers=("node-hours", f"accrued {CURRENCY}", "estimated", f"committed {CURRENCY}"),
    )
    if len(report.lines) > len(shown):
        say(f"{len(report.lines) - len(shown)} more line(s): --format json has all")
    if report.unwritten_usd:
        say(f"and about {report.unwritten_usd:.2f} {CURRENCY} since then, at the newest tick's prices")
    _show_sources(report)
    for name, usd in report.avoided_usd.items():
        say(f"avoided {'not known' if usd is None else f'{usd:.2f} {CURRENCY}'} against: {name}")
    if report.reconciliations:
        _show_reconciled(report)


def _show_sources(report: CostReport) -> None:
    for source, usd, estimated in report.sources:
        say(f"prices: {usd:.2f} {CURRENCY} by {source}{' (estimated)' if estimated else ''}")


def _row(line: CostLine) -> tuple[str, ...]:
    share = f"{100 * line.estimated_share:.0f} %" if line.estimated_usd else "-"
    committed = f"{line.committed_usd:.2f}" if line.committed_usd else "-"
    return line.name, f"{line.node_h:.1f}", f"{line.usd:.2f}", share, committed


def _show_reconciled(report: CostReport) -> None:
    from elastic.reconcile import reconciliation_line

    if not report.reconciliations:
        say("no day of these was held against a bill yet")
    for found in report.reconciliations:
        say(f"bill: {reconciliation_line(found)}")
