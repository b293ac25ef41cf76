"""Pools that serve the same work: one cluster, one GPU model. Home and cloud are told apart here, once."""

from dataclasses import dataclass

from elastic.planning.policy import Policy


@dataclass(frozen=True, slots=True)
class Family:
    """Pools that serve the same work: one cluster, one GPU model; on-prem first."""

    key: str
    cluster: str
    gpu_model: str
    onprem: tuple[str, ...]
    burst: tuple[str, ...]
    lead_time_s: float  # the shortest from decision to a node that runs jobs, over the burst pools


def families(policy: Policy) -> tuple[Family, ...]:
    """The policy's pools grouped by cluster and GPU model."""
    groups: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
    for name, pool in policy.pools.items():
        home, burst = groups.setdefault((pool.cluster, pool.gpu_model), ([], []))
        (home if pool.place == "on-prem" else burst).append(name)
    lead_s = {name: pool.lead_time_s for name, pool in policy.pools.items()}
    return tuple(
        Family(f"{c}/{m}", c, m, tuple(home), tuple(burst), min((lead_s[p] for p in burst), default=0.0))
        for (c, m), (home, burst) in groups.items()
    )
