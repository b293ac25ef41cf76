"""Which running jobs change place: home, make room, swap, consolidate. What each earns and what it costs.

A move costs a restart on all the job's GPUs, so every lever here compares GPU-seconds earned with GPU-seconds lost.
Called by `planner`: `make_room` before waiting work is sent out, `swap` for work that cannot move, `empty_nodes` last.
"""

from collections.abc import Iterator
from math import ceil

from elastic.planning.clearing import Placement, clear
from elastic.planning.desk import Desk
from elastic.planning.family import Family
from elastic.planning.plan import Action, Move, Purpose, Route
from providers.facts import Job

# A move must earn more than it loses by this factor: the time a job has left is only an estimate.
EARN_OVER_LOSS = 1.5
# How long an emptied cloud node would otherwise have been kept, at most: beyond this the queue has changed anyway.
KEEP_CAP_S = 4 * 3600.0
# Attempts of one lever in one tick; the next tick goes on. Bounds the work of a tick with a long queue.
MAX_TRIES = 24


def make_room(desk: Desk) -> list[Action]:
    """Pack small checkpointable on-prem jobs together so that waiting work starts at home."""
    actions: list[Action] = []
    tried: set[tuple[str, int, int]] = set()
    for job in desk.waiting():
        shape = (job.pool, job.gpus, job.nodes)
        if shape in tried or not desk.terms(job).family.burst:
            continue
        for pool in desk.terms(job).family.onprem:
            found = clear(desk, job, pool, (pool,), limit_gpus=job.gpus)
            if found:
                actions += _moves(desk, found, Purpose.MAKE_ROOM, f"makes room at home for waiting job {job.id}")
                actions.append(_start(desk, job, pool, "starts at home: smaller work was packed together"))
                break
        else:
            tried.add(shape)
            if len(tried) >= MAX_TRIES:
                break
    return actions


def swap(desk: Desk, job: Job) -> list[Action]:
    """A job that cannot move takes the on-prem place of checkpointable work, which goes to free cloud nodes."""
    family = desk.family(job)
    for pool in family.onprem:
        found = clear(desk, job, pool, (pool, *family.burst), limit_gpus=2 * job.gpus)
        if found:
            reason = f"leaves its place at home to job {job.id}, which cannot be moved later"
            return [
                *_moves(desk, found, Purpose.SWAP, reason),
                _start(desk, job, pool, "starts at home in the place of work that can move"),
            ]
    return []


def _start(desk: Desk, job: Job, pool: str, reason: str) -> Route:
    """The waiting job takes the nodes that `_clear` reserved."""
    return Route(job_id=job.id, cluster=job.cluster, pool=pool, node_ids=desk.placed[job.id], reason=reason)


def _moves(desk: Desk, found: list[Placement], purpose: Purpose, reason: str) -> list[Move]:
    return [
        Move(
            job_id=job.id,
            cluster=job.cluster,
            from_node_ids=job.node_ids,
            to_pool=pool,
            to_node_ids=node_ids,
            purpose=purpose,
            reason=f"{reason}; costs {job.gpus} GPUs a restart of {desk.class_of(job).restart_cost_s:.0f} s",
        )
        for job, pool, node_ids in found
    ]


def empty_nodes(desk: Desk) -> list[Action]:
    """Empty cloud nodes: their work goes home, or onto other rented nodes that have room. Emptied nodes are given
    back by `scale_in`, no more in a tick than the pool's disruption budget. Home's free places are kept for work that
    has become due until a launch for it could be ready; what waits longer is held by something else."""
    actions: list[Action] = []
    for family in desk.families:
        patience_s = 2 * family.lead_time_s
        fresh = any(desk.waited_s(j) <= desk.terms(j).due_after_s + patience_s for j in desk.due(family))
        if family.burst and not fresh:
            actions += _empty_family(desk, family)
    return actions


