"""The AWS side in figures: calls of quiet ticks, a launch of 1,000 nodes, listing 10,000 machines, an outage storm, how
soon a notice cordons its node, and memory over many ticks. All on the AWS in memory (`providers/sim/aws`).

    python -m benchmarks.aws [--only calls,launch,...] [--ticks N] [--format json]

Each row says what it is held against. Time inside the fake is part of every figure; boto3's own share is measured
apart (`parse`), on the same ten pages as XML.
"""

import argparse
import json
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from elastic.planning.plan import Launch
from providers.aws.account import AwsAccount, NodeShape
from providers.aws.cloud import AwsCloud
from providers.clock import SystemClock
from providers.facts import CapacityType, InstanceState, LaunchRequest
from providers.ports import Clock
from providers.sim.aws.fake import FakeAws
from providers.sim.aws.market import GROUP, IMAGE, subnet_of
from providers.sim.aws.queue import QUEUE_URL
from tests.aws.site import WRITES, AwsSite, a_burst, a_job, aws_policy
from tests.builders import NOW

TICK_S = 10.0  # the loop of a real site (capacity-anchors (d))
POLL_EVERY_S = 20.0  # an idle long poll lasts that long
FLEET_CALL_S = 3.0  # what an instant fleet of 500 takes is AWS's affair; a guess, the same for both calls
MACHINES, NODES, OUTAGE_MIN = 10_000, 1_000, 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure, its goal and how it was made."""

    what: str
    value: str
    goal: str
    met: str
    how: str


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names of parts, with commas between")
    parser.add_argument("--ticks", type=int, default=10_000, help="of the memory part")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    asked = parser.parse_args()
    parts: dict[str, Callable[[], list[Row]]] = {
        "calls": quiet_calls,
        "launch": launch_of_many,
        "list": listing_of_many,
        "parse": xml_of_many,
        "storm": outage_storm,
        "notice": notice_to_cordon,
        "memory": lambda: memory_over(asked.ticks),
    }
    rows: list[Row] = []
    for name in asked.only.split(",") if asked.only else parts:
        began = time.perf_counter()
        rows += parts[name]()
        sys.stderr.write(f"{name}: {time.perf_counter() - began:.1f} s\n")
    if asked.format == "json":
        sys.stdout.write(json.dumps([{k: getattr(r, k) for k in Row.__slots__} for r in rows], indent=2) + "\n")
    else:
        sys.stdout.write("| what | measured | goal | met | how |\n|---|---|---|---|---|\n")
        for row in rows:
            sys.stdout.write(f"| {row.what} | {row.value} | {row.goal} | {row.met} | {row.how} |\n")
    return 0


def _met(good: bool) -> str:
    return "yes" if good else "**no**"


def quiet_calls() -> list[Row]:
    """A day of quiet ticks with one rented node that works: what is asked, and that nothing is written."""
    rows = []
    for pools in (1, 8):
        burst = {f"burst{n}": a_burst() for n in range(pools)}
        site = AwsSite([a_job("j", runs_s=200_000.0)], policy=aws_policy(burst=burst))
        site.run(20, step_s=TICK_S)  # rented, booted, at work
        before = dict(site.calls)
        ticks, polled_s, most = round(86_400 / TICK_S), 0.0, 0
        for _ in range(ticks):
            count = site.calls.total()
            site.controller.tick()
            most = max(most, site.calls.total() - count)
            polled_s += TICK_S
            if polled_s >= POLL_EVERY_S:
                site.cloud.notices.poll()
                polled_s = 0.0
            site.clock.wait(TICK_S)
        made = {k: n - before.get(k, 0) for k, n in site.calls.items() if n > before.get(k, 0)}
        writes = {k: n for k, n in made.items() if k in WRITES}
        mean = sum(made.values()) / ticks
        rows.append(
            Row(
                what=f"calls a quiet tick, {pools} burst pool(s)",
                value=f"{mean:.2f} mean, {most} most",
                goal="at most 3",
                met=_met(most <= 3),
                how=f"{ticks} ticks of {TICK_S:.0f} s; long polls are in the mean, not in the most",
            )
        )
        rows.append(
            Row(
                what=f"writes in a quiet day, {pools} burst pool(s)",
                value=", ".join(f"{n} {name}" for name, n in writes.items()) or "none",
                goal="0",
                met=_met(not writes),
                how="leases are renewed when half is left: one call for all machines, or nodes would end at work",
            )
        )
    return rows


class _Stepping:
    """A clock that goes on by a tick whenever it is told to, and never makes anyone wait."""

    def __init__(self) -> None:
        self.at = NOW

    def now(self) -> datetime:
        found: datetime = self.at
        return found

    def wait(self, seconds: float, *, until: Callable[[], bool] | None = None) -> None:
        self.at += timedelta(seconds=seconds)


def _big(
    *, clock: Clock, checks: bool = False, wait: Callable[[float], None] | None = None
) -> tuple[FakeAws, AwsCloud]:
    aws = FakeAws(clock.now, checks_arguments=checks, wait=wait or (lambda seconds: None))
    account = AwsAccount(
        name="aws", region="us-east-1", owner="bench", controller="bench", queue_url=QUEUE_URL, gpu_models=("a100",),
        subnets={zone: subnet_of(zone) for zone in aws.market.zones},
        shapes={"burst": NodeShape(image_id=IMAGE, security_group_ids=(GROUP,))},
    )  # fmt: skip
    return aws, AwsCloud(account, aws.clients, clock)


def _request(cloud: AwsCloud, nodes: int, token: str) -> LaunchRequest:
    offerings = tuple(o for o in cloud.read().offerings if o.capacity_type is CapacityType.SPOT)
    return LaunchRequest(token=token, pool="burst", cluster="main", nodes=nodes, gang=False, offerings=offerings)


def launch_of_many() -> list[Row]:
    """From the plan's launch to 1,000 accepted machines, each fleet call taking its seconds."""
    clock = SystemClock()
    aws, cloud = _big(clock=clock, checks=True, wait=clock.wait)
    request = _request(cloud, NODES, "many")
    aws.trouble.delay_s["create_fleet"] = FLEET_CALL_S
    began = time.perf_counter()
    reply = cloud.launch(request)
    took_s = time.perf_counter() - began
    calls = aws.counts["create_fleet"]
    return [
        Row(
            what=f"launch of {NODES:,} nodes, plan to accepted",
            value=f"{took_s:.1f} s for {len(reply.instances)} machines in {calls} calls",
            goal="10 s, calls of 500, both in flight",
            met=_met(took_s <= 10 and len(reply.instances) == NODES and took_s < calls * FLEET_CALL_S),
            how=f"every fleet call takes {FLEET_CALL_S:.0f} s",
        )
    ]


