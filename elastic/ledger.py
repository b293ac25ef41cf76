"""The ledger: every intent before its call and every tick after it, in SQL (SQLite by default).

A tick that cannot be written raises `LedgerError`; the controller then holds. Rows hold text for people and JSON for
programs.
"""

import json
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from elastic.ledger_port import LedgerError
from elastic.plan_text import action_text, render
from elastic.planning.plan import Launch
from elastic.planning.state import ControllerState, Record

_meta = sa.MetaData()
INTENTS = sa.Table(
    "intents",
    _meta,
    sa.Column("token", sa.String(64), primary_key=True),
    sa.Column("at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("pool", sa.String(128), nullable=False),
    sa.Column("nodes", sa.Integer, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
)
RECORDS = sa.Table(
    "records",
    _meta,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("tick", sa.Integer, nullable=False),
    sa.Column("at", sa.DateTime(timezone=True), nullable=False, index=True),
    sa.Column("plan_id", sa.String(64), nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("outcomes", sa.Text, nullable=False),
)


class SqlLedger:
    """A ledger at an SQLAlchemy URL."""

    def __init__(self, url: str) -> None:
        try:
            self._engine = sa.create_engine(url)
            _meta.create_all(self._engine)
        except sa.exc.SQLAlchemyError as trouble:
            raise LedgerError(
                f"ledger {url} cannot be opened: {trouble}. Is its folder there and writable?"
            ) from trouble
        self.url = url

    def write_intent(self, launch: Launch, at: datetime) -> None:
        """The launch token, before the call; a known token is left as it is."""
        row = {"token": launch.token, "at": at, "pool": launch.pool, "nodes": launch.nodes, "reason": launch.reason}
        with self._writing() as connection:
            known = connection.execute(sa.select(INTENTS.c.token).where(INTENTS.c.token == launch.token)).first()
            if known is None:
                connection.execute(INTENTS.insert().values(**row))

    def append(self, record: Record, state: ControllerState) -> None:
        """A tick that acted or withheld; quiet ticks are not written."""
        plan = record.plan
        if not plan.actions and not plan.withheld:
            return
        outcomes = [
            {"action": o.action_key, "result": o.result.value, "error": o.error_kind, "detail": o.detail}
            for o in record.outcomes
        ]
        with self._writing() as connection:
            connection.execute(
                RECORDS.insert().values(
                    tick=record.tick,
                    at=plan.at,
                    plan_id=plan.id,
                    text=render(plan),
                    outcomes=json.dumps(outcomes),
                )
            )

    def last_texts(self, count: int) -> list[str]:
        """The newest plans as text, newest first."""
        query = sa.select(RECORDS.c.text).order_by(RECORDS.c.id.desc()).limit(count)
        with self._engine.connect() as connection:
            return [str(row[0]) for row in connection.execute(query)]

    def mentions(self, word: str, *, limit: int = 20) -> list[str]:
        """Plans whose text names a job, node or machine, oldest first."""
        query = sa.select(RECORDS.c.text).where(RECORDS.c.text.contains(word, autoescape=True)).order_by(RECORDS.c.id)
        with self._engine.connect() as connection:
            return [str(row[0]) for row in connection.execute(query.limit(limit))]

    def tick_text(self, tick: int) -> str | None:
        """The newest plan of a tick."""
        query = sa.select(RECORDS.c.text).where(RECORDS.c.tick == tick).order_by(RECORDS.c.id.desc())
        with self._engine.connect() as connection:
            row = connection.execute(query).first()
        return None if row is None else str(row[0])

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()

    def _writing(self) -> "_Writing":
        return _Writing(self._engine)


class _Writing:
    """One transaction: whole or not at all, its trouble told in our words."""

    def __init__(self, engine: sa.Engine) -> None:
        self._begin = engine.begin()

    def __enter__(self) -> sa.Connection:
        return self._begin.__enter__()

    def __exit__(self, kind: Any, trouble: Any, trace: Any) -> None:
        try:
            self._begin.__exit__(kind, trouble, trace)
        except sa.exc.SQLAlchemyError as failed:
            raise LedgerError(f"the ledger cannot be written: {failed}") from failed
        if isinstance(trouble, sa.exc.SQLAlchemyError):
            raise LedgerError(f"the ledger cannot be written: {trouble}") from trouble


def outcome_line(record: Record) -> str:
    """What a tick did, in one line."""
    return "; ".join(action_text(a) for a in record.plan.actions) or "nothing to do"
