"""How long a job will still run, given how long it has: quantiles from the history of its like. Pure, deterministic.

Called by `outlook`, `routing`, `moves` (hundreds of questions a tick) through `RuntimeModelLike`; fed by the forecast
beat with jobs as they end. Counts live in log-spaced bins, so a job is added in constant time and memory is bounded.

Survival is the product-limit estimate (Kaplan & Meier 1958) over the bins: jobs still running count for as long as they
ran. The groups asked, narrow to broad: team + class + size + name, team + class + size, team + size, class + size,
size, all. The first with at least `MIN_EXAMPLES` jobs that lived to this age answers.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

BINS_PER_DECADE = 12  # 21 % wide: far below the spread of runtimes (Venus: median 316 s, p95 91,000 s)
_EDGES: tuple[float, ...] = (0.0, *(10 ** (i / BINS_PER_DECADE) for i in range(8 * BINS_PER_DECADE + 1)))  # to 1e8 s
BINS = len(_EDGES) - 1
MIN_EXAMPLES = 20  # fewer give quartiles no better than those of the broader group
MIN_EXAMPLES_OF_ALL = 5
MAX_GROUPS = 20_000  # 30 MB; further groups are answered by the broader ones
MAX_MEMO = 200_000
AGES_PER_OCTAVE = 8  # an age is rounded down by at most 9 %

# Without examples: survival (1 + t/c)^-a, the heavy tail of published traces. c = 300 s and a = 0.5 put the median at
# 15 min and the 95th percentile at 33 h (Philly: 874 s, ATC'19; Helios Venus: 316 s and 25 h). Old jobs: left ~ age.
PRIOR_SCALE_S = 300.0
PRIOR_SHAPE = 0.5
TAIL_SHAPE = 1.0  # beyond the longest seen: the median time left equals the age

Key = tuple[str, str, int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RanJob:
    """One job's run. `ended` False: it still ran (or was displaced) after `ran_s`; it only tells a lower limit."""

    team: str
    job_class: str
    gpus: int
    name: str
    ran_s: float
    ended: bool = True


@dataclass(slots=True)
class _Counts:
    generation: int
    ended: list[int]
    running: list[int]


@lru_cache(maxsize=65_536)
def name_stem(name: str) -> str:
    """What names of repeated runs have in common: `train_fx_0042` and `train_fx_0043` are `train_fx`."""
    return re.sub(r"[\s_.:#/-]*\d[\w.:#-]*$", "", name.lower())[:40]


def size_bucket(gpus: int) -> int:
    """1, 2, 3-4, 5-8, 9-16, ... GPUs: 0, 1, 2, 3, 4, ..."""
    return max(gpus - 1, 0).bit_length()


def _groups(team: str, job_class: str, gpus: int, name: str) -> tuple[Key, ...]:
    """The job's groups, narrow to broad; the marks keep a broad key from being mistaken for a narrow one."""
    size = size_bucket(gpus)
    stem = name_stem(name)
    return (
        (team, job_class, size, stem),
        (team, job_class, size, "*"),
        (team, "*", size, "*"),
        ("*", job_class, size, "*"),
        ("*", "*", size, "*"),
        ("*", "*", -1, "*"),
    )


class RuntimeCounts:
    """Counts of runs by group, filled as jobs end. `model()` is a snapshot that later runs do not change."""

    def __init__(self) -> None:
        self._groups: dict[Key, _Counts] = {}
        self._generation = 0
        self.jobs = 0

    def add(self, job: RanJob) -> None:
        """One more run. A run time that is negative or not finite is refused with ValueError."""
        if not 0 <= job.ran_s < math.inf:
            raise ValueError(f"a job cannot run {job.ran_s} s")
        slot = min(bisect_right(_EDGES, job.ran_s) - 1, BINS - 1)
        self.jobs += 1
        for key in dict.fromkeys(_groups(job.team, job.job_class, job.gpus, job.name)):
            counts = self._writable(key)
            if counts is not None:
                (counts.ended if job.ended else counts.running)[slot] += 1

    def _writable(self, key: Key) -> _Counts | None:
        counts = self._groups.get(key)
        if counts is None:
            if len(self._groups) >= MAX_GROUPS and key[0] != "*":
                return None
            counts = self._groups[key] = _Counts(self._generation, [0] * BINS, [0] * BINS)
        elif counts.generation != self._generation:  # a snapshot looks at it: write into a copy
            counts = self._groups[key] = _Counts(self._generation, counts.ended[:], counts.running[:])
        return counts

    def model(self) -> "RuntimeModel":
        """What is known now. Cheap (groups are copied only when written again), but its answers start unremembered:
        take one per forecast refresh, not one per tick."""
        self._generation += 1
        return RuntimeModel(dict(self._groups))


