"""`elastic run` as a process of its own: what it prints, serves and leaves behind, however it ends."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa

from elastic.ledger import SqlLedger
from elastic.ledger_tables import INTENTS, RECORDS
from providers.clock import SystemClock

ROOT = Path(__file__).parents[2]
CLOCK = SystemClock()
START_LIMIT_S, END_LIMIT_S = 60.0, 5.0


class Running:
    """One started service; everything it prints goes to a file."""

    def __init__(self, data: Path, *options: str, file_limit_kib: int | None = None) -> None:
        self.data, self.out = data, data.parent / f"{data.name}-{len(list(data.parent.glob('*.out')))}.out"
        command = [sys.executable, "-m", "elastic", "run", "--data", str(data), "--speed", "6000", *options]
        if file_limit_kib is not None:
            command = ["bash", "-c", f'ulimit -f {file_limit_kib}; exec "$@"', "run", *command]
        with self.out.open("w") as out:
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )

    @property
    def text(self) -> str:
        return self.out.read_text()

    def until(self, true, *, limit_s: float = START_LIMIT_S) -> None:
        """Wait until the condition holds; the process must not end meanwhile."""
        began = CLOCK.now()
        while not true():
            assert self.process.poll() is None, self.text
            assert (CLOCK.now() - began).total_seconds() < limit_s, self.text
            CLOCK.wait(0.1)

    @property
    def url(self) -> str:
        self.until(lambda: "listening on" in self.text)
        return re.search(r"listening on (http://127\.0\.0\.1:\d+)", self.text)[1]

    def health(self) -> httpx.Response:
        return httpx.get(f"{self.url}/healthz", timeout=10)

    def until_tick(self, tick: int) -> None:
        self.until(lambda: self.health().json()["tick"] >= tick)

    def end(self, number: int = signal.SIGINT, *, times: int = 1) -> int:
        """Send the signal to it and its workers, as a terminal does; the exit status. Fails when it takes longer than a
        person waits."""
        for _ in range(times):
            os.killpg(self.process.pid, number)
        return self.process.wait(timeout=END_LIMIT_S)


@pytest.fixture
def start(tmp_path):
    """Starts services on a folder of their own, and ends them when a test is over."""
    started = []

    def run(*options: str, data: str = "data", **more: object) -> Running:
        one = Running(tmp_path / data, *options, **more)
        started.append(one)
        return one

    yield run
    for one in started:
        if one.process.poll() is None:
            os.killpg(one.process.pid, signal.SIGKILL)
            one.process.wait()


def ticks(data: Path) -> list[int]:
    ledger = SqlLedger(f"sqlite:///{data / 'ledger.sqlite'}")
    with ledger.engine.connect() as connection:
        found = [row[0] for row in connection.execute(sa.select(RECORDS.c.tick).order_by(RECORDS.c.id))]
    ledger.close()
    return found


def state_of(data: Path):
    """The memory by the newest checkpoint and by all records: they must agree."""
    ledger = SqlLedger(f"sqlite:///{data / 'ledger.sqlite'}")
    state, whole = ledger.rebuild_state(), ledger.rebuild_state(from_checkpoint=False)
    ledger.close()
    assert state == whole
    return state


def launched(data: Path) -> list[tuple[str, int]]:
    """(token, nodes) of every launch written down."""
    ledger = SqlLedger(f"sqlite:///{data / 'ledger.sqlite'}")
    with ledger.engine.connect() as connection:
        found = [(row.token, row.nodes) for row in connection.execute(sa.select(INTENTS))]
    ledger.close()
    return found


MORNING = ("--port", "0", "--start", "2026-12-01T08:30")


@pytest.mark.slow
def test_it_serves_real_figures_ends_cleanly_and_goes_on_where_it_ended(start):
    first = start(*MORNING)
    first.until_tick(240)  # by noon the desk has rented something
    health = first.health()
    assert (health.status_code, health.json()["ok"]) == (200, True)
    page = httpx.get(f"{first.url}/", timeout=10)
    assert page.status_code == 200
    now = httpx.get(f"{first.url}/api/status", timeout=10).json()
    assert now["at"].startswith("2026-12-01")
    assert any(isinstance(v, int | float) and v > 0 for v in now.values())
    assert "a100-onprem" in page.text
    assert "elastic" in httpx.get(f"{first.url}/metrics", timeout=10).text
    assert re.search(r"Tue 01 Dec 09:00 UTC .*GPUs run", first.text), "a line every simulated hour"
    assert first.end() == 0
    assert "Traceback" not in first.text
    assert first.text.strip().endswith("ended; the ledger is whole and closed")
    seen = ticks(first.data)
    assert seen == list(range(1, len(seen) + 1))
    before = state_of(first.data)
    assert before.spend.usd_month > 0

    second = start("--port", "0")
    second.until_tick(before.tick + 30)
    assert re.search(r"from 2026-12-01 \d\d:\d\d UTC", second.text), "time goes on where the ledger ended"
    assert second.end(signal.SIGTERM) == 0
    after = state_of(second.data)
    assert after.tick > before.tick
    assert after.spend.usd_month >= before.spend.usd_month
    assert ticks(second.data) == list(range(1, after.tick + 1))


@pytest.mark.slow
def test_killed_at_any_time_it_starts_again_and_nothing_is_lost_or_bought_twice(start):
    """F002, F037: whatever a kill -9 left is read back; one tick at most is missing."""
    first = start(*MORNING)
    first.until_tick(240)
    tick = first.health().json()["tick"]
    first.process.kill()
    first.process.wait()
    before, tokens = state_of(first.data), launched(first.data)
    assert before.tick >= tick
    assert tokens
    second = start("--port", "0")
    second.until_tick(before.tick + 60)
    assert second.end() == 0
    assert "Traceback" not in second.text
    after = launched(second.data)
    assert after[: len(tokens)] == tokens or set(tokens) <= set(after)
    assert len({token for token, _ in after}) == len(after)
    seen = ticks(second.data)
    assert seen == list(range(1, len(seen) + 1))


@pytest.mark.slow
def test_a_port_that_is_taken_is_said_and_the_next_one_is_used(start):
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    port = taken.getsockname()[1]
    one = start("--port", str(port))
    assert one.url != f"http://127.0.0.1:{port}"
    assert f"port {port} is taken" in one.text
    one.until_tick(30)
    assert one.end(signal.SIGTERM, times=2) == 0, "a second signal loses nothing (F037)"
    assert "Traceback" not in one.text
    assert state_of(one.data).tick >= 30
    taken.close()


@pytest.mark.slow
def test_scripted_trouble_is_played_and_shown(start, tmp_path):
    """A story's `faults` are a script for the service as well."""
    script = tmp_path / "faults.yaml"
    script.write_text("faults:\n  - {at_min: 5, queue_gap: page 3 failed, for_min: 100000}\n")
    one = start(*MORNING, "--faults", str(script))
    one.until_tick(10)
    health = one.health().json()
    assert health["ok"]
    assert any("page 3 failed" in note for note in health["notes"])
    assert one.end() == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- {at_min: 5, quake: 1}", "fault 1"),
        ("- {at_min: 5, dry: {zone: a}}", "give for_min"),
        ("just words", "write a list of faults"),
        ("- {at_min: 5", "faults.yaml:"),
    ],
)
def test_a_script_that_cannot_be_played_is_told_with_its_file_and_entry(text, words, tmp_path):
    script = tmp_path / "faults.yaml"
    script.write_text(text)
    done = refused("--port", "0", "--data", str(tmp_path / "data"), "--faults", str(script))
    assert done.returncode == 2, done.stderr
    assert "faults.yaml" in done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_ledger_on_a_full_disk_holds_launches_and_says_so_until_it_is_ended(start):
    """A file that may not grow is a full disk for the program."""
    one = start(*MORNING, file_limit_kib=700)
    one.until(lambda: one.health().status_code == 503)
    health = one.health().json()
    assert any("cannot be written" in line and "free space" in line for line in health["trouble"]), health
    tick = health["tick"]
    one.until_tick(tick + 60)
    assert one.health().status_code == 503
    assert one.end() == 0
    assert "Traceback" not in one.text
    seen, state = ticks(one.data), state_of(one.data)
    assert seen == list(range(1, len(seen) + 1)), "nothing half-written"
    assert state.tick < tick + 60
    late = SqlLedger(f"sqlite:///{one.data / 'ledger.sqlite'}")
    with late.engine.connect() as connection:
        last_written = connection.execute(sa.select(sa.func.max(RECORDS.c.at))).scalar()
        intents = [row.at for row in connection.execute(sa.select(INTENTS))]
    late.close()
    assert all((at - last_written).total_seconds() <= 120 for at in intents), "no launch without its record to come"


