"""Carrying out a plan: token first, cordon and read again before a machine goes, trouble as data, nothing lost."""

from dataclasses import dataclass, field

import pytest

from elastic.act import LEDGER_TROUBLE, BrokenPlan, apply_plan
from elastic.ledger_port import LedgerError
from elastic.planning.plan import (
    Cordon,
    Launch,
    Move,
    Plan,
    Purpose,
    ResizeCacheGroup,
    Route,
    Terminate,
    Uncordon,
)
from elastic.planning.planner import make_plan
from elastic.planning.policy import Mode
from elastic.planning.state import ControllerState, Result
from forecast.forecaster import Forecasts
from providers.errors import AccessDenied, InvalidRequest, NotFound, ProviderError, Throttled, Unreachable
from providers.facts import LaunchReply, NodeState, OfferingFailure
from providers.ports import ClusterReading, Ports
from tests.builders import NOW, a_node, a_policy, a_snapshot, an_instance, an_offering
from tests.builders_site import Site, a_sim_job


@dataclass
class Notes:
    """What was called, in order, over all ports and the ledger of one test."""

    calls: list[str] = field(default_factory=list)


@dataclass
class Intents:
    notes: Notes
    trouble: str = ""

    def write_intent(self, launch, at, *, caps=None):
        if self.trouble:
            raise LedgerError(self.trouble)
        self.notes.calls.append(f"intent {launch.token}")


@dataclass
class Cluster:
    """A cluster that does what it is told and tells what it is given; `fails` raises by call name."""

    notes: Notes
    nodes: tuple = ()
    complete: bool = True
    fails: dict[str, Exception] = field(default_factory=dict)

    def __getattr__(self, name):
        def call(subject, **details):
            self.notes.calls.append(f"{name} {subject}")
            if name in self.fails:
                raise self.fails[name]

        return call

    def read(self):
        self.notes.calls.append("read cluster")
        if "read" in self.fails:
            raise self.fails["read"]
        return ClusterReading(
            jobs=(), nodes=self.nodes, complete=self.complete, trouble="" if self.complete else "part"
        )


@dataclass
class Cloud:
    notes: Notes
    reply: LaunchReply | Exception = field(default_factory=lambda: LaunchReply(instances=()))
    ends: tuple[str, ...] | Exception | None = None

    def launch(self, request):
        self.notes.calls.append(f"launch {request.token}")
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply

    def terminate(self, ids):
        self.notes.calls.append(f"terminate {','.join(ids)}")
        if isinstance(self.ends, Exception):
            raise self.ends
        return tuple(ids) if self.ends is None else self.ends


def a_launch(token="t1", **changes):
    parts = {"pool": "burst", "nodes": 2, "gang": False, "offerings": (an_offering(),), "needed_by": NOW, "reason": "r"}
    return Launch(token=token, **{**parts, **changes})


def a_termination(number=1, **changes):
    parts = {"cloud": "sim", "pool": "burst", "reason": "idle", "node_id": f"c{number}", "cluster": "main"}
    return Terminate(instance_id=f"i{number}", **{**parts, **changes})


def do(*actions, cluster=None, cloud=None, intents=None, notes=None, policy=None):
    """(outcomes by key, calls in order)."""
    notes = notes or Notes()
    cluster, cloud = cluster or Cluster(notes), cloud or Cloud(notes)
    ports = Ports(clock=None, clusters={"main": cluster}, clouds={"sim": cloud})
    plan = Plan(id="p", at=NOW, policy_hash="h", actions=actions)
    outcomes = apply_plan(plan, ports, policy or a_policy(), intents or Intents(notes))
    assert {o.action_key for o in outcomes} == {a.key for a in actions}
    return {o.action_key: o for o in outcomes}, notes.calls


# Launches


def test_the_token_is_written_down_before_the_call():
    """F002."""
    notes = Notes()
    machines = (an_instance("i1"), an_instance("i2"))
    done, calls = do(a_launch(), notes=notes, cloud=Cloud(notes, LaunchReply(instances=machines)))
    assert calls == ["intent t1", "launch t1"]
    assert (done["launch:t1"].result, done["launch:t1"].provider_ids) == (Result.DONE, ("i1", "i2"))


