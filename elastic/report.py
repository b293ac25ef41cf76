"""`report.html` of a replay: one file that needs nothing else, for people who were not there.

Demand and supply, waits, money, forecast against actual, and the worst waits with their reasons. Times in the policy's
zone, money in USD with the source of its prices.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from elastic.planning.policy import Policy
from elastic.replay import Replay, TraceJob
from elastic.replay_files import job_table, tables, waits_table
from elastic.report_forecast import DayAhead, day_ahead
from elastic.report_plots import cost_plot, forecast_plot, supply_plot, waits_plot
from elastic.report_series import series_of

WORST_WAITS = 10
WORST_SPELLS = 4  # reasons shown of one wait, the longest


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstWait:
    """One long wait: who, how long, and for what reasons, the longest first."""

    job_id: str
    team: str
    gpus: int
    submitted_at: datetime
    wait_s: float
    started: bool
    reasons: tuple[tuple[str, str, float], ...]  # rule, detail, seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the report says besides its pictures."""

    trace: str
    policy: str
    onprem_gpus: int
    checkpointable: float
    seed: int


def report_html(
    trace: Sequence[TraceJob],
    done: Replay,
    policy: Policy,
    figures: Mapping[str, float | None],
    *,
    told: Told,
    forecast: bool = True,
) -> str:
    """The whole page. `figures` as of `replay_files.score`; without `forecast` that part says that it was left out."""
    segments, nodes = tables(done)
    jobs = job_table(trace, segments, until_s=done.until_s)
    site = series_of(
        trace, jobs, segments, nodes, onprem_gpus=told.onprem_gpus, start_s=done.start_s, until_s=done.until_s
    )
    zone = ZoneInfo(policy.time_zone)
    ahead = day_ahead(jobs, zone=policy.time_zone, start_s=done.start_s, until_s=done.until_s) if forecast else None
    environment = Environment(
        loader=PackageLoader("elastic", "web"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("report.html").render(
        told=told,
        figures=figures,
        jobs=len(jobs),
        never_started=int(jobs.start_s.isna().sum()),
        start=_local(done.start_s, zone),
        until=_local(done.until_s, zone),
        zone=policy.time_zone,
        policy_hash=policy.content_hash,
        prices=price_lines(nodes),
        decisions=len(done.ledger.records),
        ticks=done.ticks,
        supply=supply_plot(site, zone=zone),
        waits=waits_plot(jobs, targets_min=_targets_min(policy)),
        cost=cost_plot(site, zone=zone),
        ahead=ahead if isinstance(ahead, DayAhead) else None,
        ahead_plot=forecast_plot(ahead, zone=zone) if isinstance(ahead, DayAhead) else "",
        no_forecast=ahead if isinstance(ahead, str) else "left out on request (--no-forecast)",
        worst=worst_waits(jobs, waits_table(done), zone=zone),
        site=site,
    )


def price_lines(nodes: pd.DataFrame) -> list[str]:
    """What a GPU-hour cost by capacity type, and whose price that is."""
    cloud = nodes[nodes.place == "cloud"]
    lines = []
    for kind, rows in cloud.groupby("capacity_type"):
        usd = rows.price_usd_per_hour / rows.gpus
        span = f"{usd.min():.2f}" if usd.max() - usd.min() < 0.005 else f"{usd.min():.2f} to {usd.max():.2f}"
        lines.append(f"{kind}: {span} USD per GPU-hour")
    return lines


def worst_waits(jobs: pd.DataFrame, spells: pd.DataFrame, *, zone: ZoneInfo) -> list[WorstWait]:
    """The longest waits, each with what the plans said while it lasted."""
    worst = jobs[jobs.wait_s > 0].nlargest(WORST_WAITS, "wait_s")
    mine = spells[spells.job_id.isin(worst.job_id)]
    found = []
    for row in worst.to_dict("records"):
        over_s = float(row["submit_s"]) + float(row["wait_s"])
        found.append(
            WorstWait(
                job_id=str(row["job_id"]),
                team=str(row["team"]),
                gpus=int(row["gpus"]),
                submitted_at=_local(float(row["submit_s"]), zone),
                wait_s=float(row["wait_s"]),
                started=not np.isnan(row["start_s"]),
                reasons=_reasons(mine[mine.job_id == row["job_id"]], until_s=over_s),
            )
        )
    return found


def _reasons(spells: pd.DataFrame, *, until_s: float) -> tuple[tuple[str, str, float], ...]:
    """Seconds by rule and words, the longest first; only until the job's first start."""
    lasted_s: dict[tuple[str, str], float] = {}
    for row in spells.to_dict("records"):
        spell_s = min(float(row["to_s"]), until_s) - float(row["from_s"])
        if spell_s > 0:
            reason = str(row["rule"]), str(row["detail"])
            lasted_s[reason] = lasted_s.get(reason, 0.0) + spell_s
    longest = sorted(lasted_s.items(), key=lambda one: -one[1])[:WORST_SPELLS]
    return tuple((rule, detail, spell_s) for (rule, detail), spell_s in longest)


def _targets_min(policy: Policy) -> list[float]:
    """The wait targets of the policy's classes, in minutes."""
    return sorted({rules.wait_target_s / 60 for rules in policy.classes.values()})


def _local(seconds: float, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(seconds, UTC).astimezone(zone)
