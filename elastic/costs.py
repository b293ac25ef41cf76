"""What rented machines have cost: every node-second at the price that held at the reading after it, by what used it.

`Meter` is fed with every tick by `books`; `costs_ledger` keeps what it counts, `costs_report` shows it. Days are UTC
days. A machine costs from its request until it is terminated, by the second and at least a minute (EC2, Linux).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from elastic.planning.cost import HeldPrice, held_price
from elastic.planning.policy import Guard
from elastic.planning.snapshot import Snapshot
from providers.facts import Instance, InstanceState, Job, JobState, Node, NodeState

MIN_BILLED = timedelta(seconds=60)  # of an instance, however short it lived (EC2 billing by the second)
LONGEST_STEP = timedelta(minutes=30)  # a longer gap between ticks was not watched (as in `figures`)
# A machine that no listing shows may come back into one; until when it was charged is known for so long.
KEEP_GONE = timedelta(days=2)
MOST_KEYS = 20_000  # rows kept until they are written; beyond that jobs are not told apart
MORE_JOBS = "(more jobs)"
KEEP_DAYS = 3  # sums by team of the newest days
# What a node's time went to where no job had it.
JOB, IDLE, BOOTING, MINIMUM, UNWATCHED = "job", "idle", "booting", "minimum", "unwatched"


class CostKey(NamedTuple):
    """What a cost is told apart by. `team` is the one the machine was rented for; `job` '' where none used it."""

    day: str
    cloud: str
    pool: str
    team: str
    job: str
    spent_on: str
    offering: str
    source: str
    estimated: bool


class Cost(NamedTuple):
    """Node-seconds and what they cost."""

    seconds: float
    usd: float


@dataclass(slots=True)
class _Machine:
    """A machine, and up to when it has been charged. `gone_at`: since when no listing shows it."""

    instance: Instance
    until: datetime
    gone_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Use:
    job_id: str
    gpus: float
    started_at: datetime | None


@dataclass(frozen=True, slots=True)
class _Span:
    """A stretch of one machine's time that is charged alike."""

    instance: Instance
    price: HeldPrice
    begin: datetime
    end: datetime
    uses: tuple[_Use, ...] = ()
    ready_at: datetime | None = None  # before it the machine boots
    rest: str = IDLE
    estimated: bool = False


@dataclass(slots=True)
class Meter:
    """Counts costs from `mark` on: what earlier runs have written. Without one, from its first tick on.

    What lies between the mark and the first tick was not watched: it is charged at the prices of now, as estimated.
    """

    mark: datetime | None
    pending: dict[CostKey, Cost] = field(default_factory=dict)  # not written yet
    days: dict[str, dict[str, float]] = field(default_factory=dict)  # USD by team, newest days
    until: datetime | None = None
    _machines: dict[str, _Machine] = field(default_factory=dict)
    _watched_from: datetime | None = None
    _guessed: set[str] = field(default_factory=set)  # sources whose prices are estimates

    def add(self, snapshot: Snapshot, *, guard: Guard, last_good: Mapping[str, float]) -> None:
        """One more tick. Time that does not run forward is not charged; nor is anything on an old listing: the next
        whole one tells what became of the machines, and charges up to then."""
        at = snapshot.at
        if snapshot.trouble("cloud:"):
            return
        if (self.until is not None and at <= self.until) or (self.mark is not None and at < self.mark):
            return
        if self._watched_from is None:
            self._watched_from, self.mark = at, self.mark or at
        is_gap = self.until is not None and at - self.until > LONGEST_STEP
        nodes = {n.id: n for n in snapshot.nodes if n.instance_id is not None}
        uses = _uses(snapshot.jobs, {i.node_id for i in snapshot.instances})
        self._guessed |= {o.price_source for o in snapshot.offerings if o.estimated}
        for instance in snapshot.instances:
            price = held_price(instance, guard=guard, last_good=last_good)
            node = nodes.get(instance.node_id or "")
            self._charge_listed(instance, price, at, node, uses.get(instance.node_id or "", ()), is_gap=is_gap)
        self._charge_gone({i.id for i in snapshot.instances}, at, guard, last_good)
        self.until = at
        for day in sorted(self.days)[:-KEEP_DAYS]:
            del self.days[day]

    def written(self) -> None:
        """What is pending has been written down."""
        self.pending = {}

    def usd_by_team(self, day: str) -> dict[str, float]:
        """What a day has cost so far by the team that rented."""
        return self.days.setdefault(day, {})

    def _begin(self, instance: Instance) -> datetime:
        known = self._machines.get(instance.id)
        if known is not None:
            return known.until
        assert self.mark is not None
        return max(instance.requested_at, self.mark)

    def _charge_listed(
        self, instance: Instance, price: HeldPrice, at: datetime, node: Node | None, uses: tuple[_Use, ...], *,
        is_gap: bool,
    ) -> None:  # fmt: skip
        begin, end = self._begin(instance), at
        if instance.state is InstanceState.TERMINATED:
            end = min(at, max(begin, instance.terminated_at or begin))
        unwatched = is_gap or (self._watched_from is not None and begin < self._watched_from)
        span = _Span(
            instance=instance, price=price, begin=begin, end=end, uses=uses, ready_at=_ready_at(instance, node, end),
            rest=UNWATCHED if unwatched else IDLE, estimated=unwatched or self._is_guess(price),
        )  # fmt: skip
        self._charge(span)
        until = max(begin, end)
        if instance.state is InstanceState.TERMINATED:
            until = self._charge_minimum(instance, price, until, at)
        self._machines[instance.id] = _Machine(instance, until)

    def _charge_gone(self, listed: set[str], at: datetime, guard: Guard, last_good: Mapping[str, float]) -> None:
        """Machines that no listing shows any more cost until they were seen last, and at least their minute."""
        for instance_id, machine in list(self._machines.items()):
            if instance_id in listed:
                continue
            machine.gone_at = machine.gone_at or at
            price = held_price(machine.instance, guard=guard, last_good=last_good)
            machine.until = self._charge_minimum(machine.instance, price, machine.until, at)
            if at - machine.gone_at >= KEEP_GONE:
                del self._machines[instance_id]

    def _charge_minimum(self, instance: Instance, price: HeldPrice, until: datetime, at: datetime) -> datetime:
        end = min(at, instance.requested_at + MIN_BILLED)
        if end <= until:
            return until
        self._charge(_Span(instance, price, until, end, rest=MINIMUM, estimated=self._is_guess(price)))
        return end

    def _is_guess(self, price: HeldPrice) -> bool:
        return price.estimated or price.source in self._guessed

    def _charge(self, span: _Span) -> None:
        for day, begin, end in by_day(span.begin, span.end):
            for job_id, spent_on, seconds in _shares(span, begin, end):
                if seconds > 0:
                    self._count(span, day, job_id, spent_on, seconds)

    def _count(self, span: _Span, day: str, job_id: str, spent_on: str, seconds: float) -> None:
        instance, price = span.instance, span.price
        key = CostKey(
            day, instance.cloud, instance.pool, instance.team, job_id, spent_on, instance.offering_key, price.source,
            span.estimated,
        )  # fmt: skip
        if key not in self.pending and len(self.pending) >= MOST_KEYS and job_id:
            key = key._replace(job=MORE_JOBS)
        usd = price.usd_per_hour * seconds / 3600
        known = self.pending.get(key, Cost(0.0, 0.0))
        self.pending[key] = Cost(known.seconds + seconds, known.usd + usd)
        teams = self.days.setdefault(day, {})
        teams[instance.team] = teams.get(instance.team, 0.0) + usd


