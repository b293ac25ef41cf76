"""Brings the ledger's schema to this program's version at start, and stops before a newer one (F038).

Several programs may start at once: the first takes the database's write lock, the others wait and find it done. A
program that dies in the middle leaves nothing of its step behind.
"""

from pathlib import Path

import sqlalchemy as sa

from elastic.ledger_engine import reading, shown, writing
from elastic.ledger_port import LedgerError

HEAD = "0002"  # the newest step this program knows; a test holds it to the files
_MIGRATIONS = Path(__file__).with_name("ledger_migrations")
_LOCK = 715_517  # PostgreSQL's advisory lock of our migrations: any number of our own


def migrate(engine: sa.Engine) -> None:
    """To the head. LedgerError where the schema is newer than this program, or is none of ours."""
    with reading(engine) as connection:
        found = _revision(connection)
    if found == HEAD:
        return
    if found and engine.url.query.get("mode") == "ro":
        raise LedgerError(
            f"the ledger {shown(engine)} is at schema version {found}, this program asks for {HEAD}: the service"
            " upgrades it when it starts (`elastic run`); end an older one first"
        )
    with writing(engine) as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
        found = _revision(connection)  # somebody may have been faster
        if found != HEAD:
            _upgrade(connection, found)


def _upgrade(connection: sa.Connection, found: str) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    settings = Config()
    settings.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    known = {script.revision for script in ScriptDirectory.from_config(settings).walk_revisions()}
    if found and found not in known:
        raise LedgerError(
            f"schema is newer: the ledger {shown(connection.engine)} is at version {found}, this program knows up to"
            f" {HEAD}; start the newer program, or give this one a ledger of its own"
        )
    settings.attributes["connection"] = connection
    command.upgrade(settings, "head")


def _revision(connection: sa.Connection) -> str:
    """The schema's version, '' where there is none yet."""
    names = set(sa.inspect(connection).get_table_names())
    if "alembic_version" not in names:
        if "records" in names:
            raise LedgerError(
                f"{shown(connection.engine)} holds tables that this program did not make; give it a ledger of its own"
            )
        return ""
    row = connection.execute(sa.text("select version_num from alembic_version")).first()
    return "" if row is None else str(row[0])
