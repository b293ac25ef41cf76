"""AWS error codes -> our kinds, in one table. Used by `calls` for errors of a call, by `fleet` for errors of offerings.

Sources: EC2 API error codes, EC2 Fleet `Errors[]`, SQS and STS common errors (AWS documentation); which of them close
an offering, a market or a zone: capacity-anchors (ParallelCluster's and Karpenter's lists).
"""

from dataclasses import dataclass

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
    TokenRetrievalError,
)

from providers.errors import (
    AccessDenied,
    InsufficientCapacity,
    InvalidRequest,
    NotFound,
    ProviderError,
    QuotaExceeded,
    Throttled,
    UnknownTrouble,
    Unreachable,
)


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a code says: the kind, and what the trouble covers."""

    kind: type[ProviderError]
    scope: str


_OFFERING = Meaning(InsufficientCapacity, "offering")
_MARKET_QUOTA = Meaning(QuotaExceeded, "market")
_ACCOUNT_QUOTA = Meaning(QuotaExceeded, "account")
_THROTTLED = Meaning(Throttled, "region")
_DENIED = Meaning(AccessDenied, "account")
_CREDENTIALS = Meaning(AccessDenied, "account")
_OURS = Meaning(InvalidRequest, "source")
_GONE = Meaning(NotFound, "node")
_SILENT = Meaning(Unreachable, "region")

CODES: dict[str, Meaning] = {
    # No capacity of this offering now.
    "InsufficientInstanceCapacity": _OFFERING,
    "InsufficientHostCapacity": _OFFERING,
    "InsufficientCapacity": _OFFERING,
    "InsufficientReservedInstanceCapacity": _OFFERING,
    "ReservationCapacityExceeded": _OFFERING,
    "UnfulfillableCapacity": _OFFERING,
    "SpotMaxPriceTooLow": _OFFERING,
    "Unsupported": _OFFERING,  # the type is not offered in the zone
    "UnsupportedOperation": _OFFERING,
    "InsufficientFreeAddressesInSubnet": Meaning(InsufficientCapacity, "zone"),
    "InsufficientAddressCapacity": Meaning(InsufficientCapacity, "zone"),
    "InvalidAvailabilityZone": Meaning(InsufficientCapacity, "zone"),
    # A limit of ours.
    "MaxSpotInstanceCountExceeded": _MARKET_QUOTA,
    "VcpuLimitExceeded": _MARKET_QUOTA,
    "MaxSpotFleetRequestCountExceeded": _MARKET_QUOTA,
    "SpotInstanceCountLimitExceeded": _MARKET_QUOTA,
    "InstanceLimitExceeded": _MARKET_QUOTA,
    "VolumeLimitExceeded": _ACCOUNT_QUOTA,
    "MaxIOPSLimitExceeded": _ACCOUNT_QUOTA,
    "NetworkInterfaceLimitExceeded": Meaning(QuotaExceeded, "region"),
    "LaunchTemplateLimitExceeded": _ACCOUNT_QUOTA,
    "LaunchTemplateVersionLimitExceeded": _ACCOUNT_QUOTA,
    "FleetNotInAllowedState": _OURS,
    # Too many calls.
    "RequestLimitExceeded": _THROTTLED,
    "Throttling": _THROTTLED,
    "ThrottlingException": _THROTTLED,
    "ThrottledException": _THROTTLED,
    "TooManyRequestsException": _THROTTLED,
    "EC2ThrottledException": _THROTTLED,
    "RequestThrottled": _THROTTLED,
    "RequestThrottledException": _THROTTLED,
    "PriorRequestNotComplete": _THROTTLED,
    "SlowDown": _THROTTLED,
    "LimitExceededException": _THROTTLED,
    # Credentials and rights.
    "UnauthorizedOperation": _DENIED,
    "AccessDenied": _DENIED,
    "AccessDeniedException": _DENIED,
    "Blocked": _DENIED,
    "OptInRequired": _DENIED,
    "PendingVerification": _DENIED,
    "AuthFailure": _CREDENTIALS,
    "InvalidClientTokenId": _CREDENTIALS,
    "UnrecognizedClientException": _CREDENTIALS,
    "SignatureDoesNotMatch": _CREDENTIALS,
    "ExpiredToken": _CREDENTIALS,
    "ExpiredTokenException": _CREDENTIALS,
    "RequestExpired": _CREDENTIALS,
    "MissingAuthenticationToken": _CREDENTIALS,
    "IncompleteSignature": _CREDENTIALS,
    "ServiceLinkedRoleCreationNotPermitted": _DENIED,
    # It is not there.
    "InvalidInstanceID.NotFound": _GONE,
    "InvalidLaunchTemplateId.NotFound": _GONE,
    "InvalidLaunchTemplateName.NotFoundException": _GONE,
    "InvalidLaunchTemplateId.VersionNotFound": _GONE,
    "AWS.SimpleQueueService.NonExistentQueue": Meaning(NotFound, "source"),
    "QueueDoesNotExist": Meaning(NotFound, "source"),
    "ReceiptHandleIsInvalid": _GONE,
    "ParameterNotFound": Meaning(NotFound, "source"),
    # The token of a launch whose machines have ended (F002 b): closed as lost, a new attempt has a new token.
    "IdempotentInstanceTerminated": Meaning(NotFound, "offering"),
    # Our request is wrong as it is.
    "IdempotentParameterMismatch": _OURS,
    "InvalidAMIID.NotFound": _OURS,
    "InvalidAMIID.Malformed": _OURS,
    "InvalidAMIID.Unavailable": _OURS,
    "InvalidSubnetID.NotFound": _OURS,
    "InvalidSubnet": _OURS,
    "InvalidGroup.NotFound": _OURS,
    "InvalidSecurityGroupID.NotFound": _OURS,
    "InvalidKeyPair.NotFound": _OURS,
    "InvalidParameter": _OURS,
    "InvalidParameterValue": _OURS,
    "InvalidParameterCombination": _OURS,
    "InvalidInstanceID.Malformed": _OURS,
    "InvalidInstanceType": _OURS,
    "InvalidLaunchTemplateName.AlreadyExistsException": _OURS,
    "InvalidUserData.Malformed": _OURS,
    "InvalidIamInstanceProfileArn.Malformed": _OURS,
    "InvalidFleetConfig": _OURS,
    "InvalidFleetConfiguration": _OURS,
    "InvalidRequest": _OURS,
    "InvalidNextToken": _OURS,
    "InvalidPaginationToken": _OURS,
    "MissingParameter": _OURS,
    "UnknownParameter": _OURS,
    "ValidationError": _OURS,
    "ValidationException": _OURS,
    "IncorrectInstanceState": _OURS,
    "OperationNotPermitted": _OURS,  # termination protection
    "NoSuchResourceException": Meaning(NotFound, "source"),
    "DryRunOperation": _OURS,
    # No answer that can be trusted.
    "InternalError": _SILENT,
    "InternalFailure": _SILENT,
    "InternalServerError": _SILENT,
    "InternalException": _SILENT,
    "ServiceUnavailable": _SILENT,
    "ServiceUnavailableException": _SILENT,
    "Unavailable": _SILENT,
    "RequestTimeout": _SILENT,
    "RequestTimeoutException": _SILENT,
    "500": _SILENT,
    "502": _SILENT,
    "503": _SILENT,
    "504": _SILENT,
}
# Families of codes: what their end says, for those the table does not name.
_ENDINGS = (
    (".NotFound", _GONE),
    (".NotFoundException", _GONE),
    (".Malformed", _OURS),
    ("LimitExceeded", _ACCOUNT_QUOTA),
    ("Throttled", _THROTTLED),
)
_CREDENTIAL_TROUBLE = (NoCredentialsError, PartialCredentialsError, ProfileNotFound, TokenRetrievalError)


def meaning_of(code: str, *, status: int = 0) -> Meaning:
    """What an AWS code means. An unknown one with a 5xx status is no answer at all; other unknown ones are a kind of
    their own, so that somebody hears of them."""
    known = CODES.get(code)
    if known is not None:
        return known
    for ending, meaning in _ENDINGS:
        if code.endswith(ending):
            return meaning
    return _SILENT if status >= 500 else Meaning(UnknownTrouble, "source")


def provider_error(code: str, message: str, *, status: int = 0) -> ProviderError:
    """An AWS error as one of ours; the detail keeps AWS's code and words."""
    meaning = meaning_of(code, status=status)
    return meaning.kind(f"{code}: {message}".strip(": "), scope=meaning.scope)


def translated(trouble: BotoCoreError | ClientError, *, operation: str) -> ProviderError:
    """What boto3 raised, as one of ours. A connection that broke has an unknown effect."""
    if isinstance(trouble, ClientError):
        told = trouble.response.get("Error", {})
        status = int(trouble.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        return provider_error(str(told.get("Code", "")), f"{told.get('Message', '')} ({operation})", status=status)
    words = f"{operation}: {trouble}"
    if isinstance(trouble, _CREDENTIAL_TROUBLE):
        return AccessDenied(f"{words}. Give the controller a role, or AWS_PROFILE", scope="account")
    if isinstance(trouble, NoRegionError):
        return InvalidRequest(f"{words}. Name the region in the policy's `clouds`", scope="account")
    if isinstance(trouble, EndpointConnectionError):
        return Unreachable(f"{words}. Is the region right and is there a way out to the network?", scope="region")
    return Unreachable(words, scope="region")
