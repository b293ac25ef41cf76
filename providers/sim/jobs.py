"""Simulated jobs: what is submitted, and what the world keeps of each. Only the world knows a job's duration."""

from dataclasses import dataclass

from providers.facts import PendingReason


@dataclass(frozen=True, slots=True, kw_only=True)
class SimJob:
    """A job to be submitted at `submit_s` (Unix seconds). `restart_cost_s` is lost by every later attempt."""

    id: str
    submit_s: float
    gpus: int
    duration_s: float
    pool: str
    nodes: int = 1
    cpus: int = 0
    memory_gib: float = 0.0
    gpu_model: str | None = None
    team: str = ""
    user: str = ""
    job_class: str = ""
    name: str = ""
    priority: int = 0
    checkpointable: bool = True
    restart_cost_s: float = 300.0
    checkpoint_every_s: float = 1800.0  # what a machine's sudden end can cost at most
    pending_reason: PendingReason = PendingReason.RESOURCES
    time_limit_s: float | None = None  # of one attempt; the scheduler ends it then and plans with it


@dataclass(slots=True)
class Attempt:
    """The world's account of a job between submission and end."""

    job: SimJob
    left_s: float  # work left, without restart costs
    number: int = -1  # -1: never started
    started_s: float = 0.0
    pool: str = ""
    parts: tuple[tuple[str, int], ...] = ()  # (node, GPUs) while it runs
    end_event: int = -1
    lost_s: float = 0.0
    hung_s: float | None = None  # since when one of its nodes is broken: no work is done

    @property
    def restart_s(self) -> float:
        """What this attempt spends before it gets on with the work."""
        return self.job.restart_cost_s if self.number > 0 else 0.0

    def stop(self, now_s: float, *, lose_work: bool) -> None:
        """Account for an attempt that ended before its job was done. A job that was told to stop writes a checkpoint
        first; with `lose_work`, or when it hung, it goes on from its last regular one."""
        lose_work = lose_work or self.hung_s is not None
        now_s = now_s if self.hung_s is None else self.hung_s
        worked_s = max(0.0, now_s - self.started_s - self.restart_s)
        every_s = self.job.checkpoint_every_s
        kept_s = worked_s // every_s * every_s if lose_work else worked_s
        if not self.job.checkpointable:
            kept_s = 0.0
        self.lost_s += worked_s - kept_s
        self.left_s = max(0.0, self.left_s - kept_s)
        self.hung_s = None
