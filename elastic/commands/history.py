"""`elastic history`: import, show, and a made-up sample. Reading is `providers.history`; here it is asked and told."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elastic.commands.output import FINDING, Format, FormatOption, print_json, refuse

if TYPE_CHECKING:
    from providers.history import History, ReadOptions

app = typer.Typer(help="Histories of real queues: read, clean, look at.", no_args_is_help=True)

QUIET_S = 2.0  # no bar for what is over sooner
KIND_HELP = "sacct, swf, csv, helios, philly or alibaba-openb"


@app.command("import")
def import_history(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=KIND_HELP)],
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="one or several files, plain or gzip")],
    out: Annotated[Path | None, typer.Option("--out", help="Parquet to write [default: FILE's name here]")] = None,
    column: Annotated[
        list[str] | None, typer.Option("--column", help="NAME=COLUMN, e.g. gpus=NGPU (kind csv; repeat)")
    ] = None,
    zone: Annotated[str | None, typer.Option("--zone", help="IANA zone of times written without one")] = None,
    origin: Annotated[str | None, typer.Option("--origin", help="when second 0 was, for relative times (ISO)")] = None,
    now: Annotated[str | None, typer.Option("--now", help="no later time is believed (ISO)")] = None,
    cpus_per_gpu: Annotated[float, typer.Option("--cpus-per-gpu", min=0.001, help="kind swf")] = 1.0,
    max_gpus: Annotated[int, typer.Option("--max-gpus", min=1, help="a job with more is left out")] = 100_000,
    output: FormatOption = Format.TEXT,
) -> None:
    """Read and clean a queue's history and write it as Parquet. Tells what was left out and why.

    Exit 1 when nothing usable remains (nothing is written then).
    """
    from providers.history import HistoryError, ReadOptions, read_history, write_history

    options = ReadOptions(
        columns=_columns(column or []),
        zone=zone,
        now_s=_instant("--now", now),
        origin_s=_instant("--origin", origin),
        cpus_per_gpu=cpus_per_gpu,
        max_gpus=max_gpus,
    )
    target = out or Path(files[0].name.removesuffix(".gz")).with_suffix(".parquet")
    try:
        if target.resolve() in {file.resolve() for file in files}:
            refuse(f"{target}: the output would replace its input. Give another --out")
        history = _with_progress(options, lambda chosen: read_history(kind, files, options=chosen))
        empty = history.report.rows_kept == 0
        if not empty:
            write_history(history, target)
    except HistoryError as trouble:
        refuse(str(trouble))
    _tell(history, "" if empty else str(target), output)
    if empty:
        typer.secho("Nothing usable remains; nothing was written.", err=True, fg=typer.colors.YELLOW)
        raise typer.Exit(FINDING)


@app.command("show")
def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="a history, or a file of any kind that can be told")],
    output: FormatOption = Format.TEXT,
) -> None:
    """Span, teams and demand of a history."""
    from providers.history import HistoryError, ReadOptions, load_history

    try:
        history = _with_progress(ReadOptions(), lambda chosen: load_history(file, options=chosen))
    except HistoryError as trouble:
        refuse(str(trouble))
    _tell(history, str(file), output)


@app.command("sample")
def sample(
    out: Annotated[Path, typer.Option("--out", help="Parquet, or CSV by its ending")] = Path("sample.parquet"),
    days: Annotated[int, typer.Option("--days", min=1, max=3660)] = 28,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 1,
    start: Annotated[str, typer.Option("--start", help="first day (ISO)")] = "2026-03-02",
    scale: Annotated[float, typer.Option("--scale", min=0.01, max=100, help="times as many jobs")] = 1.0,
    output: FormatOption = Format.TEXT,
) -> None:
    """Write a made-up history of a research desk: four teams, two time zones, office hours, gangs."""
    from providers.history import HistoryError, write_history
    from providers.history.sample import sample_history, write_csv

    begin_s = _instant("--start", start)
    assert begin_s is not None
    history = sample_history(start=datetime.fromtimestamp(begin_s, UTC), days=days, seed=seed, scale=scale)
    try:
        if out.suffix == ".csv":
            write_csv(history, out)
        else:
            write_history(history, out)
    except HistoryError as trouble:
        refuse(str(trouble))
    _tell(history, str(out), output)


def _columns(pairs: list[str]) -> dict[str, str]:
    columns = {}
    for pair in pairs:
        name, mark, column = pair.partition("=")
        if not mark or not column:
            refuse(f"--column {pair}: write NAME=COLUMN, such as --column gpus=NGPU")
        columns[name.strip()] = column.strip()
    return columns


def _instant(option: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        refuse(f"{option} {text}: no time. Write it like 2026-03-02 or 2026-03-02T09:00+01:00")
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _with_progress(options: "ReadOptions", read: "Callable[[ReadOptions], History]") -> "History":
    """Read with a bar on stderr, drawn only for files that take a while (reports come every 100,000 lines)."""
    from dataclasses import replace

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("reading"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading", total=None, visible=False)

        def report(done: int, total: int) -> None:
            if progress.tasks[0].elapsed and progress.tasks[0].elapsed > QUIET_S:
                progress.update(task, completed=done, total=total, visible=True)

        return read(replace(options, progress=report))


def _summary(history: "History") -> dict[str, object]:
    """What a person asks first. Demand by hour."""
    import numpy as np

    from elastic.history_demand import demand_of, span_of

    summary: dict[str, object] = {
        "kind": history.origin.kind,
        "files": list(history.origin.files),
        "form": "jobs" if history.series is None else "series",
        "rows_read": history.report.rows_read,
        "rows_kept": history.report.rows_kept,
        "dropped": [{"reason": d.reason, "rows": d.rows, "examples": list(d.examples)} for d in history.report.dropped],
        "notes": list(history.report.notes),
    }
    if history.report.rows_kept == 0:
        return summary
    start, end = span_of(history)
    demand = demand_of(history)
    summary["start"], summary["end"] = start.isoformat(), end.isoformat()
    summary["days"] = round((end - start).total_seconds() / 86_400, 1)
    summary["demand_gpus"] = {
        key: {"mean": round(float(np.nanmean(s.gpus)), 1), "peak": float(np.nanmax(s.gpus)), "gaps": int(s.gaps.sum())}
        for key, s in demand.items()
        if not s.gaps.all()
    }
    return summary


def _tell(history: "History", target: str, output: Format) -> None:
    summary = {**_summary(history), "file": target}
    if output is Format.JSON:
        print_json(summary)
        return
    from rich.console import Console
    from rich.table import Table

    console = Console()
    report = history.report
    console.print(
        f"{target or '(not written)'}: {report.rows_kept:,} of {report.rows_read:,} rows kept", highlight=False
    )
    if "start" in summary:
        console.print(f"{summary['start']} to {summary['end']}, {summary['days']} days", highlight=False)
    for note in report.notes:
        console.print(f"note: {note}", highlight=False, markup=False, soft_wrap=True)
    if report.dropped:
        table = Table("left out because", "rows", "for example")
        for dropped in report.dropped:
            table.add_row(dropped.reason, f"{dropped.rows:,}", ", ".join(dropped.examples[:3]))
        console.print(table)
    demand = summary.get("demand_gpus")
    if isinstance(demand, dict):
        table = Table("team", "mean GPUs", "peak GPUs", "hours not known")
        for key, figures in sorted(demand.items(), key=lambda entry: (entry[0] != "total", entry[0])):
            table.add_row(key, f"{figures['mean']:,}", f"{figures['peak']:,.0f}", str(figures["gaps"]))
        console.print(table)
