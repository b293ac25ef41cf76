"""`elastic run`: the always-on controller in one process, with its page on loopback."""

import signal
import socket
import threading
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from elastic.commands.output import refuse

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

    from elastic.launch_service import Running
    from elastic.settings import Settings


def run(
    policy: Annotated[Path | None, typer.Option(help="policy file; the embedded default if none is given")] = None,
    data: Annotated[Path, typer.Option(help="folder of the ledger and of elastic.log")] = Path("var"),
    ledger: Annotated[str, typer.Option(help="ledger as an SQLAlchemy URL instead of SQLite in --data")] = "",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="page on 127.0.0.1; the next free one if it is taken; 0: any")
    ] = 8080,
    speed: Annotated[float, typer.Option(min=0.01, help="how much faster than real time the site runs")] = 600.0,
    seed: Annotated[int, typer.Option(help="of the simulated site")] = 1,
    start: Annotated[str | None, typer.Option(help="the site's first instant, ISO 8601; now if none is given")] = None,
    faults: Annotated[Path | None, typer.Option(help="YAML script of trouble for the simulated site")] = None,
    tick: Annotated[float, typer.Option(min=1.0, help="seconds of the site's time between two ticks")] = 60.0,
    heartbeat: Annotated[
        Path | None, typer.Option(help="file that rented nodes can see; idle ones end themselves when it grows old")
    ] = None,
    rent_for_real: Annotated[
        bool, typer.Option("--rent-for-real", help="let the simulated queue rent real machines: it costs money")
    ] = False,
) -> None:
    """Run the controller on a simulated queue until Ctrl-C; clouds of kind aws-like or aws are the real EC2 adapter.

    Examples: [bold]elastic run[/bold], [bold]elastic run --speed 3600 --port 9000[/bold],
    [bold]elastic run --policy policies/aws-like.yaml[/bold]
    """
    from elastic.commands.instant import instant
    from elastic.policy_file import default_policy_path
    from elastic.settings import Settings
    from elastic.web.app import make_app

    settings = Settings(
        policy=policy or default_policy_path(),
        data=data,
        ledger_url=ledger,
        port=port,
        speed=speed,
        seed=seed,
        start=instant("--start", start) if start else None,
        faults=faults,
        tick_s=tick,
        heartbeat=heartbeat,
        rents_for_real=rent_for_real,
    )
    listener = _listen(port)
    running = _built(settings)
    _stop_on_signals(running.service.stop)
    server = _serve(make_app(running.service), listener)
    _greet(running, settings, open_port=listener.getsockname()[1])
    running.run()
    server.should_exit = True
    typer.echo("ended; the ledger is whole and closed")


def _built(settings: "Settings") -> "Running":
    """The service, put together; exit 2 with what is not usable."""
    from elastic.fault_file import FaultFileError
    from elastic.launch_service import SiteError, build
    from elastic.ledger_port import LedgerError
    from elastic.policy_file import PolicyError

    try:
        return build(settings, say=typer.echo)
    except PolicyError as trouble:
        refuse(*[str(c) for c in trouble.complaints])
    except (LedgerError, FaultFileError, SiteError, OSError) as trouble:
        refuse(str(trouble))


def _greet(running: "Running", settings: "Settings", *, open_port: int) -> None:
    """Where it listens and what it runs on."""
    if settings.port not in (0, open_port):
        typer.echo(f"port {settings.port} is taken, {open_port} is used instead")
    typer.echo(f"listening on http://127.0.0.1:{open_port} (page, /healthz, /metrics, /api/status); Ctrl-C ends it")
    for name, cloud in running.site.real.items():
        typer.echo(f"cloud {name}: {cloud.shown}")
    typer.echo(
        f"simulated site: {running.site.node_count} nodes at home, from {running.began:%Y-%m-%d %H:%M} UTC,"
        f" {settings.speed:g} times real time; ledger {running.ledger.shown}"
    )


def _stop_on_signals(stop: threading.Event) -> None:
    """The first signal ends the loop between two ticks; a second one changes nothing."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)


def _listen(wanted: int) -> socket.socket:
    """A socket on the wanted port, or on the next free one of the twenty after it, or on any."""
    tried = [*range(wanted, min(wanted + 20, 65536)), 0] if wanted else [0]
    found = next((listener for port in tried if (listener := _bound(port)) is not None), None)
    return found or refuse("no port on 127.0.0.1 is free")


def _bound(port: int) -> socket.socket | None:
    from elastic.settings import HOST

    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen()
    except OSError:
        listener.close()
        return None
    return listener


def _serve(app: "FastAPI", listener: socket.socket) -> "uvicorn.Server":
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    threading.Thread(target=server.run, args=([listener],), daemon=True, name="page").start()
    return server
