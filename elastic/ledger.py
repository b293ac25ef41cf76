"""The ledger: every intent before its call and every tick after it, in SQL (SQLite by default, PostgreSQL by URL).

The controller's memory is the fold of its records; checkpoints of it are a cache. A quiet tick is a small row: only
what the fold reads. A tick that acted, and the first of an hour, keep the whole snapshot.
"""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import sqlalchemy as sa

from elastic.codec import (
    CodecError,
    body_to_json,
    launch_from_json,
    launch_to_json,
    record_from_json,
    snapshot_to_json,
    state_from_json,
    state_to_json,
)
from elastic.ledger_engine import open_engine, reading, shown, writing
from elastic.ledger_port import Caps, LedgerError
from elastic.ledger_reservations import drop_closed, reserve, settle
from elastic.ledger_schema import migrate
from elastic.ledger_tables import CHECKPOINTS, INTENTS, LEASES, POLICIES, RECORDS
from elastic.plan_text import render
from elastic.planning.advance import advance, slim
from elastic.planning.plan import Launch
from elastic.planning.state import ControllerState, InFlight, Lease, Record, Result
from providers.facts import Offering

CHECKPOINT_EVERY = 200  # records: folding this many takes well under a second
KEEP_RECORDS = timedelta(days=90)
KEEP_CHECKPOINTS = 3  # should the newest not be readable
_PAGE = 500  # records read at once while folding


class SqlLedger:
    """A ledger at an SQLAlchemy URL; makes or upgrades its tables. LedgerError if it cannot be opened."""

    def __init__(self, url: str, *, checkpoint_every: int = CHECKPOINT_EVERY) -> None:
        self.engine = open_engine(url)
        self.shown = shown(self.engine)
        self._every = checkpoint_every
        self._offerings: tuple[Offering, ...] | None = None  # those written last
        self._told: object = None  # what the last written tick had to tell
        self._hour: datetime | None = None
        self._since_checkpoint = 0
        migrate(self.engine)

    # Writing

    def write_intent(self, launch: Launch, at: datetime, *, caps: Caps | None = None) -> None:
        """The launch token with its reservation, before the call; a known token is left as it is."""
        with writing(self.engine) as connection:
            if connection.execute(sa.select(INTENTS.c.token).where(INTENTS.c.token == launch.token)).first() is None:
                connection.execute(
                    INTENTS.insert().values(
                        token=launch.token,
                        at=at,
                        pool=launch.pool,
                        nodes=launch.nodes,
                        launch=launch_to_json(launch).decode(),
                        recorded=False,
                    )
                )
                reserve(connection, launch, at, caps or Caps())

    def append(self, record: Record, state: ControllerState) -> None:
        """One tick, whole, its intents and reservations settled, now and then the state after it: one transaction."""
        acted = any(o.result is not Result.SKIPPED for o in record.outcomes)
        told = _what_is_told(record)
        hour = record.snapshot.at.replace(minute=0, second=0, microsecond=0)
        whole = acted or hour != self._hour
        kept = record if whole else slim(record, known_offerings=self._offerings)
        tokens = [a.token for a in record.plan.actions if isinstance(a, Launch)]
        checkpoint = self._since_checkpoint + 1 >= self._every
        new = acted or told != self._told
        row = {
            "tick": record.tick,
            "at": record.snapshot.at,
            "plan_id": record.plan.id,
            "acted": acted,
            "told": new,
            "text": render(record.plan) if new or whole else "",
            "body": body_to_json(record if new or whole else _quiet(record)),
            "whole": whole,
            "snapshot": zlib.compress(snapshot_to_json(kept.snapshot), 3),
        }
        with writing(self.engine) as connection:
            done = connection.execute(RECORDS.insert().values(**row))
            if tokens:
                connection.execute(INTENTS.update().where(INTENTS.c.token.in_(tokens)).values(recorded=True))
            settle(connection, record, state)
            if checkpoint:
                assert done.inserted_primary_key is not None
                _put_checkpoint(connection, int(done.inserted_primary_key[0]), state)
        self._offerings, self._told, self._hour = record.snapshot.offerings, told, hour
        self._since_checkpoint = 0 if checkpoint else self._since_checkpoint + 1

    def checkpoint(self, state: ControllerState) -> None:
        """Write the state as it is after the newest record; said at a clean end."""
        with writing(self.engine) as connection:
            newest = connection.execute(sa.select(sa.func.max(RECORDS.c.id))).scalar()
            if newest is not None:
                _put_checkpoint(connection, int(newest), state)

    def note_policy(self, *, content_hash: str, text: str, at: datetime) -> None:
        """The policy in use, once for each content."""
        with writing(self.engine) as connection:
            if connection.execute(sa.select(POLICIES.c.hash).where(POLICIES.c.hash == content_hash)).first() is None:
                connection.execute(POLICIES.insert().values(hash=content_hash, first_used_at=at, text=text))

    def put_lease(self, lease: Lease) -> None:
        """A manual burst, new or changed."""
        fields = {column.name: getattr(lease, column.name) for column in LEASES.columns}
        with writing(self.engine) as connection:
            connection.execute(LEASES.delete().where(LEASES.c.id == lease.id))
            connection.execute(LEASES.insert().values(**fields))

    def prune(self, now: datetime) -> int:
        """Drop records and intents past their time; returns how many records went. Never a record that the
        newest checkpoint does not cover."""
        before = now - KEEP_RECORDS
        with writing(self.engine) as connection:
            newest = connection.execute(
                sa.select(CHECKPOINTS).order_by(CHECKPOINTS.c.record_id.desc()).limit(1)
            ).first()
            covered = 0 if newest is None else newest.record_id
            gone = connection.execute(RECORDS.delete().where(RECORDS.c.at < before, RECORDS.c.id < covered))
            connection.execute(INTENTS.delete().where(INTENTS.c.at < min(before, newest.at if newest else before)))
            connection.execute(LEASES.delete().where(LEASES.c.ends_at < before))
            drop_closed(connection, before)
        return int(gone.rowcount)

    def close(self) -> None:
        """Let go of the database."""
        self.engine.dispose()

    # Remembering

    def rebuild_state(self, *, from_checkpoint: bool = True, before_record: int | None = None) -> ControllerState:
        """The memory after the newest record (or before a given one): a checkpoint and the records since, or all of
        them. Launches that were intended but never recorded count as in flight from the restart on that found them,
        so that each later fold follows them as that process did; leases come from their table."""
        with reading(self.engine) as connection:
            record_id, state = _newest_checkpoint(connection, before_record) if from_checkpoint else (0, None)
            state = state or ControllerState()
            flights = _unrecorded(connection)
            for record in _records_after(connection, record_id, before_record):
                state = advance(_adopt(state, flights, before=record.snapshot.at), record)
            until = None if before_record is None else _at_of(connection, before_record)
            return replace(_adopt(state, flights, before=until), leases=_leases(connection))


