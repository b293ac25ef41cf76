"""What every `Cloud` adapter promises (`providers/ports.py`)."""

import pytest

from providers.errors import (
    AccessDenied,
    InsufficientCapacity,
    InvalidRequest,
    ProviderError,
    QuotaExceeded,
    Throttled,
    Unreachable,
)
from providers.facts import CapacityType, InstanceState, InterruptionKind, LaunchRequest
from tests.contract.stands import CLOUDS

KINDS = [InsufficientCapacity, QuotaExceeded, Throttled, AccessDenied, Unreachable, InvalidRequest]


@pytest.fixture(params=CLOUDS)
def stand(request):
    return CLOUDS[request.param]()


def ask(stand, nodes=1, *, token="t1", gang=False, offerings=None, **changes):
    ranked = offerings if offerings is not None else (stand.offering("a"), stand.offering("b"))
    request = LaunchRequest(
        token=token, pool="burst", cluster="main", nodes=nodes, gang=gang, offerings=tuple(ranked), **changes
    )
    return stand.port.launch(request)


def alive(stand):
    return [i for i in stand.port.read().instances if i.state is not InstanceState.TERMINATED]


def test_offerings_have_a_price_and_tell_where_and_when_it_comes_from(stand):
    for offering in stand.port.read().offerings:
        assert offering.price_usd_per_hour is None or offering.price_usd_per_hour > 0
        assert offering.price_source
        assert offering.priced_at.tzinfo is not None
        assert offering.key == f"{offering.instance_type}/{offering.zone}/{offering.capacity_type.value}"


def test_a_launch_carries_its_token_pool_and_team_as_facts_of_its_machines(stand):
    reply = ask(stand, 2, team="alpha")
    assert len(reply.instances) == 2
    assert {(i.token, i.pool, i.team) for i in reply.instances} == {("t1", "burst", "alpha")}
    assert {i.id for i in alive(stand)} == {i.id for i in reply.instances}
    assert all(i.price_usd_per_hour > 0 for i in reply.instances)


def test_the_same_token_again_brings_the_same_machines_and_never_more(stand):
    first = ask(stand, 2)
    again = ask(stand, 2)
    assert {i.id for i in again.instances} == {i.id for i in first.instances}
    assert len(alive(stand)) == 2


def test_the_same_token_with_a_bigger_wish_brings_no_more_either(stand):
    ask(stand, 2)
    assert len(ask(stand, 5).instances) == 2
    assert len(alive(stand)) == 2


def test_a_token_whose_machines_have_ended_brings_no_new_ones(stand):
    """F002 (b): the attempt is closed as lost; a new one needs a new token."""
    first = ask(stand, 1)
    stand.port.terminate([first.instances[0].id])
    again = ask(stand, 1)
    assert [i for i in again.instances if i.state is not InstanceState.TERMINATED] == []
    assert alive(stand) == []


def test_a_launch_whose_answer_was_lost_is_found_by_its_token(stand):
    stand.lose_next_reply()
    with pytest.raises(Unreachable):
        ask(stand, 2)
    assert {i.token for i in alive(stand)} == {"t1"}
    assert len(ask(stand, 2).instances) == 2
    assert len(alive(stand)) == 2


def test_everything_comes_from_the_ranked_offerings(stand):
    ranked = (stand.offering("a"), stand.offering("b"))
    reply = ask(stand, 5, offerings=ranked)
    assert len(reply.instances) == 5
    assert {i.offering_key for i in reply.instances} <= {o.key for o in ranked}
    only = ask(stand, 2, token="t2", offerings=(stand.offering("b"),))
    assert [i.offering_key for i in only.instances] == [ranked[1].key] * 2


def test_offerings_are_tried_in_the_order_they_are_ranked(stand):
    """F003: where the cloud does not pick among the offerings of a market itself."""
    if not stand.keeps_rank_within_a_market:
        pytest.skip("this cloud picks by price among the ranked offerings of one market")
    reply = ask(stand, 5)
    assert [i.zone for i in reply.instances] == [stand.zone(z) for z in "aaabb"]
    turned = ask(stand, 1, token="t2", offerings=(stand.offering("b"), stand.offering("a")))
    assert [i.zone for i in turned.instances] == [stand.zone("b")]


def test_markets_are_tried_in_the_order_they_are_ranked(stand):
    """F003: the next market gives what the first has not."""
    spot, on_demand = stand.offering("a"), stand.offering("a", CapacityType.ON_DEMAND)
    dear = ask(stand, 2, offerings=(on_demand, spot))
    assert [i.capacity_type for i in dear.instances] == [CapacityType.ON_DEMAND] * 2
    reply = ask(stand, 5, token="t2", offerings=(spot, on_demand))
    assert [i.capacity_type for i in reply.instances] == [CapacityType.SPOT] * 3 + [CapacityType.ON_DEMAND] * 2
    last = ask(stand, 1, token="t3", offerings=(spot, on_demand))
    assert [i.capacity_type for i in last.instances] == [CapacityType.ON_DEMAND]
    assert [(f.offering_key, f.error_kind) for f in last.failures] == [(spot.key, "insufficient_capacity")]


