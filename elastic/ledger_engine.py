"""How the ledger talks to its database: one way to open it, transactions that are whole or not at all, our words for
its trouble. SQLite waits for other writers, and DDL belongs to the transaction like everything else (F038)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from elastic.ledger_port import LedgerError

BUSY_S = 30.0  # how long SQLite waits for another writer
_WRITES = {"writes": True}


def open_engine(url: str) -> sa.Engine:
    """An engine at an SQLAlchemy URL. LedgerError for a URL that is none or names a driver that is not installed."""
    try:
        made = sa.make_url(url)
        is_sqlite = made.get_backend_name() == "sqlite"
        engine = sa.create_engine(made, connect_args={"timeout": BUSY_S} if is_sqlite else {})
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError, ModuleNotFoundError) as trouble:
        raise LedgerError(
            f"ledger {url!r}: {trouble}. Write it like sqlite:///var/ledger.sqlite or postgresql+psycopg://host/name"
        ) from trouble
    if is_sqlite:
        sa.event.listen(engine, "connect", _prepare_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, record: object) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves: the driver would leave DDL outside
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")  # readers and the writer do not wait for each other
    cursor.execute("PRAGMA synchronous=FULL")  # a launch token that was told as written survives a power cut
    cursor.close()


def _begin_sqlite(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def writing(engine: sa.Engine) -> Iterator[sa.Connection]:
    """One transaction that writes: whole or not at all. LedgerError tells the trouble and what to do."""
    try:
        with engine.connect().execution_options(**_WRITES) as connection, connection.begin():
            yield connection
    except sa.exc.SQLAlchemyError as trouble:
        raise LedgerError(f"the ledger {shown(engine)} cannot be written: {_words(trouble)}") from trouble


@contextmanager
def reading(engine: sa.Engine) -> Iterator[sa.Connection]:
    """One look at the ledger. LedgerError tells the trouble."""
    try:
        with engine.connect() as connection:
            yield connection
    except sa.exc.SQLAlchemyError as trouble:
        raise LedgerError(f"the ledger {shown(engine)} cannot be read: {_words(trouble)}") from trouble


def shown(engine: sa.Engine) -> str:
    """The ledger's URL without its password."""
    return engine.url.render_as_string(hide_password=True)


def _words(trouble: sa.exc.SQLAlchemyError) -> str:
    """The database's own words without the statement, and a hint for the usual causes."""
    said = str(getattr(trouble, "orig", None) or trouble).strip()
    if "full" in said or "disk I/O" in said or "too large" in said.lower():
        return f"{said}; free space on its disk, nothing was half-written and writing goes on by itself"
    if "readonly" in said or "unable to open" in said:
        return f"{said}; its folder must be there and writable by this user"
    if "locked" in said:
        return f"{said}; another program holds it"
    return said
