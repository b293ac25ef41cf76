"""Wait or burst, per pending job, and whom an urgent job may displace.

A job waits at home until its predicted on-prem wait breaks its class's wait target; urgent ones (target shorter than
the lead time) do not wait at all. Rented capacity that is idle anyway takes waiting work at once.
"""

from collections.abc import Iterable

from elastic.planning.desk import NEVER_S, Desk
from elastic.planning.family import Family
from elastic.planning.outlook import predicted_starts_s
from elastic.planning.plan import Action, Displace, Launch, Route, Wait, Withheld
from providers.facts import Job, NodeState

# An idle rented node takes work that is not due yet only if it fills at least this share of the node:
# a small job on an empty node would keep eight GPUs paid for the sake of one.
FILL_SHARE = 0.5


def use_what_is_paid(desk: Desk, job: Job, family: Family, *, due: bool) -> tuple[str, tuple[str, ...]] | None:
    """Rented nodes that are ready and have room for the job, and their pool. Work that is not due only fills up
    nodes that are in use anyway, or fills an idle one well."""
    for pool in desk.burst_pools(job):
        floor = desk.floors[pool]
        if floor.free_gpus < job.gpus:
            continue
        only = None if due or fills_well(desk, job) else {n for n, s in floor.slots.items() if s.used_gpus > 0}
        node_ids = floor.fit(job, without=desk.wanted_nodes, only=only)
        if node_ids:
            return pool, node_ids
    return None


def fills_well(desk: Desk, job: Job) -> bool:
    """Whether the job makes use of the nodes it needs, so that they are worth keeping for it."""
    return job.gpus >= FILL_SHARE * desk.pool(job.pool).gpus_per_node * job.nodes


def displace_for(desk: Desk, job: Job, family: Family) -> list[Action]:
    """Whom an urgent job takes the place of at home: lower classes that allow it, fewest GPUs first, all or nothing."""
    rules = desk.class_of(job)
    if not rules.may_displace:
        return []
    for pool in family.onprem:
        floor, mark = desk.floors[pool], desk.mark()
        victims = sorted(
            (
                other
                for other in desk.running.values()
                if other.pool == pool
                and desk.class_of(other).may_be_displaced
                and desk.class_of(other).rank < rules.rank
                and other.id not in desk.placed
            ),
            key=lambda v: (desk.class_of(v).rank, v.gpus, v.id),
        )
        lifted: list[Job] = []
        node_ids = floor.fit(job)
        for victim in victims:
            if node_ids:
                break
            desk.lift(victim)
            lifted.append(victim)
            node_ids = floor.fit(job)
        desk.roll_back(mark)
        if not node_ids:
            continue
        needed = _needed(desk, job, pool, node_ids, lifted)
        for victim in needed:
            desk.lift(victim)
        return _displace(desk, job, pool, node_ids, needed)
    return []


def _needed(desk: Desk, job: Job, pool: str, node_ids: tuple[str, ...], lifted: list[Job]) -> list[Job]:
    """Of the lifted jobs only those that sit on the chosen nodes must go."""
    chosen = set(node_ids)
    return [victim for victim in lifted if chosen & set(victim.node_ids)]


def _displace(desk: Desk, job: Job, pool: str, node_ids: tuple[str, ...], victims: list[Job]) -> list[Action]:
    desk.assign(job, pool, node_ids)
    actions: list[Action] = []
    for victim in victims:
        desk.keep(victim, ())
        actions.append(
            Displace(
                job_id=victim.id,
                cluster=victim.cluster,
                for_job_id=job.id,
                reason=f"class {victim.job_class} gives way to urgent job {job.id}",
            )
        )
    reason = "urgent: starts at once in the place of lower classes" if victims else "urgent: starts at home"
    actions.append(Route(job_id=job.id, cluster=job.cluster, pool=pool, node_ids=node_ids, reason=reason))
    return actions


