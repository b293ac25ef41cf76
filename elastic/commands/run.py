"""`elastic run`: the always-on controller in one process, with its page on loopback."""

import signal
import socket
import threading
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from elastic.commands.output import refuse


def run(
    policy: Annotated[Path | None, typer.Option(help="policy file; the embedded default if none is given")] = None,
    data: Annotated[Path, typer.Option(help="folder of the ledger")] = Path("var"),
    port: Annotated[int, typer.Option(help="page and API on 127.0.0.1; the next free port if it is taken")] = 8080,
    speed: Annotated[float, typer.Option(help="how much faster than real time the simulated site runs")] = 600.0,
    seed: Annotated[int, typer.Option(help="of the simulated site")] = 1,
    start: Annotated[str, typer.Option(help="the simulated site's first instant, ISO 8601 in UTC")] = "",
) -> None:
    """Run the controller on a simulated site until Ctrl-C.

    Examples: [bold]elastic run[/bold], [bold]elastic run --speed 3600 --port 9000[/bold]
    """
    from datetime import UTC, datetime

    from elastic.controller import Controller
    from elastic.ledger import SqlLedger
    from elastic.ledger_port import LedgerError
    from elastic.policy_file import PolicyError, default_policy_path, load_policy
    from elastic.service import TICK_S, Service
    from elastic.web.app import make_app
    from elastic.wiring import simulated_site, system_clock
    from forecast.forecaster import Forecasts

    clock = system_clock()
    try:
        begin = datetime.fromisoformat(start).replace(tzinfo=UTC) if start else clock.now().replace(microsecond=0)
    except ValueError:
        refuse(f"--start {start!r} is no instant; write it like 2026-12-01T06:00")
    try:
        wanted = load_policy(policy or default_policy_path(), at=begin, data_may_end=True)
        data.mkdir(parents=True, exist_ok=True)
        ledger = SqlLedger(f"sqlite:///{data / 'ledger.sqlite'}")
    except PolicyError as trouble:
        refuse(*[f"{c.file}:{c.line}:{c.column} {c.path}: {c.message}" for c in trouble.complaints])
    except (LedgerError, OSError) as trouble:
        refuse(str(trouble))
    site = simulated_site(wanted, start=begin, seed=seed, speed=speed)
    controller = Controller(site.ports, ledger, policy=lambda: wanted, forecasts=Forecasts)
    service = Service(
        controller=controller,
        clock=site.ports.clock,
        real_clock=clock,
        say=typer.echo,
        interval_real_s=TICK_S / speed,
    )
    _stop_on_signals(service.stop)
    open_port = _free_port(port)
    server = _serve(make_app(service), open_port)
    typer.echo(f"listening on http://127.0.0.1:{open_port} (page, /healthz, /api/status); Ctrl-C ends it")
    typer.echo(f"simulated site: {site.node_count} nodes at home, {speed:g} times real time, ledger {ledger.url}")
    service.run()
    server.should_exit = True
    ledger.close()
    typer.echo("ended; the ledger is closed")


def _stop_on_signals(stop: threading.Event) -> None:
    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)


def _free_port(wanted: int) -> int:
    """The wanted port, or the next free one of the ten after it, or any."""
    for port in range(wanted, wanted + 10):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _serve(app: object, port: int):  # type: ignore[no-untyped-def]
    import uvicorn

    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning", lifespan="off")  # type: ignore[arg-type]
    )
    threading.Thread(target=server.run, daemon=True, name="page").start()
    return server
