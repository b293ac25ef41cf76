"""Questions to the ledger: what was decided when, which ticks name a job or node, what the last decision rested on.

Asked by the commands `plan` and `explain` and by the page. Reads only.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sa

from elastic.codec import Seen
from elastic.ledger import SqlLedger, decode
from elastic.ledger_engine import reading
from elastic.ledger_port import LedgerError
from elastic.ledger_tables import INTENTS, POLICIES, RECORDS
from elastic.planning.state import Record

_COLUMNS = (
    RECORDS.c.id, RECORDS.c.tick, RECORDS.c.at, RECORDS.c.acted, RECORDS.c.text, RECORDS.c.body, RECORDS.c.whole,
    RECORDS.c.snapshot,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTick:
    """One tick as the ledger kept it. `is_whole`: the snapshot holds all facts, not only those the fold reads."""

    id: int
    at: datetime
    text: str
    is_whole: bool
    record: Record


def find_tick(ledger: SqlLedger, tick: int) -> KeptTick | None:
    """The newest record of a tick; None if there is none (any more)."""
    return _first(ledger, sa.select(*_COLUMNS).where(RECORDS.c.tick == tick).order_by(RECORDS.c.id.desc()))


def find_at(ledger: SqlLedger, at: datetime) -> KeptTick | None:
    """The newest tick at or before an instant."""
    return _first(ledger, sa.select(*_COLUMNS).where(RECORDS.c.at <= at).order_by(RECORDS.c.at.desc()))


def ticks_naming(ledger: SqlLedger, name: str, *, limit: int = 50) -> list[KeptTick]:
    """The newest ticks whose decision names a job, node or machine exactly; oldest first."""
    quoted = json.dumps(name)
    query = (
        sa.select(*_COLUMNS)
        .where(RECORDS.c.told.is_(True), RECORDS.c.body.contains(quoted, autoescape=True))
        .order_by(RECORDS.c.id.desc())
        .limit(limit)
    )
    with reading(ledger.engine) as connection:
        return [_kept(row) for row in reversed(connection.execute(query).all())]


def last_whole(ledger: SqlLedger) -> KeptTick | None:
    """The newest tick whose snapshot is whole."""
    return _first(ledger, sa.select(*_COLUMNS).where(RECORDS.c.whole.is_(True)).order_by(RECORDS.c.id.desc()))


def last_seen(ledger: SqlLedger) -> Seen | None:
    """What the newest whole tick rested on: its snapshot and the memory before it."""
    kept = last_whole(ledger)
    if kept is None:
        return None
    state = ledger.rebuild_state(before_record=kept.id)
    return Seen(snapshot=kept.record.snapshot, state=state, policy_hash=kept.record.plan.policy_hash, saved_at=kept.at)


def newest(ledger: SqlLedger) -> Seen | None:
    """The newest tick and the memory after it. A quiet tick keeps rented machines and their nodes, nothing of home."""
    kept = _first(ledger, sa.select(*_COLUMNS).order_by(RECORDS.c.id.desc()))
    if kept is None:
        return None
    snapshot, state = kept.record.snapshot, ledger.rebuild_state()
    return Seen(snapshot=snapshot, state=state, policy_hash=kept.record.plan.policy_hash, saved_at=kept.at)


def known_tokens(ledger: SqlLedger) -> set[str]:
    """Every launch token the ledger keeps."""
    with reading(ledger.engine) as connection:
        return {str(row[0]) for row in connection.execute(sa.select(INTENTS.c.token))}


def last_texts(ledger: SqlLedger, count: int) -> list[str]:
    """The newest plans that acted, as text, newest first."""
    query = sa.select(RECORDS.c.text).where(RECORDS.c.acted.is_(True)).order_by(RECORDS.c.id.desc()).limit(count)
    with reading(ledger.engine) as connection:
        return [str(row[0]) for row in connection.execute(query)]


def policy_text(ledger: SqlLedger, content_hash: str) -> str | None:
    """The policy file of a decision."""
    query = sa.select(POLICIES.c.text).where(POLICIES.c.hash == content_hash)
    with reading(ledger.engine) as connection:
        return connection.execute(query).scalar()


def _first(ledger: SqlLedger, query: "sa.Select[tuple[object, ...]]") -> KeptTick | None:
    with reading(ledger.engine) as connection:
        row = connection.execute(query.limit(1)).first()
    return None if row is None else _kept(row)


def _kept(row: "sa.Row[tuple[object, ...]]") -> KeptTick:
    record = decode(row.id, tick=row.tick, body=row.body, packed=row.snapshot)
    return KeptTick(id=row.id, at=row.at, text=row.text, is_whole=row.whole, record=record)


def open_to_read(url: str) -> SqlLedger:
    """A ledger that is there, for questions only: SQLite files are opened read-only, so that not a byte changes, and
    never made. LedgerError if there is none or it cannot be read."""
    try:
        asked = sa.make_url(url)
    except sa.exc.ArgumentError:
        return SqlLedger(url)  # says what is wrong with it
    if asked.get_backend_name() != "sqlite" or not asked.database or asked.database.startswith("file:"):
        return SqlLedger(url)
    file = Path(asked.database)
    if not file.is_file():
        raise LedgerError(f"there is no ledger {file}; `elastic run` makes one, --data or --ledger name another")
    only_read = asked.set(database=f"file:{quote(str(file.resolve()))}", query={"mode": "ro", "uri": "true"})
    return SqlLedger(only_read.render_as_string(hide_password=False))


def whole_ticks(ledger: SqlLedger, *, since: datetime, until: datetime, limit: int) -> list[KeptTick]:
    """The newest ticks of a span whose snapshot is whole, oldest first."""
    query = (
        sa.select(*_COLUMNS)
        .where(RECORDS.c.whole.is_(True), RECORDS.c.at >= since, RECORDS.c.at <= until)
        .order_by(RECORDS.c.id.desc())
        .limit(limit)
    )
    with reading(ledger.engine) as connection:
        return [_kept(row) for row in reversed(connection.execute(query).all())]
