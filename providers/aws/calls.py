"""Every call to AWS goes through here: one rate for all callers, timeouts, bounded retries of reads, our error kinds.

The rate adapts: a throttled call halves it, calls that pass raise it slowly (additive increase, multiplicative
decrease, as botocore's adaptive mode and TCP do). Writes are never repeated here: their callers know how.
"""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, IncompleteReadError, ParamValidationError

from providers.aws.errors import translated
from providers.errors import InvalidRequest, ProviderError, Throttled, Unreachable
from providers.ports import Clock

# EC2's buckets for unmutating calls refill at 20 a second and hold 100, mutating ones at 5 and 50 or less (EC2 API
# throttling limits); one bucket for all of ours stays below both.
RATE_PER_S, BURST = 10.0, 50.0
LEAST_RATE_PER_S, GROWTH_PER_S = 0.2, 0.1
# A tick waits at most this long for its turn; then it is told that it is throttled and goes on without.
PATIENCE_S = 2.0
READ_ATTEMPTS, PAUSE_S = 3, 0.3
MAX_PAGES = 200  # of one listing: 200,000 machines; a listing that never ends is no listing
Clients = Callable[[str], Any]


class Calls:
    """The calls of one account and region. `clients(service)` gives the boto3 client (or a fake's) for this thread."""

    def __init__(self, clients: Clients, clock: Clock, *, rate_per_s: float = RATE_PER_S, burst: float = BURST) -> None:
        self._clients, self._clock = clients, clock
        self._lock = threading.Lock()
        self._most_per_s, self._burst = rate_per_s, burst
        self._rate_per_s, self._tokens, self._filled_at = rate_per_s, burst, clock.now()
        self._jitter = random.Random()
        self.counts: Counter[str] = Counter()  # by operation, attempts included
        self.throttled_at: datetime | None = None

    def read(self, service: str, operation: str, **asked: Any) -> dict[str, Any]:
        """A call without effect: repeated a few times, with pauses, when it is throttled or gets no answer."""
        for attempt in range(READ_ATTEMPTS):
            try:
                return self.write(service, operation, **asked)
            except (Throttled, Unreachable):
                if attempt + 1 == READ_ATTEMPTS:
                    raise
                self._clock.wait(PAUSE_S * 2**attempt * self._jitter.uniform(0.5, 1.5))
        raise AssertionError("every way out of the loop returns or raises")

    def pages(self, service: str, operation: str, *, key: str, **asked: Any) -> Iterator[Any]:
        """The items of every page of a listing, in order. It ends with an error rather than short (F024)."""
        token: str | None = None
        for _ in range(MAX_PAGES):
            page = self.read(service, operation, **asked, **({"NextToken": token} if token else {}))
            yield from page.get(key, ())
            token = page.get("NextToken") or None
            if token is None:
                return
        raise Unreachable(f"{operation}: more than {MAX_PAGES} pages, a listing that does not end", scope="region")

    def write(self, service: str, operation: str, **asked: Any) -> dict[str, Any]:
        """One attempt. Raises only `ProviderError` kinds; Unreachable when the effect is not known."""
        self._take_turn(operation)
        self.counts[operation] += 1
        try:
            answer: dict[str, Any] = getattr(self._clients(service), operation)(**asked)
        except ParamValidationError as trouble:
            raise InvalidRequest(f"{operation}: {trouble}") from trouble
        except (BotoCoreError, ClientError, IncompleteReadError) as trouble:
            error = translated(trouble, operation=operation)
            if isinstance(error, Throttled):
                self._slow_down()
            raise error from trouble
        self._speed_up()
        return answer

    @property
    def rate_per_s(self) -> float:
        """Calls a second allowed now."""
        return self._rate_per_s

    def _take_turn(self, operation: str) -> None:
        """A token of the bucket, or a bounded wait for one."""
        wait_s = self._missing_s()
        if wait_s > PATIENCE_S:
            raise Throttled(
                f"{operation}: not asked, our own limit after throttling has no turn for it", scope="region"
            )
        if wait_s > 0:
            self._clock.wait(wait_s * self._jitter.uniform(1.0, 1.2))

    def _missing_s(self) -> float:
        """Take a token; how long to wait until it is there. A token too far away is not taken."""
        with self._lock:
            now = self._clock.now()
            passed_s = max(0.0, (now - self._filled_at).total_seconds())
            self._tokens = min(self._burst, self._tokens + passed_s * self._rate_per_s)
            self._filled_at = now
            wait_s = max(0.0, (1.0 - self._tokens) / self._rate_per_s)
            if wait_s <= PATIENCE_S:
                self._tokens -= 1.0
            return wait_s

    def _slow_down(self) -> None:
        with self._lock:
            self._rate_per_s = max(LEAST_RATE_PER_S, self._rate_per_s / 2)
            self._tokens = min(self._tokens, 1.0)
            self.throttled_at = self._clock.now()

    def _speed_up(self) -> None:
        with self._lock:
            self._rate_per_s = min(self._most_per_s, self._rate_per_s + GROWTH_PER_S)


def trouble_words(trouble: ProviderError) -> str:
    """One line for people."""
    return f"{trouble.kind} ({trouble.scope}): {trouble.detail}"
