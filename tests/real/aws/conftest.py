"""One AWS on loopback for all tests of this folder, as a process; each test finds it as just started."""

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.real.aws.aws_process import AwsProcess, Site


@pytest.fixture(scope="session")
def aws_server() -> Iterator[AwsProcess]:
    """The process."""
    if find_spec("moto") is None:
        pytest.skip("moto is not installed: pip install 'elastic-capacity[aws-like]'")
    process = AwsProcess()
    yield process
    process.end()


@pytest.fixture
def aws_like(aws_server: AwsProcess) -> AwsProcess:
    """An AWS in which nothing has happened yet."""
    aws_server.reset()
    return aws_server


@pytest.fixture
def site(aws_like: AwsProcess) -> Site:
    """An account with what terraform makes."""
    return Site(aws_like)
