"""Simulated data-cache groups: workers start and drain one after another, a warm-up takes time by bytes and workers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from providers.errors import InvalidRequest, NotFound
from providers.facts import CacheGroup, CachePhase
from providers.sim.world import World, instant

WORKER_START_S = 60.0
WORKER_DRAIN_S = 300.0
GIB_PER_WORKER_MINUTE = 20.0
WARM_RATIO = 0.95  # of the hot set: what counts as warm


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSpec:
    """A team's group as the world starts with it."""

    name: str
    team: str
    workers: int
    hot_set_gib: float = 1024.0


class SimCaches:
    """The simulated cache service as a `CacheService`."""

    def __init__(self, world: World, specs: Sequence[CacheSpec], *, name: str = "sim") -> None:
        self._world = world
        self._stepping: set[str] = set()  # groups whose next worker is on its way
        self._specs = {s.name: s for s in specs}
        self._groups = {
            s.name: CacheGroup(
                name=s.name,
                team=s.team,
                service=name,
                phase=CachePhase.ASLEEP,
                workers_wanted=s.workers,
                workers_ready=s.workers,
                warm_ratio=0.0,
            )
            for s in specs
        }

    def read(self) -> tuple[CacheGroup, ...]:
        """Every group as it is now."""
        return tuple(self._groups.values())

    def resize(self, name: str, *, workers: int) -> None:
        """Want this many workers; steps follow one after another."""
        group = self._group(name)
        if workers < 0:
            raise InvalidRequest(f"cache group {name} cannot have {workers} workers")
        if workers == group.workers_wanted:
            return
        self._groups[name] = replace(group, workers_wanted=workers, changed_at=instant(self._world.now_s))
        self._step_later(name)

    def warm(self, name: str) -> None:
        """Load the hot set with the workers that are ready."""
        group = self._group(name)
        if group.phase is CachePhase.WARMING or not group.workers_ready:
            return
        self._groups[name] = replace(group, phase=CachePhase.WARMING)
        missing_gib = self._specs[name].hot_set_gib * (1 - (group.warm_ratio or 0.0))
        minutes = missing_gib / (GIB_PER_WORKER_MINUTE * group.workers_ready)
        self._world.at(self._world.now_s + minutes * 60, lambda: self._warmed(name))

    def _group(self, name: str) -> CacheGroup:
        if name not in self._groups:
            raise NotFound(f"cache group {name} is not known")
        return self._groups[name]

    def _step_later(self, name: str) -> None:
        group = self._groups[name]
        if group.workers_ready == group.workers_wanted or name in self._stepping:
            return
        self._stepping.add(name)
        grows = group.workers_wanted > group.workers_ready
        phase = CachePhase.STARTING if grows else CachePhase.DRAINING
        self._groups[name] = replace(group, phase=phase, workers_draining=0 if grows else 1)
        self._world.at(self._world.now_s + (WORKER_START_S if grows else WORKER_DRAIN_S), lambda: self._step(name))

    def _step(self, name: str) -> None:
        """One worker joins empty or leaves with its share of the cache moved to the others, as far as they hold it."""
        self._stepping.discard(name)
        group = self._groups[name]
        grows = group.workers_wanted > group.workers_ready
        ready = group.workers_ready + (1 if grows else -1) * (group.workers_wanted != group.workers_ready)
        warm = (group.warm_ratio or 0.0) * (1.0 if grows else ready / max(1, group.workers_ready))
        phase = group.phase
        if ready == group.workers_wanted:
            phase = CachePhase.READY if warm >= WARM_RATIO else CachePhase.ASLEEP
        self._groups[name] = replace(group, workers_ready=ready, warm_ratio=warm, phase=phase, workers_draining=0)
        self._step_later(name)

    def _warmed(self, name: str) -> None:
        group = self._groups[name]
        if group.phase is CachePhase.WARMING:
            self._groups[name] = replace(group, phase=CachePhase.READY, warm_ratio=1.0)
