"""Where the commands that ask the ledger find it: the same options as `elastic run`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elastic.commands.output import refuse

if TYPE_CHECKING:
    from elastic.ledger import SqlLedger

DataOption = Annotated[Path, typer.Option("--data", help="folder of the service's ledger")]
LedgerOption = Annotated[str, typer.Option("--ledger", help="ledger as an SQLAlchemy URL instead of SQLite in --data")]


def asked_ledger(data: Path, ledger: str) -> "SqlLedger":
    """The ledger, opened for questions only; exit 2 with the reason where there is none."""
    from elastic.ledger_port import LedgerError
    from elastic.ledger_reads import open_to_read
    from elastic.settings import Settings

    try:
        return open_to_read(Settings(policy=Path(), data=data, ledger_url=ledger).url)
    except LedgerError as trouble:
        refuse(str(trouble))
