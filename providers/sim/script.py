"""Scripted trouble of a simulated site: plain entries (as a story's YAML gives them) -> faults at their times.

An entry names its time in minutes from the start, one kind of trouble and, where it lasts, for how long:

    - {at_min: 30, dry: {zone: a}, for_min: 20}          no new machines there; `instance_type`, `capacity_type` too
    - {at_min: 30, interrupt: {pool: burst, count: 2}}   the two-minute notice for the oldest machines
    - {at_min: 30, launch_error: quota_exceeded, times: 2}   the next launches fail, by the kinds of `providers.errors`
    - {at_min: 30, lost_reply: 1}                        the next launch takes effect, its answer is lost
    - {at_min: 30, never_join: 3}                        the next machines are rented and never join
    - {at_min: 30, break_node: onprem-0001}              a node goes down under its jobs; or the first busy one of a
                                                         pool: {pool: burst}
    - {at_min: 30, queue_gap: page 3 failed, for_min: 10}    readings of the queue say that they are not whole
    - {at_min: 30, queue_error: unreachable, for_min: 10}    they fail; `cloud_gap`, `cloud_error` likewise
    - {at_min: 30, price_factor: 0.001, for_min: 60}     the price feed lies
    - {at_min: 30, hide_new_s: 90, for_min: 60}          new machines are not listed for so long; `call_s`: slow calls
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from providers.errors import (
    AccessDenied,
    InsufficientCapacity,
    InvalidRequest,
    ProviderError,
    QuotaExceeded,
    Throttled,
    Unreachable,
)
from providers.facts import NodeState
from providers.sim.adapters import SimCluster
from providers.sim.cloud import SimulatedCloud
from providers.sim.world import World

_KINDS = (AccessDenied, InsufficientCapacity, InvalidRequest, QuotaExceeded, Throttled, Unreachable)
_ERRORS: dict[str, type[ProviderError]] = {kind.kind: kind for kind in _KINDS}
_LASTING = ("dry", "queue_gap", "queue_error", "cloud_gap", "cloud_error", "price_factor", "hide_new_s", "call_s")
_SUDDEN = ("interrupt", "launch_error", "lost_reply", "never_join", "break_node")
_PLACE = ("zone", "instance_type", "capacity_type")


class ScriptError(ValueError):
    """An entry that cannot be played; the message names it and says what is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One piece of trouble. `for_s` 0 for what is over at once."""

    at_s: float
    kind: str
    value: object
    for_s: float = 0.0
    times: int = 1


def read_script(entries: Iterable[Mapping[str, object]]) -> tuple[Fault, ...]:
    """The faults of a script, checked. ScriptError names the entry (from 1) that is wrong."""
    return tuple(_read(number, entry) for number, entry in enumerate(entries, 1))


def play_script(faults: Sequence[Fault], world: World, cluster: SimCluster, cloud: SimulatedCloud) -> None:
    """Set the faults into the world's future, counted from its present instant."""
    start_s = world.now_s
    for fault in faults:
        begin, end = _acts(fault, world, cluster, cloud)
        world.at(start_s + fault.at_s, begin)
        if end is not None:
            world.at(start_s + fault.at_s + fault.for_s, end)


def _read(number: int, entry: Mapping[str, object]) -> Fault:
    kinds = [key for key in entry if key in (*_LASTING, *_SUDDEN)]
    strange = set(entry) - {*_LASTING, *_SUDDEN, "at_min", "for_min", "times"}
    if len(kinds) != 1 or strange:
        known = ", ".join((*_LASTING, *_SUDDEN))
        raise ScriptError(f"fault {number}: write at_min, exactly one of {known}, and for_min or times; got {entry}")
    kind = kinds[0]
    lasts = kind in _LASTING
    if lasts != ("for_min" in entry):
        raise ScriptError(f"fault {number}: {kind} {'lasts: give for_min' if lasts else 'is over at once: no for_min'}")
    value = entry[kind]
    if kind.endswith("_error") and value not in _ERRORS:
        raise ScriptError(f"fault {number}: {value!r} is no kind of error; known are {', '.join(_ERRORS)}")
    if kind in ("dry", "interrupt") or (kind == "break_node" and not isinstance(value, str)):
        _check_place(number, kind, value)
    at_min, for_min = _number(number, entry, "at_min", 0.0), _number(number, entry, "for_min", 0.0)
    times = int(_number(number, entry, "times", 1.0))
    if kind in ("price_factor", "hide_new_s", "call_s"):
        value = _number(number, entry, kind, 0.0)
    elif kind in ("lost_reply", "never_join"):
        value = int(_number(number, entry, kind, 0.0))
    return Fault(at_s=at_min * 60, kind=kind, value=value, for_s=for_min * 60, times=times)


