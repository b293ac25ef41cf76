"""What every `CacheService` adapter promises (`providers/ports.py`)."""

import pytest

from providers.errors import InvalidRequest, NotFound
from providers.facts import CachePhase
from tests.contract.stands import CACHES

HOUR_S = 3600.0


@pytest.fixture(params=CACHES)
def stand(request):
    return CACHES[request.param]()


def group(stand):
    (found,) = stand.port.read()
    return found


def test_a_group_grows_to_the_wanted_size_and_says_so_on_the_way(stand):
    stand.port.resize("vision", workers=4)
    assert (group(stand).workers_wanted, group(stand).workers_ready) == (4, 1)
    assert group(stand).phase is CachePhase.STARTING
    stand.play(HOUR_S)
    assert group(stand).workers_ready == 4


def test_saying_the_size_again_makes_it_no_faster(stand):
    """Idempotent: the group grows worker by worker whatever is repeated."""
    sizes = []
    for repeats in (1, 5):
        one = type(stand)()
        for _ in range(repeats):
            one.port.resize("vision", workers=8)
        one.play(150)
        sizes.append(group(one).workers_ready)
    assert sizes[0] == sizes[1]


def test_another_wish_on_the_way_counts_from_where_the_group_is(stand):
    stand.port.resize("vision", workers=8)
    stand.play(100)
    stand.port.resize("vision", workers=2)
    stand.play(2 * HOUR_S)
    assert (group(stand).workers_wanted, group(stand).workers_ready) == (2, 2)
    assert group(stand).workers_draining == 0


def test_scaling_in_drains_one_worker_after_another(stand):
    stand.port.resize("vision", workers=4)
    stand.play(HOUR_S)
    stand.port.resize("vision", workers=1)
    seen = []
    for _ in range(60):
        seen.append((group(stand).workers_ready, group(stand).workers_draining))
        stand.play(60)
    assert [n for n, _ in seen] == sorted((n for n, _ in seen), reverse=True)
    assert max(d for _, d in seen) == 1
    assert seen[-1] == (1, 0)


def test_ready_means_settled_and_warm(stand):
    stand.port.resize("vision", workers=4)
    stand.play(HOUR_S)
    assert group(stand).phase is not CachePhase.READY, "settled but cold"
    stand.port.warm("vision")
    assert group(stand).phase is CachePhase.WARMING
    stand.play(HOUR_S)
    assert group(stand).phase is CachePhase.READY
    assert group(stand).warm_ratio == 1.0


def test_a_warm_group_that_grows_is_ready_again_when_it_has_settled(stand):
    stand.port.warm("vision")
    stand.play(2 * HOUR_S)
    stand.port.resize("vision", workers=3)
    assert group(stand).phase is CachePhase.STARTING
    stand.play(HOUR_S)
    assert group(stand).phase is CachePhase.READY


def test_a_second_warm_up_changes_nothing_of_the_one_that_runs(stand):
    """F039: the download is not multiplied."""
    stand.port.warm("vision")
    stand.play(20 * 60)
    stand.port.warm("vision")
    stand.play(20 * 60)
    assert group(stand).phase is CachePhase.WARMING
    stand.play(20 * 60)
    assert group(stand).phase is CachePhase.READY


def test_a_group_that_sleeps_loses_warmth_with_its_workers(stand):
    stand.port.resize("vision", workers=4)
    stand.play(HOUR_S)
    stand.port.warm("vision")
    stand.play(HOUR_S)
    stand.port.resize("vision", workers=1)
    stand.play(HOUR_S)
    assert group(stand).warm_ratio == pytest.approx(0.25)
    assert group(stand).phase is CachePhase.ASLEEP


def test_a_group_that_is_not_known_is_told_as_such(stand):
    with pytest.raises(NotFound):
        stand.port.resize("nobody", workers=1)
    with pytest.raises(NotFound):
        stand.port.warm("nobody")


def test_fewer_than_no_workers_is_our_fault(stand):
    with pytest.raises(InvalidRequest):
        stand.port.resize("vision", workers=-1)
    assert group(stand).workers_wanted == 1
