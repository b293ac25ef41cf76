"""What to rent: nodes for work that must go out now, and nodes wanted whatever the queue says.

Gangs are whole or not at all and in one zone. Capacity that comes already is used up before anything is bought.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from hashlib import blake2b

from elastic.planning.clearing import clear
from elastic.planning.desk import Desk, coming_id, leases_now
from elastic.planning.family import Family
from elastic.planning.offers import best, ranked
from elastic.planning.placement import Floor
from elastic.planning.plan import Launch, Route
from elastic.planning.policy import Budget
from elastic.planning.turns import Turns, queue
from providers.facts import CapacityType, Job, Node, NodeState


@dataclass(slots=True)
class _Order:
    """What one family needs: gangs that lack some nodes in a zone (job, pool, nodes, zone), jobs that need nodes of
    their own, jobs for which fewer nodes suffice (job, pool, nodes), and short work that queues for rented nodes."""

    rest: list[tuple[Job, str, int, str]] = field(default_factory=list)
    own: list[tuple[Job, str]] = field(default_factory=list)
    fewer: list[tuple[Job, str, int]] = field(default_factory=list)
    queued: list[tuple[Job, str]] = field(default_factory=list)


def scale_out(desk: Desk, keep: dict[str, int], turns: Turns) -> tuple[list[Launch | Route], set[str]]:
    """Launches, routes of short work into the queue of rented nodes, and the ids of waiting jobs for which capacity
    comes or is asked for."""
    actions: list[Launch | Route] = []
    served: set[str] = set()
    for family in desk.families:
        if family.burst:
            _lay_coming(desk, family)
            for pool in family.burst:
                turns.add_coming(pool)
            order = _order(desk, family, served, turns)
            launches = _buy_missing(desk, order.fewer)
            launches += _buy_rest(desk, order.rest, start=len(launches))
            launches += _buy_own(desk, order.own, start=len(launches))
            launches += _buy_ahead(desk, family, keep, launches)
            actions += launches
            actions += [route for job, pool in order.queued for route in queue(job, pool)]
    return actions, served


def _lay_coming(desk: Desk, family: Family) -> None:
    """Put capacity that is on its way onto the burst floors, as if it were there. Only later steps see it."""
    for pool in family.burst:
        for instance in desk.coming.get(pool, ()):
            desk.floors[pool].add(_virtual(desk, pool, coming_id(instance), instance.zone))
        for number in range(desk.unseen_nodes.get(pool, 0)):
            desk.floors[pool].add(_virtual(desk, pool, f"unseen-{number}", ""))


def _order(desk: Desk, family: Family, served: set[str], turns: Turns) -> _Order:
    """Sort the work that goes out now by what it needs. Within a class the largest short work comes first, so that the
    rest of it takes turns behind."""
    order = _Order()
    due = desk.due(family)
    if desk.money_is_spent:  # nothing is counted on: what is asked for is withheld, and says why
        order.own = [(job, pool) for job in due if (pool := _pool_to_buy_in(desk, job))]
        return order
    short = {job.id for job in due if turns.is_short(job, desk.burst_pools(job)[0])}
    for job in sorted(due, key=lambda j: (-desk.class_of(j).rank, -j.gpus if j.id in short else 0)):
        pool = _fits_coming(desk, job, turns) or turns.take(job)
        if pool is None and (fewer := _fewer_nodes(desk, job, family)) is not None:
            served.add(job.id)
            order.fewer += [(job, *fewer)] if fewer[1] else []
            continue
        if pool is None and (rest := _rest_of_gang(desk, job, turns)) is not None:
            pool = rest[0]
            order.rest.append((job, *rest))
        elif pool is None:
            pool = _pool_to_buy_in(desk, job)
            if pool is None:
                continue
            order.own.append((job, pool))
            if job.id in short:
                turns.add_bought(job, pool)
        served.add(job.id)
        if job.id in short:
            order.queued.append((job, pool))
    return order


def _fits_coming(desk: Desk, job: Job, turns: Turns) -> str | None:
    for pool in desk.burst_pools(job):
        node_ids = desk.floors[pool].fit(job, without=desk.wanted_nodes)
        if node_ids:
            desk.assign(job, pool, node_ids)
            turns.placed(job, pool, node_ids)
            return pool
    return None


def _pool_to_buy_in(desk: Desk, job: Job) -> str | None:
    """The first burst pool that could hold the job and has something to rent now."""
    for pool in desk.burst_pools(job):
        gang_nodes = job.nodes if job.nodes > 1 else 0
        if fits_pool(desk, job, pool) and ranked(desk, pool, desk.allowed_types(job, pool), gang_nodes=gang_nodes):
            return pool
    return None


def _rest_of_gang(desk: Desk, job: Job, turns: Turns) -> tuple[str, int, str] | None:
    """(pool, nodes, zone) that complete a gang where some of its nodes are free or come already; None if none do."""
    if job.nodes < 2:
        return None
    for pool in desk.burst_pools(job):
        floor, offered = desk.floors[pool], ranked(desk, pool, desk.allowed_types(job, pool), gang_nodes=job.nodes)
        zones = Counter(
            slot.zone
            for node_id, slot in floor.slots.items()
            if slot.free_gpus == floor.gpus_per_node and node_id not in desk.wanted_nodes
        )
        for zone, free_nodes in zones.most_common():
            if not any(o.zone == zone for o in offered):
                continue
            new = _lay_new(desk, pool, f"rest-{job.id}", max(1, job.nodes - free_nodes), zone)
            node_ids = floor.fit(job, without=desk.wanted_nodes)
            if node_ids:
                desk.assign(job, pool, node_ids)
                turns.placed(job, pool, node_ids)
                return pool, len(new), zone
            for node_id in new:
                floor.drop(node_id)
    return None


def _fewer_nodes(desk: Desk, job: Job, family: Family) -> tuple[str, int] | None:
    """(pool, nodes) with which the job could start at home, movable work going to the rented nodes; None if it would
    take as many nodes as the job itself. What is missing is the shortfall, not the whole job."""
    if not family.onprem:
        return None
    for pool in desk.burst_pools(job):
        if not ranked(desk, pool, desk.allowed_types(job, pool)):
            continue
        floor, per_node = desk.floors[pool], desk.pool(pool).gpus_per_node
        free = floor.free_gpus + sum(desk.floors[p].free_gpus for p in family.onprem)
        least = max(0, -(-(job.gpus - free) // per_node))
        for nodes in range(least, min(least + 2, job.nodes)):
            new = _lay_new(desk, pool, f"new-{job.id}", nodes, "")
            limit_gpus = _worth_moving_gpus(desk, job, pool, saved_nodes=job.nodes - nodes)
            if any(clear(desk, job, home, (home, pool), limit_gpus=limit_gpus) for home in family.onprem):
                return pool, nodes
            for node_id in new:
                floor.drop(node_id)
    return None


def _worth_moving_gpus(desk: Desk, job: Job, pool: str, *, saved_nodes: int) -> int:
    """GPUs of home work that may move so that the job starts at home. A job that can come home later must earn it:
    the boots saved against two restarts, there and back. For one that cannot, its whole run is at stake."""
    if not desk.is_checkpointable(job):
        return 2 * job.gpus
    saved_gpu_s = saved_nodes * desk.pool(pool).gpus_per_node * desk.pool(pool).lead_time_s
    return int(saved_gpu_s / (2 * max(desk.class_of(job).restart_cost_s, 1.0)))


def _buy_missing(desk: Desk, missing: list[tuple[Job, str, int]]) -> list[Launch]:
    """One launch a pool and limited team for the shortfalls of several jobs."""
    launches: list[Launch] = []
    for pool, team in dict.fromkeys((p, _limited_team(desk, j)) for j, p, _ in missing):
        mine = [(j, n) for j, p, n in missing if p == pool and _limited_team(desk, j) == team]
        jobs, nodes = [j for j, _ in mine], sum(n for _, n in mine)
        gpus = sum(j.gpus for j in jobs)
        reason = f"{nodes} node(s) for work that makes room at home for {len(jobs)} waiting job(s) of {gpus} GPUs"
        types = desk.allowed_types(jobs[0], pool)
        launches.append(_launch(desk, pool, types, nodes, jobs, reason, len(launches), gang=False))
    return launches


def _buy_rest(desk: Desk, rest: list[tuple[Job, str, int, str]], *, start: int) -> list[Launch]:
    """What gangs lack beside nodes that are free or come, in those nodes' zone."""
    launches: list[Launch] = []
    for job, pool, nodes, zone in rest:
        reason = f"{nodes} more node(s) in zone {zone} for the {job.nodes} of job {job.id}, {_why(desk, job)}"
        types = desk.allowed_types(job, pool)
        launch = _launch(desk, pool, types, nodes, [job], reason, start + len(launches), gang=True)
        launches.append(replace(launch, offerings=tuple(o for o in launch.offerings if o.zone == zone)))
    return launches


