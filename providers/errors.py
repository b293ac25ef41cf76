"""Outside trouble, named by what the caller does next. Mapped once at the edge, caught once in `act` or `observe`.

ProviderError
├── InsufficientCapacity   set the offering aside, take the next
├── QuotaExceeded          set the market aside for long, alert
├── Throttled              slow down, same call later
├── NotFound               it is gone: close the record
├── AccessDenied           alert, do not repeat
├── Unreachable            unknown outcome: look before repeating
├── InvalidRequest         our fault: alert, do not repeat
└── UnknownTrouble         a code we have never seen: back off, alert
"""

from typing import ClassVar


class ProviderError(Exception):
    """`scope` is what the trouble covers: offering, zone, market, region, account, node or source."""

    kind: ClassVar[str] = "unknown"
    retryable: ClassVar[bool] = True

    def __init__(self, detail: str, *, scope: str = "source") -> None:
        super().__init__(detail)
        self.detail = detail
        self.scope = scope


class InsufficientCapacity(ProviderError):
    """The cloud has none of this offering now."""

    kind = "insufficient_capacity"


class QuotaExceeded(ProviderError):
    """We may not have more; the whole market is closed to us for a while."""

    kind = "quota_exceeded"


class Throttled(ProviderError):
    """Too many calls."""

    kind = "throttled"


class NotFound(ProviderError):
    """The named thing does not exist (any more)."""

    kind = "not_found"
    retryable = False


class AccessDenied(ProviderError):
    """The credentials do not allow it."""

    kind = "access_denied"
    retryable = False


class Unreachable(ProviderError):
    """No answer, or none that can be trusted; the effect of a write is unknown."""

    kind = "unreachable"


class InvalidRequest(ProviderError):
    """The request can never succeed as it is."""

    kind = "invalid_request"
    retryable = False


class UnknownTrouble(ProviderError):
    """The cloud said something that our table does not know."""

    kind = "unknown_trouble"
