"""Freeing nodes for a job by moving other work: the fewest GPUs that must move, and where they go.

Used by the levers in `moves` (which then do it) and by `scale_out` (which only asks whether it could be done).
"""

from collections.abc import Iterable

from elastic.planning.desk import Desk
from elastic.planning.placement import Floor, gang_shares
from providers.facts import Job

Placement = tuple[Job, str, tuple[str, ...]]
# Questions answered with no in one plan; the next tick asks again. Bounds the work of a tick with a long queue.
MAX_REFUSED = 48


def clear(desk: Desk, job: Job, pool: str, targets: tuple[str, ...], *, limit_gpus: int) -> list[Placement]:
    """Free nodes of `pool` for the job by moving others to `targets`; [] (and nothing changed) if it cannot be done
    with at most `limit_gpus` GPUs moved. On success the job and the moved ones are placed and kept.

    Work that may go to the cloud needs a move for its way home: without one it would stay there for the day."""
    free_gpus = sum(desk.floors[t].free_gpus for t in targets)
    question = (job.gpus, job.nodes, pool, targets, limit_gpus, free_gpus)
    if free_gpus < job.gpus or question in desk.refused or len(desk.refused) >= MAX_REFUSED:
        return []
    found = _clear(desk, job, pool, targets, limit_gpus=limit_gpus)
    if not found:
        desk.refused.add(question)
    return found


def _clear(desk: Desk, job: Job, pool: str, targets: tuple[str, ...], *, limit_gpus: int) -> list[Placement]:
    least_moves = 2 if any(desk.pool(t).place == "burst" for t in targets) else 1
    floor, mark = desk.floors[pool], desk.mark()
    lifted: dict[str, Job] = {}
    chosen: dict[str, None] = {}
    shares = gang_shares(job.gpus, nodes=job.nodes, gpus_per_node=floor.gpus_per_node)
    for share in shares:
        pick = _cheapest(desk, floor, share, chosen, lifted, least_moves)
        if pick is None:
            desk.roll_back(mark)
            return []
        node_id, movable = pick
        chosen[node_id] = None
        for moved in movable:
            desk.lift(moved)
            lifted[moved.id] = moved
        if sum(j.gpus for j in lifted.values()) > limit_gpus:
            desk.roll_back(mark)
            return []
    if not lifted or len({floor.slots[n].zone for n in chosen}) > 1:
        desk.roll_back(mark)
        return []
    desk.place(job, pool, tuple(chosen))
    found = _relocate(desk, lifted.values(), targets)
    if not found:
        desk.roll_back(mark)
        return []
    desk.keep(job, tuple(chosen))
    for moved, _, node_ids in found:
        desk.keep(moved, node_ids)
    return found


def _cheapest(
    desk: Desk, floor: Floor, share: int, chosen: dict[str, None], lifted: dict[str, Job], least_moves: int
) -> tuple[str, list[Job]] | None:
    """The node that gives `share` free GPUs by lifting the fewest GPUs, and what to lift; None if no node can."""
    best: tuple[int, str, list[Job]] | None = None
    movable_gpus = desk.movable_gpus
    for free in range(floor.gpus_per_node, -1, -1):
        missing = share - free
        if best is not None and missing >= best[0]:
            break
        for node_id, slot in floor.buckets[free].items():
            if node_id in chosen or slot.gpus < share:
                continue
            if missing <= 0:
                return node_id, []
            if movable_gpus.get(node_id, 0) < missing:
                continue
            picked = _fewest(desk, node_id, missing, lifted, least_moves)
            cost = sum(j.gpus for j in picked)
            if picked and (best is None or cost < best[0]):
                best = (cost, node_id, picked)
                if cost == missing:
                    break
    return (best[1], best[2]) if best else None


def _fewest(desk: Desk, node_id: str, gpus: int, lifted: dict[str, Job], least_moves: int) -> list[Job]:
    """Movable jobs of a node that together hold at least `gpus` on it, with as few GPUs in all as can be: one job (a
    gang counts with all its GPUs), or several that sit on this node alone; [] if there are none."""
    movable = [
        j
        for j in desk.node_jobs.get(node_id, ())
        if j.id not in lifted and desk.may_move(j) and desk.moves_left(j) >= least_moves
    ]
    enough = (j for j in movable if (j.gpus if len(j.node_ids) == 1 else dict(desk.shares(j))[node_id]) >= gpus)
    single = min(enough, key=lambda j: (j.gpus, j.id), default=None)
    if single is not None and single.gpus == gpus:
        return [single]
    picked: list[Job] = []
    left = gpus
    for job in sorted(movable, key=lambda j: (-j.gpus, j.id)):
        if left > 0 and len(job.node_ids) == 1 and job.gpus <= left:
            picked.append(job)
            left -= job.gpus
    if left > 0 or (single is not None and single.gpus <= sum(j.gpus for j in picked)):
        return [single] if single else []
    return picked


def _relocate(desk: Desk, jobs: Iterable[Job], targets: tuple[str, ...]) -> list[Placement]:
    """Place lifted jobs, largest first, on the first target with room; [] if one finds none."""
    found: list[Placement] = []
    for job in sorted(jobs, key=lambda j: (-j.gpus, j.id)):
        for pool in targets:
            node_ids = desk.floors[pool].fit(job)
            if node_ids and set(node_ids) != set(job.node_ids):
                desk.place(job, pool, node_ids)
                found.append((job, pool, node_ids))
                break
        else:
            return []
    return found
