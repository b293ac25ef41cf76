"""Reading the sources: one instant, last good facts with their age, a part never taken for the whole."""

from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from elastic.observe import Observer
from providers.errors import Throttled, Unreachable
from providers.facts import CacheGroup, CachePhase
from providers.ports import CloudReading, ClusterReading, Ports
from tests.builders import NOW, a_job, a_node, an_instance, an_offering

LATER = NOW + timedelta(minutes=1)


@dataclass
class Source:
    """Answers in turn; an exception is raised."""

    answers: list = field(default_factory=list)

    def read(self):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def cluster(*answers):
    return Ports(clock=None, clusters={"main": Source(list(answers))})


def queue(*names, complete=True):
    jobs = tuple(a_job(n, 1) for n in names)
    return ClusterReading(jobs=jobs, nodes=(a_node("n"),), complete=complete, trouble="" if complete else "page 3")


def names(snapshot):
    return [j.id for j in snapshot.jobs]


@pytest.mark.parametrize("trouble", [Unreachable("no route"), Throttled("slow down")])
def test_a_source_that_fails_leaves_the_last_good_facts_with_their_age_and_the_reason(trouble):
    observer = Observer(cluster(queue("a"), trouble))
    observer.take_snapshot(NOW)
    snapshot = observer.take_snapshot(LATER)
    assert names(snapshot) == ["a"]
    (reading,) = snapshot.readings
    assert (reading.source, reading.read_at) == ("cluster:main", NOW)
    assert reading.error == f"{trouble.kind}: {trouble.detail}"
    assert snapshot.at == LATER


def test_a_part_is_never_taken_for_the_whole():
    """F024."""
    observer = Observer(cluster(queue("a", "b"), queue("a", complete=False), queue("b")))
    observer.take_snapshot(NOW)
    snapshot = observer.take_snapshot(LATER)
    assert names(snapshot) == ["a", "b"]
    assert "incomplete: page 3" in snapshot.readings[0].error
    assert names(observer.take_snapshot(LATER)) == ["b"]


def test_until_there_is_a_whole_reading_a_part_is_shown_with_its_error():
    observer = Observer(cluster(queue("a", complete=False), queue("a", "b", complete=False), queue("c")))
    for expected in (["a"], ["a", "b"]):
        snapshot = observer.take_snapshot(NOW)
        assert names(snapshot) == expected
        assert snapshot.trouble("cluster:")
    assert not observer.take_snapshot(LATER).trouble()


def test_a_source_that_never_answered_is_no_empty_source():
    """Zero demand is only believed from a whole reading."""
    snapshot = Observer(cluster(Unreachable("no route"))).take_snapshot(NOW)
    assert snapshot.jobs == ()
    assert [r.error for r in snapshot.trouble()] == ["unreachable: no route"]


def test_one_source_in_trouble_does_not_hide_the_others():
    caches = (CacheGroup(name="g", team="t", service="c", phase=CachePhase.READY, workers_wanted=1, workers_ready=1),)
    ports = Ports(
        clock=None,
        clusters={"one": Source([Unreachable("x")]), "two": Source([queue("b")])},
        clouds={"sim": Source([CloudReading(instances=(an_instance("i"),), offerings=(an_offering(),))])},
        caches={"c": Source([caches])},
    )
    snapshot = Observer(ports).take_snapshot(NOW)
    assert names(snapshot) == ["b"]
    assert [i.id for i in snapshot.instances] == ["i"]
    assert snapshot.cache_groups == caches
    assert [r.source for r in snapshot.readings] == ["cluster:one", "cluster:two", "cloud:sim", "cache:c"]
    assert [r.source for r in snapshot.trouble()] == ["cluster:one"]


def test_an_adapter_that_breaks_its_promise_is_not_covered_up():
    """Only kinds of `ProviderError` are trouble of the outside; anything else fails the tick and is counted."""
    with pytest.raises(KeyError):
        Observer(cluster(KeyError("jobs"))).take_snapshot(NOW)


def test_a_machine_whose_cloud_does_not_know_its_node_gets_it_from_the_cluster():
    joined, coming = an_instance("i-1", node_id=None), an_instance("i-2", node_id=None)
    node = a_node("n-1", pool="burst", instance_id="i-1")
    ports = Ports(
        clock=None,
        clusters={"main": Source([ClusterReading(jobs=(), nodes=(node,))])},
        clouds={"aws": Source([CloudReading(instances=(joined, coming), offerings=())])},
    )
    assert [i.node_id for i in Observer(ports).take_snapshot(NOW).instances] == ["n-1", None]
