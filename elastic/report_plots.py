"""The report's pictures as data URIs of SVG: nothing to fetch, sharp at any size. Matplotlib without a screen."""

import math
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from elastic.plots import ACTUAL, BAND, GRID, MEDIAN, PEAK, QUIET
from elastic.report_forecast import DayAhead
from elastic.report_series import Site
from forecast.forecaster import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HOME = "#9fb3c8"
# What lies above so many times the usual (this quantile of the steps with any) is cut off and told.
USUAL_SHARE, WILD_FACTOR = 0.98, 2.5
# Classes of waits, upper edges in minutes; the last class is open.
WAIT_EDGES_MIN = (0.5, 1, 2, 5, 10, 15, 30, 60, 240, 1440)


def supply_plot(site: Site, *, zone: ZoneInfo) -> str:
    """Demand over home and rented GPUs; rented ones again below, where small figures can be read."""
    figure = _figure(5.4)
    top, low = figure.subplots(2, 1, sharex=True, height_ratios=[2.2, 1.0])
    times = _dates(site.times_s, zone)
    supply = site.home_gpus + site.rented_gpus
    top.fill_between(times, 0, site.home_gpus, step="post", color=HOME, alpha=0.55, lw=0, label="GPUs at home")
    top.fill_between(times, site.home_gpus, supply, step="post", color=PEAK, alpha=0.75, lw=0, label="rented and ready")
    top.step(times, site.demand_gpus, where="post", color=ACTUAL, lw=0.9, label="demand: running and waiting")
    _roof(top, times, np.maximum(site.demand_gpus, supply), least=1.1 * site.home_gpus, room=1.2)
    top.legend(loc="upper left", ncols=3, frameon=False, fontsize=8.5)
    low.fill_between(times, 0, site.rented_gpus, step="post", color=PEAK, alpha=0.75, lw=0)
    _roof(low, times, site.rented_gpus, least=1.0, room=1.15)
    _finish(top, "GPUs")
    _finish(low, "rented GPUs")
    _date_axis(low, times)
    return _uri(figure)


def waits_plot(jobs: pd.DataFrame, *, targets_min: list[float]) -> str:
    """Share of jobs and of their GPUs by how long they waited for their first start."""
    figure = _figure(3.4)
    axes = figure.subplots()
    place = np.searchsorted(np.array(WAIT_EDGES_MIN) * 60, jobs.wait_s.to_numpy(dtype=float), side="left")
    count = len(WAIT_EDGES_MIN) + 1
    by_job = 100 * np.bincount(place, minlength=count) / len(jobs)
    gpus = jobs.gpus.to_numpy(dtype=float)
    by_gpu = 100 * np.bincount(place, weights=gpus, minlength=count) / gpus.sum()
    where = np.arange(count)
    for offset, values, colour, label in ((-0.2, by_job, MEDIAN, "of jobs"), (0.2, by_gpu, BAND, "of GPUs asked for")):
        bars = axes.bar(where + offset, values, width=0.38, color=colour, label=label)
        axes.bar_label(bars, [_percent(v) for v in values], padding=2, fontsize=7.5)
    axes.set_xticks(where, _class_names())
    for target in targets_min:
        edge = float(np.searchsorted(np.array(WAIT_EDGES_MIN), target, side="left")) + 0.5
        axes.axvline(
            edge, color=PEAK, lw=1, ls="--", label=f"wait target {target:g} min" if target else "wait target 0"
        )
    axes.set_ylim(0, 112)
    axes.legend(loc="upper right", frameon=False, fontsize=8.5)
    _finish(axes, "%")
    return _uri(figure)


def cost_plot(site: Site, *, zone: ZoneInfo) -> str:
    """Money paid up to each instant, over what the unavoidable GPU-hours alone would have cost."""
    figure = _figure(3.2)
    axes = figure.subplots()
    times = _dates(site.times_s, zone)
    axes.fill_between(times, site.least_usd, site.usd, color=PEAK, alpha=0.15, lw=0)
    axes.plot(times, site.usd, color=PEAK, lw=1.6, label="paid for rented machines")
    axes.plot(times, site.least_usd, color=QUIET, lw=1.3, ls="--", label="unavoidable GPU-hours at the same mean price")
    axes.set_ylim(0, 1.15 * max(float(site.usd[-1]), float(site.least_usd[-1]), 1.0))
    axes.legend(loc="upper left", frameon=False, fontsize=8.5)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    _finish(axes, "USD so far")
    _date_axis(axes, times)
    return _uri(figure)


