"""The daily summary: use, waits, spend, and what was not spent against counterfactuals that are named and computed.

Made from a day's sums by the daily beat and by `elastic summary`.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from elastic.figures import WAIT_EDGES_MIN, Day

# What the spend is held against. Each is a way a desk could have run the same demand.
EXCESS_ON_DEMAND = "every GPU of demand above the site, while it was wanted, on demand, without boots"
BURST_AT_ONCE = "burst at once: every job that found the site full rented for when submitted, on demand, boots included"
BOUGHT_PEAK = "bought peak capacity: the highest demand above the site owned in the watched hours, on-prem price"
SAME_ON_DEMAND = "the same rented machines, on demand"


def summary_dict(day: Day) -> dict[str, Any]:
    """The day for programs. Amounts in USD, `avoided` against each named counterfactual (negative: it cost more)."""
    figures = asdict(day)
    figures["waits"] = {
        **{f"within_{edge}_min": n for edge, n in zip(WAIT_EDGES_MIN, day.waits, strict=False)},
        "longer": day.waits[-1],
    }
    figures["avoided_usd"] = avoided_usd(day)
    return figures


def avoided_usd(day: Day) -> dict[str, float | None]:
    """By counterfactual; None where a price that it rests on was not known for a part of the day."""
    priced = day.unpriced_gpu_h == 0
    onprem = day.onprem_usd_per_gpu_hour
    return {
        EXCESS_ON_DEMAND: day.excess_usd_on_demand - day.usd if priced else None,
        BURST_AT_ONCE: day.at_once_usd_on_demand - day.usd if priced else None,
        SAME_ON_DEMAND: day.rented_usd_on_demand - day.usd if priced else None,
        BOUGHT_PEAK: day.peak_excess_gpus * onprem * day.watched_h - day.usd if onprem else None,
    }


def avoided_usd_over(days: Sequence[Day]) -> dict[str, float | None]:
    """The same over several days: the peak bought is the highest of all of them."""
    if not days:
        return {}
    of_demand = ("excess_usd_on_demand", "at_once_usd_on_demand", "rented_usd_on_demand", "unpriced_gpu_h")
    return avoided_usd(
        Day(
            day=days[-1].day,
            peak_excess_gpus=max(d.peak_excess_gpus for d in days),
            onprem_usd_per_gpu_hour=days[-1].onprem_usd_per_gpu_hour,
            **{name: sum(getattr(d, name) for d in days) for name in (*of_demand, "watched_h", "usd")},
        )
    )


def summary_text(day: Day) -> str:
    """The day for people."""
    lines = [f"{day.day} (UTC), watched {day.watched_h:.1f} h"]
    lines.append(
        f"  use     {day.running_gpu_h:.0f} GPU-h ran; the site had {day.home_gpu_h:.0f}, rented {day.rented_gpu_h:.0f}"
        f"{_use_share(day)}"
    )
    if day.peak_at is not None:
        lines.append(f"  peak    {day.peak_gpus} GPUs wanted at {day.peak_at:%H:%M}")
    lines.append(f"  waits   {_waits(day)}")
    lines.append(f"  spend   {day.usd:.2f} USD{_teams(day)}")
    lines += [f"  avoided {_amount(usd)} against: {name}" for name, usd in avoided_usd(day).items()]
    lines.append(
        f"  did     {day.nodes_launched} node(s) launched, {day.nodes_returned} given back, {day.moves} job(s) moved,"
        f" {day.failures} action(s) failed"
    )
    return "\n".join(lines)


def _use_share(day: Day) -> str:
    had = day.home_gpu_h + day.rented_gpu_h
    return f"; {100 * day.running_gpu_h / had:.0f} % of both were used" if had else ""


def _waits(day: Day) -> str:
    if not day.started:
        return "no job started"
    told = f"{day.started} job(s) started"
    for share in (0.5, 0.95):
        edge = day.wait_at_most_min(share)
        told += f", {100 * share:.0f} % within {edge} min" if edge else f", {100 * share:.0f} % took over a day"
    if day.longest_wait_job:
        told += f"; longest {day.longest_wait_s / 60:.0f} min (job {day.longest_wait_job})"
    return told


def _teams(day: Day) -> str:
    told = ", ".join(f"{team or 'no team'} {usd:.2f}" for team, usd in sorted(day.team_usd.items()) if usd)
    return f" ({told})" if told else ""


def _amount(usd: float | None) -> str:
    if usd is None:
        return "not known (no price)"
    return f"{usd:.2f} USD" if usd >= 0 else f"-{-usd:.2f} USD (it cost more)"
