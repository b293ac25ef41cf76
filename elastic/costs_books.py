"""Gathers from the ledger what `costs_report` shows: written costs, those since, commitments, bills, avoided cost."""

from datetime import datetime

from elastic.codec import Seen
from elastic.costs import Meter
from elastic.costs_committed import commitments
from elastic.costs_report import By, CostReport, cost_lines, cost_sources
from elastic.ledger import SqlLedger
from elastic.ledger_books import LedgerBooks
from elastic.ledger_reads import last_whole, newest
from elastic.planning.policy import Guard
from elastic.summary import avoided_usd_over


def known_days(ledger: SqlLedger) -> list[str]:
    """UTC days that were watched or cost something, oldest first."""
    books = LedgerBooks(ledger)
    return sorted({*books.known_days(), *books.costs.days()})


def cost_report(ledger: SqlLedger, *, by: By, first: str, last: str) -> CostReport:
    """The costs of the UTC days from first to last; committed and unwritten are as of the newest tick."""
    books = LedgerBooks(ledger)
    rows, until = books.costs.rows(first, last), books.costs.mark()
    seen, whole = newest(ledger), last_whole(ledger)
    guard = whole.record.guard if whole is not None else Guard()
    committed = [] if seen is None else commitments(seen.snapshot, seen.state, guard)
    lines, total = cost_lines(rows, committed, by=by, first=first, last=last)
    days = [day for name in books.known_days() if first <= name <= last and (day := books.day(name)) is not None]
    return CostReport(
        by=by,
        first=first,
        last=last,
        lines=tuple(lines),
        total=total,
        sources=cost_sources(rows),
        written_until=until,
        unwritten_usd=0.0 if seen is None else _unwritten_usd(seen, until, guard, first, last),
        reconciliations=tuple(books.costs.reconciliations(first, last)),
        avoided_usd=avoided_usd_over(days),
    )


def _unwritten_usd(seen: Seen, until: datetime | None, guard: Guard, first: str, last: str) -> float:
    """What the machines of the newest tick have cost since the last row was written."""
    if until is None:
        return 0.0
    meter = Meter(until)
    meter.add(seen.snapshot, guard=guard, last_good=seen.state.prices)
    return sum(cost.usd for key, cost in meter.pending.items() if first <= key.day <= last)
