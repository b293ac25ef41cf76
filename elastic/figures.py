"""Figures of a tick and of a day: demand, supply, waits, money. What the hourly line, the page, the metrics and the
daily summary show is counted here, once."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import ceil

from elastic.planning.plan import Launch, Move, Terminate
from elastic.planning.state import Record, Result, Spend
from providers.facts import CapacityType, InstanceState, JobState, PendingReason

# Upper edges of the classes in which a day's waits are counted, in minutes; the last class is open.
WAIT_EDGES_MIN = (1, 2, 5, 10, 15, 30, 60, 120, 240, 480, 1440)
# A gap between ticks longer than this was not watched: nothing is summed over it.
LONGEST_STEP = timedelta(minutes=30)
_DEMAND = (PendingReason.RESOURCES, PendingReason.PRIORITY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The site at a glance, at one tick. Waiting counts only what capacity would cure."""

    at: datetime
    running_gpus: int
    waiting_gpus: int
    waiting_jobs: int
    home_gpus: int
    rented_gpus: int
    usd_per_hour: float

    @property
    def demand_gpus(self) -> int:
        """Running and waiting."""
        return self.running_gpus + self.waiting_gpus

    @property
    def excess_gpus(self) -> int:
        """Demand above what the site has."""
        return max(0, self.demand_gpus - self.home_gpus)