class _Survival:
    """Share of a group that still runs at each bin edge."""

    __slots__ = ("at_risk", "end", "left")

    def __init__(self, counts: _Counts) -> None:
        ended, running = np.array(counts.ended, dtype=np.float64), np.array(counts.running, dtype=np.float64)
        alive = (ended + running)[::-1].cumsum()[::-1]
        exposed = np.maximum(alive - running / 2, 1e-12)
        steps = np.where(ended > 0, 1 - np.minimum(ended / exposed, 1.0), 1.0)
        self.at_risk: list[int] = [int(n) for n in alive]
        self.left: list[float] = [1.0, *np.cumprod(steps).tolist()]
        self.end = max((i + 1 for i, n in enumerate(self.at_risk) if n), default=0)

    def time_left_s(self, age_s: float, quantile: float) -> float:
        slot = min(bisect_right(_EDGES, age_s) - 1, BINS - 1)
        low, high = _EDGES[slot], _EDGES[slot + 1]
        part = min((age_s - low) / (high - low), 1.0)
        now = self.left[slot] + part * (self.left[slot + 1] - self.left[slot])
        wanted = (1 - quantile) * now
        for edge in range(slot + 1, self.end + 1):
            if self.left[edge] <= wanted:
                above, below = self.left[edge - 1], self.left[edge]
                inside = (above - wanted) / (above - below) if above > below else 0.0
                ends_s = _EDGES[edge - 1] + inside * (_EDGES[edge] - _EDGES[edge - 1])
                return max(ends_s - age_s, 0.0)
        last_s = max(_EDGES[self.end], age_s)
        return float(last_s * (self.left[self.end] / wanted) ** (1 / TAIL_SHAPE) - age_s)


class RuntimeModel:
    """Answers `RuntimeModelLike`. Its only mutable part is a memory of answers, which changes none of them."""

    def __init__(self, groups: dict[Key, _Counts] | None = None) -> None:
        self._groups = groups or {}
        self._curves: dict[Key, _Survival] = {}
        self._memo: dict[tuple[str, str, int, str, int, float], float] = {}

    @classmethod
    def learn(cls, jobs: Iterable[RanJob]) -> "RuntimeModel":
        """A model of these jobs."""
        counts = RuntimeCounts()
        for job in jobs:
            counts.add(job)
        return counts.model()

    def time_left_s(self, *, team: str, job_class: str, gpus: int, name: str, age_s: float, quantile: float) -> float:
        """Quantile (0 < q < 1) of the seconds a job of this kind still runs after `age_s`. Finite, never negative.

        The age counts rounded down to an eighth of an octave. Beyond the longest run seen the time left grows with the
        age (median: as long again). ValueError for a quantile outside (0, 1).
        """
        age = int(math.log2(age_s + 1.0) * AGES_PER_OCTAVE) if age_s > 0 else 0
        key = (team, job_class, gpus, name, age, quantile)
        known = self._memo.get(key)
        if known is not None:
            return known
        if not 0 < quantile < 1:
            raise ValueError(f"quantile {quantile} is not between 0 and 1")
        if len(self._memo) >= MAX_MEMO:
            self._memo.clear()
        answer = self._answer(_groups(team, job_class, gpus, name), 2 ** (age / AGES_PER_OCTAVE) - 1, quantile)
        self._memo[key] = answer
        return answer

    def examples(self, *, team: str, job_class: str, gpus: int, name: str, age_s: float = 0.0) -> tuple[int, int]:
        """(level of the group that answers, 0 the narrowest and -1 the prior; jobs in it that lived to this age)."""
        found = self._group(_groups(team, job_class, gpus, name), age_s)
        return (-1, 0) if found is None else (found[0], found[2])

    def _group(self, groups: Sequence[Key], age_s: float) -> tuple[int, _Survival, int] | None:
        slot = min(bisect_right(_EDGES, age_s) - 1, BINS - 1)
        for level, key in enumerate(groups):
            curve = self._curves.get(key)
            if curve is None and key in self._groups:
                curve = self._curves[key] = _Survival(self._groups[key])
            enough = MIN_EXAMPLES if level < len(groups) - 1 else MIN_EXAMPLES_OF_ALL
            if curve is not None and curve.at_risk[slot] >= enough:
                return level, curve, curve.at_risk[slot]
        return None

    def _answer(self, groups: Sequence[Key], age_s: float, quantile: float) -> float:
        found = self._group(groups, age_s)
        if found is not None:
            return found[1].time_left_s(age_s, quantile)
        everything = self._groups.get(groups[-1])
        learnt = everything is not None and sum(everything.ended) >= MIN_EXAMPLES_OF_ALL
        shape = TAIL_SHAPE if learnt else PRIOR_SHAPE
        return float((PRIOR_SCALE_S + age_s) * ((1 - quantile) ** (-1 / shape) - 1))
