"""Every call to AWS goes through here: one rate for all callers, bounded retries of reads, our error kinds.

Writes are never repeated here: their callers know what a repeat would do.
"""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError
from botocore.parsers import ResponseParserError

from providers.aws.errors import translated
from providers.aws.rate import Rate
from providers.errors import InvalidRequest, Throttled, Unreachable
from providers.ports import Clock

READ_ATTEMPTS, PAUSE_S = 3, 0.3
MAX_PAGES = 200  # of one listing: 200,000 machines; a listing that never ends is no listing
Clients = Callable[[str], Any]


class Calls:
    """The calls of one account and region. `clients(service)` gives the boto3 client (or a fake's) for this thread."""

    def __init__(self, clients: Clients, clock: Clock) -> None:
        self._clients, self._clock = clients, clock
        self._lock = threading.Lock()
        self._rates: dict[str, Rate] = {}
        self._jitter = random.Random()
        self.counts: Counter[str] = Counter()  # by operation, attempts included

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
        rate = self.rate(service)
        if not rate.take_turn():
            raise Throttled(f"{operation}: not asked, AWS slowed us down and its turn is far away", scope="region")
        with self._lock:
            self.counts[operation] += 1
        try:
            answer: dict[str, Any] = getattr(self._clients(service), operation)(**asked)
        except ParamValidationError as trouble:
            raise InvalidRequest(f"{operation}: {trouble}") from trouble
        except ResponseParserError as trouble:  # no AWS answer at all: a proxy's page, say
            raise Unreachable(f"{operation}: the answer is not AWS's: {trouble}", scope="region") from trouble
        except (BotoCoreError, ClientError) as trouble:
            error = translated(trouble, operation=operation)
            if isinstance(error, Throttled):
                rate.slow_down()
            raise error from trouble
        rate.speed_up()
        return answer

    def rate(self, service: str) -> Rate:
        """The turns of one service: EC2's throttling has nothing to do with SQS."""
        with self._lock:
            if service not in self._rates:
                self._rates[service] = Rate(self._clock)
            return self._rates[service]