def by_day(begin: datetime, end: datetime) -> Iterator[tuple[str, datetime, datetime]]:
    """The stretch cut at UTC midnights, with the day of each piece."""
    while begin < end:
        midnight = begin.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        stop = min(end, midnight)
        yield begin.date().isoformat(), begin, stop
        begin = stop


def _uses(jobs: Iterable[Job], rented: Collection[str | None]) -> dict[str, tuple[_Use, ...]]:
    """The running jobs of each rented node with their GPUs there; evenly over its nodes where nothing tells."""
    found: dict[str, tuple[_Use, ...]] = {}
    for job in jobs:
        if job.state is not JobState.RUNNING or not job.node_ids:
            continue
        told = len(job.node_gpus) == len(job.node_ids)
        for number, node_id in enumerate(job.node_ids):
            if node_id not in rented:
                continue
            gpus = job.node_gpus[number] if told else job.gpus / len(job.node_ids)
            found[node_id] = (*found.get(node_id, ()), _Use(job.id, gpus, job.started_at))
    return found


def _ready_at(instance: Instance, node: Node | None, end: datetime) -> datetime | None:
    """Until when it boots; None: it has booted, or ended without."""
    if node is not None and node.state is not NodeState.JOINING:
        return node.ready_at
    return end if instance.state in (InstanceState.PENDING, InstanceState.RUNNING) else None


def _shares(span: _Span, begin: datetime, end: datetime) -> Iterator[tuple[str, str, float]]:
    """(job, spent on, node-seconds) of one day's piece: by the GPUs of the jobs while they ran, the rest to nobody."""
    seconds = (end - begin).total_seconds()
    used = [(u.job_id, u.gpus * _seconds(max(begin, u.started_at or begin), end)) for u in span.uses]
    whole = max(span.instance.gpus * seconds, sum(gpu_s for _, gpu_s in used))
    left = seconds
    for job_id, gpu_s in used:
        mine = seconds * gpu_s / whole if whole else 0.0
        left -= mine
        yield job_id, JOB, mine
    if span.rest == IDLE and span.ready_at is not None:
        booting = min(max(0.0, left), _seconds(begin, min(end, span.ready_at)))
        yield "", BOOTING, booting
        left -= booting
    if left > 1e-6:  # what is smaller is rounding of the shares
        yield "", span.rest, left


def _seconds(begin: datetime, end: datetime) -> float:
    return max(0.0, (end - begin).total_seconds())
