"""What the status page shows, as plain values: the template only lays it out."""

from dataclasses import dataclass
from datetime import datetime

from elastic.figures import Figures, figures
from elastic.plan_text import outcome_lines, render
from elastic.planning.policy import Policy
from elastic.planning.state import ControllerState, Record
from elastic.service import Health, Service
from providers.facts import InstanceState, JobState

SHOWN_JOBS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRow:
    """One pool: what it has, uses and costs, and what holds it back."""

    name: str
    place: str
    nodes: int
    ceiling: int
    coming: int
    gpus: int
    used_gpus: int
    usd_per_hour: float
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One pending job: how long it has waited and why."""

    id: str
    team: str
    gpus: int
    waited_min: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PageView:
    """One look at the service."""

    at: datetime | None
    tick: int
    mode: str
    policy_hash: str
    health: Health
    now: Figures | None
    state: ControllerState
    pools: tuple[PoolRow, ...]
    jobs: tuple[JobRow, ...]
    jobs_more: int
    teams: tuple[tuple[str, float, float | None], ...]
    plan: str
    acted: tuple[tuple[datetime, tuple[str, ...]], ...]
    sources: tuple[tuple[str, float, str], ...]
    lines: tuple[str, ...]


def page_view(service: Service) -> PageView:
    """The page's values now."""
    record, state, policy = service.record, service.controller.state, service.policy()
    jobs = _jobs(record) if record else []
    return PageView(
        at=record.snapshot.at if record else None,
        tick=state.tick,
        mode=policy.mode.value,
        policy_hash=policy.content_hash[:12],
        health=service.health(),
        now=figures(record) if record else None,
        state=state,
        pools=tuple(_pool(name, record, policy, state) for name in policy.pools) if record else (),
        jobs=tuple(jobs[:SHOWN_JOBS]),
        jobs_more=max(0, len(jobs) - SHOWN_JOBS),
        teams=tuple(
            (name, state.spend.team_usd_day.get(name, 0.0), team.budget.usd_per_day)
            for name, team in policy.teams.items()
        ),
        plan=render(record.plan, zone=policy.time_zone) if record else "",
        acted=tuple((r.snapshot.at, tuple(outcome_lines(r.plan, r.outcomes))) for r in list(service.acted)),
        sources=tuple(
            (r.source, (record.snapshot.at - r.read_at).total_seconds(), r.error) for r in record.snapshot.readings
        )
        if record
        else (),
        lines=tuple(service.lines),
    )


def _pool(name: str, record: Record, policy: Policy, state: ControllerState) -> PoolRow:
    pool, snapshot = policy.pools[name], record.snapshot
    nodes = [n for n in snapshot.nodes if n.pool == name]
    machines = [i for i in snapshot.instances if i.pool == name and i.state is not InstanceState.TERMINATED]
    joined = {n.instance_id for n in nodes}
    return PoolRow(
        name=name,
        place=pool.place,
        nodes=len(nodes),
        ceiling=pool.max_nodes if pool.place == "burst" else pool.nodes or 0,
        coming=sum(1 for i in machines if i.id not in joined),
        gpus=sum(n.gpus for n in nodes),
        used_gpus=sum(n.gpus - (n.free_gpus or 0) for n in nodes),
        usd_per_hour=sum(i.price_usd_per_hour for i in machines),
        note=_pool_note(name, record, state),
    )


def _pool_note(name: str, record: Record, state: ControllerState) -> str:
    memory = state.pools.get(name)
    if memory is not None and memory.paused_until is not None:
        return f"breaker open until {memory.paused_until:%H:%M}"
    if memory is not None and memory.losses:
        return f"{len(memory.losses)} spot loss(es) within the hour"
    rules = {w.rule for w in record.plan.withheld if getattr(w.action, "pool", "") == name}
    return f"withheld: {', '.join(sorted(rules))}" if rules else ""


def _jobs(record: Record) -> list[JobRow]:
    """Pending jobs, longest wait first."""
    why = {job_id: f"{w.rule}: {w.detail}" for w in record.plan.waits for job_id in w.job_ids}
    pending = [j for j in record.snapshot.jobs if j.state is JobState.PENDING]
    pending.sort(key=lambda j: (j.submitted_at, j.id))
    return [
        JobRow(
            id=j.id,
            team=j.team,
            gpus=j.gpus,
            waited_min=(record.snapshot.at - j.submitted_at).total_seconds() / 60,
            why=why.get(j.id, j.pending_reason.value),
        )
        for j in pending
    ]
