"""Pictures of forecasts and backtests: PNG or SVG by the name's ending. Matplotlib without a screen, imported late."""

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np

from elastic.history_forecast import KeyForecast
from forecast.forecaster import DemandSeries, Floats
from forecast.scores import Backtest, champion_paths
from forecast.series import TOTAL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HISTORY_DAYS = 7  # shown before the cutoff; a week shows the rhythm and leaves room for the bands
MAX_TEAMS = 6  # small panels; the largest teams by forecast peak
# Colours that stay apart in the common kinds of colour blindness (Okabe & Ito 2008).
ACTUAL, MEDIAN, BAND, PEAK, QUIET = "#222222", "#0072B2", "#56B4E9", "#D55E00", "#999999"
GRID = "#e5e5e5"


def plot_forecasts(made: Mapping[str, KeyForecast], *, path: Path, zone: str) -> None:
    """The total's history, quantile bands, peaks and (where the record goes on) what came; the largest teams below.

    Raises OSError if the file can't be written.
    """
    teams = [one for key, one in made.items() if key != TOTAL]
    teams = sorted(teams, key=lambda one: -float(one.forecast.gpus[0.9].max()))[:MAX_TEAMS]
    rows = math.ceil(len(teams) / 2)
    figure = _figure(height=4.6 + 2.3 * rows)
    grid = figure.add_gridspec(1 + rows, 2, height_ratios=[2.0] + [1.0] * rows)
    top = figure.add_subplot(grid[0, :])
    _draw_forecast(top, made[TOTAL], zone=zone)
    top.legend(loc="lower left", ncols=4, frameon=False, fontsize=8)
    for number, one in enumerate(teams):
        _draw_forecast(figure.add_subplot(grid[1 + number // 2, number % 2]), one, zone=zone, small=True)
    figure.savefig(path, format=path.suffix[1:].lower(), metadata=_metadata(path))


def plot_backtest(one: Backtest, *, path: Path, zone: str) -> None:
    """What the champion said a day ahead against what came, and every forecaster's errors. OSError as above."""
    figure = _figure(height=8.2)
    grid = figure.add_gridspec(2, 3, height_ratios=[1.5, 1.0])
    _draw_days_ahead(figure.add_subplot(grid[0, :]), one, zone=zone)
    _draw_bars(figure, grid, one)
    figure.savefig(path, format=path.suffix[1:].lower(), metadata=_metadata(path))


def _figure(*, height: float) -> "Figure":
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "elastic"  # the same forecast gives the same file
    from matplotlib.figure import Figure

    return Figure(figsize=(11, height), dpi=130, layout="constrained")


def _metadata(path: Path) -> dict[str, Any]:
    """Without the date of drawing, for the same reason."""
    return {"Date": None} if path.suffix.lower() == ".svg" else {"Software": None}


def _days(start: datetime, step_s: int, count: int, zone: str) -> Floats:
    """Local times as the axis counts them, in days."""
    local, step = ZoneInfo(zone), timedelta(seconds=step_s)
    naive = [(start + number * step).astimezone(local).replace(tzinfo=None) for number in range(count)]
    return np.asarray(_axis_dates().date2num(naive), dtype=np.float64)


def _axis_dates() -> Any:
    """Matplotlib's dates; it gives them no types."""
    from matplotlib import dates

    return dates


def _date_axis(axes: "Axes", *, days: float) -> None:
    dates = _axis_dates()
    axes.xaxis_date()
    if days <= 1.5 * HISTORY_DAYS:
        axes.xaxis.set_major_locator(dates.DayLocator())
        axes.xaxis.set_major_formatter(dates.DateFormatter("%a %d"))
    else:
        locator = dates.AutoDateLocator()
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    axes.grid(axis="y", color=GRID, lw=0.6)


def _draw_forecast(axes: "Axes", one: KeyForecast, *, zone: str, small: bool = False) -> None:
    forecast, record = one.forecast, one.record
    horizon = len(forecast.gpus[0.5])
    cutoff = int((forecast.cutoff - record.start).total_seconds() // record.step_s)
    first = max(cutoff - HISTORY_DAYS * 86_400 // record.step_s, 0)
    shown = record.gpus[first : cutoff + horizon]
    times = _days(record.start + timedelta(seconds=record.step_s * first), record.step_s, len(shown), zone)
    ahead = _days(forecast.cutoff, forecast.step_s, horizon + 1, zone)
    past = cutoff - first
    axes.step(times[: past + 1], shown[: past + 1], where="post", color=ACTUAL, lw=1.1, label="demand")
    if len(shown) > past:
        axes.step(times[past:], shown[past:], where="post", color=ACTUAL, lw=1.1, ls=(0, (2, 1)), label="what came")
    _bands(axes, ahead, {q: np.append(values, values[-1]) for q, values in forecast.gpus.items()})
    _peaks(axes, one, zone=zone, small=small)
    axes.axvline(float(ahead[0]), color=QUIET, lw=0.8, ls=":")
    _date_axis(axes, days=float(ahead[-1] - times[0]))
    title = f"{forecast.key}, by {forecast.forecaster}" + (" (fallback)" if forecast.fallback else "")
    known_to = f"{forecast.cutoff.astimezone(ZoneInfo(zone)):%d %b %Y %H:%M} {zone}"
    _finish(axes, title if small else f"GPU demand, {title}; known to {known_to}", small=small)
    axes.set_xlim(float(times[0]), float(ahead[-1]))
    axes.set_ylim(0, axes.get_ylim()[1] * 1.03)  # room for the peaks' labels


def _bands(axes: "Axes", times: Floats, gpus: Mapping[float, Floats]) -> None:
    axes.fill_between(times, gpus[0.05], gpus[0.95], step="post", color=BAND, alpha=0.25, lw=0, label="5 to 95 %")
    axes.fill_between(times, gpus[0.25], gpus[0.75], step="post", color=BAND, alpha=0.5, lw=0, label="25 to 75 %")
    axes.step(times, gpus[0.9], where="post", color=MEDIAN, lw=0.9, ls="--", label="90 %")
    axes.step(times, gpus[0.5], where="post", color=MEDIAN, lw=1.6, label="median")


def _peaks(axes: "Axes", one: KeyForecast, *, zone: str, small: bool) -> None:
    for number, peak in enumerate(one.forecast.peaks):
        at = float(_days(peak.at, one.forecast.step_s, 1, zone)[0]) + one.forecast.step_s / 172_800
        spread = [[peak.gpus - peak.low_gpus], [peak.high_gpus - peak.gpus]]
        label = "day's peak, 90 %" if number == 0 else None
        axes.errorbar([at], [peak.gpus], yerr=spread, fmt="o", ms=4, color=PEAK, capsize=3, lw=1.1, label=label)
        if not small:
            text = f"{peak.gpus:,.0f} at {peak.at.astimezone(ZoneInfo(zone)):%H:%M}"
            axes.annotate(
                text, (at, peak.high_gpus), (0, 4), textcoords="offset points", ha="center", fontsize=8, color=PEAK
            )


def _draw_days_ahead(axes: "Axes", one: Backtest, *, zone: str) -> None:
    rolled, day = one.rolled, one.rolled.scored
    season = day.stop - day.start
    first, last = rolled.origins[int(one.rows[0])], rolled.origins[int(one.rows[-1])] + season
    series = rolled.series
    start = series.start + timedelta(seconds=series.step_s * first)
    times = _days(start, series.step_s, last - first, zone)
    said = {q: np.full(last - first, np.nan) for q in (0.05, 0.5, 0.9, 0.95)}
    for q, values in said.items():
        paths = champion_paths(rolled, one.selection, quantile=q)
        for row in one.rows:
            begin = rolled.origins[int(row)] - first
            values[begin : begin + season] = paths[int(row), day]
    axes.fill_between(times, said[0.05], said[0.95], step="post", color=BAND, alpha=0.35, lw=0, label="5 to 95 %")
    axes.step(times, said[0.9], where="post", color=MEDIAN, lw=0.5, ls="--", label="90 %")
    axes.step(times, series.gpus[first:last], where="post", color=ACTUAL, lw=0.8, label="what came")
    axes.step(times, said[0.5], where="post", color=MEDIAN, lw=1.0, label="median, a day ahead")
    share = 100 * one.champion.coverage_q90
    title = (
        f"{one.key}: the champion a day ahead, {len(one.rows)} days; {share:.0f} % of hours at or below its 90 % line"
    )
    _finish(axes, f"{title}; times in {zone}", small=False)
    _date_axis(axes, days=float(times[-1] - times[0]))
    axes.set_xlim(float(times[0]), float(times[-1]))
    axes.set_ylim(0, _roof(series, said[0.95], first, last))
    axes.legend(loc="upper left", ncols=5, frameon=False, fontsize=8)


def _roof(series: DemandSeries, high: Floats, first: int, last: int) -> float:
    """Room for what came and for nearly all of the band: one wild hour may leave the picture at the top."""
    came = series.gpus[first:last]
    return float(max(np.nanquantile(came, 0.999), np.nanquantile(high, 0.995), 1.0)) * 1.18


def _draw_bars(figure: "Figure", grid: Any, one: Backtest) -> None:
    names = [*one.candidates, "champion"]
    scores = [*one.candidates.values(), one.champion]
    panels = (
        ("WAPE of the hourly maximum, %", [100 * s.wape for s in scores], "{:.1f}"),
        ("error of the day's peak, %", [100 * s.peak_error for s in scores], "{:.1f}"),
        ("mean pinball loss, GPUs", [s.pinball for s in scores], "{:.2f}"),
    )
    colours = [PEAK if name == "champion" else QUIET if name == one.best_naive else BAND for name in names]
    for number, (title, values, form) in enumerate(panels):
        axes = figure.add_subplot(grid[1, number])
        bars = axes.barh(names, values, color=colours, height=0.7)
        axes.bar_label(bars, [form.format(value) for value in values], padding=3, fontsize=8)
        axes.invert_yaxis()
        axes.set_xlim(0, 1.18 * max(max(values), 1e-9))
        _finish(axes, title, small=True)
        if number:
            axes.set_yticklabels([])


def _finish(axes: "Axes", title: str, *, small: bool) -> None:
    axes.set_title(title, loc="left", fontsize=9 if small else 10.5)
    axes.tick_params(labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_axisbelow(True)