def _check_place(number: int, kind: str, value: object) -> None:
    known = {"dry": _PLACE, "interrupt": ("pool", "count"), "break_node": ("pool",)}[kind]
    if not isinstance(value, Mapping) or set(value) - set(known):
        raise ScriptError(f"fault {number}: {kind} takes {', '.join(known)}; got {value!r}")


def _number(number: int, entry: Mapping[str, object], key: str, default: float) -> float:
    value = entry.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ScriptError(f"fault {number}: {key} must be a number from 0 up; got {value!r}")
    return float(value)


Act = Callable[[], None]


def _acts(fault: Fault, world: World, cluster: SimCluster, cloud: SimulatedCloud) -> tuple[Act, Act | None]:
    """What begins the trouble and what ends it."""
    if fault.kind in _SUDDEN:
        return lambda: _sudden(fault, world, cloud), None
    if fault.kind == "dry":
        place = dict.fromkeys(_PLACE, "") | _mapping(fault)
        return lambda: _ignore(cloud.run_dry(for_s=fault.for_s, **place)), None
    target, name, well = {
        "queue_gap": (cluster, "trouble", ""),
        "queue_error": (cluster, "error", None),
        "cloud_gap": (cloud.faults, "read_gap", ""),
        "cloud_error": (cloud.faults, "read_error", None),
        "price_factor": (cloud.faults, "price_factor", 1.0),
        "hide_new_s": (cloud.faults, "hide_new_s", 0.0),
        "call_s": (cloud.faults, "call_s", 0.0),
    }[fault.kind]
    value = _error(fault.value) if fault.kind.endswith("_error") else fault.value

    def change(to: object) -> None:
        setattr(target, name, to)
        cloud.look_again()

    return lambda: change(value), lambda: change(well)


def _sudden(fault: Fault, world: World, cloud: SimulatedCloud) -> None:
    match fault.kind:
        case "interrupt":
            wanted = _mapping(fault)
            pool, count = wanted.get("pool", ""), int(wanted.get("count", "1"))
            oldest = sorted(cloud.instances(), key=lambda i: (i.requested_at, i.id))
            for instance in [i for i in oldest if pool in ("", i.pool)][:count]:
                cloud.interrupt(instance.id)
        case "launch_error":
            cloud.faults.launch += [_error(fault.value) for _ in range(fault.times)]
        case "lost_reply":
            cloud.faults.lost_replies += int(str(fault.value))
        case "never_join":
            cloud.faults.boot_failures += int(str(fault.value))
        case "break_node":
            for node_id in _nodes_to_break(fault, world):
                world.fail_node(node_id)


def _nodes_to_break(fault: Fault, world: World) -> list[str]:
    if not isinstance(fault.value, Mapping):
        return [str(fault.value)] if fault.value in world.nodes else []
    pool = _mapping(fault)["pool"]
    busy = [n.id for n in world.node_facts() if n.pool == pool and n.job_ids and n.state is not NodeState.DOWN]
    return busy[:1]


def _error(kind: object) -> ProviderError:
    return _ERRORS[str(kind)](f"scripted: {kind}")


def _mapping(fault: Fault) -> dict[str, str]:
    return {str(k): str(v) for k, v in fault.value.items()} if isinstance(fault.value, Mapping) else {}


def _ignore(result: object) -> None:
    """An event has no result."""
