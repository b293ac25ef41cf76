"""Launches and their machines from tick to tick: which are still to come, which boots ended. Called by `advance`.

A listing is eventually consistent: a machine that one listing lacks is not gone (F006), one that none has shown for
long never was.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto

from elastic.planning.plan import Launch
from elastic.planning.snapshot import Snapshot
from elastic.planning.state import ControllerState, InFlight, Outcome, Result
from providers.facts import InstanceState, NodeState

# From request to a listing that shows the machine (capacity-anchors (d): launch timeout 5 min, Karpenter's).
LAUNCH_DEADLINE_S = 300.0
# From request to a node that runs jobs, at most; then it is a boot failure (capacity-anchors (d): GPU join 20 min).
JOIN_DEADLINE_S = 1200.0
# A launch that no listing shows is closed after this long: by then its machines have been given back.
IN_FLIGHT_S = 1800.0
# One whose answer never came is closed sooner when whole listings do not show it: most likely it never took effect, and
# its jobs still wait. Listings lag by minutes at most (F006); what shows up later counts as coming all the same.
UNKNOWN_S = 600.0
# Whole listings in a row without a machine that was listed before: then it is gone (F006: several, not one).
MISSED_LISTINGS = 3


@dataclass(frozen=True, slots=True)
class Boot:
    """One boot that ended. `offering_key` '' where no listing told what the machine was."""

    pool: str
    offering_key: str
    joined: bool


class _Fate(Enum):
    JOINED = auto()
    FAILED = auto()  # it never ran a job
    EXCUSED = auto()  # taken by the cloud, given back because nobody wanted it any more, or never really there
    COMING = auto()


def follow_flights(
    state: ControllerState, snapshot: Snapshot, launches: list[tuple[Launch, Outcome]], given_back: set[str]
) -> tuple[Mapping[str, InFlight], list[Boot]]:
    """Launches with machines still to join, and the boots that ended in this tick."""
    boots: list[Boot] = []
    if not state.in_flight and not launches:
        return state.in_flight, boots
    kept: dict[str, InFlight] = {}
    if state.in_flight:
        seen = _Seen(snapshot, given_back)
        for token, flight in state.in_flight.items():
            still = _follow(flight, seen, boots)
            if still is not None:
                kept[token] = still
    for launch, outcome in launches:
        unknown = outcome.result is Result.FAILED and outcome.error_kind == "unreachable"
        if unknown or outcome.result in (Result.DONE, Result.PARTIAL):
            kept[launch.token] = InFlight(launch=launch, asked_at=snapshot.at, instance_ids=outcome.provider_ids)
    return kept, boots


class _Seen:
    """One tick's machines by id and token, which of them have joined, and which went for a known reason."""

    def __init__(self, snapshot: Snapshot, given_back: set[str]) -> None:
        self.at = snapshot.at
        self.instances = {i.id: i for i in snapshot.instances}
        self.is_whole = not snapshot.trouble("cloud:")
        self._joined = {n.instance_id for n in snapshot.nodes if n.state in (NodeState.READY, NodeState.CORDONED)}
        self._given_back = given_back
        self._interrupted = {n.instance_id for n in snapshot.interruptions}

    def by_token(self, token: str) -> tuple[str, ...]:
        return tuple(i.id for i in self.instances.values() if i.token == token)

    def key_of(self, instance_id: str) -> str:
        instance = self.instances.get(instance_id)
        return instance.offering_key if instance is not None else ""

    def fate(self, instance_id: str, flight: InFlight) -> _Fate:
        """What became of one machine of a launch."""
        age_s = (self.at - flight.asked_at).total_seconds()
        if instance_id in self._joined:
            return _Fate.JOINED
        if instance_id in self._interrupted or (instance_id in self._given_back and age_s < JOIN_DEADLINE_S):
            return _Fate.EXCUSED
        if age_s >= IN_FLIGHT_S or instance_id in self._given_back:
            return _Fate.FAILED
        instance = self.instances.get(instance_id)
        if instance is not None:
            gone = instance.state in (InstanceState.TERMINATING, InstanceState.TERMINATED)
            return _Fate.FAILED if gone else _Fate.COMING
        if not self.is_whole:
            return _Fate.COMING
        if instance_id in flight.listed_ids:
            return _Fate.FAILED if flight.missed.get(instance_id, 0) + 1 >= MISSED_LISTINGS else _Fate.COMING
        return _Fate.EXCUSED if age_s >= LAUNCH_DEADLINE_S else _Fate.COMING

    def missed(self, flight: InFlight, ids: Iterable[str]) -> dict[str, int]:
        """Whole listings in a row that lacked a machine which was listed before, by its id."""
        if not self.is_whole:
            return dict(flight.missed)
        absent = (i for i in ids if i not in self.instances and i in flight.listed_ids)
        return {i: flight.missed.get(i, 0) + 1 for i in absent}


def _follow(flight: InFlight, seen: _Seen, boots: list[Boot]) -> InFlight | None:
    """A launch one tick on; None when nothing of it is to come any more. Adds the boots that ended."""
    ids = flight.instance_ids or seen.by_token(flight.launch.token)  # a lost reply: found again by its token
    if not ids:
        age_s = (seen.at - flight.asked_at).total_seconds()
        return None if age_s >= (UNKNOWN_S if seen.is_whole else IN_FLIGHT_S) else flight
    still: list[str] = []
    for instance_id in ids:
        fate = seen.fate(instance_id, flight)
        if fate is _Fate.COMING:
            still.append(instance_id)
        elif fate is not _Fate.EXCUSED:
            boots.append(Boot(flight.launch.pool, seen.key_of(instance_id), fate is _Fate.JOINED))
    if not still:
        return None
    listed = tuple(i for i in still if i in flight.listed_ids or i in seen.instances)
    missed = seen.missed(flight, still)
    if tuple(still) == flight.instance_ids and listed == flight.listed_ids and missed == flight.missed:
        return flight
    return replace(flight, instance_ids=tuple(still), listed_ids=listed, missed=missed)
