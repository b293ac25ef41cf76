"""Forecasts and backtests as people and programs read them: tables, reasons, plain dictionaries."""

from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import numpy as np

from elastic.history_forecast import KeyForecast
from forecast.champion import WINDOW
from forecast.forecaster import Forecast, Peak
from forecast.scores import Backtest, Scores

if TYPE_CHECKING:
    from rich.table import Table

PARTS = ((0, "night"), (6, "morning"), (12, "afternoon"), (18, "evening"))
PART_HOURS = 6
COLUMNS = ("WAPE%", "peak%", "bias%", "pinball", "q90%", "width", "/last", "/yest.", "s/fit")
LEGEND = (
    "WAPE: error of the hourly maximum; peak: of the day's highest; pinball in GPUs over q50, q90, q95; q90%: share of "
    "hours at or below q90; width: q90 less median, GPUs; /last, /yest.: error over that of the naive forecasts"
)


def why(one: KeyForecast) -> str:
    """Which forecaster speaks and why, in one sentence."""
    name, losses = one.forecast.forecaster, trailing_losses(one)
    if one.forecast.fallback:
        return f"{name}: {one.forecast.fallback}"
    rivals = {other: loss for other, loss in losses.items() if other == "last value"}
    against = "".join(f", {other} {loss:.1f}" for other, loss in rivals.items())
    return f"{name}: mean loss {losses.get(name, float('nan')):.1f} GPUs over the last {WINDOW} days{against}"


def trailing_losses(one: KeyForecast) -> dict[str, float]:
    """Mean pinball loss in GPUs of every candidate over the last four weeks, best first; those never scored are out."""
    means = {}
    for name in one.rolled.paths:
        losses = one.rolled.losses(name)[-WINDOW - 1 :]
        if not np.isnan(losses).all():
            means[name] = float(np.nanmean(losses))
    return dict(sorted(means.items(), key=lambda entry: entry[1]))


def forecast_as_dict(one: KeyForecast, *, zone: ZoneInfo) -> dict[str, object]:
    """Everything a program may want; times in `zone` with their offset."""
    forecast = one.forecast
    return {
        "key": forecast.key,
        "cutoff": forecast.cutoff.astimezone(zone).isoformat(),
        "step_s": forecast.step_s,
        "forecaster": forecast.forecaster,
        "fallback": forecast.fallback,
        "why": why(one),
        "losses_gpus": {name: round(loss, 3) for name, loss in trailing_losses(one).items()},
        "clipped": forecast.clipped,
        "gpus": {
            f"q{round(100 * q):02d}": [round(float(v), 2) for v in forecast.gpus[q]] for q in sorted(forecast.gpus)
        },
        "peaks": [_peak_as_dict(peak, zone) for peak in forecast.peaks],
    }


def _peak_as_dict(peak: Peak, zone: ZoneInfo) -> dict[str, object]:
    def local(at: datetime | None) -> str | None:
        return None if at is None else at.astimezone(zone).isoformat()

    return {
        "day": peak.day.astimezone(zone).date().isoformat(),
        "gpus": round(peak.gpus, 1),
        "low_gpus": round(peak.low_gpus, 1),
        "high_gpus": round(peak.high_gpus, 1),
        "at": local(peak.at),
        "earliest": local(peak.earliest),
        "latest": local(peak.latest),
    }


def parts_table(forecast: Forecast, *, zone: ZoneInfo) -> "Table":
    """Highest hour of each part of the local day, by quantile."""
    from rich.table import Table

    table = Table(title="highest hour, GPUs", title_justify="left")
    table.add_column("day part")
    for q in sorted(forecast.gpus):
        table.add_column("median" if q == 0.5 else f"q{round(100 * q):02d}", justify="right")
    for label, steps in day_parts(forecast, zone=zone):
        table.add_row(label, *(f"{forecast.gpus[q][steps].max():,.0f}" for q in sorted(forecast.gpus)))
    return table


