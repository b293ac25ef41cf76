"""How the process runs, as against what is wanted (the policy): files, address, speed."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

TICK_S = 60.0  # of the site's time
HOST = "127.0.0.1"  # loopback only: there is no sign-in yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Of `elastic run`. `ledger_url` '': SQLite in the `data` folder. `start` None: where the ledger ended, or now."""

    policy: Path
    data: Path = Path("var")
    ledger_url: str = ""
    port: int = 8080
    speed: float = 600.0
    seed: int = 1
    start: datetime | None = None
    faults: Path | None = None  # a script of trouble for the simulated site
    tick_s: float = TICK_S
    heartbeat: Path | None = None  # a file that rented nodes can see
    rents_for_real: bool = False  # a simulated queue may rent real machines

    @property
    def url(self) -> str:
        """Where the ledger is."""
        return self.ledger_url or f"sqlite:///{self.data / 'ledger.sqlite'}"
