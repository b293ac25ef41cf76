"""Costs and reconciliations in the ledger: increments with their high-water mark in one transaction, questions by day.

Written by `books` and the reconciliation's beat, read by `elastic costs`.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

import sqlalchemy as sa
from pydantic import TypeAdapter, ValidationError
from sqlalchemy.dialects import postgresql, sqlite

from elastic.costs import Cost, CostKey
from elastic.ledger_engine import reading, writing
from elastic.ledger_port import LedgerError
from elastic.ledger_tables import COST_MARK, COSTS, RECONCILIATIONS
from elastic.reconcile import Reconciliation

_MARK = "costs"
_RECONCILIATION = TypeAdapter(Reconciliation)


class CostsLedger:
    """The costs of one ledger."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def mark(self) -> datetime | None:
        """Up to when costs are written; None: nothing is yet."""
        with reading(self._engine) as connection:
            return connection.execute(sa.select(COST_MARK.c.until)).scalar()

    def add(self, costs: Mapping[CostKey, Cost], *, until: datetime) -> None:
        """Increments and the mark they lead up to: both or none, so that no second is ever counted twice."""
        with writing(self._engine) as connection:
            _add(connection, costs)
            connection.execute(COST_MARK.delete())
            connection.execute(COST_MARK.insert().values(name=_MARK, until=until))

    def usd_by_team(self, day: str) -> dict[str, float]:
        """A day's costs by the team that rented."""
        query = sa.select(COSTS.c.team, sa.func.sum(COSTS.c.usd)).where(COSTS.c.day == day).group_by(COSTS.c.team)
        with reading(self._engine) as connection:
            return {str(team): float(usd) for team, usd in connection.execute(query)}

    def rows(self, first: str, last: str) -> list[tuple[CostKey, Cost]]:
        """Every cost of the days from first to last, both included."""
        query = sa.select(COSTS).where(COSTS.c.day >= first, COSTS.c.day <= last).order_by(COSTS.c.day)
        with reading(self._engine) as connection:
            return [
                (CostKey(*(getattr(row, name) for name in CostKey._fields)), Cost(row.seconds, row.usd))
                for row in connection.execute(query)
            ]

    def days(self) -> list[str]:
        """Days with costs, oldest first."""
        with reading(self._engine) as connection:
            return [str(row[0]) for row in connection.execute(sa.select(COSTS.c.day).distinct().order_by(COSTS.c.day))]

    def merge_jobs(self, before: str) -> int:
        """Costs of days before that one no longer tell jobs apart: years of rows stay few. Returns rows that went."""
        old = (COSTS.c.day < before) & (COSTS.c.job != "")
        with writing(self._engine) as connection:
            rows = connection.execute(sa.select(COSTS).where(old)).all()
            sums: dict[CostKey, Cost] = {}
            for row in rows:
                key = CostKey(*(getattr(row, name) for name in CostKey._fields))._replace(job="")
                known = sums.get(key, Cost(0.0, 0.0))
                sums[key] = Cost(known.seconds + row.seconds, known.usd + row.usd)
            connection.execute(COSTS.delete().where(old))
            _add(connection, sums)
        return len(rows) - len(sums)

    def put_reconciliation(self, found: Reconciliation) -> None:
        """A day held against the bill; a later look replaces an earlier one."""
        mine = (RECONCILIATIONS.c.day == found.day) & (RECONCILIATIONS.c.cloud == found.cloud)
        with writing(self._engine) as connection:
            connection.execute(RECONCILIATIONS.delete().where(mine))
            connection.execute(
                RECONCILIATIONS.insert().values(
                    day=found.day,
                    cloud=found.cloud,
                    made_at=found.made_at,
                    is_final=found.is_final,
                    figures=_RECONCILIATION.dump_json(found).decode(),
                )
            )

    def reconciliations(self, first: str, last: str) -> list[Reconciliation]:
        """Those of the days from first to last, oldest first."""
        column = RECONCILIATIONS.c.day
        query = sa.select(RECONCILIATIONS).where(column >= first, column <= last).order_by(column)
        with reading(self._engine) as connection:
            texts = [str(row.figures) for row in connection.execute(query)]
        try:
            return [_RECONCILIATION.validate_json(text) for text in texts]
        except ValidationError as trouble:
            raise LedgerError(f"a reconciliation of {first} to {last} cannot be read: {trouble}") from trouble


def _add(connection: sa.Connection, costs: Mapping[CostKey, Cost]) -> None:
    """Add to the rows there are, or make them: one statement for all (5,000 keys an hour at 10,000 nodes)."""
    if not costs:
        return
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    made = insert(COSTS)
    more = {name: COSTS.c[name] + made.excluded[name] for name in Cost._fields}
    rows = [{**key._asdict(), **cost._asdict()} for key, cost in costs.items()]
    connection.execute(made.on_conflict_do_update(index_elements=CostKey._fields, set_=more), rows)


def total(rows: Iterable[tuple[CostKey, Cost]]) -> Cost:
    """Seconds and USD of all rows."""
    found = [cost for _, cost in rows]
    return Cost(sum(c.seconds for c in found), sum(c.usd for c in found))
