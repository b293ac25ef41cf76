"""`elastic forecast` and `elastic backtest`: what is coming, and how well such forecasts did."""

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn, TypeVar
from zoneinfo import ZoneInfo

import typer

from elastic.commands.instant import instant, zone_of
from elastic.commands.output import FINDING, Format, FormatOption, print_json, refuse

if TYPE_CHECKING:
    from elastic.history_forecast import HistoryDemand, KeyForecast, Progress
    from forecast.calendar import Calendar
    from forecast.scores import Backtest

Made = TypeVar("Made")
QUIET_S = 2.0  # no bar for what is over sooner
PLOTS = (".png", ".svg")
MAX_HORIZON_H = 24 * 14

HistoryArgument = Annotated[Path, typer.Argument(metavar="HISTORY", help="Parquet, or any kind `history import` knows")]
ZoneOption = Annotated[str | None, typer.Option("--tz", help="IANA zone of days [default: the calendar's, UTC]")]
CalendarOption = Annotated[str | None, typer.Option("--calendar", metavar="POLICY:NAME", help="day types of a policy")]
PlotOption = Annotated[Path | None, typer.Option("--plot", help="PNG or SVG to write")]


def forecast(
    history: HistoryArgument,
    horizon_h: Annotated[int, typer.Option("--horizon-h", min=1, max=MAX_HORIZON_H, help="hours ahead")] = 48,
    at: Annotated[str | None, typer.Option("--at", help="forecast from here, seeing nothing later (ISO)")] = None,
    tz: ZoneOption = None,
    calendar: CalendarOption = None,
    plot: PlotOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Hourly demand ahead with quantiles, each day's peak with its time and interval, per team and in total.

    Example: [bold]elastic forecast desk.parquet --tz Europe/London --plot forecast.png[/bold]
    """
    from elastic.history_forecast import forecast_history

    _plottable(plot)
    demand = _demand(history)
    days = _calendar(calendar, tz, demand)
    cutoff = None if at is None else instant("--at", at, zone=days.zone)
    try:
        made = _with_progress(
            lambda progress: forecast_history(demand, calendar=days, horizon_h=horizon_h, at=cutoff, progress=progress)
        )
    except ValueError as needs:
        _nothing(f"{history}: {needs}")
    if plot is not None:
        from elastic.plots import plot_forecasts

        _drawn(plot, lambda: plot_forecasts(made, path=plot, zone=days.zone))
    _tell_forecasts(history, made, days, horizon_h, output)


def backtest(
    history: HistoryArgument,
    days: Annotated[int | None, typer.Option("--days", min=1, help="score only the last so many days")] = None,
    tz: ZoneOption = None,
    calendar: CalendarOption = None,
    plot: PlotOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """How every forecaster would have done: a forecast a day, at six in the morning, of the day ahead.

    Example: [bold]elastic backtest desk.parquet --tz Europe/London --plot backtest.png[/bold]
    """
    from elastic.history_forecast import backtest_history

    _plottable(plot)
    demand = _demand(history)
    calendar_days = _calendar(calendar, tz, demand)
    done, refused = _with_progress(
        lambda progress: backtest_history(
            demand, calendar=calendar_days, days=days, stopwatch=time.perf_counter, progress=progress
        )
    )
    for why in refused.values():
        typer.secho(f"left out: {why}", err=True, fg=typer.colors.YELLOW)
    if not done:
        raise typer.Exit(FINDING)
    if plot is not None:
        from elastic.plots import plot_backtest

        shown = done["total"] if "total" in done else next(iter(done.values()))
        _drawn(plot, lambda: plot_backtest(shown, path=plot, zone=calendar_days.zone))
    _tell_backtests(done, output)


def _tell_forecasts(
    history: Path, made: "dict[str, KeyForecast]", days: "Calendar", horizon_h: int, output: Format
) -> None:
    from elastic.forecast_text import forecast_as_dict, parts_table, peak_text, teams_table, why

    zone, total = ZoneInfo(days.zone), made["total"]
    if output is Format.JSON:
        forecasts = [forecast_as_dict(one, zone=zone) for one in made.values()]
        print_json({"history": str(history), "zone": days.zone, "horizon_h": horizon_h, "forecasts": forecasts})
        return
    from rich.console import Console

    console = Console()
    cutoff = total.forecast.cutoff.astimezone(zone)
    console.print(
        f"{history}: known to {cutoff:%a %d %b %Y %H:%M}, {horizon_h} h ahead, times in {days.zone}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    console.print(f"total by {why(total)}", highlight=False, markup=False, soft_wrap=True)
    console.print(parts_table(total.forecast, zone=zone))
    for peak in total.forecast.peaks:
        console.print(f"peak {peak_text(peak, zone=zone)}", highlight=False, markup=False, soft_wrap=True)
    if total.forecast.clipped:
        console.print("some quantiles were cut at three times the peak of the last two weeks", highlight=False)
    if len(made) > 1:
        console.print(teams_table([one for key, one in made.items() if key != "total"], zone=zone))


def _tell_backtests(done: "dict[str, Backtest]", output: Format) -> None:
    from elastic.forecast_text import LEGEND, backtest_as_dict, backtest_table, picks_text

    if output is Format.JSON:
        print_json({"series": [backtest_as_dict(one) for one in done.values()]})
        return
    from rich.console import Console

    console = Console()
    for one in done.values():
        console.print(backtest_table(one))
        console.print(picks_text(one) + "\n", highlight=False, markup=False, soft_wrap=True)
    console.print(LEGEND, highlight=False, markup=False)


def _demand(path: Path) -> "HistoryDemand":
    from elastic.history_forecast import history_demand
    from providers.history import HistoryError, load_history

    try:
        history = load_history(path)
    except HistoryError as trouble:
        refuse(str(trouble))
    try:
        return history_demand(history)
    except ValueError as trouble:
        _nothing(f"{path}: {trouble}")


def _calendar(asked: str | None, tz: str | None, demand: "HistoryDemand") -> "Calendar":
    """Weekdays and weekends of a zone, or a policy's calendar over the record and the days after it."""
    from forecast.calendar import Calendar

    zone = zone_of(tz or "UTC").key
    if asked is None:
        return Calendar(name=zone, zone=zone)
    file, _, name = asked.rpartition(":")
    if not file or not name:
        refuse(f"--calendar {asked}: write POLICY:NAME, such as --calendar policies/desk.yaml:london")
    from dataclasses import replace

    from elastic.policy_file import PolicyError, load_policy

    total = demand.series["total"]
    until = total.end + timedelta(hours=MAX_HORIZON_H)
    try:
        policy = load_policy(Path(file), at=total.end, since=total.start, until=until, data_may_end=True)
    except PolicyError as complaint:
        refuse(*(str(one) for one in complaint.complaints))
    if name not in policy.calendars:
        refuse(f"--calendar {asked}: {file} has no calendar {name}; it has {', '.join(sorted(policy.calendars))}")
    found = policy.calendars[name]
    return found if tz is None else replace(found, zone=zone)


def _plottable(plot: Path | None) -> None:
    if plot is None:
        return
    if plot.suffix.lower() not in PLOTS:
        refuse(f"--plot {plot}: write a name that ends in .png or .svg")
    if not plot.parent.is_dir():
        refuse(f"--plot {plot}: there is no folder {plot.parent}")


def _drawn(plot: Path, draw: Callable[[], None]) -> None:
    try:
        draw()
    except OSError as trouble:
        refuse(f"--plot {plot}: {trouble.strerror or trouble}")
    typer.secho(f"drawn: {plot}", err=True)


def _nothing(why: str) -> NoReturn:
    typer.secho(why, err=True, fg=typer.colors.YELLOW)
    raise typer.Exit(FINDING)


def _with_progress(work: "Callable[[Progress], Made]") -> Made:
    """A bar on stderr for what takes over two seconds."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("forecasting"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", visible=False)

        def report(done: int, of: int) -> None:
            slow = (bar.tasks[0].elapsed or 0.0) > QUIET_S
            bar.update(task, completed=done, total=of, visible=slow)

        return work(report)