def day_parts(forecast: Forecast, *, zone: ZoneInfo) -> list[tuple[str, slice]]:
    """Name and steps of each part of the local days ahead."""
    step, count = timedelta(seconds=forecast.step_s), len(next(iter(forecast.gpus.values())))
    parts: list[tuple[str, slice]] = []
    for number in range(count):
        at = (forecast.cutoff + number * step).astimezone(zone)
        begin, name = PARTS[at.hour // PART_HOURS]
        label = f"{at:%a %d %b} {name} {begin:02d}-{begin + PART_HOURS:02d}"
        if parts and parts[-1][0] == label:
            parts[-1] = (label, slice(parts[-1][1].start, number + 1))
        else:
            parts.append((label, slice(number, number + 1)))
    return parts


def peak_text(peak: Peak, *, zone: ZoneInfo) -> str:
    """`Tue 29 Sep: 500 GPUs (453-759) at 17:00 (between 09:00 and 23:00)`."""
    at = peak.at.astimezone(zone)
    text = f"{at:%a %d %b}: {peak.gpus:,.0f} GPUs ({peak.low_gpus:,.0f}-{peak.high_gpus:,.0f}) at {at:%H:%M}"
    if peak.earliest is None or peak.latest is None or peak.earliest == peak.latest:
        return text
    return f"{text} (between {peak.earliest.astimezone(zone):%H:%M} and {peak.latest.astimezone(zone):%H:%M})"


def teams_table(forecasts: Iterable[KeyForecast], *, zone: ZoneInfo) -> "Table":
    """A line a team: its peaks, and who forecasts it why."""
    from rich.table import Table

    table = Table("team", "peaks ahead", "forecaster, and why")
    for one in forecasts:
        peaks = "\n".join(peak_text(peak, zone=zone) for peak in one.forecast.peaks)
        table.add_row(one.forecast.key, peaks, why(one))
    return table


def backtest_as_dict(one: Backtest) -> dict[str, object]:
    """One series' scores."""
    picks = [one.selection.picks[row] for row in one.rows]
    return {
        "key": one.key,
        "windows": len(one.rows),
        "excluded_windows": one.excluded,
        "champion": asdict(one.champion) | {"picked": {name: picks.count(name) for name in dict.fromkeys(picks)}},
        "best_naive": asdict(one.candidates[one.best_naive]) | {"name": one.best_naive},
        "candidates": {name: asdict(scores) for name, scores in one.candidates.items()},
        "silent": dict(one.rolled.refusals),
    }


def backtest_table(one: Backtest) -> "Table":
    """Every candidate, then the champion."""
    from rich.table import Table

    title = f"{one.key}: {len(one.rows)} days ahead, {one.excluded} left out"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 0, 0, 1))
    table.add_column("forecaster", no_wrap=True)
    for column in COLUMNS:
        table.add_column(column, justify="right", no_wrap=True)
    for name, scores in one.candidates.items():
        table.add_row(name + (" *" if name == one.best_naive else ""), *_cells(scores))
    table.add_row("champion", *_cells(one.champion), style="bold")
    return table


def picks_text(one: Backtest) -> str:
    """Who spoke on how many of the days, most first."""
    picks = [one.selection.picks[row] for row in one.rows]
    counted = sorted(((picks.count(name), name) for name in set(picks)), reverse=True)
    return "champion: " + ", ".join(f"{name} {count}" for count, name in counted) + f"; * best naive: {one.best_naive}"


def _cells(s: Scores) -> tuple[str, ...]:
    return (
        f"{100 * s.wape:.1f}",
        f"{100 * s.peak_error:.1f}",
        f"{100 * s.bias:+.1f}",
        f"{s.pinball:.2f}",
        f"{100 * s.coverage_q90:.1f}",
        f"{s.width_q90:.0f}",
        f"{s.mase_last:.2f}",
        f"{s.mase_yesterday:.2f}",
        f"{s.seconds_per_fit:.3f}",
    )
