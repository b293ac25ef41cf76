"""How long one decision takes: `make_plan` on a made-up full site, by size.

    python -m benchmarks.planner [--nodes N --jobs M] [--seed S] [--format json]

Nodes have 8 GPUs; nine of ten are at home, the rest rented. Home is full but for fragments, every tenth node hosts part
of a gang, the other jobs wait: a tenth of them beyond their wait target. Runtimes are learnt from made-up runs.
Without sizes the whole table: 1,000 to 10,000 nodes, and a gang of 1,000 nodes that is due at a full site.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random

from elastic.planning.planner import make_plan
from elastic.planning.policy import Policy
from elastic.planning.snapshot import Reading, Snapshot
from elastic.planning.state import ControllerState
from elastic.policy_file import default_policy_path, load_policy
from forecast.forecaster import Forecasts
from forecast.runtime import RanJob, RuntimeModel
from providers.facts import CapacityType, Instance, InstanceState, Job, JobState, Node, NodeState, Offering

NOW = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
GPUS = 8
REPEATS = 5
SIZES = ((1_000, 10_000), (3_000, 30_000), (10_000, 100_000))


class Site:
    """A full site and its queue, made up from one seed."""

    def __init__(self, *, nodes: int, jobs: int, gang_nodes: int = 0, seed: int = 0) -> None:
        self._random = Random(seed)
        self._running: list[Job] = []
        rented = max(1, nodes // 10)
        names = [(f"h{n:05}", "onprem") for n in range(nodes - rented)] + [(f"c{n:05}", "burst") for n in range(rented)]
        self.nodes = tuple(self._fill(names, most=int(jobs * 0.7)))
        waiting = [self._waiting(n) for n in range(jobs - len(self._running) - (gang_nodes > 0))]
        if gang_nodes:
            waiting.append(_job("gang", gang_nodes * GPUS, submitted_at=NOW - timedelta(minutes=11), nodes=gang_nodes))
        self.jobs = (*self._running, *waiting)

    def snapshot(self) -> Snapshot:
        """What a tick would see."""
        return Snapshot(
            at=NOW,
            jobs=self.jobs,
            nodes=self.nodes,
            instances=tuple(_instance(n.id) for n in self.nodes if n.pool == "burst"),
            offerings=tuple(_offering(zone) for zone in ("a", "b", "c")),
            readings=(Reading(source="cluster:main", read_at=NOW), Reading(source="cloud:sim", read_at=NOW)),
        )

    def _fill(self, names: list[tuple[str, str]], *, most: int) -> Iterator[Node]:
        """Nodes in turn: a part of a four-node gang, or small jobs that leave a fragment free."""
        for at in range(0, len(names), 10):
            block = names[at : at + 10]
            gang = [] if len({pool for _, pool in block}) > 1 else block[:4]
            if gang and len(self._running) < most:
                self._run(len(gang) * GPUS, gang)
            for name, pool in block:
                used = GPUS if (name, pool) in gang else self._small(name, pool, most=most)
                yield _node(name, pool, used=used)

    def _small(self, name: str, pool: str, *, most: int) -> int:
        used = 0
        while used < GPUS - 1 and len(self._running) < most:
            gpus = self._random.choice((1, 1, 1, 2, 4))
            if used + gpus > GPUS:
                break
            self._run(gpus, [(name, pool)])
            used += gpus
        return used

    def _run(self, gpus: int, places: list[tuple[str, str]]) -> None:
        number, pool = len(self._running), places[0][1]
        age = timedelta(minutes=self._random.uniform(1, 3_000))
        self._running.append(
            _job(f"r{number}", gpus, submitted_at=NOW - age, nodes=len(places), pool=pool, started_at=NOW - age,
                 node_ids=tuple(name for name, _ in places))
        )  # fmt: skip

    def _waiting(self, number: int) -> Job:
        gpus = self._random.choice((1, 1, 2, 4, 8, 8, 16, 32, 64))
        minutes = self._random.uniform(11, 30) if number % 10 == 0 else self._random.uniform(0, 9)
        return _job(f"p{number}", gpus, submitted_at=NOW - timedelta(minutes=minutes), nodes=max(1, gpus // GPUS))


def _job(
    job_id: str, gpus: int, *, submitted_at: datetime, nodes: int, pool: str = "onprem",
    started_at: datetime | None = None, node_ids: tuple[str, ...] = (),
) -> Job:  # fmt: skip
    state = JobState.RUNNING if node_ids else JobState.PENDING
    return Job(
        id=job_id, cluster="main", state=state, gpus=gpus, submitted_at=submitted_at, pool=pool, nodes=nodes,
        job_class="batch", started_at=started_at, node_ids=node_ids,
    )  # fmt: skip


def _node(name: str, pool: str, *, used: int) -> Node:
    capacity_type = CapacityType.SPOT if pool == "burst" else CapacityType.ONPREM
    return Node(
        id=name, cluster="main", pool=pool, capacity_type=capacity_type, state=NodeState.READY, gpus=GPUS,
        free_gpus=GPUS - used, zone="a", instance_id=name if pool == "burst" else None,
        idle_since=None if used else NOW,
    )  # fmt: skip


def _instance(name: str) -> Instance:
    return Instance(
        id=name, cloud="sim", pool="burst", token="t", state=InstanceState.RUNNING, instance_type="burst-node",
        zone="a", capacity_type=CapacityType.SPOT, gpus=GPUS, price_usd_per_hour=9.6,
        requested_at=NOW - timedelta(hours=1), node_id=name,
    )  # fmt: skip


def _offering(zone: str) -> Offering:
    return Offering(
        cloud="sim", instance_type="burst-node", zone=zone, capacity_type=CapacityType.SPOT, gpus=GPUS,
        gpu_model="gpu", cpus=0, memory_gib=0.0, price_usd_per_hour=9.6, price_source="benchmark", priced_at=NOW,
    )  # fmt: skip


def _runtimes(seed: int) -> RuntimeModel:
    random = Random(seed)
    return RuntimeModel.learn(
        RanJob(team="", job_class="batch", gpus=random.choice((1, 2, 4, 8, 16, 32)), name="",
               ran_s=random.lognormvariate(6, 2))
        for _ in range(20_000)
    )  # fmt: skip


def measure(site: Site, policy: Policy, *, seed: int) -> dict[str, float]:
    """The best time of some decisions (noise only adds), each with a fresh runtime memory, and what was decided."""
    snapshot, seconds, actions = site.snapshot(), [], 0
    for _ in range(REPEATS):
        forecasts = Forecasts(runtimes=_runtimes(seed))
        began = time.perf_counter()
        made = make_plan(snapshot, forecasts, policy, ControllerState())
        seconds.append(time.perf_counter() - began)
        actions = len(made.actions) + len(made.withheld)
    seconds.sort()
    return {"make_plan_s": round(seconds[0], 4), "worst_s": round(seconds[-1], 4), "actions": actions}


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--gang-nodes", type=int, default=0, help="a gang of so many nodes is due as well")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    asked = parser.parse_args()
    policy = load_policy(default_policy_path().with_name("replay.yaml"), at=NOW, data_may_end=True)
    cases = [(n, m, 0) for n, m in SIZES] + [(10_000, 100_000, 1_000)]
    if asked.nodes:
        cases = [(asked.nodes, asked.jobs or 10 * asked.nodes, asked.gang_nodes)]
    rows = []
    for nodes, jobs, gang_nodes in cases:
        site = Site(nodes=nodes, jobs=jobs, gang_nodes=gang_nodes, seed=asked.seed)
        rows.append({"nodes": nodes, "jobs": jobs, "gang_nodes": gang_nodes, **measure(site, policy, seed=asked.seed)})
    sys.stdout.write(_told(rows, as_json=asked.format == "json", single=bool(asked.nodes)))
    return 0


def _told(rows: list[dict[str, float]], *, as_json: bool, single: bool) -> str:
    if as_json:
        return json.dumps(rows[0] if single else rows) + "\n"
    lines = [f"{'nodes':>7} {'jobs':>8} {'gang nodes':>10} {'make_plan s':>11} {'worst s':>8} {'actions':>8}"]
    lines += [
        f"{r['nodes']:>7,} {r['jobs']:>8,} {r['gang_nodes']:>10,} {r['make_plan_s']:>11.3f} {r['worst_s']:>8.3f}"
        f" {r['actions']:>8,}"
        for r in rows
    ]
    if not single:
        growth = rows[len(SIZES) - 1]["make_plan_s"] / rows[0]["make_plan_s"]
        lines.append(f"growth from {SIZES[0][0]:,} to {SIZES[-1][0]:,} nodes: {growth:.1f} times")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
