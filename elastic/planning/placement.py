"""Where work fits: the free capacity of one node pool as a scratch picture that a plan fills in as it decides.

Used by the desk. Cheap to build (one pass over the pool's nodes) and to ask (nodes lie in buckets by free GPUs).
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from providers.facts import Job, Node


def gang_shares(gpus: int, *, nodes: int, gpus_per_node: int) -> tuple[int, ...]:
    """GPUs a job takes on each of its nodes, largest first: full nodes and a rest, or an even split if it asks for
    more nodes than it needs.

    >>> gang_shares(20, nodes=3, gpus_per_node=8), gang_shares(8, nodes=4, gpus_per_node=8)
    ((8, 8, 4), (2, 2, 2, 2))
    """
    if nodes <= 1:
        return (gpus,)
    if nodes <= -(-gpus // gpus_per_node):
        whole, rest = divmod(gpus, gpus_per_node)
        return (gpus_per_node,) * whole + ((rest,) if rest else ())
    base, extra = divmod(gpus, nodes)
    return (base + 1,) * extra + (base,) * (nodes - extra)


@dataclass(slots=True)
class Slot:
    """What is free on one node, in this plan's picture."""

    node_id: str
    zone: str
    gpus: int
    free_gpus: int
    free_cpus: int
    free_memory_gib: float

    @property
    def used_gpus(self) -> int:
        return self.gpus - self.free_gpus


# Every change of every floor of one desk, so that a step can try something and take it back.
Journal = list[tuple["Floor", str, int, int, float]]


def roll_back(journal: Journal, mark: int) -> None:
    """Undo the changes after `mark` (a former length of the journal)."""
    while len(journal) > mark:
        floor, node_id, gpus, cpus, memory_gib = journal.pop()
        floor.change(node_id, gpus=-gpus, cpus=-cpus, memory_gib=-memory_gib)
        journal.pop()  # the undoing itself


class Floor:
    """Free capacity of one pool. Nodes whose use is not known, or that take nothing new, are not on it."""

    __slots__ = ("buckets", "free_gpus", "gpus_per_node", "journal", "slots")

    def __init__(self, nodes: Iterable[Node], *, gpus_per_node: int, journal: "Journal | None" = None) -> None:
        self.gpus_per_node = gpus_per_node
        self.journal: Journal = [] if journal is None else journal
        self.slots: dict[str, Slot] = {}
        self.buckets: list[dict[str, Slot]] = [{} for _ in range(gpus_per_node + 1)]
        self.free_gpus = 0
        for node in nodes:
            self.add(node)

    def add(self, node: Node) -> None:
        """Put a node on the floor."""
        free = node.free_gpus
        if free is None or not 0 <= free <= self.gpus_per_node:
            return
        slot = Slot(node.id, node.zone or "", node.gpus, free, node.free_cpus, node.free_memory_gib)
        self.slots[node.id] = slot
        self.buckets[free][node.id] = slot
        self.free_gpus += free

    def drop(self, node_id: str) -> None:
        """Take an empty node off the floor again."""
        slot = self.slots.pop(node_id)
        del self.buckets[slot.free_gpus][node_id]
        self.free_gpus -= slot.free_gpus

    def change(self, node_id: str, *, gpus: int, cpus: int = 0, memory_gib: float = 0.0) -> None:
        """Take (positive) or give back (negative) capacity on a node."""
        slot = self.slots.get(node_id)
        if slot is None:
            return
        del self.buckets[slot.free_gpus][node_id]
        slot.free_gpus -= gpus
        slot.free_cpus -= cpus
        slot.free_memory_gib -= memory_gib
        self.free_gpus -= gpus
        self.buckets[slot.free_gpus][node_id] = slot
        self.journal.append((self, node_id, gpus, cpus, memory_gib))

    def fit(self, job: Job, *, without: Collection[str] = (), only: Collection[str] | None = None) -> tuple[str, ...]:
        """Nodes on which the job could start now, best fit first; () if it does not fit. A gang sits in one zone."""
        if job.gpus > self.free_gpus:
            return ()
        shares = gang_shares(job.gpus, nodes=job.nodes, gpus_per_node=self.gpus_per_node)
        if len(shares) == 1:
            slot = self._best(shares[0], job, 1, without, only)
            return (slot.node_id,) if slot else ()
        return self._fit_gang(job, shares, without, only)

    def _best(
        self, gpus: int, job: Job, parts: int, without: Collection[str], only: Collection[str] | None
    ) -> Slot | None:
        """The fullest node with room for one part of the job."""
        for bucket in self.buckets[gpus:]:
            for node_id, slot in bucket.items():
                if node_id in without or (only is not None and node_id not in only):
                    continue
                if slot.free_cpus * parts >= job.cpus and slot.free_memory_gib * parts >= job.memory_gib:
                    return slot
        return None

    def _fit_gang(
        self, job: Job, shares: tuple[int, ...], without: Collection[str], only: Collection[str] | None
    ) -> tuple[str, ...]:
        """All parts of a gang in one zone, or ()."""
        full = shares[0]
        by_zone: dict[str, list[Slot]] = {}
        for bucket in self.buckets[full:]:
            for node_id, slot in bucket.items():
                if node_id in without or (only is not None and node_id not in only):
                    continue
                if slot.free_cpus * len(shares) >= job.cpus and slot.free_memory_gib * len(shares) >= job.memory_gib:
                    by_zone.setdefault(slot.zone, []).append(slot)
        for zone in sorted(by_zone, key=lambda z: (len(by_zone[z]), z)):
            chosen = self._fill_zone(job, shares, by_zone[zone], zone, without, only)
            if chosen:
                return chosen
        return ()

    def _fill_zone(
        self,
        job: Job,
        shares: tuple[int, ...],
        slots: list[Slot],
        zone: str,
        without: Collection[str],
        only: Collection[str] | None,
    ) -> tuple[str, ...]:
        """Full parts on the given slots, a smaller last part on the fullest node of the zone that has room."""
        full = shares[0]
        count = sum(1 for share in shares if share == full)
        if len(slots) < count:
            return ()
        chosen = [slot.node_id for slot in slots[:count]]
        taken = set(chosen)
        for share in shares[count:]:
            rest = next(
                (
                    node_id
                    for bucket in self.buckets[share:]
                    for node_id, slot in bucket.items()
                    if slot.zone == zone and node_id not in taken and node_id not in without
                    and (only is None or node_id in only)
                    and slot.free_cpus * len(shares) >= job.cpus
                    and slot.free_memory_gib * len(shares) >= job.memory_gib
                ),
                None,
            )  # fmt: skip
            if rest is None:
                return ()
            chosen.append(rest)
            taken.add(rest)
        return tuple(chosen)

    def place(self, job: Job, node_ids: tuple[str, ...]) -> None:
        """Fill the nodes with the job, freest nodes with the largest parts."""
        shares = gang_shares(job.gpus, nodes=job.nodes, gpus_per_node=self.gpus_per_node)
        parts = len(shares)
        order = sorted(node_ids, key=lambda n: -self.slots[n].free_gpus) if parts > 1 else node_ids
        for node_id, share in zip(order, shares, strict=True):
            self.change(node_id, gpus=share, cpus=job.cpus // parts, memory_gib=job.memory_gib / parts)
