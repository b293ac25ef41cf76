"""A node's agent and a metadata service as real processes, ended by their ids."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event
from typing import Any

AGENT = Path(__file__).parents[3] / "providers" / "aws" / "node" / "elastic_node.py"
ENDS_AT_PATH = "/latest/meta-data/tags/instance/elastic:ends-at"
NOTICE_PATH = "/latest/meta-data/spot/instance-action"
BEATING = "n=$(cat beats 2>/dev/null || echo 1); echo $((n + 1)) > beats; echo $n"  # another one at each look
WAIT_S = 20.0  # for what should come at once: the machine may be busy
FAR_S = 9e7  # a lease that no uptime of a test machine reaches
INTERVAL_S = 0.1


def until(found: Callable[[], Any], what: str) -> Any:
    """What `found` returns once it is true."""
    limit = time.monotonic() + WAIT_S
    while time.monotonic() < limit:
        answer = found()
        if answer:
            return answer
        Event().wait(0.05)
    raise AssertionError(f"did not come within {WAIT_S:.0f} s: {what}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_for_looks(folder: Path, number: int) -> None:
    """Until an agent whose heartbeat command is BEATING looked so often."""
    path = folder / "beats"
    until(lambda: path.exists() and int(path.read_text() or 0) > number, f"{number} looks at the heartbeat")


class Processes:
    """Started here, ended at the end of a test."""

    def __init__(self, folder: Path, program: Path | None = None) -> None:
        self.folder, self._program = folder, program
        self._running: list[subprocess.Popen[bytes]] = []

    def metadata(self, port: int, *words: str, ends_at: str = "") -> subprocess.Popen[bytes]:
        """A metadata service that takes requests with a token only; `ends_at` is the tag of the lease's end."""
        settings: dict[str, Any] = {}
        if ends_at:
            key = "tags-instance-name"
            settings = {"metadata": {"paths": {key: ENDS_AT_PATH}, "values": {key: ends_at}}}
        (self.folder / "mock.json").write_text(json.dumps(settings))
        command = [str(self._program), *words, "--imdsv2", "--hostname", "127.0.0.1", "--port", str(port)]
        command += ["--config-file", str(self.folder / "mock.json")]
        process = self.start(command, self.folder / "mock.log")
        until(lambda: _answers(port), "the metadata service")
        return process

    def agent(self, port: int, *words: str, **settings: object) -> "AgentProcess":
        """The agent, with `settings` beside those that keep it in the test's folder."""
        return AgentProcess(self, port, list(words), settings)

    def start(self, command: list[str], output: Path) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PATH": f"{self._harmless()}:{os.environ['PATH']}", "HOME": str(self.folder)}
        with output.open("ab") as file:
            process = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )
        self._running.append(process)
        return process

    def end(self) -> None:
        for process in self._running:
            if process.poll() is None:
                process.kill()
            process.wait()

    def _harmless(self) -> Path:
        """A `systemctl` that only says that it was called: whatever goes wrong, this machine stays on."""
        programs = self.folder / "programs"
        programs.mkdir(exist_ok=True)
        (programs / "systemctl").write_text(f'#!/bin/sh\necho "$*" >> {self.folder}/systemctl\n')
        (programs / "systemctl").chmod(0o755)
        return programs


class OldClock(ThreadingHTTPServer):
    """A metadata service in 2001 whose answers a test changes as it likes. Takes the newest token only."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _OldClockAnswers)
        self.answers: dict[str, str] = {}
        self.tokens = 1  # one more makes those given out before void
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self.shutdown()
        self.server_close()


class _OldClockAnswers(BaseHTTPRequestHandler):
    server: OldClock

    def do_PUT(self) -> None:
        self._say(f"token-{self.server.tokens}")

    def do_GET(self) -> None:
        if self.headers["X-aws-ec2-metadata-token"] != f"token-{self.server.tokens}":
            self.send_error(401)
        elif self.path not in self.server.answers:
            self.send_error(404)
        else:
            self._say(self.server.answers[self.path])

    def date_time_string(self, timestamp: float | None = None) -> str:
        return "Wed, 03 Jan 2001 12:00:00 GMT"

    def log_message(self, format: str, *words: object) -> None:
        return

    def _say(self, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


class AgentProcess:
    """One run of the agent. Its commands leave a line in a file of their name."""

    def __init__(self, processes: Processes, port: int, words: list[str], settings: dict[str, object]) -> None:
        self._folder = processes.folder
        self._output = processes.folder / f"agent-{len(list(processes.folder.glob('agent-*')))}"
        given = {
            "lease_s": FAR_S,
            "memory_file": str(self._folder / "memory.json"),
            **{f"{name}_command": self.marking(name) for name in ("warn", "drain", "rebalance", "power_off")},
            **settings,
        }
        path = self._folder / "settings.json"
        path.write_text(json.dumps(given))
        command = [sys.executable, str(AGENT), "--settings", str(path), "--metadata-url", f"http://127.0.0.1:{port}"]
        self.process = processes.start([*command, "--interval", str(INTERVAL_S), *words], self._output)

    def marking(self, name: str) -> str:
        """A command that leaves a line."""
        return f"date >> {self._folder}/{name}"

    def times(self, name: str) -> int:
        """How often the command was run."""
        path = self._folder / name
        return len(path.read_text().splitlines()) if path.exists() else 0

    def lines(self, event: str = "") -> list[dict[str, Any]]:
        """What it said so far."""
        text = self._output.read_text()
        assert "Traceback" not in text, text
        whole = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [line for line in whole if event in ("", line["event"])]

    def says(self, event: str, *, times: int = 1) -> list[dict[str, Any]]:
        """Wait until it said so often."""
        until(lambda: len(self.lines(event)) >= times, f"{times} times {event!r} in {self._output.read_text()}")
        return self.lines(event)

    def ended(self) -> int:
        """Wait for its end: the exit code."""
        return self.process.wait(timeout=WAIT_S)