def _empty_family(desk: Desk, family: Family) -> list[Action]:
    home_free = sum(desk.floors[p].free_gpus for p in family.onprem)
    left = {p: max(1, ceil(desk.pool(p).disruption_budget * len(desk.floors[p].slots))) for p in family.burst}
    actions: list[Action] = []
    for tries, (pool, node_id, used) in enumerate(_busy_nodes(desk, family)):
        away_free = sum(desk.floors[p].free_gpus for p in family.burst)
        if used > home_free + away_free or tries >= MAX_TRIES:
            break
        if left[pool] <= 0:
            continue
        moved = _empty(desk, family, pool, node_id)
        actions += moved
        left[pool] -= len({n for m in moved for n in m.from_node_ids if n in desk.floors[pool].slots})
        home_free = sum(desk.floors[p].free_gpus for p in family.onprem)
    return actions


def _busy_nodes(desk: Desk, family: Family) -> Iterator[tuple[str, str, int]]:
    """Rented nodes that run something, least used first."""
    rows = [
        (slot.used_gpus, node_id, pool)
        for pool in family.burst
        for node_id, slot in desk.floors[pool].slots.items()
        if slot.used_gpus > 0
    ]
    for used, node_id, pool in sorted(rows):
        yield pool, node_id, used


def _empty(desk: Desk, family: Family, pool: str, node_id: str) -> list[Move]:
    """Move everything off one node if all of it may move, finds a place, and the emptied nodes earn it."""
    jobs = desk.node_jobs.get(node_id, [])
    if not jobs or not all(desk.may_move(j) for j in jobs):
        return []
    mark, touched = desk.mark(), frozenset(n for j in jobs for n in j.node_ids)
    keep_s = min(KEEP_CAP_S, max(desk.time_left_s(j) for j in jobs))
    loss = sum(j.gpus * desk.class_of(j).restart_cost_s for j in jobs)
    if len(touched) * desk.pool(pool).gpus_per_node * keep_s < EARN_OVER_LOSS * loss:
        return []
    for job in jobs:
        desk.lift(job)
    emptied = [n for n in touched if (s := desk.floors[pool].slots.get(n)) and s.used_gpus == 0]
    found, room = _find_homes(desk, family, jobs, touched)
    earned = len(emptied) * desk.pool(pool).gpus_per_node * keep_s
    loss += sum(j.gpus * desk.class_of(j).restart_cost_s for j, _, _ in room)
    if not found or earned < EARN_OVER_LOSS * loss:
        desk.roll_back(mark)
        return []
    for job, _, node_ids in (*found, *room):
        desk.keep(job, node_ids)
    reason = f"empties {len(emptied)} rented node(s)"
    home = [f for f in found if f[1] in family.onprem]
    away = [f for f in found if f[1] not in family.onprem]
    return [
        *_moves(desk, room, Purpose.MAKE_ROOM, "packed together so that cloud work comes home"),
        *_moves(desk, home, Purpose.HOME, reason),
        *_moves(desk, away, Purpose.CONSOLIDATE, reason),
    ]


def _find_homes(
    desk: Desk, family: Family, jobs: list[Job], touched: frozenset[str]
) -> tuple[list[Placement], list[Placement]]:
    """Places for lifted jobs, and the on-prem jobs packed together to make them; ([], []) if one finds none."""
    found: list[Placement] = []
    room: list[Placement] = []
    empty = frozenset(n for p in family.burst for n, s in desk.floors[p].slots.items() if s.used_gpus == 0)
    for job in sorted(jobs, key=lambda j: (-j.gpus, j.id)):
        spot = _spot(desk, family, job, touched | empty)
        if spot is None:
            packed = _pack_home(desk, family, job)
            if packed is None:
                return [], []
            spot, more = packed
            room += more
        found.append(spot)
    return found, room


def _spot(desk: Desk, family: Family, job: Job, without: frozenset[str]) -> Placement | None:
    for pool in (*family.onprem, *family.burst):
        node_ids = desk.floors[pool].fit(job, without=without)
        if node_ids:
            desk.place(job, pool, node_ids)
            return job, pool, node_ids
    return None


def _pack_home(desk: Desk, family: Family, job: Job) -> tuple[Placement, list[Placement]] | None:
    """Make room at home for cloud work, by moving at most as many GPUs as it brings home."""
    for pool in family.onprem:
        room = clear(desk, job, pool, (pool,), limit_gpus=job.gpus)
        if room:
            return (job, pool, desk.placed[job.id]), room
    return None