def listing_of_many() -> list[Row]:
    """One reading of 10,000 machines: listing in pages, facts, prices, what changed."""
    clock = _Stepping()
    _, cloud = _big(clock=clock)
    for number in range(MACHINES // NODES):
        cloud.launch(_request(cloud, NODES, f"t{number}"))
        clock.wait(TICK_S)
    cloud.read()
    times = []
    for _ in range(5):
        clock.wait(TICK_S)
        began = time.perf_counter()
        reading = cloud.read()
        times.append(time.perf_counter() - began)
    tracemalloc.start()
    cloud.read()
    peak_mib = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return [
        Row(
            what=f"describe and reconcile {len(reading.instances):,} machines",
            value=f"{sorted(times)[2]:.2f} s median of 5 (most {max(times):.2f}), {peak_mib:.0f} MiB on top",
            goal="1 s, 300 MiB",
            met=_met(sorted(times)[2] <= 1 and peak_mib <= 300),
            how="ten pages as Python values, no XML",
        )
    ]


def xml_of_many() -> list[Row]:
    """What boto3's parser adds for the same machines, as EC2's XML: not ours, but a site of that size pays it."""
    from botocore.parsers import create_parser
    from botocore.session import get_session
    from moto.core.model import ServiceModel
    from moto.core.serialize import EC2Serializer

    aws, cloud = _big(clock=_Stepping())
    cloud.launch(_request(cloud, NODES, "t"))
    page = aws.clients("ec2").describe_instances(MaxResults=NODES)
    loaded = get_session().get_component("data_loader").load_service_model("ec2", "service-2")
    operation = ServiceModel(loaded, "ec2").operation_model("DescribeInstances")
    body = EC2Serializer(operation).serialize(page)["body"].encode()
    parser = create_parser("ec2")
    began = time.perf_counter()
    for _ in range(MACHINES // NODES):
        parser.parse({"status_code": 200, "headers": {}, "body": body}, operation.output_shape)
    took_s = time.perf_counter() - began
    return [
        Row(
            what=f"boto3's parsing of {MACHINES:,} machines as XML",
            value=f"{took_s:.1f} s, {len(body) * MACHINES / NODES / 2**20:.0f} MiB of text",
            goal="none (told for honesty)",
            met="-",
            how="ten pages of 1,000; EC2's own rows are some times longer than the fake's",
        )
    ]


def outage_storm() -> list[Row]:
    """EC2's launch call is out of order for 40 min while four pools want nodes; then gangs that come in part and boots
    that fail: what was called, and what was paid for nothing."""
    burst = {f"burst{n}": a_burst(max_nodes=4) for n in range(4)}
    jobs = [a_job(f"j{n}", runs_s=7200.0) for n in range(12)]
    site = AwsSite(jobs, policy=aws_policy(burst=burst))
    site.trouble.outages["create_fleet"] = ("InternalError", NOW + timedelta(minutes=OUTAGE_MIN))
    site.run(OUTAGE_MIN, step_s=TICK_S)
    storm = dict(site.calls)
    asked = sum(n for k, n in storm.items() if k in WRITES)
    rows = [
        Row(
            what=f"{OUTAGE_MIN} min without launches, 4 pools, ticks of {TICK_S:.0f} s",
            value=f"{sum(storm.values())} calls, {asked} writes, {storm.get('create_launch_template', 0)} template(s)",
            goal="one template a content",
            met=_met(storm.get("create_launch_template", 0) <= 1),
            how="InternalError to every CreateFleet",
        )
    ]
    return [*rows, *_waste()]


def _waste() -> list[Row]:
    gang = AwsSite([a_job("gang", 64, nodes=8, runs_s=3600.0)])
    for zone in ("us-east-1a", "us-east-1b", "us-east-1c"):
        gang.trouble.stock["p4d.24xlarge", zone, "spot"] = 5
    gang.run(OUTAGE_MIN, step_s=TICK_S)
    boots = AwsSite([a_job(f"j{n}") for n in range(6)])
    boots.joiner.never_joins = lambda instance: True
    boots.run(OUTAGE_MIN + 20, step_s=TICK_S)
    return [
        Row(
            what=f"a gang of 8 where no zone has more than 5, {OUTAGE_MIN} min",
            value=f"{_paid_usd(gang):.2f} USD for nothing, {gang.calls['create_fleet']} fleet calls",
            goal="0 USD",
            met=_met(_paid_usd(gang) < 0.01),
            how="no minute of a part is paid: EC2 launches all or none of it",
        ),
        Row(
            what="machines that never join, 60 min",
            value=f"{_paid_usd(boots):.2f} USD for {len(boots.machines())} machines",
            goal="bounded by the breaker",
            met="-",
            how="six jobs wait; 20 min to join, then given back; five failures stop the pool, one probe after 15 min",
        ),
    ]


def _paid_usd(site: AwsSite) -> float:
    now: datetime = site.clock.now()
    price: float = site.trouble.spot_price("p4d.24xlarge", "us-east-1a", now)
    seconds: float = sum(((m.terminated_at or now) - m.requested_at).total_seconds() for m in site.machines())
    return price * seconds / 3600


def notice_to_cordon() -> list[Row]:
    """From the message in the queue to the cordon, the listener in its thread and real time."""
    took: list[float] = []
    clock = SystemClock()
    for _ in range(20):
        site = AwsSite([a_job("j")])
        site.run(8)
        (machine,) = [m for m in site.alive() if m.state is InstanceState.RUNNING][:1]
        woken = threading.Event()
        site.cloud.notices.woken = woken.set
        site.aws.interrupt(machine.id)
        began = clock.now()
        site.cloud.notices.poll()
        woken.wait(10)
        record = site.controller.tick()
        assert any(o.action_key.startswith("cordon:") for o in record.outcomes)
        assert not any(isinstance(a, Launch) and a.nodes > 1 for a in record.plan.actions)
        took.append((clock.now() - began).total_seconds())
    took.sort()
    return [
        Row(
            what="notice in the queue to cordon",
            value=f"{took[int(0.95 * len(took))] * 1000:.0f} ms p95 of {len(took)}",
            goal="10 s",
            met=_met(took[int(0.95 * len(took))] <= 10),
            how="receive, wake, one whole tick; SQS's own delivery is not in it",
        )
    ]


def memory_over(ticks: int) -> list[Row]:
    """Traced memory over many ticks with work that comes and goes."""
    jobs = [a_job(f"j{n}", at_s=n * 1800.0, runs_s=3000.0) for n in range(int(ticks * TICK_S / 1800) + 1)]
    site = AwsSite(jobs)
    marks: list[float] = []
    tracemalloc.start()
    for number in range(ticks):
        site.cloud.notices.poll()
        site.controller.tick()
        site.ledger.records.clear()  # of the tests' ledger; a real one writes them down
        site.clock.wait(TICK_S)
        if number in (ticks // 10, ticks // 2, ticks - 1):
            marks.append(tracemalloc.get_traced_memory()[0] / 2**20)
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    grown = marks[-1] - marks[0]
    return [
        Row(
            what=f"memory over {ticks:,} ticks",
            value=f"{marks[0]:.1f}, {marks[1]:.1f}, {marks[2]:.1f} MiB at a tenth, half and the end; peak {peak:.1f}",
            goal="flat",
            met=_met(grown < 2.0),
            how=f"one rented and given back every half hour, {len(site.machines())} in all; with the fake's own rows",
        )
    ]


if __name__ == "__main__":
    sys.exit(main())