def test_without_a_written_token_there_is_no_call():
    """A full disk: the launch is held, the rest of the plan goes on."""
    notes = Notes()
    route = Route(job_id="j", cluster="main", pool="onprem", reason="r")
    done, calls = do(a_launch(), route, notes=notes, intents=Intents(notes, "disk full"))
    assert calls == ["route j"]
    assert (done["launch:t1"].result, done["launch:t1"].error_kind) == (Result.FAILED, LEDGER_TROUBLE)
    assert "disk full" in done["launch:t1"].detail


@pytest.mark.parametrize(("got", "result"), [(0, Result.FAILED), (1, Result.PARTIAL), (2, Result.DONE)])
def test_part_of_a_launch_is_partial_and_failures_are_kept(got, result):
    notes = Notes()
    failure = OfferingFailure(offering_key="x/a/spot", error_kind="insufficient_capacity", detail="none left")
    reply = LaunchReply(instances=tuple(an_instance(f"i{n}") for n in range(got)), failures=(failure,))
    done, _ = do(a_launch(), notes=notes, cloud=Cloud(notes, reply))
    outcome = done["launch:t1"]
    assert outcome.result is result
    assert outcome.failures == (failure,)
    assert outcome.error_kind == ("insufficient_capacity" if not got else "")


@pytest.mark.parametrize("trouble", [Throttled("slow"), Unreachable("gone"), AccessDenied("no")])
def test_trouble_of_one_launch_is_an_outcome_and_the_next_is_tried(trouble):
    notes = Notes()
    done, calls = do(a_launch("t1"), a_launch("t2"), notes=notes, cloud=Cloud(notes, trouble))
    assert [c for c in calls if c.startswith("launch")] == ["launch t1", "launch t2"]
    assert {o.error_kind for o in done.values()} == {trouble.kind}


def test_an_adapter_that_breaks_its_promise_ends_the_plan_with_all_that_was_done_told():
    """What was launched before and what may have been launched now is not forgotten: else it is bought twice."""
    notes = Notes()

    class Breaks(Cloud):
        def launch(self, request):
            if request.token == "t2":
                raise KeyError("InstanceId")
            return LaunchReply(instances=(an_instance("i1"), an_instance("i2")))

    with pytest.raises(BrokenPlan, match="KeyError") as raised:
        do(a_launch("t1"), a_launch("t2"), a_launch("t3"), notes=notes, cloud=Breaks(notes))
    told = {o.action_key: (o.result, o.error_kind) for o in raised.value.outcomes}
    assert told == {"launch:t1": (Result.DONE, ""), "launch:t2": (Result.FAILED, "unreachable")}


def test_after_a_broken_launch_the_controller_counts_it_as_coming():
    """F002: the tick fails, its launch took effect and no listing shows it yet: nothing is bought again."""
    jobs = [a_sim_job("home", 32, runs_s=1e6, job_class="fixed"), a_sim_job("j", 8, at_s=1, job_class="fixed")]
    site = Site(jobs)
    real, site.cloud.faults.hide_new_s = site.cloud.launch, 200.0

    def breaks(request):
        real(request)
        raise KeyError("InstanceId")

    site.cloud.launch = breaks
    site.clock.wait(1)
    for _ in range(15):
        try:
            site.controller.tick()
        except BrokenPlan:
            site.cloud.launch = real
        site.clock.wait(60)
    assert len(site.cloud._instances) == 1
    assert [r.tick for r in site.ledger.records] == list(range(1, 16))
    site.run(5)
    assert site.world.jobs["j"].pool == "burst"


# Giving machines back


def idle(number, **changes):
    return a_node(f"c{number}", pool="burst", instance_id=f"i{number}", **changes)


def test_a_machine_goes_only_after_cordon_and_a_second_look():
    notes = Notes()
    done, calls = do(a_termination(1), a_termination(2), notes=notes, cluster=Cluster(notes, (idle(1), idle(2))))
    assert calls == ["cordon c1", "cordon c2", "read cluster", "terminate i1,i2", "forget c1", "forget c2"]
    assert {o.result for o in done.values()} == {Result.DONE}


