"""A small site under the real controller whose burst pools are rented from the AWS in memory."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from elastic.controller import Controller
from elastic.planning.plan import Launch, Terminate
from elastic.planning.policy import Policy, Pool
from elastic.planning.state import ControllerState, Record
from forecast.forecaster import Forecasts
from providers.aws.account import CONTROLLER_TAG, AwsAccount, NodeShape
from providers.aws.cloud import AwsCloud
from providers.aws.records import instance_of, tags_of
from providers.facts import Instance, InstanceState
from providers.ports import Ports
from providers.sim.adapters import SimClock, SimCluster, site_world
from providers.sim.aws.fake import FakeAws
from providers.sim.aws.market import GROUP, IMAGE, subnet_of
from providers.sim.aws.queue import QUEUE_URL
from providers.sim.aws.trouble import AwsTrouble
from providers.sim.jobs import SimJob
from providers.sim.joining import JoiningCloud, NodeKind
from tests.builders import NOW, a_policy
from tests.builders_site import ListLedger
from tests.simulation.desk import Crash

P4D, P4DE = "p4d.24xlarge", "p4de.24xlarge"
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
# Calls that rent, end or change something; a quiet tick makes none of them.
WRITES = ("create_fleet", "terminate_instances", "create_tags", "create_launch_template", "delete_launch_template")

BEGAN_S = NOW.timestamp() - 60.0  # home is busy when the first tick looks


class CrashableAws(FakeAws):
    """An AWS during whose launch call the controller may die, before or after it took effect."""

    crash = ""

    def call(self, service: str, action: str, asked: dict[str, Any]) -> dict[str, Any]:
        """See `FakeAws.call`."""
        if action == "create_fleet" and self.crash == "before the call":
            raise Crash
        answer = super().call(service, action, asked)
        if action == "create_fleet" and self.crash == "after the call":
            raise Crash
        return answer


class Joiner(JoiningCloud):
    """Machines that run join the cluster; `never_joins` tells those whose boot fails. With `leaves_ghosts` a node stays
    in the cluster although its machine has ended, until somebody removes it."""

    leaves_ghosts = False

    def __init__(self, cloud: AwsCloud, world: Any, kinds: dict[str, NodeKind]) -> None:
        super().__init__(cloud, world, kinds)
        self.never_joins: Callable[[Instance], bool] = lambda instance: False

    def follow(self, cloud: AwsCloud) -> None:
        """Another process listens to the cloud; the machines are what they are."""
        self._cloud = cloud

    def _boot(self, instance: Instance) -> None:
        if not self.never_joins(instance):
            super()._boot(instance)

    def _leave(self, instance_id: str) -> None:
        if not self.leaves_ghosts:
            super()._leave(instance_id)


def a_burst(**changes: Any) -> Pool:
    """A pool of p4d nodes of eight A100 that boot in three minutes."""
    parts: dict[str, Any] = {
        "place": "burst", "cluster": "main", "cloud": "aws", "gpu_model": "a100", "gpus_per_node": 8, "max_nodes": 100,
        "lead_time": "240 s", "idle_release": "0 s", "capacity_types": ("spot",), "instance_types": (P4D,),
    }  # fmt: skip
    return Pool(**{**parts, **changes})


def aws_policy(*, nodes: int = 1, burst: dict[str, Pool] | None = None, **changes: Any) -> Policy:
    """`nodes` nodes at home and what is rented beside them."""
    home = Pool(place="on-prem", cluster="main", gpu_model="a100", gpus_per_node=8, nodes=nodes)
    return a_policy(pools={"onprem": home, **(burst or {"burst": a_burst()})}, **changes)


def a_job(job_id: str, gpus: int = 8, *, at_s: float = 0.0, runs_s: float = 7200.0, **changes: Any) -> SimJob:
    """A job that must start at once and cannot be moved; it arrives `at_s` after NOW."""
    parts: dict[str, Any] = {
        "id": job_id, "submit_s": NOW.timestamp() + at_s, "gpus": gpus, "duration_s": runs_s, "pool": "onprem",
        "nodes": max(1, -(-gpus // 8)), "job_class": "urgent", "checkpointable": False,
    }  # fmt: skip
    return SimJob(**{**parts, **changes})


def busy_home(nodes: int = 1) -> SimJob:
    """Work that keeps home full."""
    return a_job("home", 8 * nodes, at_s=-60.0, runs_s=1e7)


class AwsSite:
    """One node at home that is busy, an AWS, and the controller over both."""

    def __init__(
        self, jobs: Iterable[SimJob] = (), *, policy: Policy | None = None, trouble: AwsTrouble | None = None,
        ledger: Any = None, boot_s: float = 180.0, shapes: dict[str, NodeShape] | None = None,
        aws: type[CrashableAws] = CrashableAws,
    ) -> None:  # fmt: skip
        self.policy = policy or aws_policy()
        home = self.policy.pools["onprem"].nodes or 0
        rented = [name for name, pool in self.policy.pools.items() if pool.place == "burst"]
        ordered = sorted([*([busy_home(home)] if home else []), *jobs], key=lambda j: j.submit_s)
        self.world = site_world(ordered, start_s=BEGAN_S, pools=[("onprem", home, 8, "a100", 0, 0.0)])
        self.world.advance_to(NOW.timestamp())
        self.clock = SimClock(self.world)
        self.trouble = trouble or AwsTrouble()
        self.aws = aws(self.clock.now, trouble=self.trouble, wait=self.clock.wait)
        shape = NodeShape(image_id=IMAGE, security_group_ids=(GROUP,))
        self.account = AwsAccount(
            name="aws", region="us-east-1", owner="research", controller="main-1",
            subnets={zone: subnet_of(zone) for zone in ZONES}, queue_url=QUEUE_URL,
            shapes=shapes or dict.fromkeys(rented, shape), instance_types=(P4D, P4DE), gpu_models=("a100",),
        )  # fmt: skip
        self.cluster = SimCluster(self.world)
        self.cloud = AwsCloud(self.account, self.aws.clients, self.clock)
        kind = NodeKind(cluster="main", gpus=8, gpu_model="a100", boot_s=boot_s)
        self.joiner = Joiner(self.cloud, self.world, dict.fromkeys(rented, kind))
        self.ports = Ports(clock=self.clock, clusters={"main": self.cluster}, clouds={"aws": self.joiner})
        self.ledger = ledger if ledger is not None else ListLedger()
        self.records: list[Record] = []
        self._control(ControllerState())

    def _control(self, state: ControllerState) -> None:
        self.controller = Controller(
            self.ports, self.ledger, policy=lambda: self.policy, forecasts=Forecasts, state=state
        )  # fmt: skip

    def restart(self, ledger: Any) -> ControllerState:
        """A new process: it knows what this ledger holds, and AWS as it is. Returns what it remembers."""
        self.aws.crash = ""
        self.ledger, state = ledger, ledger.rebuild_state()
        self.cloud = AwsCloud(self.account, self.aws.clients, self.clock)
        self.joiner.follow(self.cloud)
        self._control(state)
        return state

    def tick(self) -> Record:
        """Take what the queue has, as its thread would, and tick once."""
        self.cloud.notices.poll()
        record = self.controller.tick()
        self.records.append(record)
        return record

    def run(self, minutes: float, *, step_s: float = 60.0) -> list[Record]:
        """Tick every `step_s` for so many minutes."""
        records = []
        for _ in range(round(minutes * 60 / step_s)):
            records.append(self.tick())
            self.clock.wait(step_s)
        return records

    # What there is

    @property
    def calls(self) -> Any:
        """Calls by action so far."""
        return self.aws.counts

    def machines(self) -> list[Instance]:
        """Every machine with our tags as it truly is, ended ones too: no call, no lag."""
        account = self.account
        rows = (row for row in self.aws.ec2.truth().values() if tags_of(row).get(CONTROLLER_TAG) == account.controller)
        made = (instance_of(r, cloud="aws", region=account.region, gpus=8, price=lambda *_: (0.0, "")) for r in rows)
        return [i for i in made if i is not None]

    def alive(self) -> list[Instance]:
        """Those that pend or run."""
        return [i for i in self.machines() if i.state in (InstanceState.PENDING, InstanceState.RUNNING)]

    def job(self, job_id: str) -> Any:
        """What the cluster says of a job; None when it has ended."""
        return next((j for j in self.cluster.read().jobs if j.id == job_id), None)


def launches(records: Iterable[Record]) -> list[Launch]:
    """Launches that were let through."""
    return [a for r in records for a in r.plan.actions if isinstance(a, Launch)]


def terminations(records: Iterable[Record]) -> list[Terminate]:
    """Terminations that were let through."""
    return [a for r in records for a in r.plan.actions if isinstance(a, Terminate)]


def without_leases(state: ControllerState) -> ControllerState:
    """The memory after every manual burst was called off."""
    return replace(state, leases={})
