"""The counterfactual "burst at once": every job that found the site full when it came runs on machines rented for it.

Counted from what happened: a job's own runtime, tick by tick, and one boot for its machines. Fed by `books`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from elastic.figures import LONGEST_STEP
from elastic.planning.policy import Policy
from elastic.planning.snapshot import Snapshot
from providers.facts import Job, JobState, PendingReason

_DEMAND = (PendingReason.RESOURCES, PendingReason.PRIORITY)


@dataclass(slots=True)
class BurstAtOnce:
    """Which of the jobs there are would have stayed at home (True) or been rented for (False), by id."""

    _at_home: dict[str, bool] = field(default_factory=dict)
    _at: datetime | None = None

    def gpu_hours(self, snapshot: Snapshot, policy: Policy) -> float:
        """GPU-hours that it would have rented since the tick before: jobs rented for that run, and boots of new ones.
        A queue that could not be read whole is counted as unchanged: call it with whole readings only."""
        step = None if self._at is None else snapshot.at - self._at
        hours = step.total_seconds() / 3600 if step is not None and step <= LONGEST_STEP else 0.0
        self._at = snapshot.at
        present = [j for j in snapshot.jobs if j.state is JobState.RUNNING or j.pending_reason in _DEMAND]
        ran = sum(j.gpus for j in present if j.state is JobState.RUNNING and self._at_home.get(j.id) is False)
        return ran * hours + self._place(present, _home_gpus(snapshot), _boot_h(policy))

    def _place(self, present: list[Job], home_gpus: int, boot_h: Mapping[str, float]) -> float:
        """Give each new job its place in order of arrival; GPU-hours of the boots of those rented for."""
        self._at_home = {j.id: self._at_home[j.id] for j in present if j.id in self._at_home}
        free = home_gpus - sum(j.gpus for j in present if self._at_home.get(j.id))
        booted = 0.0
        new = [j for j in present if j.id not in self._at_home]
        for job in sorted(new, key=lambda j: (j.submitted_at, j.id)):
            fits = job.gpus <= free
            self._at_home[job.id] = fits
            free -= job.gpus if fits else 0
            booted += 0.0 if fits else job.gpus * boot_h.get(job.gpu_model or "", boot_h[""])
        return booted


def _home_gpus(snapshot: Snapshot) -> int:
    return sum(n.gpus for n in snapshot.nodes if n.instance_id is None)


def _boot_h(policy: Policy) -> dict[str, float]:
    """Hours from a launch to machines that run jobs, by GPU model: the shortest lead time of its burst pools."""
    found: dict[str, float] = {}
    for pool in policy.pools.values():
        if pool.place == "burst":
            for model in (pool.gpu_model, ""):
                found[model] = min(found.get(model, float("inf")), pool.lead_time_s / 3600)
    return found or {"": 0.0}
