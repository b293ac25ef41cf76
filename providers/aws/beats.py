"""When each source of facts about the market is asked again, and what is said of one that does not answer.

Used by `offerings`. A source that is denied or wrong waits for a person; a service that is down or slows us down is
left alone for a while with all its sources, so that a tick never waits for the same silence twice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from textwrap import shorten

from providers.errors import ProviderError, Throttled, Unreachable

REFUSED_RETRY = timedelta(minutes=10)  # somebody may be giving us the missing right just now
PAUSE, MAX_PAUSE = timedelta(seconds=30), timedelta(minutes=10)
WORDS_LENGTH = 300
OLD_BEATS = 2  # missed beats after which what is known is called old


@dataclass(slots=True, kw_only=True)
class Source:
    """One thing to ask. `ask` keeps what it learns and returns words for what it could not use; `instead` says what
    serves while nothing was ever read."""

    name: str
    service: str
    beat: timedelta
    ask: Callable[[datetime], Sequence[str]]
    instead: str
    due_at: datetime | None = None  # None: at once
    read_at: datetime | None = None
    refusal: str = ""
    words: tuple[str, ...] = ()


@dataclass(slots=True)
class _Pause:
    until: datetime
    length: timedelta


@dataclass(slots=True)
class Beats:
    """The sources in the order in which they need each other."""

    sources: Sequence[Source]
    _pauses: dict[str, _Pause] = field(default_factory=dict)

    def run(self, at: datetime) -> bool:
        """Ask what is due: all that is needed at once, and one of those that only grow old, so that a tick has few
        calls. True if anything was asked. Never raises a `ProviderError`."""
        open_now = [s for s in self.sources if (p := self._pauses.get(s.service)) is None or at >= p.until]
        at_once = [s for s in open_now if s.due_at is None]
        old = [s for s in open_now if s.due_at is not None and at >= s.due_at]
        for source in (*at_once, *sorted(old, key=lambda s: s.due_at or at)[:1]):
            pause = self._pauses.get(source.service)
            if pause is None or at >= pause.until:  # the one before it may have found its service down
                self._ask(source, at)
        return bool(at_once or old)

    def hurry(self, *names: str) -> None:
        """These are due at once."""
        for source in self.sources:
            if source.name in names:
                source.due_at = None

    def trouble(self, at: datetime) -> tuple[str, ...]:
        """What is denied, down or old, and rows that were no good."""
        return tuple(words for source in self.sources for words in (*_standing(source, at), *source.words))

    def _ask(self, source: Source, at: datetime) -> None:
        try:
            source.words = tuple(f"{source.name}: {words}" for words in source.ask(at))
        except (Throttled, Unreachable) as trouble:
            source.refusal = _words(trouble)
            known = self._pauses.get(source.service)
            length = min(MAX_PAUSE, known.length * 2) if known else PAUSE
            self._pauses[source.service] = _Pause(at + length, length)
        except ProviderError as trouble:
            source.refusal, source.due_at = _words(trouble), at + REFUSED_RETRY
        else:
            self._pauses.pop(source.service, None)
            source.refusal, source.read_at, source.due_at = "", at, at + source.beat


def _standing(source: Source, at: datetime) -> list[str]:
    if source.read_at is None:
        return [f"{source.name}: {source.refusal}; {source.instead}"] if source.refusal else []
    age = at - source.read_at
    if not source.refusal and age <= OLD_BEATS * source.beat:
        return []
    return [f"{source.name}: {source.refusal or 'not asked'}; what is known is {_age_words(age)} old"]


def _words(trouble: ProviderError) -> str:
    """In one line: a proxy's answer may be a whole page."""
    return shorten(f"{trouble.kind}: {trouble.detail}", WORDS_LENGTH, placeholder="...")


def _age_words(age: timedelta) -> str:
    minutes = age.total_seconds() / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.0f} h"
