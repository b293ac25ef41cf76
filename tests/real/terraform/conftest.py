"""Fixtures: an engine with the stand-in provider, the example site's plan, and its state after an apply."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.real.terraform import programs
from tests.real.terraform.engine import Engine, bare_environment, controller_policy, copied

FIRST_RUN_LIMIT_S = 900  # the first test of a machine waits for downloads and a build
VARIABLES = "-var-file=example.tfvars"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(FIRST_RUN_LIMIT_S))


@pytest.fixture(scope="session")
def engine_command() -> list[str]:
    try:
        with programs.alone():
            return programs.engine()
    except programs.Missing as missing:
        pytest.skip(f"no Terraform engine: {missing}")


@pytest.fixture(scope="session")
def provider(engine_command: list[str]) -> tuple[Path, Path]:
    """(mirror, schema) of the stand-in."""
    try:
        with programs.alone():
            return programs.mirror(programs.ROOT / "terraform")
    except programs.Missing as missing:
        pytest.skip(f"no stand-in for the AWS provider: {missing}")


@pytest.fixture(scope="session")
def schema(provider: tuple[Path, Path]) -> dict[str, Any]:
    return json.loads(provider[1].read_text())


@pytest.fixture(scope="session")
def engine(engine_command: list[str], provider: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """With a copy of terraform/ to work in."""
    folder = tmp_path_factory.mktemp("terraform")
    settings = folder / "engine.tfrc"
    settings.write_text(
        f'disable_checkpoint = true\nprovider_installation {{\n  filesystem_mirror {{ path = "{provider[0]}" }}\n}}\n'
    )
    environment = bare_environment() | {"TF_CLI_CONFIG_FILE": str(settings), "FAKE_AWS_SCHEMA": str(provider[1])}
    return Engine(command=engine_command, environment=environment, tree=copied(folder / "tree"))


@pytest.fixture(scope="session")
def site(engine: Engine) -> Path:
    """The example root, with providers and modules."""
    folder = engine.tree / "examples" / "site"
    engine.init(folder)
    return folder


@pytest.fixture(scope="session")
def planned(engine: Engine, site: Path) -> dict[str, Any]:
    """What the example site's first plan would make."""
    engine.run(site, "plan", "-no-color", "-input=false", VARIABLES, "-out=first.tfplan")
    return engine.shown(site, "first.tfplan")["planned_values"]


@pytest.fixture(scope="session")
def applied(engine: Engine, site: Path, planned: dict[str, Any]) -> dict[str, Any]:
    """What is there after that plan was applied."""
    engine.run(site, "apply", "-no-color", "-input=false", "first.tfplan")
    return engine.shown(site)["values"]


@pytest.fixture(scope="session")
def policy(engine_command: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The controller's policy for the inputs `engine.POLICY_INPUTS`."""
    return controller_policy(engine_command, tmp_path_factory.mktemp("policy"))
