"""The thread in which the slow beats run: apscheduler wakes it, so that a tick never waits for a forecast."""

import threading
from collections.abc import Callable
from datetime import UTC

from apscheduler.executors.debug import DebugExecutor
from apscheduler.schedulers.blocking import BlockingScheduler

LOOK_S = 1  # real seconds between two looks at what is due


class BeatsThread:
    """Calls `look` every second, one call at a time; calls that were missed while one ran are dropped.

    The executor runs jobs in the scheduler's own thread, a daemon: a fit that takes minutes never delays the end.
    """

    def __init__(self, look: Callable[[], object]) -> None:
        self._look, self._ended = look, threading.Event()
        self._scheduler = BlockingScheduler(timezone=UTC, executors={"default": DebugExecutor()})
        self._scheduler.add_job(
            self._look_once, "interval", seconds=LOOK_S, coalesce=True, max_instances=1, misfire_grace_time=None
        )
        self._thread = threading.Thread(target=self._scheduler.start, name="beats", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """No further look; one in progress is left to end or to die with the process.

        apscheduler's own shutdown waits for the job in progress, so it is said from a thread that nobody waits for.
        """
        self._ended.set()
        if self._scheduler.running:
            end = threading.Thread(
                target=self._scheduler.shutdown, kwargs={"wait": False}, daemon=True, name="beats-end"
            )
            end.start()

    def _look_once(self) -> None:
        if not self._ended.is_set():
            self._look()
