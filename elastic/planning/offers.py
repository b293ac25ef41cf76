"""What a burst pool may rent now, best first. Used by `scale_out`."""

from datetime import datetime, timedelta

from elastic.planning.cost import price_usd_per_hour
from elastic.planning.desk import Desk
from providers.facts import CapacityType, Offering

# A pool that has just come back is the worst place for a gang: of 16-node gangs 25 % live an hour in a pool under
# 15 minutes old, 84 % in one over two hours old (capacity-anchors, survival table).
YOUNG_POOL_S = 1800.0
YOUNG_POOL_GANG_NODES = 8
# A capacity block's nodes are drained 40 min before its end (capacity-anchors (d)): no use in renting there then.
BLOCK_DRAIN = timedelta(minutes=40)
# What a placement score of 10 is worth against one of 0, as a share of the price: it breaks near ties and no more, for
# it is the cloud's guess of a moment (EC2 user guide: no promise).
SCORE_SHARE, USUAL_SCORE = 0.1, 5
MOST_OFFERINGS = 15  # of one market in a launch (and of one zone for a gang); capacity-anchors (d): aim 15, accept 5


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
    if price is None or not _is_open(offering, desk.at):
        return None
    price *= 1 - SCORE_SHARE * ((offering.score or USUAL_SCORE) - USUAL_SCORE) / 10
    up_s = (desk.at - offering.zone_up_since).total_seconds() if offering.zone_up_since else YOUNG_POOL_S
    young = gang_nodes >= YOUNG_POOL_GANG_NODES and up_s < YOUNG_POOL_S
    return (types.index(offering.capacity_type), young, price, offering.key), offering


def _is_open(offering: Offering, at: datetime) -> bool:
    """Whether a reservation has begun and lasts long enough; always, for what is no reservation."""
    begun = offering.starts_at is None or offering.starts_at <= at
    return begun and (offering.ends_at is None or at < offering.ends_at - BLOCK_DRAIN)


def best(offerings: tuple[Offering, ...], *, gang: bool) -> tuple[Offering, ...]:
    """The first fifteen of each market, in their order; for a gang of each market and zone, so that the next zone can
    follow."""
    counts: dict[tuple[str, str], int] = {}
    kept: list[Offering] = []
    for offering in offerings:
        key = offering.capacity_type.value, offering.zone if gang else ""
        counts[key] = counts.get(key, 0) + 1
        if counts[key] <= MOST_OFFERINGS:
            kept.append(offering)
    return offerings if len(kept) == len(offerings) else tuple(kept)