def forecast_plot(ahead: DayAhead, *, zone: ZoneInfo) -> str:
    """What was said a day ahead against what came."""
    figure = _figure(3.6)
    axes = figure.subplots()
    times_s = ahead.start.timestamp() + 3600.0 * np.arange(len(ahead.actual_gpus), dtype=np.float64)
    times, said = _dates(times_s, zone), ahead.said_gpus
    axes.fill_between(times, said[0.05], said[0.95], step="post", color=BAND, alpha=0.35, lw=0, label="5 to 95 %")
    axes.step(times, said[0.9], where="post", color=MEDIAN, lw=0.6, ls="--", label="90 %")
    axes.step(times, ahead.actual_gpus, where="post", color=ACTUAL, lw=0.9, label="what came")
    axes.step(times, said[0.5], where="post", color=MEDIAN, lw=1.2, label="median, a day ahead")
    band = float(np.nanquantile(said[0.95], 0.9))  # wild hours of the band may leave the picture at the top
    _roof(axes, times, ahead.actual_gpus, least=band, room=1.25)
    axes.legend(loc="upper left", ncols=4, frameon=False, fontsize=8.5)
    _finish(axes, "GPUs wanted, highest of the hour")
    _date_axis(axes, times)
    return _uri(figure)


def _roof(axes: "Axes", times: Floats, values: Floats, *, least: float, room: float) -> None:
    """The top of the picture. A few wild steps (a crash loop that submits thousands of jobs) would press all the rest
    flat: they leave it at the top, and the highest is told."""
    some = values[values > 0]
    usual = max(float(np.nanquantile(some, USUAL_SHARE)) if len(some) else 0.0, least, 1.0)
    place = int(np.nanargmax(values))
    highest = float(values[place])
    if highest <= WILD_FACTOR * usual:
        axes.set_ylim(0, room * max(highest, least, 1.0))
        return
    axes.set_ylim(0, room * 1.25 * usual)
    text = f"up to {highest:,.0f}, cut off here"
    left = place > len(values) / 2
    axes.annotate(
        text, (float(times[place]), room * 1.25 * usual), (-6 if left else 6, -30), textcoords="offset points",
        ha="right" if left else "left", fontsize=8, color=PEAK,
    )  # fmt: skip


def _figure(height: float) -> "Figure":
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "elastic"  # the same replay gives the same file
    from matplotlib.figure import Figure

    return Figure(figsize=(11, height), layout="constrained")


def _uri(figure: "Figure") -> str:
    drawn = BytesIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
    return "data:image/svg+xml;base64," + b64encode(drawn.getvalue()).decode()


def _dates(times_s: Floats, zone: ZoneInfo) -> Floats:
    """Local times as the axis counts them."""
    start = datetime(1970, 1, 1, tzinfo=UTC)
    naive = [(start + timedelta(seconds=float(s))).astimezone(zone).replace(tzinfo=None) for s in times_s]
    return np.asarray(_axis_dates().date2num(naive), dtype=np.float64)


def _axis_dates() -> Any:
    """Matplotlib's dates; it gives them no types."""
    from matplotlib import dates

    return dates


def _date_axis(axes: "Axes", times: Floats) -> None:
    dates = _axis_dates()
    axes.xaxis_date()
    if len(times) > 1:
        axes.set_xlim(float(times[0]), float(times[-1]))
    if 1.0 < times[-1] - times[0] <= 10.0:
        axes.xaxis.set_major_locator(dates.DayLocator())
        axes.xaxis.set_major_formatter(dates.DateFormatter("%a %d %b"))
    else:
        locator = dates.AutoDateLocator()
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))


def _finish(axes: "Axes", unit: str) -> None:
    axes.set_ylabel(unit, fontsize=9)
    axes.tick_params(labelsize=8.5)
    axes.grid(axis="y", color=GRID, lw=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_axisbelow(True)


def _class_names() -> list[str]:
    edges = [_words(edge) for edge in WAIT_EDGES_MIN]
    return [f"≤ {edge}" for edge in edges] + [f"> {edges[-1]}"]


def _words(minutes: float) -> str:
    if minutes < 1:
        return f"{60 * minutes:.0f} s"
    return f"{minutes:g} min" if minutes <= 60 else f"{minutes / 60:g} h"


def _percent(value: float) -> str:
    if value == 0:
        return ""
    return f"{value:.0f}" if value >= 9.5 else f"{value:.1f}" if value >= 0.05 or math.isnan(value) else "<0.1"
