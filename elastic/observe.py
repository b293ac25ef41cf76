"""Ports -> Snapshot. One instant for the whole tick; a source that failed is a reading with an error, not a crash.

Called once a tick by the controller. Facts of a source that could not be read whole are the last good ones; a part is
never taken for the whole (F024), so that nothing is bought or removed on its word.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from elastic.planning.snapshot import Reading, Snapshot
from providers.errors import ProviderError
from providers.facts import CacheGroup, Instance, Node
from providers.ports import Ports


class _Whole(Protocol):
    @property
    def complete(self) -> bool: ...

    @property
    def trouble(self) -> str: ...


T = TypeVar("T")
R = TypeVar("R", bound=_Whole)


class _CacheReading:
    """Cache services answer with plain groups; this gives them the shape of the other readings."""

    __slots__ = ("groups",)
    complete, trouble = True, ""

    def __init__(self, groups: tuple[CacheGroup, ...]) -> None:
        self.groups = groups


class Observer:
    """Reads every source, and remembers the last good reading of each."""

    def __init__(self, ports: Ports) -> None:
        self._clusters = [_Source(f"cluster:{name}", c.read) for name, c in ports.clusters.items()]
        self._clouds = [_Source(f"cloud:{name}", c.read) for name, c in ports.clouds.items()]
        self._caches = [_Source(f"cache:{name}", _groups(c.read)) for name, c in ports.caches.items()]

    def take_snapshot(self, now: datetime) -> Snapshot:
        """Everything as it is now; sources in trouble as they were, with the reason."""
        readings: list[Reading] = []
        clusters = _read_all(self._clusters, now, readings)
        clouds = _read_all(self._clouds, now, readings)
        caches = _read_all(self._caches, now, readings)
        nodes = _joined([r.nodes for r in clusters])
        return Snapshot(
            at=now,
            jobs=_joined([r.jobs for r in clusters]),
            nodes=nodes,
            instances=_with_nodes(_joined([r.instances for r in clouds]), nodes),
            offerings=_joined([r.offerings for r in clouds]),
            interruptions=_joined([r.interruptions for r in clouds]),
            cache_groups=_joined([r.groups for r in caches]),
            readings=tuple(readings),
        )


class _Source(Generic[R]):
    """One source with its last good reading. Until there is one, an incomplete reading is better than nothing."""

    def __init__(self, name: str, read: Callable[[], R]) -> None:
        self._name, self._read = name, read
        self._kept: R | None = None
        self._kept_at: datetime | None = None
        self._kept_whole = False

    def read(self, now: datetime, readings: list[Reading]) -> R | None:
        """The facts to go by, None if there never were any; adds how the reading went."""
        error = ""
        try:
            fresh = self._read()
            error = "" if fresh.complete else f"incomplete: {fresh.trouble}"
            if fresh.complete or not self._kept_whole:
                self._kept, self._kept_at, self._kept_whole = fresh, now, fresh.complete
        except ProviderError as trouble:
            error = f"{trouble.kind}: {trouble.detail}"
        readings.append(Reading(source=self._name, read_at=self._kept_at or now, error=error))
        return self._kept


def _read_all(sources: "list[_Source[R]]", now: datetime, readings: list[Reading]) -> list[R]:
    return [facts for source in sources if (facts := source.read(now, readings)) is not None]


def _groups(read: Callable[[], tuple[CacheGroup, ...]]) -> Callable[[], _CacheReading]:
    return lambda: _CacheReading(read())


def _with_nodes(instances: tuple[Instance, ...], nodes: tuple[Node, ...]) -> tuple[Instance, ...]:
    """The machines with the node each has become: a cloud does not know it, the cluster does."""
    if all(i.node_id is not None for i in instances):
        return instances
    found = {n.instance_id: n.id for n in nodes if n.instance_id is not None}
    return tuple(replace(i, node_id=found[i.id]) if i.node_id is None and i.id in found else i for i in instances)


def _joined(parts: list[tuple[T, ...]]) -> tuple[T, ...]:
    """One tuple; the very same object when there is one source (a replay reads 130,000 times)."""
    return parts[0] if len(parts) == 1 else tuple(item for part in parts for item in part)
