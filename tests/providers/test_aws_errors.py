"""AWS's codes as our kinds: what covers what, and what a code means that nobody has seen."""

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    EndpointConnectionError,
    NoCredentialsError,
    ReadTimeoutError,
)

from providers.aws.errors import CODES, meaning_of, translated
from providers.errors import AccessDenied, InsufficientCapacity, QuotaExceeded, Throttled, UnknownTrouble, Unreachable

KINDS = {"insufficient_capacity", "quota_exceeded", "throttled", "not_found", "access_denied", "unreachable",
         "invalid_request"}  # fmt: skip
SCOPES = {"offering", "zone", "market", "region", "account", "node", "source"}


def test_every_code_has_a_kind_and_a_scope_we_know():
    assert {m.kind.kind for m in CODES.values()} == KINDS
    assert {m.scope for m in CODES.values()} <= SCOPES


@pytest.mark.parametrize(
    ("code", "status", "kind", "scope"),
    [
        ("InsufficientInstanceCapacity", 500, InsufficientCapacity, "offering"),
        ("InsufficientFreeAddressesInSubnet", 400, InsufficientCapacity, "zone"),
        ("MaxSpotInstanceCountExceeded", 400, QuotaExceeded, "market"),
        ("VcpuLimitExceeded", 400, QuotaExceeded, "market"),
        ("RequestLimitExceeded", 503, Throttled, "region"),
        ("UnauthorizedOperation", 403, AccessDenied, "account"),
        ("InternalError", 500, Unreachable, "region"),
        ("SomethingNew.NotFound", 400, None, "node"),
        ("SomethingLimitExceeded", 400, QuotaExceeded, "account"),
        ("NeverSeen", 400, UnknownTrouble, "source"),
        ("NeverSeen", 502, Unreachable, "region"),
    ],
)
def test_a_code_means_what_the_caller_does_next(code, status, kind, scope):
    """F014: a spot quota closes the market, not one type."""
    meaning = meaning_of(code, status=status)
    assert kind is None or meaning.kind is kind
    assert meaning.scope == scope


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (NoCredentialsError(), AccessDenied),
        (EndpointConnectionError(endpoint_url="http://x"), Unreachable),
        (ReadTimeoutError(endpoint_url="http://x"), Unreachable),
        (ConnectionClosedError(endpoint_url="http://x"), Unreachable),
        (ClientError({"Error": {"Code": "ExpiredToken", "Message": "old"}}, "x"), AccessDenied),
    ],
)
def test_what_boto3_raises_becomes_one_of_ours_and_keeps_its_words(raised, kind):
    error = translated(raised, operation="describe_instances")
    assert isinstance(error, kind)
    assert "describe_instances" in error.detail