def _what_is_told(record: Record) -> object:
    """What of a tick is worth a row with words: another tick that says the same is quiet."""
    plan = record.plan
    withheld = tuple((w.action.key.split(":")[0], w.rule) for w in plan.withheld)
    return withheld, tuple((w.rule, w.job_ids) for w in plan.waits), plan.notes


def _quiet(record: Record) -> Record:
    """The record of a tick that tells nothing new."""
    return replace(record, plan=replace(record.plan, withheld=(), waits=(), targets=()))


def _put_checkpoint(connection: sa.Connection, record_id: int, state: ControllerState) -> None:
    connection.execute(CHECKPOINTS.delete().where(CHECKPOINTS.c.record_id == record_id))
    packed = zlib.compress(state_to_json(replace(state, leases={})), 3)
    connection.execute(CHECKPOINTS.insert().values(record_id=record_id, at=state.at, state=packed))
    kept = sa.select(CHECKPOINTS.c.record_id).order_by(CHECKPOINTS.c.record_id.desc()).limit(KEEP_CHECKPOINTS)
    ids = [row[0] for row in connection.execute(kept)]
    connection.execute(CHECKPOINTS.delete().where(CHECKPOINTS.c.record_id < min(ids)))


def _newest_checkpoint(connection: sa.Connection, before_record: int | None) -> tuple[int, ControllerState | None]:
    """(record id, state after it) of the newest checkpoint that can be read; (0, None) if there is none."""
    query = sa.select(CHECKPOINTS.c.record_id, CHECKPOINTS.c.state).order_by(CHECKPOINTS.c.record_id.desc())
    if before_record is not None:
        query = query.where(CHECKPOINTS.c.record_id < before_record)
    for record_id, packed in connection.execute(query):
        try:
            return int(record_id), state_from_json(zlib.decompress(packed))
        except (CodecError, zlib.error):
            continue  # a cache: an older one and more records say the same
    return 0, None


def _records_after(connection: sa.Connection, record_id: int, before_record: int | None) -> Iterator[Record]:
    """Records in order, a page at a time."""
    columns = (RECORDS.c.id, RECORDS.c.tick, RECORDS.c.body, RECORDS.c.snapshot)
    while True:
        query = sa.select(*columns).where(RECORDS.c.id > record_id).order_by(RECORDS.c.id).limit(_PAGE)
        if before_record is not None:
            query = query.where(RECORDS.c.id < before_record)
        rows = connection.execute(query).all()
        if not rows:
            return
        for row in rows:
            yield decode(row.id, tick=row.tick, body=row.body, packed=row.snapshot)
        record_id = rows[-1].id


def decode(record_id: int, *, tick: int, body: str, packed: bytes) -> Record:
    """A stored record. LedgerError if it is damaged."""
    try:
        return record_from_json(tick=tick, body=body, snapshot=zlib.decompress(packed))
    except (CodecError, zlib.error) as trouble:
        raise LedgerError(f"record {record_id} of the ledger cannot be read: {trouble}") from trouble


def _unrecorded(connection: sa.Connection) -> tuple[InFlight, ...]:
    """Launches whose tick was never written: a crash came between. Their machines are found by token."""
    query = sa.select(INTENTS.c.launch, INTENTS.c.at).where(INTENTS.c.recorded.is_(False)).order_by(INTENTS.c.at)
    rows = connection.execute(query)
    return tuple(InFlight(launch=launch_from_json(row.launch), asked_at=row.at) for row in rows)


def _adopt(state: ControllerState, flights: tuple[InFlight, ...], *, before: datetime | None) -> ControllerState:
    """The state with the launches that were asked for after its last tick and before an instant."""
    new = {
        f.launch.token: f
        for f in flights
        if (state.at is None or f.asked_at >= state.at) and (before is None or f.asked_at < before)
    }
    return replace(state, in_flight={**new, **state.in_flight}) if new else state


def _at_of(connection: sa.Connection, record_id: int) -> datetime | None:
    return connection.execute(sa.select(RECORDS.c.at).where(RECORDS.c.id == record_id)).scalar()


def _leases(connection: sa.Connection) -> Mapping[str, Lease]:
    return {row["id"]: Lease(**row) for row in connection.execute(sa.select(LEASES)).mappings()}
