"""The ledger's small books beside the records: hourly demand, days in sums, runs of the slow beats.

Caches of what the ticks saw: the controller's memory does not rest on them, forecasts and summaries do.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

import sqlalchemy as sa
from pydantic import TypeAdapter, ValidationError

from elastic.costs_ledger import CostsLedger
from elastic.figures import Day
from elastic.ledger import SqlLedger
from elastic.ledger_engine import reading, writing
from elastic.ledger_port import LedgerError
from elastic.ledger_tables import BEATS, DAYS, DEMAND

_DAY = TypeAdapter(Day)


class LedgerBooks:
    """The books of one ledger."""

    def __init__(self, ledger: SqlLedger) -> None:
        self._engine = ledger.engine
        self.costs = CostsLedger(ledger.engine)

    def put_demand(self, hour: datetime, gpus: Mapping[str, float]) -> None:
        """The highest demand of an hour by key; a lower figure never replaces a higher one."""
        with writing(self._engine) as connection:
            query = sa.select(DEMAND.c.key, DEMAND.c.gpus).where(DEMAND.c.hour == hour)
            known = {row.key: row.gpus for row in connection.execute(query)}
            for key, value in gpus.items():
                mine = (DEMAND.c.key == key) & (DEMAND.c.hour == hour)
                if key not in known:
                    connection.execute(DEMAND.insert().values(key=key, hour=hour, gpus=value))
                elif value > known[key]:
                    connection.execute(DEMAND.update().where(mine).values(gpus=value))

    def demand(self) -> Iterable[tuple[datetime, dict[str, float]]]:
        """Every hour known, oldest first, with its highest demand by key."""
        hours: dict[datetime, dict[str, float]] = {}
        with reading(self._engine) as connection:
            for row in connection.execute(sa.select(DEMAND).order_by(DEMAND.c.hour)):
                hours.setdefault(row.hour, {})[row.key] = row.gpus
        return hours.items()

    def put_day(self, day: Day) -> None:
        """A day's sums so far."""
        figures = _DAY.dump_json(day, exclude_defaults=True).decode()
        with writing(self._engine) as connection:
            connection.execute(DAYS.delete().where(DAYS.c.day == day.day))
            connection.execute(DAYS.insert().values(day=day.day, figures=figures))

    def day(self, day: str) -> Day | None:
        """A day's sums; None for a day that was not watched."""
        with reading(self._engine) as connection:
            text = connection.execute(sa.select(DAYS.c.figures).where(DAYS.c.day == day)).scalar()
        if text is None:
            return None
        try:
            return _DAY.validate_json(text)
        except ValidationError as trouble:
            raise LedgerError(f"the sums of {day} cannot be read: {trouble}") from trouble

    def known_days(self) -> list[str]:
        """Every day with sums, oldest first."""
        with reading(self._engine) as connection:
            return [str(row[0]) for row in connection.execute(sa.select(DAYS.c.day).order_by(DAYS.c.day))]

    def beats_done(self) -> dict[str, datetime]:
        """See `beats.BeatStore`."""
        with reading(self._engine) as connection:
            return {row.name: row.due_at for row in connection.execute(sa.select(BEATS.c.name, BEATS.c.due_at))}

    def beat_done(self, name: str, *, due_at: datetime, done_at: datetime, note: str) -> None:
        """See `beats.BeatStore`."""
        with writing(self._engine) as connection:
            connection.execute(BEATS.delete().where(BEATS.c.name == name))
            connection.execute(BEATS.insert().values(name=name, due_at=due_at, done_at=done_at, note=note))
