"""The simulated cache groups: how long waking and warming take."""

import pytest

from providers.facts import CachePhase
from providers.sim.adapters import site_world
from providers.sim.caches import CacheSpec, SimCaches
from tests.builders import NOW


def a_service(*specs):
    world = site_world([], start_s=NOW.timestamp(), pools=[("onprem", 1, 8, "gpu", 0, 0.0)])
    return world, SimCaches(world, specs or [CacheSpec(name="g", team="t", workers=1)])


def play(world, seconds):
    world.advance_to(NOW.timestamp() + seconds)


def test_a_warm_up_takes_its_bytes_over_its_workers():
    """F039: the group loads its hot set once, however many workers it has."""
    minutes = {}
    for workers in (1, 4):
        world, caches = a_service(CacheSpec(name="g", team="t", workers=workers, hot_set_gib=800.0))
        caches.warm("g")
        while caches.read()[0].phase is CachePhase.WARMING:
            play(world, world.now_s - NOW.timestamp() + 60)
        minutes[workers] = (world.now_s - NOW.timestamp()) / 60
    assert minutes == {1: 40, 4: 10}


def test_half_a_cache_needs_half_a_warm_up():
    world, caches = a_service(CacheSpec(name="g", team="t", workers=2, hot_set_gib=800.0))
    caches.warm("g")
    play(world, 1200)
    caches.resize("g", workers=1)
    play(world, 1600)
    assert caches.read()[0].warm_ratio == pytest.approx(0.5)
    caches.warm("g")
    play(world, 1600 + 20 * 60 + 1)
    assert caches.read()[0].phase is CachePhase.READY


def test_a_group_without_workers_cannot_be_warmed():
    _, caches = a_service(CacheSpec(name="g", team="t", workers=0))
    caches.warm("g")
    assert caches.read()[0].phase is CachePhase.ASLEEP


def test_groups_are_steered_each_for_itself():
    world, caches = a_service(CacheSpec(name="g", team="t", workers=1), CacheSpec(name="h", team="u", workers=1))
    caches.resize("g", workers=3)
    play(world, 600)
    assert [(c.name, c.workers_ready) for c in caches.read()] == [("g", 3), ("h", 1)]
