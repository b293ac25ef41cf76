"""Running the engine in a copy of terraform/, and reading its plans and states. Fixtures of `conftest` hand it out."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.real.terraform.programs import ROOT, arguments

RUN_LIMIT_S = 120
SOURCES = ROOT / "terraform"
MODULES = sorted(p.name for p in (SOURCES / "modules").iterdir() if p.is_dir())
POLICY_INPUTS: Mapping[str, Any] = {
    "region": "us-east-1",
    "account_id": "123456789012",
    "role_name": "elastic-desk-controller",
    "owner": "desk",
    "controller": "main",
    "node_role_arn": "arn:aws:iam::123456789012:role/elastic-desk-node",
    "queue_arn": "arn:aws:sqs:us-east-1:123456789012:elastic-desk-events",
    "subnet_ids": ["subnet-0123456789abcdef0"],
    "security_group_ids": ["sg-0123456789abcdef0"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An engine, what its process is told, and the copy of terraform/ it works in."""

    command: list[str]
    environment: dict[str, str]
    tree: Path

    def run(self, folder: Path, *words: str, codes: tuple[int, ...] = (0,)) -> str:
        """What a command printed. AssertionError with all of it if it ended otherwise than with one of `codes`."""
        done = subprocess.run(
            arguments(self.command, folder, *words), env=self.environment, capture_output=True, text=True,
            timeout=RUN_LIMIT_S, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode in codes, f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def init(self, folder: Path) -> None:
        """Providers and modules of a root."""
        self.run(folder, "init", "-no-color", "-input=false")

    def shown(self, folder: Path, *words: str) -> dict[str, Any]:
        """A plan, or the state, as JSON."""
        found: dict[str, Any] = json.loads(self.run(folder, "show", "-json", *words))
        return found


def copied(target: Path) -> Path:
    """terraform/ in a place where the engine may write."""
    ignored = shutil.ignore_patterns(".terraform", ".terraform.lock.hcl", "*.tfstate*", "*.tfplan")
    shutil.copytree(SOURCES, target, ignore=ignored)
    return target


def bare_environment() -> dict[str, str]:
    """Nothing of the person's own settings or credentials reaches the engine."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TF_", "AWS_"))}
    return kept | {"CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1", "TF_CLI_CONFIG_FILE": os.devnull}


def resources(values: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every resource of `planned_values` or of a state's `values`, of all modules; no data sources."""
    rooms = [values["root_module"]]
    while rooms:
        room = rooms.pop()
        rooms += room.get("child_modules", ())
        yield from (r for r in room.get("resources", ()) if r["mode"] == "managed")


def of_type(values: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    """Values of the resources of one type, by address."""
    return {r["address"]: r["values"] for r in resources(values) if r["type"] == kind}


def controller_policy(command: list[str], folder: Path, inputs: Mapping[str, Any] = POLICY_INPUTS) -> dict[str, Any]:
    """The controller's policy as the module renders it for `inputs`, made in `folder`. Needs no provider, only an
    engine: `programs.engine()`."""
    tree = folder / "policy"
    shutil.copytree(SOURCES / "modules" / "controller-role" / "policy", tree)
    (tree / "inputs.auto.tfvars.json").write_text(json.dumps(dict(inputs)))
    engine = Engine(command=command, environment=bare_environment(), tree=tree)
    engine.init(tree)
    engine.run(tree, "apply", "-no-color", "-input=false", "-auto-approve")
    policy: dict[str, Any] = json.loads(json.loads(engine.run(tree, "output", "-json"))["policy_json"]["value"])
    return policy
