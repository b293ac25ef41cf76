"""The log for programs: one JSON line an event, in `elastic.log` of the data folder. People read terminal and page.

An event has a name, the site's time and, where there is one, the plan's id. Ticks in which nothing happened leave none.
"""

import logging
from contextlib import suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path

import structlog
from structlog.typing import FilteringBoundLogger

from elastic.planning.state import Record, Result

MAX_BYTES, KEPT_FILES = 16 * 2**20, 4  # 80 MiB at most


class EventLog:
    """Writes events; without a path it writes none. A disk that is full costs lines, never a tick."""

    def __init__(self, path: Path | None = None) -> None:
        handler = RotatingFileHandler(path, maxBytes=MAX_BYTES, backupCount=KEPT_FILES) if path else None
        self._handler = handler or logging.NullHandler()
        self._handler.handleError = lambda record: None  # type: ignore[method-assign]
        sink = logging.Logger("elastic", level=logging.INFO)
        sink.addHandler(self._handler)
        self._log: FilteringBoundLogger = structlog.wrap_logger(
            sink,
            wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
            processors=[structlog.processors.add_log_level, structlog.processors.JSONRenderer(default=str)],
        )

    def after_tick(self, record: Record) -> None:
        """What a tick saw go wrong, decided and did."""
        plan, log = record.plan, self._log.bind(at=record.snapshot.at.isoformat(), tick=record.tick)
        for reading in record.snapshot.trouble():
            log.warning("source_unreadable", source=reading.source, error=reading.error)
        if plan.actions or plan.withheld:
            log.info("plan", plan=plan.id, actions=len(plan.actions), withheld=len(plan.withheld),
                     usd_per_hour=plan.cost.usd_per_hour_after)  # fmt: skip
        for stop in plan.withheld:
            log.info("withheld", plan=plan.id, action=stop.action.key, rule=stop.rule, detail=stop.detail)
        reasons = {action.key: action.reason for action in plan.actions}
        for outcome in record.outcomes:
            tell = log.info if outcome.result in (Result.DONE, Result.SKIPPED) else log.warning
            why = reasons.get(outcome.action_key, "")
            tell("outcome", plan=plan.id, action=outcome.action_key, result=outcome.result.value, reason=why,
                 error=outcome.error_kind, detail=outcome.detail)  # fmt: skip

    def event(self, name: str, **keys: object) -> None:
        """Anything else that a program may look for: started, policy, tick_failed, ended."""
        self._log.info(name, **keys)

    def close(self) -> None:
        """Let go of the file."""
        with suppress(OSError):  # what a full disk did not take is lost
            self._handler.close()
