"""The controller's heartbeat: a file that rented nodes can see, with the time of the last whole tick.

A node whose agent sees it older than half an hour, and that runs no job, powers itself off (`deploy/node`): the second
dead-man switch. Written by the service after every tick that ended well.
"""

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path


class Heartbeat:
    """One file, replaced whole. Trouble is told once, until it is over: nodes then live on for as long as they work."""

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self._path, self._say = path, say
        self._in_trouble = False

    def beat(self, at: datetime) -> None:
        """Write the time down."""
        fresh = self._path.with_name(f".{self._path.name}.new")
        try:
            fresh.write_text(at.isoformat(timespec="seconds") + "\n")
            os.replace(fresh, self._path)
            self._in_trouble = False
        except OSError as trouble:
            if not self._in_trouble:
                words = trouble.strerror or str(trouble)
                self._say(
                    f"the heartbeat {self._path} cannot be written: {words}; idle nodes will power themselves off"
                )
            self._in_trouble = True
