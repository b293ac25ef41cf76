"""What one tick knows of the world, at one instant. Made by `observe`; asks, never fetches."""

from dataclasses import dataclass
from datetime import datetime

from providers.facts import CacheGroup, Instance, Interruption, Job, Node, Offering


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How the reading of one source went. `source` is `cluster:NAME`, `cloud:NAME` or `cache:NAME`.

    `error` is '' when it was whole. With an error the facts of this source are the last good ones, read at `read_at`.
    """

    source: str
    read_at: datetime
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything read in one tick. Pending and running jobs only."""

    at: datetime
    jobs: tuple[Job, ...] = ()
    nodes: tuple[Node, ...] = ()
    instances: tuple[Instance, ...] = ()
    offerings: tuple[Offering, ...] = ()
    cache_groups: tuple[CacheGroup, ...] = ()
    interruptions: tuple[Interruption, ...] = ()
    readings: tuple[Reading, ...] = ()

    def trouble(self, source_prefix: str = "") -> tuple[Reading, ...]:
        """The readings that failed, of sources whose name starts with the prefix."""
        return tuple(r for r in self.readings if r.error and r.source.startswith(source_prefix))
