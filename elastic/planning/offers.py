"""What a burst pool may rent now, best first. Used by `scale_out`."""

from elastic.planning.cost import price_usd_per_hour
from elastic.planning.desk import Desk
from providers.facts import CapacityType, Offering

# A pool that has just come back is the worst place for a gang: of 16-node gangs 25 % live an hour in a pool under
# 15 minutes old, 84 % in one over two hours old (capacity-anchors, survival table).
YOUNG_POOL_S = 1800.0
YOUNG_POOL_GANG_NODES = 8


def ranked(desk: Desk, pool_name: str, types: tuple[CapacityType, ...], *, gang_nodes: int = 0) -> tuple[Offering, ...]:
    """What the pool may rent now, best first: capacity types in the pool's order, then price. Offerings set aside,
    without a price, or of another shape are left out; for large gangs, zones that have just come back go last."""
    memory = desk.state.pools.get(pool_name)
    if memory is not None and memory.paused_until is not None and desk.at < memory.paused_until:
        return ()
    key = (pool_name, types, gang_nodes >= YOUNG_POOL_GANG_NODES)
    known = desk.ranked_cache.get(key)
    if known is None:
        rows = [row for o in desk.snapshot.offerings if (row := _rank(desk, pool_name, types, gang_nodes, o))]
        known = desk.ranked_cache[key] = tuple(o for _, o in sorted(rows, key=lambda r: r[0]))
    return known


def _rank(
    desk: Desk, pool_name: str, types: tuple[CapacityType, ...], gang_nodes: int, offering: Offering
) -> tuple[tuple[int, bool, float, str], Offering] | None:
    pool = desk.pool(pool_name)
    if offering.cloud != pool.cloud or offering.gpu_model != pool.gpu_model or offering.gpus != pool.gpus_per_node:
        return None
    if offering.capacity_type not in types or (pool.zones and offering.zone not in pool.zones):
        return None
    if pool.instance_types and offering.instance_type not in pool.instance_types:
        return None
    aside = desk.state.unavailable.get(offering.key)
    if aside is not None and desk.at < aside.until:
        return None
    price = price_usd_per_hour(offering, at=desk.at, guard=desk.policy.guard, last_good=desk.state.prices)
    if price is None:
        return None
    up_s = (desk.at - offering.zone_up_since).total_seconds() if offering.zone_up_since else YOUNG_POOL_S
    young = gang_nodes >= YOUNG_POOL_GANG_NODES and up_s < YOUNG_POOL_S
    return (types.index(offering.capacity_type), young, price, offering.key), offering
