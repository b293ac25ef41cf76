"""Small worlds and facts for tests: say only what matters to the case."""

from datetime import UTC, datetime

from elastic.planning.policy import (
    Cluster,
    ForecastPolicy,
    Guard,
    JobClass,
    Mode,
    Money,
    Policy,
    Pool,
    Team,
)
from elastic.planning.snapshot import Reading, Snapshot
from providers.facts import CapacityType, Instance, InstanceState, Job, JobState, Node, NodeState, Offering

NOW = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)


def a_policy(**changes: object) -> Policy:
    """One on-prem pool `onprem`, one burst pool `burst`, classes batch, fixed and urgent."""
    parts: dict[str, object] = {
        "content_hash": "test",
        "mode": Mode.ACT,
        "time_zone": "UTC",
        "clusters": {"main": Cluster(kind="sim")},
        "pools": {
            "onprem": Pool(place="on-prem", cluster="main", gpu_model="gpu", gpus_per_node=8, nodes=4),
            "burst": Pool(
                place="burst", cluster="main", cloud="sim", gpu_model="gpu", gpus_per_node=8, max_nodes=100,
                lead_time="240 s", idle_release="0 s", capacity_types=("spot", "on-demand"),
            ),
        },
        "classes": {
            "batch": JobClass(checkpointable=True, may_be_displaced=True),
            "fixed": JobClass(checkpointable=False),
            "urgent": JobClass(checkpointable=False, wait_target="0 s", may_displace=True, rank=10),
        },
        "default_class": "batch",
        "teams": {"alpha": Team()},
        "caches": {},
        "money": Money(),
        "guard": Guard(removal_ceiling=1.0),
        "forecast": ForecastPolicy(),
    }  # fmt: skip
    return Policy(**{**parts, **changes})  # type: ignore[arg-type]


def a_job(job_id: str, gpus: int, **changes: object) -> Job:
    """A job that has just been submitted at home."""
    parts: dict[str, object] = {
        "id": job_id, "cluster": "main", "state": JobState.PENDING, "gpus": gpus, "submitted_at": NOW,
        "pool": "onprem", "job_class": "batch", "nodes": max(1, -(-gpus // 8)),
    }  # fmt: skip
    return Job(**{**parts, **changes})  # type: ignore[arg-type]


def running(job_id: str, gpus: int, node_ids: tuple[str, ...], started_at: datetime, **changes: object) -> Job:
    """A job that runs."""
    return a_job(job_id, gpus, state=JobState.RUNNING, node_ids=node_ids, started_at=started_at, **changes)


def a_node(node_id: str, *, used: int = 0, pool: str = "onprem", **changes: object) -> Node:
    """An 8-GPU node."""
    parts: dict[str, object] = {
        "id": node_id, "cluster": "main", "pool": pool, "state": NodeState.READY, "gpus": 8, "free_gpus": 8 - used,
        "capacity_type": CapacityType.ONPREM if pool == "onprem" else CapacityType.SPOT, "zone": "a",
        "idle_since": NOW if not used else None,
    }  # fmt: skip
    return Node(**{**parts, **changes})  # type: ignore[arg-type]


def an_instance(instance_id: str, **changes: object) -> Instance:
    """A rented machine that runs."""
    parts: dict[str, object] = {
        "id": instance_id, "cloud": "sim", "pool": "burst", "token": "t", "state": InstanceState.RUNNING,
        "instance_type": "x", "zone": "a", "capacity_type": CapacityType.SPOT, "gpus": 8,
        "price_usd_per_hour": 4.0, "requested_at": NOW, "node_id": instance_id,
    }  # fmt: skip
    return Instance(**{**parts, **changes})  # type: ignore[arg-type]


def an_offering(**changes: object) -> Offering:
    """What the burst pool may rent, at 4 USD an hour."""
    parts: dict[str, object] = {
        "cloud": "sim", "instance_type": "x", "zone": "a", "capacity_type": CapacityType.SPOT, "gpus": 8,
        "gpu_model": "gpu", "cpus": 0, "memory_gib": 0.0, "price_usd_per_hour": 4.0, "price_source": "test",
        "priced_at": NOW,
    }  # fmt: skip
    return Offering(**{**parts, **changes})  # type: ignore[arg-type]


def a_snapshot(**changes: object) -> Snapshot:
    """Everything readable and read now, nothing there, one offering."""
    at = changes.get("at", NOW)
    parts: dict[str, object] = {
        "at": at,
        "offerings": (an_offering(),),
        "readings": tuple(Reading(source=name, read_at=at) for name in ("cluster:main", "cloud:sim")),  # type: ignore[arg-type]
    }
    return Snapshot(**{**parts, **changes})  # type: ignore[arg-type]
