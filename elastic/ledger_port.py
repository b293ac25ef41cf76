"""What the tick asks of a ledger, and the troubles a ledger tells. In SQL: `ledger`."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from elastic.planning.plan import Launch
from elastic.planning.state import ControllerState, Record


class LedgerError(Exception):
    """The ledger cannot be written or read; the message says what to do."""


class BudgetRefused(Exception):
    """What is reserved leaves no room for this launch; the message says which cap and how much is spoken for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """What all launches together must stay under, whoever else launches at the same moment. None: no such cap."""

    usd_per_hour: float | None = None
    max_nodes: int | None = None  # of the launch's pool


class IntentStore(Protocol):
    """Where a launch token is written down before the call, so that a crash between call and record loses nothing."""

    def write_intent(self, launch: Launch, at: datetime, *, caps: Caps | None = None) -> None:
        """Write the token and reserve its nodes and money in the same transaction; a known one is left as it is.
        LedgerError if it is not surely written, BudgetRefused if a cap leaves no room: then no call."""
        ...


class Ledger(IntentStore, Protocol):
    """The memory on disk."""

    def append(self, record: Record, state: ControllerState) -> None:
        """One tick, whole, and the state after it. LedgerError (and nothing half-written) if it cannot be."""
        ...