def refused(*options: str, **more: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "elastic", "run", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False, **more)


def test_a_ledger_of_a_newer_program_is_refused(tmp_path):
    """F038."""
    ledger = SqlLedger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    with ledger.engine.begin() as connection:
        connection.execute(sa.text("update alembic_version set version_num = '9999'"))
    ledger.close()
    done = refused("--data", str(tmp_path), "--port", "0")
    assert done.returncode == 2
    assert "schema is newer" in done.stderr
    assert "Traceback" not in done.stderr
    assert "listening" not in done.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--policy", "no/such/policy.yaml"], "no/such/policy.yaml"),
        (["--start", "2026-13-01"], "Write it like"),
        (["--ledger", "nonsense"], "Write it like"),
        (["--data", "/dev/null/data"], "/dev/null"),
        (["--faults", "no/such/faults.yaml"], "no/such/faults.yaml"),
        (["--speed", "0"], "--speed"),
        (["--port", "99999"], "--port"),
    ],
)
def test_what_cannot_be_used_is_told_in_a_line_and_exits_with_2(options, words, tmp_path):
    base = ["--port", "0"] if "--port" not in options else []
    base += ["--data", str(tmp_path)] if "--data" not in options else []
    done = refused(*base, *options)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_told(tmp_path):
    tmp_path.chmod(0o500)
    done = refused("--data", str(tmp_path), "--port", "0")
    tmp_path.chmod(0o700)
    assert done.returncode == 2
    assert "writable" in done.stderr