def test_a_node_that_got_work_meanwhile_stays_and_is_opened_again():
    notes = Notes()
    busy = idle(2, used=4, job_ids=("j",))
    done, calls = do(a_termination(1), a_termination(2), notes=notes, cluster=Cluster(notes, (idle(1), busy)))
    assert "terminate i1" in calls
    assert "uncordon c2" in calls
    assert done["terminate:i2"].result is Result.SKIPPED
    assert "work again" in done["terminate:i2"].detail


def test_a_node_that_somebody_had_cordoned_stays_so_when_its_machine_stays():
    """A person's cordon, or one of a spot notice, is not ours to take off."""
    notes = Notes()
    busy = idle(1, used=4, job_ids=("j",))
    done, calls = do(a_termination(1, cordoned=True), notes=notes, cluster=Cluster(notes, (busy,)))
    assert done["terminate:i1"].result is Result.SKIPPED
    assert "uncordon c1" not in calls


def test_the_plan_says_which_nodes_were_cordoned_before():
    nodes = (idle(1), idle(2, state=NodeState.CORDONED, cordon_reason="repair"))
    machines = tuple(an_instance(f"i{n}", node_id=f"c{n}") for n in (1, 2))
    plan = make_plan(a_snapshot(nodes=nodes, instances=machines), Forecasts(), a_policy(), ControllerState())
    assert {a.instance_id: a.cordoned for a in plan.actions} == {"i1": False, "i2": True}


def test_a_node_whose_use_cannot_be_read_stays():
    """F011: unknown is not idle."""
    notes = Notes()
    unknown = idle(1, free_gpus=None)
    done, calls = do(a_termination(1), notes=notes, cluster=Cluster(notes, (unknown,)))
    assert not [c for c in calls if c.startswith("terminate")]
    assert done["terminate:i1"].result is Result.SKIPPED


@pytest.mark.parametrize("how", ["incomplete", "unreachable"])
def test_without_a_whole_second_look_nothing_goes(how):
    """F024."""
    notes = Notes()
    cluster = Cluster(notes, (idle(1),), complete=how != "incomplete")
    if how == "unreachable":
        cluster.fails["read"] = Unreachable("no route")
    done, calls = do(a_termination(1), notes=notes, cluster=cluster)
    assert calls == ["cordon c1", "read cluster", "uncordon c1"]
    assert done["terminate:i1"].result in (Result.SKIPPED, Result.FAILED)


def test_a_node_that_cannot_be_cordoned_is_not_given_back_and_the_others_are():
    """F011: an error about one node ends the handling of that node only."""
    notes = Notes()

    class OneFails(Cluster):
        def cordon(self, node_id, *, reason):
            self.notes.calls.append(f"cordon {node_id}")
            if node_id == "c1":
                raise Throttled("slow down")

    done, calls = do(a_termination(1), a_termination(2), notes=notes, cluster=OneFails(notes, (idle(1), idle(2))))
    assert "terminate i2" in calls
    assert done["terminate:i1"].error_kind == "throttled"
    assert done["terminate:i2"].result is Result.DONE


def test_a_node_the_cluster_no_longer_knows_does_not_keep_its_machine():
    notes = Notes()
    cluster = Cluster(notes, (), fails={"cordon": NotFound("gone")})
    done, calls = do(a_termination(1), notes=notes, cluster=cluster)
    assert "terminate i1" in calls
    assert done["terminate:i1"].result is Result.DONE


def test_a_machine_without_a_node_goes_at_once():
    notes = Notes()
    done, calls = do(a_termination(1, node_id=None, cluster=None), notes=notes)
    assert calls == ["terminate i1"]
    assert done["terminate:i1"].result is Result.DONE


def test_a_cloud_that_ends_only_some_is_told_machine_by_machine():
    """F005."""
    notes = Notes()
    cluster = Cluster(notes, (idle(1), idle(2)))
    done, calls = do(a_termination(1), a_termination(2), notes=notes, cluster=cluster, cloud=Cloud(notes, ends=("i2",)))
    assert done["terminate:i1"].result is Result.FAILED
    assert done["terminate:i2"].result is Result.DONE
    assert "forget c1" not in calls


