"""Fixtures: the processes of a test, and the metadata service built once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.node import programs
from tests.real.node.processes import OldClock, Processes

FIRST_RUN_LIMIT_S = 900  # the first test of a machine waits for downloads and a build


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(FIRST_RUN_LIMIT_S))


@pytest.fixture(scope="session")
def metadata_program() -> Path:
    try:
        return programs.metadata_mock()
    except programs.Missing as missing:
        pytest.skip(f"no metadata service with spot notices: {missing}")


@pytest.fixture
def cloud(metadata_program: Path, tmp_path: Path) -> Iterator[Processes]:
    """A place with a metadata service to start."""
    processes = Processes(tmp_path, metadata_program)
    yield processes
    processes.end()


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Processes]:
    """A place where no metadata service answers."""
    processes = Processes(tmp_path)
    yield processes
    processes.end()


@pytest.fixture
def old_clock() -> Iterator[OldClock]:
    """A metadata service whose answers and clock a test decides."""
    server = OldClock()
    yield server
    server.stop()
