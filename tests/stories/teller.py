"""Plays a story: a YAML of world, policy, faults and clock -> the text of all that was decided and withheld.

Faults go through `providers.sim.script`, the reader any simulated site can use. A story is
`{start, minutes, step_s, policy, nodes, markets, jobs, caches, leases, faults}`; what it leaves out is the usual.
"""

import io
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

from ruamel.yaml import YAML

from elastic.controller import Controller
from elastic.plan_text import outcome_lines, render
from elastic.planning.policy import Policy
from elastic.planning.state import ControllerState, Lease, Record
from elastic.policy_file import parse_policy
from elastic.replay import MemoryLedger
from forecast.forecaster import Forecasts
from providers.facts import JobState
from providers.ports import Ports
from providers.sim.adapters import SimClock, SimCloud, SimCluster, site_world
from providers.sim.caches import CacheSpec, SimCaches
from providers.sim.cloud import SimulatedCloud
from providers.sim.jobs import SimJob
from providers.sim.script import play_script, read_script
from tests.builders_site import a_market

FOLDER = Path(__file__).parent
NODE_GPUS = 8


def stories() -> list[Path]:
    """Every story, by name."""
    return sorted(FOLDER.glob("*.yaml"))


def tell(path: Path) -> str:
    """The story's decisions as text, told by the real controller over the simulated world."""
    story = YAML(typ="safe", pure=True).load(path.read_text())
    start: datetime = datetime.fromisoformat(story["start"])
    policy = _policy(story, start)
    home = ("onprem", story.get("nodes", 4), NODE_GPUS, "gpu", 0, 0.0)
    world = site_world(_jobs(story, start), start_s=start.timestamp(), pools=[home])
    cloud = SimulatedCloud(world, [a_market(**_market(m)) for m in story.get("markets", [{}])], seed=1)
    cluster, clock = SimCluster(world), SimClock(world)
    caches = SimCaches(world, [CacheSpec(**c) for c in story.get("caches", [])])
    play_script(read_script(story.get("faults", [])), world, cluster, cloud)
    leases = {one["id"]: _lease(one, start) for one in story.get("leases", [])}
    controller = Controller(
        Ports(clock=clock, clusters={"main": cluster}, clouds={"sim": SimCloud(cloud)}, caches={"sim": caches}),
        MemoryLedger(),
        policy=lambda: policy,
        forecasts=Forecasts,
        state=ControllerState(leases=leases),
    )
    teller = _Teller(start)
    step_s = float(story.get("step_s", 60))
    for _ in range(int(story["minutes"] * 60 / step_s)):
        teller.hear(controller.tick())
        clock.wait(step_s)
    lines = [f"# {story['title']}", *teller.lines, *_end(world, cloud, controller, start)]
    return "\n".join(lines) + "\n"


class _Teller:
    """Writes down the ticks that do something, or withhold or wait for another reason than the tick before."""

    def __init__(self, start: datetime) -> None:
        self.lines: list[str] = []
        self._start, self._told = start, ""

    def hear(self, record: Record) -> None:
        plan = record.plan
        withheld = sorted({(type(w.action).__name__, w.rule) for w in plan.withheld})
        waits = sorted({w.rule for w in plan.waits})
        told = f"{withheld}{waits}{plan.notes}"
        if not plan.actions and told == self._told:
            return
        self._told = told
        minute = (plan.at - self._start).total_seconds() / 60
        text = render(plan).splitlines()[1:]  # the first line holds a hash of everything
        failed = [line for line in outcome_lines(plan, record.outcomes) if not line.startswith("done: ")]
        self.lines += ["", f"{plan.at:%a %H:%M} UTC, minute {minute:g}", *text, *(f"  {line}" for line in failed)]


def _end(world, cloud, controller: Controller, start: datetime) -> list[str]:  # type: ignore[no-untyped-def]
    jobs = world.job_facts()
    running = sorted(f"{j.id} on {', '.join(j.node_ids)}" for j in jobs if j.state is JobState.RUNNING)
    waiting = sorted(j.id for j in jobs if j.state is JobState.PENDING)
    ended = sorted(f"{j.id} at minute {(at_s - start.timestamp()) / 60:g}" for j, at_s in world.ended)
    return [
        "",
        "at the end",
        f"  running: {'; '.join(running) or 'none'}",
        f"  waiting: {', '.join(waiting) or 'none'}",
        f"  ended: {'; '.join(ended) or 'none'}",
        f"  rented: {len(cloud.instances())} machine(s), {controller.state.spend.usd_day:.2f} USD today",
    ]


def _policy(story: Mapping[str, object], start: datetime) -> Policy:
    """The usual policy with the story's changes, read by the reader of policy files."""
    yaml = YAML(typ="safe", pure=True)
    document = _merged(yaml.load((FOLDER / "usual_policy.yml").read_text()), story.get("policy", {}))
    text = io.BytesIO()
    YAML(typ="safe", pure=True).dump(document, text)
    reading = parse_policy(text.getvalue(), file=f"policy of {story['title']}", at=start, data_may_end=True)
    if reading.policy is None:
        raise AssertionError("\n".join(str(c) for c in reading.errors))
    return reading.policy


def _merged(usual: object, changes: object) -> object:
    """Mappings are merged key by key; null takes a key away; everything else is replaced."""
    if not isinstance(usual, dict) or not isinstance(changes, dict):
        return changes
    both = {**usual, **{key: _merged(usual.get(key), value) for key, value in changes.items()}}
    return {key: value for key, value in both.items() if value is not None}


def _jobs(story: Mapping[str, list[dict[str, object]]], start: datetime) -> list[SimJob]:
    """Jobs as written: `{id, gpus, at_min, runs_min, class, team, count, every_min}`; more than one are numbered."""
    jobs: list[SimJob] = []
    for row in story.get("jobs", []):
        count = int(row.get("count", 1))
        for number in range(count):
            gpus = int(row["gpus"])
            at_min = float(row.get("at_min", 0)) + number * float(row.get("every_min", 0))
            kind = str(row.get("class", "batch"))
            jobs.append(
                SimJob(
                    id=str(row["id"]) if count == 1 else f"{row['id']}{number + 1}",
                    submit_s=start.timestamp() + at_min * 60,
                    gpus=gpus,
                    duration_s=float(row.get("runs_min", 120)) * 60,
                    pool="onprem",
                    nodes=-(-gpus // NODE_GPUS),
                    team=str(row.get("team", "")),
                    job_class=kind,
                    checkpointable=kind == "batch",
                    priority={"urgent": 10}.get(kind, 0),
                )
            )
    return sorted(jobs, key=lambda j: j.submit_s)


def _market(row: Mapping[str, object]) -> dict[str, object]:
    from providers.facts import CapacityType

    parts = dict(row)
    if "capacity_type" in parts:
        parts["capacity_type"] = CapacityType(parts["capacity_type"])
    return parts


def _lease(row: Mapping[str, object], start: datetime) -> Lease:
    begin = start + timedelta(minutes=float(str(row["from_min"])))
    return Lease(
        id=str(row["id"]), team=str(row["team"]), pool="burst", gpus=int(str(row["gpus"])), starts_at=begin,
        ends_at=start + timedelta(minutes=float(str(row["to_min"]))), requested_by="ann",
    )  # fmt: skip
