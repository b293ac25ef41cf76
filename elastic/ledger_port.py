"""What the tick asks of a ledger, and the one trouble a ledger tells. In SQL: `ledger`."""

from datetime import datetime
from typing import Protocol

from elastic.planning.plan import Launch
from elastic.planning.state import ControllerState, Record


class LedgerError(Exception):
    """The ledger cannot be written or read; the message says what to do."""


class IntentStore(Protocol):
    """Where a launch token is written down before the call, so that a crash between call and record loses nothing."""

    def write_intent(self, launch: Launch, at: datetime) -> None:
        """Write the token; a known one is left as it is. LedgerError if it is not surely written: then no call."""
        ...


class Ledger(IntentStore, Protocol):
    """The memory on disk."""

    def append(self, record: Record, state: ControllerState) -> None:
        """One tick, whole, and the state after it. LedgerError (and nothing half-written) if it cannot be."""
        ...
