"""Markets that follow given series: when a node can be had, what it costs, what is lost when a zone turns dry."""

import pytest

from providers.facts import CapacityType, InstanceState, LaunchRequest
from providers.sim.adapters import SimCloud, site_world
from providers.sim.cloud import NOTICE_S, SimulatedCloud
from providers.sim.spot_markets import SpotMarkets, SpotSeries, usd_between, value_at
from providers.sim.world import instant
from tests.builders import NOW
from tests.builders_site import a_market

START_S = NOW.timestamp() // 3600 * 3600
UP, DRY = 1.0, 0.0


class Place:
    """Zones that follow series (in seconds from the start), and a port to rent there."""

    def __init__(self, loss_share=1.0, prices=((0.0, 4.0),), **ups):
        self.world = site_world([], start_s=START_S, pools=[("onprem", 1, 8, "gpu", 0, 0.0)])
        markets = [a_market(zone=z, dry_loss_share=loss_share, follows_series=True) for z in ups]
        self.cloud = SimulatedCloud(self.world, markets)
        self.port, self.spot = SimCloud(self.cloud), SpotMarkets(self.cloud)
        self.spot.follow(SpotSeries(key=m.key, ups=moved(ups[m.zone]), prices=moved(prices)) for m in markets)
        self.tokens = 0

    def play(self, seconds):
        self.world.advance_to(START_S + seconds)

    def rent(self, zone, nodes=1):
        self.tokens += 1
        offerings = tuple(o for o in self.port.read().offerings if o.zone == zone)
        return self.port.launch(
            LaunchRequest(
                token=f"t{self.tokens}", pool="burst", cluster="main", nodes=nodes, gang=False, offerings=offerings
            )
        ).instances

    def offering(self, zone):
        return next(o for o in self.port.read().offerings if o.zone == zone)


def moved(steps):
    return tuple((START_S + at_s, value) for at_s, value in steps)


def test_a_node_can_be_had_only_while_the_series_says_so():
    place = Place(a=((0, DRY), (600, UP), (1200, DRY)))
    had = []
    for at_s in (0, 599, 600, 1199, 1200):
        place.play(at_s)
        had.append(len(place.rent("a")))
    assert had == [0, 0, 1, 1, 0]


def test_a_zone_that_turns_dry_takes_its_machines_after_two_minutes_and_leaves_the_other_zones_theirs():
    place = Place(a=((0, UP), (3600, DRY)), b=((0, UP),))
    lost, kept = place.rent("a", 3), place.rent("b", 2)
    place.play(3600)
    notices = place.port.read().interruptions
    assert {n.instance_id for n in notices} == {i.id for i in lost}
    assert {n.ends_at for n in notices} == {instant(START_S + 3600 + NOTICE_S)}
    place.play(3600 + NOTICE_S)
    assert {i.id for i in place.port.read().instances} == {i.id for i in kept}
    assert [(loss.at_s, set(loss.instance_ids)) for loss in place.spot.losses] == [
        (START_S + 3600, {i.id for i in lost})
    ]


def test_a_zone_may_turn_dry_for_new_nodes_alone():
    place = Place(loss_share=0.0, a=((0, UP), (600, DRY)))
    held = place.rent("a", 2)
    place.play(3600)
    assert not place.rent("a")
    assert place.spot.losses == []
    assert {i.id for i in place.port.read().instances if i.state is InstanceState.RUNNING} == {i.id for i in held}


def test_the_age_of_a_zone_counts_from_its_last_return_and_repeated_readings_do_not_renew_it():
    place = Place(a=((0, UP), (600, DRY), (1200, UP), (1400, UP)))
    place.play(1800)
    assert place.offering("a").zone_up_since == instant(START_S + 1200)


def test_the_price_follows_its_series_and_a_machine_keeps_the_one_it_was_rented_at():
    place = Place(a=((0, UP),), prices=((-9000, 3.0), (600, 5.0)))
    (machine,) = place.rent("a")
    assert place.offering("a").price_usd_per_hour == 3.0
    place.play(600)
    assert place.offering("a").price_usd_per_hour == 5.0
    assert machine.price_usd_per_hour == 3.0


def test_on_demand_is_never_taken_back():
    world = site_world([], start_s=START_S, pools=[("onprem", 1, 8, "gpu", 0, 0.0)])
    market = a_market(capacity_type=CapacityType.ON_DEMAND, dry_loss_share=1.0, follows_series=True)
    cloud = SimulatedCloud(world, [market])
    spot = SpotMarkets(cloud)
    spot.follow([SpotSeries(key=market.key, ups=moved(((0, UP), (600, DRY))), prices=moved(((0, 4.0),)))])
    SimCloud(cloud).launch(
        LaunchRequest(token="t", pool="burst", cluster="main", nodes=2, gang=False, offerings=cloud.offerings())
    )
    world.advance_to(START_S + 7200)
    assert len(cloud.instances()) == 2
    assert spot.losses == []


@pytest.mark.parametrize(
    ("from_s", "to_s", "usd"),
    [(0, 3600, 2.0), (0, 7200, 6.0), (1800, 5400, 3.0), (5400, 5400, 0.0), (-3600, 0, 2.0), (9000, 12600, 4.0)],
)
def test_each_second_costs_what_held_then(from_s, to_s, usd):
    """2 USD an hour until 3,600 s, 4 from there on; before the first step its price holds too."""
    assert usd_between(((0, 2.0), (3600, 4.0)), from_s, to_s) == pytest.approx(usd)


def test_a_step_holds_from_its_own_second_on():
    steps = ((0.0, 1.0), (10.0, 2.0))
    assert [value_at(steps, at_s) for at_s in (-5, 0, 9.9, 10, 99)] == [1.0, 1.0, 1.0, 2.0, 2.0]