def _lay_new(desk: Desk, pool: str, name: str, nodes: int, zone: str) -> list[str]:
    """Put nodes that may be bought onto the pool's floor; their ids, to drop them again."""
    new = [_virtual(desk, pool, f"{name}-{n}", zone) for n in range(nodes)]
    for node in new:
        desk.floors[pool].add(node)
    return [node.id for node in new]


def _virtual(desk: Desk, pool_name: str, node_id: str, zone: str) -> Node:
    pool = desk.pool(pool_name)
    return Node(
        id=node_id,
        cluster=pool.cluster,
        pool=pool_name,
        capacity_type=pool.capacity_types[0],
        state=NodeState.READY,
        gpus=pool.gpus_per_node,
        free_gpus=pool.gpus_per_node,
        cpus=pool.cpus_per_node,
        free_cpus=pool.cpus_per_node,
        memory_gib=pool.memory_gib_per_node,
        free_memory_gib=pool.memory_gib_per_node,
        zone=zone,
    )


def _buy_own(desk: Desk, own: list[tuple[Job, str]], *, start: int) -> list[Launch]:
    """One launch a gang, one for all single-node work of the same pool and capacity types. A team with a budget or a
    ceiling of its own gets launches of its own, so that the guard can hold it to them."""
    launches: list[Launch] = []
    singles: dict[tuple[str, tuple[CapacityType, ...], str], list[Job]] = {}
    for job, pool in own:
        types = desk.allowed_types(job, pool)
        if job.nodes > 1:
            reason = f"{job.gpus} GPUs on {job.nodes} nodes for job {job.id}, {_why(desk, job)}"
            launches.append(_launch(desk, pool, types, job.nodes, [job], reason, start + len(launches), gang=True))
        else:
            singles.setdefault((pool, types, _limited_team(desk, job)), []).append(job)
    for (pool, types, _), jobs in singles.items():
        nodes = pack(desk, pool, jobs)
        gpus = sum(j.gpus for j in jobs)
        reason = f"{gpus} GPUs of {len(jobs)} job(s) on {nodes} node(s), {_why(desk, jobs[0])}"
        launches.append(_launch(desk, pool, types, nodes, jobs, reason, start + len(launches)))
    return launches


