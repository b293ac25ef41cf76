"""Ports -> Snapshot. One instant for the whole tick; a source that failed is a reading with an error, not a crash.

Called once a tick by the controller. Facts of a source that could not be read are the last good ones.
"""

from datetime import datetime
from typing import TypeVar

from elastic.planning.snapshot import Reading, Snapshot
from providers.errors import ProviderError
from providers.facts import CacheGroup
from providers.ports import CloudReading, ClusterReading, Ports

T = TypeVar("T")


class Observer:
    """Reads every source, and remembers the last good reading of each."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._clusters: dict[str, tuple[datetime, ClusterReading]] = {}
        self._clouds: dict[str, tuple[datetime, CloudReading]] = {}
        self._caches: dict[str, tuple[datetime, tuple[CacheGroup, ...]]] = {}

    def take_snapshot(self, now: datetime) -> Snapshot:
        """Everything as it is now; sources in trouble as they were, with the reason."""
        readings: list[Reading] = []
        for name, cluster in self._ports.clusters.items():
            try:
                read = cluster.read()
                error = "" if read.complete else f"incomplete: {read.trouble}"
                if read.complete or name not in self._clusters:
                    self._clusters[name] = (now, read)
            except ProviderError as trouble:
                error = f"{trouble.kind}: {trouble.detail}"
            readings.append(_reading(f"cluster:{name}", self._clusters.get(name), now, error))
        for name, cloud in self._ports.clouds.items():
            try:
                seen = cloud.read()
                error = "" if seen.complete else f"incomplete: {seen.trouble}"
                if seen.complete or name not in self._clouds:
                    self._clouds[name] = (now, seen)
            except ProviderError as trouble:
                error = f"{trouble.kind}: {trouble.detail}"
            readings.append(_reading(f"cloud:{name}", self._clouds.get(name), now, error))
        for name, cache in self._ports.caches.items():
            try:
                self._caches[name] = (now, cache.read())
                error = ""
            except ProviderError as trouble:
                error = f"{trouble.kind}: {trouble.detail}"
            readings.append(_reading(f"cache:{name}", self._caches.get(name), now, error))
        clusters = [r for _, r in self._clusters.values()]
        clouds = [r for _, r in self._clouds.values()]
        return Snapshot(
            at=now,
            jobs=_joined([r.jobs for r in clusters]),
            nodes=_joined([r.nodes for r in clusters]),
            instances=_joined([r.instances for r in clouds]),
            offerings=_joined([r.offerings for r in clouds]),
            interruptions=_joined([r.interruptions for r in clouds]),
            cache_groups=_joined([g for _, g in self._caches.values()]),
            readings=tuple(readings),
        )


def _reading(source: str, last: tuple[datetime, object] | None, now: datetime, error: str) -> Reading:
    return Reading(source=source, read_at=last[0] if last else now, error=error)


def _joined(parts: list[tuple[T, ...]]) -> tuple[T, ...]:
    """One tuple; the very same object when there is one source (a replay reads 130,000 times)."""
    return parts[0] if len(parts) == 1 else tuple(item for part in parts for item in part)
