"""Stories in words and as plain values: what `elastic explain` prints."""

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from elastic.codec import plan_to_dict
from elastic.explain import JobStory, Mention, NodeStory, Run
from elastic.plan_text import outcome_lines, render
from elastic.planning.state import Record
from elastic.replay_waits import Spell
from providers.facts import JobState, Offering

SHOWN_OFFERINGS, SHOWN_RUNS, SHOWN_JOBS = 8, 40, 8


def job_text(story: JobStory, *, zone: ZoneInfo) -> str:
    """A job for people."""
    lines = [f"job {story.job_id}{_job_facts(story, zone)}"]
    lines += [f"  waited {_span(w, zone)}: {w.detail} [{w.rule}]" for w in story.waits]
    lines += [_mention(one, zone) for one in story.mentions]
    lines += [f"  ran {_run(run, zone)}" for run in story.runs[:SHOWN_RUNS]]
    if not story.mentions:
        lines.append("  no decision names it: the scheduler started it, or it still waits")
    return "\n".join(lines)


def node_text(story: NodeStory, *, zone: ZoneInfo) -> str:
    """A node for people."""
    facts = story.facts
    lines = [f"node {story.node_id}"]
    if facts is not None and facts.requested_at is None:
        lines[0] += f": {facts.gpus} GPUs, the site's own"
    elif facts is not None and facts.requested_at is not None:
        lines[0] += (
            f": {facts.gpus} GPUs, {facts.capacity_type} in zone {facts.zone or '-'}, {facts.usd_per_hour:.2f} USD/h,"
            f" asked for {_time(facts.requested_at, zone)}"
        )
    if story.launch is not None:
        lines.append(
            f"  rented because ({_time(story.launch.at, zone)}, tick {story.launch.tick}): {story.launch.what}"
        )
        lines += [f"    option {_offering(o)}" for o in story.options[:SHOWN_OFFERINGS]]
        lines.append(f"    for {_some(story.for_jobs)}")
    rest = [m for m in story.mentions if m not in (story.launch, story.returned)]
    lines += [_mention(one, zone) for one in rest]
    lines += [f"  ran job {run.job_id} {_run(run, zone)}" for run in story.runs[:SHOWN_RUNS]]
    if len(story.runs) > SHOWN_RUNS:
        lines.append(f"  and {len(story.runs) - SHOWN_RUNS} more runs")
    if story.returned is not None:
        one = story.returned
        lines.append(f"  given back ({_time(one.at, zone)}, tick {one.tick}), {one.became}: {one.what}")
    if story.usd is not None:
        lines.append(f"  cost {story.usd:.2f} USD{'' if facts and facts.released_at else ' as far as it was seen'}")
    return "\n".join(lines)


def tick_text(record: Record, *, zone: ZoneInfo) -> str:
    """A tick for people: what it saw, what it could have rented at what price, what it decided, what became of it."""
    snapshot = record.snapshot
    lines = [f"tick {record.tick} at {_time(snapshot.at, zone)} {zone.key}"]
    if snapshot.jobs:  # of a quiet tick only what the memory needs was kept
        running = [j for j in snapshot.jobs if j.state is JobState.RUNNING]
        lines.append(
            f"  saw {len(running)} running job(s) of {sum(j.gpus for j in running)} GPUs,"
            f" {len(snapshot.jobs) - len(running)} waiting, {len(snapshot.nodes)} node(s),"
            f" {len(snapshot.instances)} rented machine(s)"
        )
    lines += [f"  could not read {r.source}: {r.error}" for r in snapshot.trouble()]
    lines += [f"  could rent {_offering(o)}" for o in snapshot.offerings[:SHOWN_OFFERINGS]]
    lines.append(
        f"  looked ahead with {_some(record.plan.forecast_ids) if record.plan.forecast_ids else 'no forecast'}"
    )
    lines.append(render(record.plan, zone=zone.key))
    lines += [f"  {line}" for line in outcome_lines(record.plan, record.outcomes)]
    return "\n".join(lines)


def job_dict(story: JobStory) -> dict[str, Any]:
    """A job for programs."""
    waits = [
        {"rule": w.rule, "detail": w.detail, "from": _utc(w.from_s).isoformat(), "to": _utc(w.to_s).isoformat()}
        for w in story.waits
    ]
    return {**asdict(story), "waits": waits}


def node_dict(story: NodeStory) -> dict[str, Any]:
    """A node for programs."""
    return {**asdict(story), "usd": story.usd}


def tick_dict(record: Record) -> dict[str, Any]:
    """A tick for programs."""
    outcomes = [
        {"action_key": o.action_key, "result": o.result.value, "error_kind": o.error_kind, "detail": o.detail}
        for o in record.outcomes
    ]
    offerings = [
        {"key": o.key, "price_usd_per_hour": o.price_usd_per_hour, "price_source": o.price_source}
        for o in record.snapshot.offerings
    ]
    return {
        "tick": record.tick,
        "at": record.snapshot.at.isoformat(),
        "offerings": offerings,
        "plan": plan_to_dict(record.plan),
        "outcomes": outcomes,
    }


def _job_facts(story: JobStory, zone: ZoneInfo) -> str:
    facts = story.facts
    if facts is None:
        return ": known by decisions only"
    of = "".join([f", team {facts.team}" * bool(facts.team), f", class {facts.job_class}" * bool(facts.job_class)])
    return f": {facts.gpus} GPUs, submitted {_time(facts.submitted_at, zone)}{of}"


def _mention(one: Mention, zone: ZoneInfo) -> str:
    often = f" to {_time(one.until, zone)}, {one.times} times" if one.times > 1 else ""
    return f"  {_time(one.at, zone)}{often} (tick {one.tick}) {one.what} -> {one.became}"


def _run(run: Run, zone: ZoneInfo) -> str:
    seen = f"(still ran at {_time(run.last_seen, zone)})" if run.last_seen else "the end"
    end = _time(run.end, zone) if run.end else seen
    return f"from {_time(run.start, zone)} to {end} on {_some(run.node_ids)}, attempt {run.attempt}, {run.gpus} GPUs"


def _span(spell: Spell, zone: ZoneInfo) -> str:
    start, end = _time(_utc(spell.from_s), zone), _time(_utc(spell.to_s), zone)
    return f"from {start} to {end} ({(spell.to_s - spell.from_s) / 60:.0f} min)"


def _offering(offering: Offering) -> str:
    price = f"{offering.price_usd_per_hour:.2f} USD/h" if offering.price_usd_per_hour is not None else "no price"
    return f"{offering.key} at {price} ({offering.price_source or 'source not told'})"


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - SHOWN_JOBS} more" if len(listed) > SHOWN_JOBS else ""
    return (", ".join(listed[:SHOWN_JOBS]) or "nothing in particular") + more


def _time(at: datetime, zone: ZoneInfo) -> str:
    return f"{at.astimezone(zone):%Y-%m-%d %H:%M}"


def _utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
