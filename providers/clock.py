"""The system's clock: the only file that reads the time or waits."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

# How often a wait looks whether it may end sooner: short enough for a person at Ctrl-C, long enough to cost nothing.
LOOK_S = 0.2


class SystemClock:
    """`providers.ports.Clock` by the machine's own time."""

    def now(self) -> datetime:
        """The time, aware and in UTC."""
        return datetime.now(UTC)

    def wait(self, seconds: float, *, until: Callable[[], bool] | None = None) -> None:
        """Return after `seconds`, or soon after `until()` becomes true. A wall clock set back does not lengthen it."""
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0:
            if until is None:
                time.sleep(left_s)
            elif until():
                return
            else:
                time.sleep(min(LOOK_S, left_s))
