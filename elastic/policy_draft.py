"""A commented policy for a site that is described in a few words. Behind `elastic init`."""

import json
import re
from dataclasses import dataclass

from elastic.policy_keys import KEY_MEANINGS
from elastic.policy_yaml import plain_value

_PLAIN = re.compile(r"^[A-Za-z][\w./-]*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What `init` asks for. `cloud` None: nothing is ever rented."""

    nodes: int
    gpus_per_node: int
    gpu_model: str
    time_zone: str
    country: str | None
    cluster_kind: str
    cloud: str | None
    max_cloud_nodes: int
    teams: tuple[str, ...]
    usd_per_day: float


def draft_policy(site: Site) -> str:
    """The text of a policy that `policy check` takes; every line says what it means."""
    bursts = site.cloud is not None and site.max_cloud_nodes > 0
    lines = [
        "# yaml-language-server: $schema=./schema.json",
        "# Check it with `elastic policy check`; ask what holds when with `elastic policy when`.",
        "# Durations are written 30 s, 15 min, 2 h or 1 d. Times are local to a calendar's zone.",
        "version: 1",
        *_row("mode: advise", "PolicyDocument.mode"),
        *_row(f"time_zone: {_text(site.time_zone)}", "PolicyDocument.time_zone"),
        "",
        *_calendars(site),
        "",
        *_row("clusters:", "PolicyDocument.clusters"),
        "  main:",
        *_row(f"    kind: {_text(site.cluster_kind)}", "Cluster.kind"),
        "",
        *_row("pools:", "PolicyDocument.pools"),
        *_onprem(site),
        *(_burst(site) if bursts else ()),
        "",
        *_classes(bursts),
        "",
        *_teams(site),
        "",
        *(_money(site.usd_per_day) if bursts else ()),
        *_guard(),
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _calendars(site: Site) -> list[str]:
    country = _row(f"      country: {_text(site.country)}", "OfficeCalendar.country") if site.country else []
    return [
        *_row("calendars:", "PolicyDocument.calendars"),
        "  office:",
        *_row(f"    time_zone: {_text(site.time_zone)}", "CalendarSpec.time_zone"),
        "    office:",
        *country,
        *_row("      hours: 09:00-18:00", "OfficeCalendar.hours"),
        *_row("      days: Mon-Fri", "OfficeCalendar.days"),
        *_row("    # trading: {exchange: XNYS, before: 1 h}", "CalendarSpec.trading"),
        *_row("    # allow: [20:00-06:00 Mon-Fri]", "CalendarSpec.allow"),
        *_row("    # holidays: [2026-12-24]", "CalendarSpec.holidays"),
    ]


def _shape(site: Site) -> list[str]:
    return [
        *_row(f"    gpu_model: {_text(site.gpu_model)}", "Pool.gpu_model"),
        *_row(f"    gpus_per_node: {site.gpus_per_node}", "Pool.gpus_per_node"),
    ]


def _onprem(site: Site) -> list[str]:
    return [
        "  site:",
        *_row("    place: on-prem", "Pool.place"),
        *_row("    cluster: main", "Pool.cluster"),
        *_shape(site),
        *_row(f"    nodes: {site.nodes}", "Pool.nodes"),
    ]


def _burst(site: Site) -> list[str]:
    return [
        "  cloud:",
        *_row("    place: burst", "Pool.place"),
        *_row("    cluster: main", "Pool.cluster"),
        *_row(f"    cloud: {_text(site.cloud or '')}", "Pool.cloud"),
        *_shape(site),
        *_row(f"    max_nodes: {site.max_cloud_nodes}", "Pool.max_nodes"),
        *_row("    capacity_types: [spot]", "Pool.capacity_types"),
        *_row("    lead_time: 15 min", "Pool.lead_time"),
        *_row("    idle_release: 10 min", "Pool.idle_release"),
        *_row("    # zones: [zone-a, zone-b]", "Pool.zones"),
        *_row("    # headroom: [{gpus: 8, calendar: office}]", "Pool.headroom"),
    ]


def _classes(bursts: bool) -> list[str]:
    may_burst = [] if bursts else _row("    may_burst: false", "JobClass.may_burst")
    types = _row("    capacity_types: [spot]", "JobClass.capacity_types") if bursts else []
    return [
        *_row("classes:", "PolicyDocument.classes"),
        "  batch:",
        *_row("    wait_target: 15 min", "JobClass.wait_target"),
        *may_burst,
        *types,
        *_row("    checkpointable: false", "JobClass.checkpointable"),
        *_row("    # restart_cost: 5 min", "JobClass.restart_cost"),
        *_row("    # partitions: [batch]", "JobClass.partitions"),
        *_row("default_class: batch", "PolicyDocument.default_class"),
    ]


def _teams(site: Site) -> list[str]:
    share = site.nodes * site.gpus_per_node // len(site.teams)
    lines = _row("teams:", "PolicyDocument.teams")
    for team in site.teams:
        lines += [
            f"  {_text(team)}:",
            *_row(f"    accounts: [{_text(team)}]", "Team.accounts"),
            *_row(f"    guaranteed_gpus: {share}", "Team.guaranteed_gpus"),
            *_row("    calendars: [office]", "Team.calendars"),
        ]
    return lines


def _money(usd_per_day: float) -> list[str]:
    return [
        *_row("money:", "PolicyDocument.money"),
        *_row(f"  usd_per_day: {usd_per_day:g}", "Money.usd_per_day"),
        *_row(f"  usd_per_month: {usd_per_day * 20:g}", "Money.usd_per_month"),
        *_row("  # approval_above_usd: 100", "Money.approval_above_usd"),
        "",
    ]


def _guard() -> list[str]:
    return [
        *_row("guard:", "PolicyDocument.guard"),
        *_row("  launch_ceiling_nodes: 16", "Guard.launch_ceiling_nodes"),
        *_row("  removal_ceiling: 0.1", "Guard.removal_ceiling"),
        *_row("  stale_after: 5 min", "Guard.stale_after"),
    ]


def _row(line: str, key: str) -> list[str]:
    """A line and what its key means, beside it or above where it is long."""
    meaning = KEY_MEANINGS[key]
    if len(line) > 38:
        indent = line[: len(line) - len(line.lstrip())]
        return [f"{indent}# {meaning}", line]
    return [f"{line:<38} # {meaning}"]


def _text(text: str) -> str:
    """A text as a YAML scalar, in quotes where it needs them."""
    return text if _PLAIN.match(text) and plain_value(text) == text else json.dumps(text, ensure_ascii=False)
