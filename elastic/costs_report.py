"""What `elastic costs` shows: accrued and committed by team, pool, job, day or offering, and whose prices. Pure.

Days are UTC days: a bill's days are, and so are those of the budgets.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from elastic.costs import Cost, CostKey, by_day
from elastic.costs_committed import Commitment
from elastic.reconcile import Reconciliation

CURRENCY = "USD"  # every price a cloud tells, and the policy's `money.currency`
NO_TEAM = "(no team)"


class By(StrEnum):
    """What lines are told apart by."""

    TEAM = "team"
    POOL = "pool"
    JOB = "job"
    DAY = "day"
    OFFERING = "offering"


@dataclass(slots=True, kw_only=True)
class CostLine:
    """One line: node-hours, accrued USD, how much of it is estimated, committed USD."""

    name: str
    node_h: float = 0.0
    usd: float = 0.0
    estimated_usd: float = 0.0
    committed_usd: float = 0.0

    @property
    def estimated_share(self) -> float:
        """Of the accrued."""
        return self.estimated_usd / self.usd if self.usd else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    """The costs of some days. `written_until`: later seconds are in `unwritten_usd`, about."""

    by: By
    first: str
    last: str
    lines: tuple[CostLine, ...]
    total: CostLine
    sources: tuple[tuple[str, float, bool], ...]  # source of the price, USD, whether it is an estimate
    written_until: datetime | None = None
    unwritten_usd: float = 0.0
    reconciliations: tuple[Reconciliation, ...] = ()
    avoided_usd: Mapping[str, float | None] = field(default_factory=dict)


def cost_lines(
    rows: Iterable[tuple[CostKey, Cost]], committed: Sequence[Commitment], *, by: By, first: str, last: str
) -> tuple[list[CostLine], CostLine]:
    """The lines, dearest first (days in order), and their total."""
    lines: dict[str, CostLine] = {}
    whole = CostLine(name="total")
    for key, cost in rows:
        for line in (lines.setdefault(_name(key, by), CostLine(name=_name(key, by))), whole):
            line.node_h += cost.seconds / 3600
            line.usd += cost.usd
            line.estimated_usd += cost.usd if key.estimated else 0.0
    for commitment in committed:
        for name, usd in _committed(commitment, by, first, last):
            for line in (lines.setdefault(name, CostLine(name=name)), whole):
                line.committed_usd += usd
    order = sorted(lines.values(), key=lambda x: (x.name if by is By.DAY else "", -x.usd - x.committed_usd, x.name))
    return order, whole


def cost_sources(rows: Iterable[tuple[CostKey, Cost]]) -> tuple[tuple[str, float, bool], ...]:
    """(source, USD, estimated) of the prices, dearest first."""
    usd: dict[tuple[str, bool], float] = {}
    for key, cost in rows:
        usd[key.source, key.estimated] = usd.get((key.source, key.estimated), 0.0) + cost.usd
    ordered = sorted(usd.items(), key=lambda item: (-item[1], item[0]))
    return tuple((source, amount, estimated) for (source, estimated), amount in ordered)


def _name(key: CostKey, by: By) -> str:
    if by is By.JOB:
        return key.job or f"({key.spent_on})"
    return str(getattr(key, by.value)) or (NO_TEAM if by is By.TEAM else "-")


def _committed(one: Commitment, by: By, first: str, last: str) -> Iterable[tuple[str, float]]:
    """(line, USD) of a commitment; by day it is told as that of each day it reaches."""
    if by is By.DAY:
        reached = [day for day, _, _ in by_day(one.begin, one.end) if first <= day <= last]
        return [(day, usd) for day in reached if (usd := one.usd(day, day)) > 0]
    usd = one.usd(first, last)
    names = {By.TEAM: one.team or NO_TEAM, By.POOL: one.pool or "-", By.OFFERING: one.offering or "-"}
    return [(names.get(by, f"({one.why})"), usd)] if usd > 0 else []


def report_dict(report: CostReport) -> dict[str, Any]:
    """For programs: amounts in USD, days in UTC."""
    return {
        "currency": CURRENCY,
        "time_zone": "UTC",
        "first": report.first,
        "last": report.last,
        "by": report.by.value,
        "lines": [_line_dict(line) for line in report.lines],
        "total": _line_dict(report.total),
        "written_until": report.written_until,
        "unwritten_usd": report.unwritten_usd,
        "sources": [{"source": s, "usd": usd, "estimated": guess} for s, usd, guess in report.sources],
        "avoided_usd": dict(report.avoided_usd),
        "reconciliations": [reconciliation_dict(r) for r in report.reconciliations],
    }


def reconciliation_dict(found: Reconciliation) -> dict[str, Any]:
    """One day held against the bill, with what follows from it."""
    return {**asdict(found), "difference_usd": found.difference_usd, "share": found.share, "agrees": found.agrees}


def _line_dict(line: CostLine) -> dict[str, Any]:
    return {**asdict(line), "estimated_share": line.estimated_share}
