"""The simulated batch scheduler's own book of free capacity in one pool.

Written apart from the planner's picture on purpose: where the two disagree, a test should see it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from providers.facts import Node

Part = tuple[str, int]  # a node, and a job's GPUs on it


@dataclass(slots=True)
class Space:
    """What is free on a node now."""

    node_id: str
    zone: str
    gpus: int
    free_gpus: int
    free_cpus: int
    free_memory_gib: float


def split_gpus(gpus: int, *, nodes: int, gpus_per_node: int) -> tuple[int, ...]:
    """GPUs of a job on each of its nodes, largest first."""
    if nodes <= 1:
        return (gpus,)
    if nodes <= -(-gpus // gpus_per_node):
        whole, rest = divmod(gpus, gpus_per_node)
        return (gpus_per_node,) * whole + ((rest,) if rest else ())
    base, extra = divmod(gpus, nodes)
    return (base + 1,) * extra + (base,) * (nodes - extra)


class PoolFloor:
    """Free capacity by node, in buckets by free GPUs: best fit is the first bucket that suffices."""

    def __init__(self, gpus_per_node: int) -> None:
        self.gpus_per_node = gpus_per_node
        self.spaces: dict[str, Space] = {}
        self.closed: set[str] = set()  # cordoned: takes nothing new
        self.free_gpus = 0
        self._buckets: list[dict[str, Space]] = [{} for _ in range(gpus_per_node + 1)]

    def add(self, node: Node) -> None:
        """An empty node joins."""
        space = Space(node.id, node.zone or "", node.gpus, node.gpus, node.cpus, node.memory_gib)
        self.spaces[node.id] = space
        self._buckets[space.free_gpus][node.id] = space
        self.free_gpus += space.free_gpus

    def remove(self, node_id: str) -> None:
        """A node leaves."""
        space = self.spaces.pop(node_id)
        del self._buckets[space.free_gpus][node_id]
        self.free_gpus -= space.free_gpus
        self.closed.discard(node_id)

    def change(self, node_id: str, *, gpus: int, cpus: int, memory_gib: float) -> None:
        """Take (positive) or give back (negative)."""
        space = self.spaces[node_id]
        if not 0 <= space.free_gpus - gpus <= space.gpus:
            raise ValueError(f"node {node_id}: {gpus} GPUs asked of {space.free_gpus} free")
        del self._buckets[space.free_gpus][node_id]
        space.free_gpus -= gpus
        space.free_cpus -= cpus
        space.free_memory_gib -= memory_gib
        self.free_gpus -= gpus
        self._buckets[space.free_gpus][node_id] = space

    def has_room(self, node_id: str, *, gpus: int, cpus: int, memory_gib: float) -> bool:
        """Whether one part of a job fits on the node."""
        space = self.spaces.get(node_id)
        return (
            space is not None
            and space.free_gpus >= gpus
            and space.free_cpus >= cpus
            and space.free_memory_gib >= memory_gib
        )

    def copy(self) -> "PoolFloor":
        """The same book, to try things in."""
        other = PoolFloor(self.gpus_per_node)
        other.spaces = {name: replace(space) for name, space in self.spaces.items()}
        other.closed, other.free_gpus = self.closed, self.free_gpus
        for space in other.spaces.values():
            other._buckets[space.free_gpus][space.node_id] = space
        return other

    def assign(
        self, shares: tuple[int, ...], node_ids: tuple[str, ...], *, cpus: int, memory_gib: float, own: dict[str, int]
    ) -> tuple[Part, ...]:
        """Lay the parts of a job (cpus and memory in all) onto these nodes, largest on the freest, as if it had left
        the GPUs it holds (`own`); () if a node is unknown, closed, named twice or has no room."""
        spaces, count, back = self.spaces, len(shares), len(own) or 1
        if len(node_ids) != count or len(set(node_ids)) != count or not all(n in spaces for n in node_ids):
            return ()
        order = sorted(node_ids, key=lambda n: -(spaces[n].free_gpus + own.get(n, 0)))
        parts = tuple(zip(order, shares, strict=True))
        for node_id, gpus in parts:
            part = 1 / back if node_id in own else 0.0
            if node_id in self.closed or not self.has_room(
                node_id,
                gpus=gpus - own.get(node_id, 0),
                cpus=cpus // count - int(cpus // back if node_id in own else 0),
                memory_gib=memory_gib / count - memory_gib * part,
            ):
                return ()
        return parts

    def fit(
        self, shares: tuple[int, ...], *, cpus: int, memory_gib: float, without: frozenset[str] = frozenset()
    ) -> tuple[str, ...]:
        """Nodes for the parts of a job (cpus and memory a part), in one zone; () if they do not all fit now. Nodes in
        `without` are left alone."""
        if sum(shares) > self.free_gpus:
            return ()
        if len(shares) == 1:
            first = next(self._open(shares[0], cpus, memory_gib, without), None)
            return (first.node_id,) if first else ()
        zones: dict[str, list[Space]] = {}
        for space in self._open(shares[-1], cpus, memory_gib, without):
            zones.setdefault(space.zone, []).append(space)
        for spaces in zones.values():
            chosen = _fill(shares, spaces)
            if chosen:
                return chosen
        return ()

    def _open(self, gpus: int, cpus: int, memory_gib: float, without: frozenset[str]) -> Iterator[Space]:
        """Nodes with room for a part, fullest first."""
        for bucket in self._buckets[gpus:]:
            for node_id, space in bucket.items():
                if node_id in without or node_id in self.closed:
                    continue
                if space.free_cpus >= cpus and space.free_memory_gib >= memory_gib:
                    yield space


def _fill(shares: tuple[int, ...], spaces: list[Space]) -> tuple[str, ...]:
    """Largest parts first, each on the fullest node that has room and is not taken."""
    taken: list[str] = []
    used: set[str] = set()
    rest: Iterator[Space] = iter(())
    last = -1
    for share in shares:
        if share != last:
            rest, last = iter([s for s in spaces if s.free_gpus >= share and s.node_id not in used]), share
        space = next(rest, None)
        if space is None:
            return ()
        taken.append(space.node_id)
        used.add(space.node_id)
    return tuple(taken)