@pytest.mark.parametrize("trouble", [Throttled("slow"), Unreachable("gone")])
def test_a_cloud_that_ends_none_leaves_the_nodes_known(trouble):
    notes = Notes()
    cluster = Cluster(notes, (idle(1),))
    done, calls = do(a_termination(1), notes=notes, cluster=cluster, cloud=Cloud(notes, ends=trouble))
    assert done["terminate:i1"].error_kind == trouble.kind
    assert "forget c1" not in calls


def test_a_machine_that_is_gone_counts_as_done_although_its_node_cannot_be_forgotten():
    notes = Notes()
    cluster = Cluster(notes, (idle(1),), fails={"forget": Unreachable("no route")})
    done, _ = do(a_termination(1), notes=notes, cluster=cluster)
    assert done["terminate:i1"].result is Result.DONE
    assert "forgotten" in done["terminate:i1"].detail


# The rest


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ADVISE])
def test_where_the_policy_does_not_act_nothing_is_called(mode):
    done, calls = do(a_launch(), a_termination(1), policy=a_policy(mode=mode))
    assert calls == []
    assert {o.result for o in done.values()} == {Result.SKIPPED}


def test_a_move_that_waits_for_anothers_place_is_tried_once_more():
    """Two gangs change places: the first move finds room only after the second."""
    jobs = [a_sim_job("a", 8, runs_s=1e5), a_sim_job("b", 8, runs_s=1e5)]
    site = Site(jobs, nodes=3)
    site.clock.wait(60)
    (a_on,), (b_on,) = (site.world.jobs[j].node_ids for j in "ab")
    (free,) = {"onprem-0000", "onprem-0001", "onprem-0002"} - {a_on, b_on}

    def move(job_id, origin, to):
        return Move(job_id=job_id, cluster="main", from_node_ids=(origin,), to_pool="onprem", to_node_ids=(to,),
                    purpose=Purpose.MAKE_ROOM, reason="r")  # fmt: skip

    plan = Plan(id="p", at=NOW, policy_hash="h", actions=(move("a", a_on, b_on), move("b", b_on, free)))
    outcomes = apply_plan(plan, site.ports, site.policy, site.ledger)
    assert {o.action_key: o.result for o in outcomes} == {"move:a": Result.DONE, "move:b": Result.DONE}
    assert (site.world.jobs["a"].node_ids, site.world.jobs["b"].node_ids) == ((b_on,), (free,))


def test_trouble_of_each_kind_of_action_is_an_outcome_and_the_others_go_on():
    notes = Notes()
    cluster = Cluster(notes, fails={"route": InvalidRequest("no room"), "cordon": Throttled("slow")})
    actions = (
        Route(job_id="j", cluster="main", pool="onprem", reason="r"),
        Cordon(node_id="n", cluster="main", reason="r"),
        Uncordon(node_id="m", cluster="main", reason="r"),
    )
    done, calls = do(*actions, notes=notes, cluster=cluster)
    assert calls == ["route j", "cordon n", "uncordon m"]
    assert [done[a.key].error_kind for a in actions] == ["invalid_request", "throttled", ""]


def test_cache_groups_are_steered_through_their_service():
    class Caches:
        asked: tuple[str, int] = ("", 0)

        def resize(self, name, *, workers):
            self.asked = name, workers

    caches = Caches()
    action = ResizeCacheGroup(name="g", service="sim", workers=4, reason="r")
    plan = Plan(id="p", at=NOW, policy_hash="h", actions=(action,))
    apply_plan(plan, Ports(clock=None, caches={"sim": caches}), a_policy(), Intents(Notes()))
    assert caches.asked == ("g", 4)


def test_every_error_kind_of_the_outside_has_a_name_of_its_own():
    kinds = [k.kind for k in ProviderError.__subclasses__()]
    assert len(kinds) == len(set(kinds)) == 8