def test_part_of_a_launch_of_single_nodes_is_a_good_answer(stand):
    reply = ask(stand, 10)
    assert len(reply.instances) == 8
    over = ask(stand, 1, token="t2")
    assert over.instances == ()
    assert sorted((f.offering_key, f.error_kind) for f in over.failures) == [
        (stand.offering(zone).key, "insufficient_capacity") for zone in "ab"
    ]
    assert all(f.detail for f in over.failures)


def test_a_gang_comes_whole_in_one_zone_or_not_at_all(stand):
    reply = ask(stand, 4, gang=True)
    assert {i.zone for i in reply.instances} == {stand.zone("b")}
    assert len(reply.instances) == 4
    assert [f.offering_key for f in reply.failures] == [stand.offering("a").key]


def test_a_gang_that_fits_no_zone_leaves_nothing_behind(stand):
    """F012: a part of a gang is never kept."""
    reply = ask(stand, 6, gang=True)
    assert reply.instances == ()
    assert len(reply.failures) == 2
    assert alive(stand) == []


def test_a_failed_token_may_be_tried_again_when_there_is_room(stand):
    ask(stand, 3, token="other")
    only_a = (stand.offering("a"),)
    assert ask(stand, 1, offerings=only_a).instances == ()
    stand.port.terminate([i.id for i in alive(stand)])
    assert len(ask(stand, 1, offerings=only_a).instances) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_refused_call_raises_its_kind_and_takes_no_effect(stand, kind):
    stand.fail_next_launch(kind("not now"))
    with pytest.raises(kind) as raised:
        ask(stand, 1)
    assert raised.value.kind == kind.kind
    assert raised.value.detail
    assert alive(stand) == []
    assert len(ask(stand, 1).instances) == 1


def test_a_request_that_can_never_succeed_is_our_fault(stand):
    with pytest.raises(InvalidRequest):
        ask(stand, 1, offerings=())
    with pytest.raises(InvalidRequest):
        ask(stand, 0)


def test_a_machine_boots_and_runs(stand):
    (machine,) = ask(stand, 1).instances
    assert machine.state is InstanceState.PENDING
    assert machine.node_id is None
    assert machine.running_since is None
    stand.play(241)
    (machine,) = alive(stand)
    assert machine.state is InstanceState.RUNNING
    assert machine.running_since >= machine.requested_at


def test_a_machine_that_has_become_a_node_carries_its_name(stand):
    if not stand.tells_nodes:
        pytest.skip("this cloud knows no cluster: the reading of the cluster says which node a machine has become")
    ask(stand, 1)
    stand.play(241)
    (machine,) = alive(stand)
    assert machine.node_id is not None


def test_terminating_twice_or_the_unknown_is_harmless_and_counts_as_gone(stand):
    """F005: the ids that are gone do not keep the others alive."""
    first, second, third = ask(stand, 3).instances
    assert set(stand.port.terminate([first.id, "i-nobody", second.id])) == {first.id, "i-nobody", second.id}
    assert set(stand.port.terminate([first.id])) == {first.id}
    assert [i.id for i in alive(stand)] == [third.id]
    assert stand.port.terminate([]) == ()


def test_a_machine_given_back_while_it_boots_never_joins(stand):
    (machine,) = ask(stand, 1).instances
    stand.port.terminate([machine.id])
    stand.play(600)
    assert alive(stand) == []


@pytest.mark.parametrize("trouble", [Unreachable("no route"), Throttled("slow down")])
def test_a_reading_that_fails_raises_a_kind_we_know(stand, trouble):
    with stand.broken(trouble), pytest.raises(ProviderError) as raised:
        stand.port.read()
    assert raised.value.kind == trouble.kind


def test_a_part_is_never_told_as_the_whole(stand):
    """F024 (d)."""
    ask(stand, 2)
    with stand.broken("the second page was throttled"):
        try:
            reading = stand.port.read()
        except ProviderError as trouble:  # no reading at all is no part either
            told = trouble.detail
        else:
            assert not reading.complete
            told = reading.trouble
    assert "second page" in told
    assert len(alive(stand)) == 2


def test_a_listing_of_many_is_whole(stand):
    """F024 (a): whatever the pages are behind the port."""
    ask(stand, 700, offerings=(stand.offering("a", CapacityType.ON_DEMAND),))
    reading = stand.port.read()
    assert reading.complete
    assert len(reading.instances) == 700
    assert len({i.id for i in reading.instances}) == 700


# Interruptions


def test_an_interruption_is_told_at_every_reading_until_it_is_acknowledged(stand):
    first, _second = ask(stand, 2).instances
    stand.play(300)
    stand.interrupt(first.id)
    for _ in range(2):
        (notice,) = stand.port.read().interruptions
        assert (notice.instance_id, notice.kind) == (first.id, InterruptionKind.SPOT_INTERRUPTION)
        assert (notice.ends_at - notice.noticed_at).total_seconds() == 120
    stand.port.acknowledge([notice.id])
    stand.port.acknowledge([notice.id, "n-nobody"])
    assert stand.port.read().interruptions == ()


def test_an_announced_machine_is_gone_after_two_minutes(stand):
    first, second = ask(stand, 2).instances
    stand.play(300)
    stand.interrupt(first.id)
    stand.play(119)
    assert len(alive(stand)) == 2
    stand.play(2)
    assert [i.id for i in alive(stand)] == [second.id]