def _limited_team(desk: Desk, job: Job) -> str:
    team = desk.policy.teams.get(job.team)
    if team is None or (team.burst_ceiling_gpus is None and team.budget == Budget()):
        return ""
    return job.team


def fits_pool(desk: Desk, job: Job, pool_name: str) -> bool:
    """Whether an empty pool of this shape could hold the job at all."""
    pool = desk.pool(pool_name)
    nodes = max(1, job.nodes)
    return (
        job.gpus <= nodes * pool.gpus_per_node
        and (not pool.cpus_per_node or job.cpus <= nodes * pool.cpus_per_node)
        and (not pool.memory_gib_per_node or job.memory_gib <= nodes * pool.memory_gib_per_node)
    )


def pack(desk: Desk, pool_name: str, jobs: Iterable[Job]) -> int:
    """Nodes that single-node jobs need, packed largest first (first-fit decreasing) by GPUs, CPUs and memory."""
    floor = Floor([], gpus_per_node=desk.pool(pool_name).gpus_per_node)
    for job in sorted(jobs, key=lambda j: (-j.gpus, -j.memory_gib, -j.cpus, j.id)):
        node_ids = floor.fit(job)
        if not node_ids:
            node = _virtual(desk, pool_name, f"new-{len(floor.slots)}", "")
            floor.add(node)
            node_ids = (node.id,)
        floor.place(job, node_ids)
    return len(floor.slots)


def _buy_ahead(desk: Desk, family: Family, keep: dict[str, int], launches: list[Launch]) -> list[Launch]:
    """Nodes that are wanted whatever the queue says and are neither there nor coming nor just bought."""
    more: list[Launch] = []
    for pool in family.burst:
        bought = sum(launch.nodes for launch in launches if launch.pool == pool)
        missing = keep.get(pool, 0) - desk.alive_nodes.get(pool, 0) - bought
        types = desk.pool(pool).capacity_types
        if missing > 0 and ranked(desk, pool, types):
            reason = f"{missing} node(s) ahead of need: minimum, lease, headroom or forecast ask for {keep[pool]}"
            launch = _launch(desk, pool, types, missing, [], reason, len(launches) + len(more))
            lease = next((lease for lease in leases_now(desk, pool) if lease.gpus > 0), None)
            more.append(replace(launch, lease_id=lease.id, team=lease.team) if lease else launch)
    return more


def _launch(
    desk: Desk,
    pool: str,
    types: tuple[CapacityType, ...],
    nodes: int,
    jobs: list[Job],
    reason: str,
    number: int,
    *,
    gang: bool = False,
) -> Launch:
    teams = {j.team for j in jobs}
    seed = f"{desk.policy.content_hash}|{desk.at.isoformat()}|{desk.state.tick}|{pool}|{number}"
    return Launch(
        pool=pool,
        nodes=nodes,
        gang=gang,
        offerings=best(ranked(desk, pool, types, gang_nodes=nodes if gang else 0), gang=gang),
        token=blake2b(seed.encode(), digest_size=10).hexdigest(),
        needed_by=desk.at + timedelta(seconds=desk.pool(pool).lead_time_s),
        reason=reason,
        team=teams.pop() if len(teams) == 1 else "",
        job_ids=tuple(j.id for j in jobs),
    )


def _why(desk: Desk, job: Job) -> str:
    target_min = desk.class_of(job).wait_target_s / 60
    return f"submitted {desk.waited_s(job) / 60:.0f} min ago, to start within {target_min:.0f}"
