"""boto3 clients as the adapter wants them: timeouts on every call, no retries of their own, one client a thread."""

import threading
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config

from providers.aws.account import AwsAccount

CONNECT_TIMEOUT_S, READ_TIMEOUT_S = 5.0, 30.0  # SQS long polls last 20 s
POOL_CONNECTIONS = 10
# Where AWS serves these, whatever the region of the machines (AWS documentation of each).
_DUMMY = {"aws_access_key_id": "loopback", "aws_secret_access_key": "loopback"}
_HOME_REGION = {"pricing": "us-east-1", "ce": "us-east-1"}


def is_loopback(url: str) -> bool:
    """Whether an address is this machine: an AWS there takes any credentials, and real ones are not sent to it."""
    try:
        return urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
    except ValueError:
        return False


class Boto3Clients:
    """Clients of one account and region by service. Sessions and clients are not shared between threads."""

    def __init__(self, account: AwsAccount) -> None:
        self._account = account
        self._local = threading.local()

    def __call__(self, service: str) -> Any:
        """The client of this thread."""
        known: dict[str, Any] = self._local.__dict__
        if service not in known:
            known[service] = self._made(service)
        return known[service]

    def _made(self, service: str) -> Any:
        session = boto3.session.Session(**(_DUMMY if is_loopback(self._account.endpoint_url) else {}))
        region = _HOME_REGION.get(service, self._account.region)
        return session.client(
            service,
            region_name=region if not self._account.endpoint_url else self._account.region,
            endpoint_url=self._account.endpoint_url or None,
            config=Config(
                connect_timeout=CONNECT_TIMEOUT_S,
                read_timeout=READ_TIMEOUT_S,
                retries={"total_max_attempts": 1, "mode": "standard"},  # capacity errors have status 500: never repeat
                max_pool_connections=POOL_CONNECTIONS,
                user_agent_extra="elastic-capacity",
            ),
        )