def figures(record: Record) -> Figures:
    """Demand, supply and money of a tick. Needs a whole snapshot."""
    snapshot = record.snapshot
    rented = [i for i in snapshot.instances if i.state is not InstanceState.TERMINATED]
    waiting = [j for j in snapshot.jobs if j.state is JobState.PENDING and j.pending_reason in _DEMAND]
    return Figures(
        at=snapshot.at,
        running_gpus=sum(j.gpus for j in snapshot.jobs if j.state is JobState.RUNNING),
        waiting_gpus=sum(j.gpus for j in waiting),
        waiting_jobs=len(waiting),
        home_gpus=sum(n.gpus for n in snapshot.nodes if n.instance_id is None),
        rented_gpus=sum(i.gpus for i in rented),
        usd_per_hour=sum(i.price_usd_per_hour for i in rented),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """One UTC day in sums: GPU-hours, USD, counts. Waits are counted by class (`WAIT_EDGES_MIN`)."""

    day: str
    until: datetime | None = None
    watched_h: float = 0.0
    running_gpu_h: float = 0.0
    waiting_gpu_h: float = 0.0
    home_gpu_h: float = 0.0
    rented_gpu_h: float = 0.0
    excess_gpu_h: float = 0.0
    excess_usd_on_demand: float = 0.0
    rented_usd_on_demand: float = 0.0
    at_once_gpu_h: float = 0.0  # what bursting at once would have rented: see `costs_at_once`
    at_once_usd_on_demand: float = 0.0
    unpriced_gpu_h: float = 0.0  # of the excess, while no on-demand price was known
    usd: float = 0.0
    team_usd: dict[str, float] = field(default_factory=dict)
    peak_gpus: int = 0
    peak_at: datetime | None = None
    peak_excess_gpus: int = 0
    onprem_usd_per_gpu_hour: float = 0.0  # of the policy that held last; 0: it does not tell
    nodes_launched: int = 0
    nodes_returned: int = 0
    moves: int = 0
    failures: int = 0
    waits: tuple[int, ...] = (0,) * (len(WAIT_EDGES_MIN) + 1)
    longest_wait_s: float = 0.0
    longest_wait_job: str = ""

    @property
    def started(self) -> int:
        """Jobs that started this day for the first time."""
        return sum(self.waits)

    def wait_at_most_min(self, share: float) -> int | None:
        """Minutes within which this share of the day's starts came; None: more than the longest class, or no starts."""
        wanted, seen = ceil(share * self.started), 0
        for edge, number in zip(WAIT_EDGES_MIN, self.waits, strict=False):
            seen += number
            if self.started and seen >= wanted:
                return edge
        return None


def add_tick(
    day: Day,
    record: Record,
    team_usd: Mapping[str, float],
    *,
    at_once_gpu_h: float = 0.0,
    onprem_usd_per_gpu_hour: float = 0.0,
) -> Day:
    """The day with one more tick. Sums run from the tick before (a left sum); waits are those of jobs that started
    since then. `team_usd` is what the day has cost so far by team, `at_once_gpu_h` what bursting at once would have
    rented since the tick before."""
    now = figures(record)
    since = day.until
    hours = (now.at - since) / timedelta(hours=1) if since is not None and now.at - since <= LONGEST_STEP else 0.0
    price = on_demand_usd_per_gpu_hour(record)
    waits, longest_s, longest_job = _waits(day, record, since)
    peak = now.demand_gpus > day.peak_gpus
    done = {o.action_key for o in record.outcomes if o.result in (Result.DONE, Result.PARTIAL)}
    acted = [a for a in record.plan.actions if a.key in done]
    return replace(
        day,
        until=now.at,
        watched_h=day.watched_h + hours,
        running_gpu_h=day.running_gpu_h + now.running_gpus * hours,
        waiting_gpu_h=day.waiting_gpu_h + now.waiting_gpus * hours,
        home_gpu_h=day.home_gpu_h + now.home_gpus * hours,
        rented_gpu_h=day.rented_gpu_h + now.rented_gpus * hours,
        excess_gpu_h=day.excess_gpu_h + now.excess_gpus * hours,
        excess_usd_on_demand=day.excess_usd_on_demand + now.excess_gpus * hours * (price or 0.0),
        rented_usd_on_demand=day.rented_usd_on_demand + now.rented_gpus * hours * (price or 0.0),
        unpriced_gpu_h=day.unpriced_gpu_h + (now.excess_gpus * hours + at_once_gpu_h if price is None else 0.0),
        at_once_gpu_h=day.at_once_gpu_h + at_once_gpu_h,
        at_once_usd_on_demand=day.at_once_usd_on_demand + at_once_gpu_h * (price or 0.0),
        usd=sum(team_usd.values()),
        team_usd=dict(team_usd),
        peak_gpus=now.demand_gpus if peak else day.peak_gpus,
        peak_at=now.at if peak else day.peak_at,
        peak_excess_gpus=max(day.peak_excess_gpus, now.excess_gpus),
        onprem_usd_per_gpu_hour=onprem_usd_per_gpu_hour,
        nodes_launched=day.nodes_launched + sum(len(o.instances) for o in record.outcomes),
        nodes_returned=day.nodes_returned + sum(isinstance(a, Terminate) for a in acted),
        moves=day.moves + sum(isinstance(a, Move) for a in acted),
        failures=day.failures + sum(o.result is Result.FAILED for o in record.outcomes),
        waits=waits,
        longest_wait_s=longest_s,
        longest_wait_job=longest_job,
    )


def on_demand_usd_per_gpu_hour(record: Record) -> float | None:
    """The cheapest on-demand price of a GPU now; None when none is known."""
    return min(
        (
            o.price_usd_per_hour / o.gpus
            for o in record.snapshot.offerings
            if o.capacity_type is CapacityType.ON_DEMAND and o.price_usd_per_hour and o.gpus
        ),
        default=None,
    )


def _waits(day: Day, record: Record, since: datetime | None) -> tuple[tuple[int, ...], float, str]:
    counts, longest_s, longest_job = list(day.waits), day.longest_wait_s, day.longest_wait_job
    for job in record.snapshot.jobs:
        if job.started_at is None or job.attempt or since is None or job.started_at <= since:
            continue
        wait_s = max(0.0, (job.started_at - job.submitted_at).total_seconds())
        place = next((n for n, edge in enumerate(WAIT_EDGES_MIN) if wait_s <= edge * 60), len(WAIT_EDGES_MIN))
        counts[place] += 1
        if wait_s > longest_s:
            longest_s, longest_job = wait_s, job.id
    return tuple(counts), longest_s, longest_job


@dataclass(slots=True)
class Hour:
    """What was done in one hour of the site's time, for its line."""

    launched: int = 0
    returned: int = 0
    moved: int = 0
    reasons: dict[str, str] = field(default_factory=dict)

    def add(self, record: Record) -> None:
        """Count what a tick did."""
        done = {o.action_key for o in record.outcomes if o.result in (Result.DONE, Result.PARTIAL)}
        self.launched += sum(len(o.instances) for o in record.outcomes)
        for action in record.plan.actions:
            if action.key not in done:
                continue
            if isinstance(action, Launch):
                self.reasons["launch"] = action.reason
            elif isinstance(action, Terminate):
                self.returned += 1
                self.reasons["return"] = action.reason
            elif isinstance(action, Move):
                self.moved += 1
                self.reasons["move"] = action.reason


def hour_line(record: Record, hour: Hour, spend: Spend) -> str:
    """What the last hour did and why, for a person."""
    now = figures(record)
    reason = hour.reasons.get
    done = [
        f"launched {hour.launched} node(s), last: {reason('launch', '')}" if hour.launched else "",
        f"gave back {hour.returned}, last: {reason('return', '')}" if hour.returned else "",
        f"moved {hour.moved} job(s), last: {reason('move', '')}" if hour.moved else "",
    ]
    did = "; ".join(part for part in done if part) or _nothing(record, now)
    return (
        f"{now.at:%a %d %b %H:%M} UTC  {now.running_gpus} GPUs run, {now.waiting_gpus} wait ({now.waiting_jobs} jobs)"
        f" | home {now.home_gpus}, rented {now.rented_gpus} at {now.usd_per_hour:.2f} USD/h,"
        f" {spend.usd_day:.0f} USD today | {did}"
    )


def _nothing(record: Record, now: Figures) -> str:
    if record.plan.withheld:
        first = record.plan.withheld[0]
        return f"withheld by {first.rule}: {first.detail}"
    if now.waiting_jobs and record.plan.waits:
        return f"nothing to do; waiting: {record.plan.waits[0].detail}"
    return "nothing to do" if now.rented_gpus else "nothing to do: home carries it"