def come_home(desk: Desk) -> list[Action]:
    """Work that queues for rented nodes starts at home if home has room by now."""
    actions: list[Action] = []
    rented = {pool for family in desk.families for pool in family.burst}
    for job in desk.pending:
        if job.pool not in rented or job.id in desk.placed:
            continue
        for pool in desk.terms(job).family.onprem:
            node_ids = desk.floors[pool].fit(job)
            if node_ids:
                desk.assign(job, pool, node_ids)
                reason = "home has room again"
                actions.append(Route(job_id=job.id, cluster=job.cluster, pool=pool, node_ids=node_ids, reason=reason))
                break
    return actions


def to_cloud(job: Job, pool: str, node_ids: tuple[str, ...], reason: str) -> Route:
    """The job starts on rented nodes that are ready."""
    return Route(job_id=job.id, cluster=job.cluster, pool=pool, node_ids=node_ids, reason=reason)


def waits(desk: Desk, served: set[str], allowed: Iterable[Action], withheld: Iterable[Withheld]) -> tuple[Wait, ...]:
    """Words for everyone who still waits, one entry for jobs of one shape and reason. `served`: capacity comes or was
    asked for, though a rule may have stopped that."""
    held = _held(allowed, withheld)
    kinds: dict[tuple[str, str, int, bool, str], list[Job]] = {}
    longest_s = max(rules.wait_target_s for rules in desk.policy.classes.values())
    waiting = [j for j in desk.pending if j.id not in desk.placed or j.id in served]
    for family in desk.families:
        own = [j for j in waiting if desk.terms(j).family is family]
        starts = predicted_starts_s(desk, family, own, horizon_s=longest_s) if own else {}
        for job in own:
            soon = starts.get(job.id, NEVER_S) <= desk.terms(job).rules.wait_target_s
            rule = held[job.id].rule if job.id in held else "coming" if job.id in served else ""
            kinds.setdefault((job.job_class, job.pool, job.gpus, soon, rule), []).append(job)
    groups: dict[tuple[str, str], list[str]] = {}
    for (_, _, _, soon, rule), jobs in kinds.items():
        stop = held.get(jobs[0].id)
        words = (rule, f"no nodes are rented for it: {stop.detail}") if stop else _words(desk, jobs[0], rule, soon=soon)
        groups.setdefault(words, []).extend(j.id for j in jobs)
    for job in desk.not_demand:
        groups.setdefault((job.pending_reason.value, "capacity would not cure this"), []).append(job.id)
    return tuple(Wait(job_ids=tuple(ids), rule=rule, detail=detail) for (rule, detail), ids in groups.items())


def _held(allowed: Iterable[Action], withheld: Iterable[Withheld]) -> dict[str, Withheld]:
    """Jobs whose launch a rule stopped, unless another launch is for them too."""
    bought = {job_id for action in allowed if isinstance(action, Launch) for job_id in action.job_ids}
    return {
        job_id: stop
        for stop in withheld
        if isinstance(stop.action, Launch)
        for job_id in stop.action.job_ids
        if job_id not in bought
    }


def _words(desk: Desk, job: Job, rule: str, *, soon: bool) -> tuple[str, str]:
    target_min = desk.class_of(job).wait_target_s / 60
    if rule == "coming":
        return rule, "rented nodes are on their way for it"
    if not desk.burst_pools(job):
        return "may_not_burst", f"{job.gpus} GPUs: its class stays at home until they are free"
    if why := desk.too_large_to_burst(job):
        return "too_large_to_burst", f"{job.gpus} GPUs: {why}; it stays at home until they are free"
    if soon:
        return (
            "at_home_soon",
            f"{job.gpus} GPUs: home should have room within its target of {target_min:.0f} min",
        )
    return "waits_for_target", f"{job.gpus} GPUs: sent out when its wait target of {target_min:.0f} min comes near"


def mend_gangs(desk: Desk) -> list[Action]:
    """A running gang that lost a node does no work on the others: it goes back into the queue as a whole (F012)."""
    actions: list[Action] = []
    for job in desk.running.values():
        if len(job.node_ids) < 2:
            continue
        lost = [n for n in job.node_ids if n not in desk.nodes or desk.nodes[n].state is NodeState.DOWN]
        if lost:
            reason = f"gang lost {', '.join(lost)}: the rest would idle"
            actions.append(Displace(job_id=job.id, cluster=job.cluster, for_job_id="", reason=reason))
            desk.keep(job, ())
    return actions
