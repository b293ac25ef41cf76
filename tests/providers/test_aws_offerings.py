"""What can be rented: types by name and by GPU, zones, quotas, reservations, scores, and how often AWS is asked."""

from datetime import timedelta

import pytest

from providers.facts import CapacityType, InstanceState
from tests.builders import NOW, an_instance
from tests.providers.aws_market import DAY, SUBNETS, Desk, Market, a_reservation, a_spot_row, a_type

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
SPOT_A, SPOT_B = "p4d.24xlarge/us-east-1a/spot", "p4d.24xlarge/us-east-1b/spot"
ON_DEMAND_A = "p4d.24xlarge/us-east-1a/on-demand"


def test_a_named_type_is_offered_in_each_zone_and_market_with_what_it_has():
    offerings = Desk().by_key()
    assert set(offerings) == {f"p4d.24xlarge/us-east-1{z}/{m}" for z in "ab" for m in ("spot", "on-demand")}
    spot, on_demand = offerings[SPOT_B], offerings[ON_DEMAND_A]
    assert (spot.price_usd_per_hour, spot.price_source, spot.priced_at) == (7.25, "spot price history", NOW)
    assert (on_demand.price_usd_per_hour, on_demand.price_source, on_demand.estimated) == (22.0, "price list", False)
    assert (spot.cloud, spot.region, spot.gpus, spot.gpu_model, spot.cpus) == ("aws", "us-east-1", 8, "a100", 96)
    assert (spot.memory_gib, spot.gpu_memory_gib, spot.network_gbps) == (1152.0, 40.0, 400.0)
    assert spot.local_nvme_gib == pytest.approx(8000e9 / 2**30)


def test_a_type_that_never_existed_is_offered_with_a_gpu_that_never_existed():
    market = Market()
    market.types += [a_type("q9.8xlarge", model="X1000 Ultra", gpus=4), a_type("c7i.large") | {"GpuInfo": None}]
    market.zones.append(("q9.8xlarge", "us-east-1b"))
    market.spot.append(a_spot_row("q9.8xlarge", "us-east-1b", usd="3.5"))
    offerings = Desk(market, instance_types=(), gpu_models=("x1000-ultra",)).by_key()
    assert set(offerings) == {"q9.8xlarge/us-east-1b/spot", "q9.8xlarge/us-east-1b/on-demand"}
    spot, on_demand = offerings["q9.8xlarge/us-east-1b/spot"], offerings["q9.8xlarge/us-east-1b/on-demand"]
    assert (spot.price_usd_per_hour, spot.gpus, spot.gpu_model) == (3.5, 4, "x1000-ultra")
    assert (on_demand.price_usd_per_hour, on_demand.price_source) == (None, "no price known")


def test_a_new_type_comes_with_the_next_look_and_is_priced_at_once():
    market = Market()
    desk = Desk(market, instance_types=(), gpu_models=("a100",))
    desk.read()
    market.types.append(a_type("p4x.48xlarge", cpus=192))
    market.zones.append(("p4x.48xlarge", "us-east-1a"))
    market.spot.append(a_spot_row("p4x.48xlarge", usd="9.0", at=NOW - 2 * DAY))
    assert "p4x.48xlarge/us-east-1a/spot" not in desk.by_key(6 * HOUR - MINUTE)
    assert desk.by_key(MINUTE)["p4x.48xlarge/us-east-1a/spot"].price_usd_per_hour == 9.0


def test_a_gpu_is_called_as_the_policy_calls_it():
    assert {o.gpu_model for o in Desk(instance_types=(), gpu_models=("A100",)).read()} == {"A100"}


def test_only_zones_that_offer_the_type_and_have_a_subnet_are_used():
    market = Market()
    market.zones = [("p4d.24xlarge", "us-east-1b"), ("p4d.24xlarge", "us-east-1f")]
    assert {o.zone for o in Desk(market).read()} == {"us-east-1b"}


def test_a_type_that_is_not_to_be_had_is_said_with_what_to_do():
    market = Market()
    market.zones = [("p4d.24xlarge", "us-east-1f")]
    desk = Desk(market, instance_types=("p4d.24xlarge", "p99.huge"), gpu_models=("b900",))
    assert desk.read() == ()
    assert "p99.huge, which a pool names, is not sold in us-east-1" in desk.trouble
    assert "nothing in us-east-1 has a GPU b900" in desk.trouble
    assert "p4d.24xlarge is offered in us-east-1f, where we have no subnet; add one there" in desk.trouble


def test_the_same_tuple_is_told_while_nothing_changes():
    desk = Desk()
    first = desk.read()
    assert desk.read(10 * MINUTE / 60) is first
    assert desk.read(5 * MINUTE) is not first


def test_a_steady_day_costs_far_less_than_a_call_a_tick():
    desk = Desk()
    desk.read()
    begun = sum(desk.market.counts.values())
    for _ in range(8640):
        desk.read(timedelta(seconds=10))
    asked = sum(desk.market.counts.values()) - begun
    assert asked / 8640 < 0.1
    assert desk.market.counts["describe_spot_price_history"] == pytest.approx(288, abs=2)
    assert desk.book.trouble == ()


def test_a_pool_without_wishes_asks_nothing():
    desk = Desk(instance_types=())
    assert desk.read() == ()
    assert set(desk.market.counts) <= {"describe_capacity_reservations"}


# Quotas


def test_the_quota_in_vcpus_leaves_whole_nodes_in_each_market():
    offerings = Desk().by_key()
    assert offerings[ON_DEMAND_A].quota_nodes == 10
    assert offerings[SPOT_A].quota_nodes == 2


def test_what_runs_is_taken_off_its_own_market_only():
    desk = Desk()
    desk.read()
    ours = [
        an_instance("i-1", instance_type="p4d.24xlarge", capacity_type=CapacityType.SPOT),
        an_instance(
            "i-2", instance_type="p4d.24xlarge", capacity_type=CapacityType.SPOT, state=InstanceState.TERMINATED
        ),
        an_instance("i-3", instance_type="p4d.24xlarge", capacity_type=CapacityType.RESERVED),
    ]
    desk.book.running(ours)
    left = desk.by_key()
    assert (left[SPOT_A].quota_nodes, left[ON_DEMAND_A].quota_nodes) == (1, 9)
    told = desk.read()
    desk.book.running(ours)
    assert desk.read() is told


def test_p5_on_spot_has_a_quota_of_its_own_where_the_account_knows_it():
    market = Market()
    market.types, market.zones = [a_type("p5.48xlarge", model="H100", cpus=192)], [("p5.48xlarge", "us-east-1a")]
    market.quotas = {"L-7212CCBC": 960.0, "L-C4BD4855": 384.0}
    key = "p5.48xlarge/us-east-1a/spot"
    assert Desk(market, instance_types=("p5.48xlarge",)).by_key()[key].quota_nodes == 2
    del market.quotas["L-C4BD4855"]
    assert Desk(market, instance_types=("p5.48xlarge",)).by_key()[key].quota_nodes == 5


def test_a_quota_of_zero_leaves_nothing_and_says_so():
    market = Market()
    market.quotas["L-7212CCBC"] = 0.0
    desk = Desk(market)
    assert desk.by_key()[SPOT_A].quota_nodes == 0
    assert "All P Spot Instance Requests (L-7212CCBC) is 0: ask AWS to raise it" in desk.trouble


def test_an_unknown_quota_is_not_zero():
    market = Market()
    market.quotas = {}
    desk = Desk(market)
    assert {o.quota_nodes for o in desk.read()} == {None}
    assert "no limit told for Running On-Demand P instances, All P Spot Instance Requests" in desk.trouble


# Pool age


def test_an_offering_that_was_dry_is_young_again():
    desk = Desk()
    assert desk.by_key()[SPOT_A].zone_up_since is None
    desk.book.capacity_seen(SPOT_A, NOW)
    assert desk.by_key()[SPOT_A].zone_up_since is None, "never dry as far as we know: not young"
    desk.book.capacity_error(SPOT_A, NOW + MINUTE)
    assert desk.by_key()[SPOT_A].zone_up_since == NOW + MINUTE
    desk.book.capacity_seen(SPOT_A, NOW + HOUR)
    desk.book.capacity_seen(SPOT_A, NOW + 2 * HOUR)
    assert desk.by_key()[SPOT_A].zone_up_since == NOW + HOUR
    assert desk.by_key()[SPOT_B].zone_up_since is None


# Reservations


def test_a_reservation_is_offered_with_what_is_free_at_the_price_its_bill_shows():
    market = Market()
    market.reservations = [a_reservation()]
    desk = Desk(market)
    kept = desk.by_key()["p4d.24xlarge/us-east-1a/reserved"]
    assert (kept.reservation_id, kept.quota_nodes, kept.starts_at, kept.ends_at) == ("cr-1", 3, None, None)
    assert (kept.price_usd_per_hour, kept.price_source) == (22.0, "price list, reserved: paid whether used or not")
    assert not kept.estimated
    assert market.last("describe_capacity_reservations")["Filters"] == [
        {"Name": "tag:elastic:owner", "Values": ["quant"]}
    ]


def test_a_capacity_block_is_there_from_its_start_to_its_end_and_is_paid_already():
    market = Market()
    starts_at, ends_at = NOW + HOUR, NOW + DAY
    market.reservations = [
        a_reservation(
            ReservationType="capacity-block", State="scheduled", AvailableInstanceCount=0, StartDate=starts_at,
            EndDate=ends_at,
        )
    ]  # fmt: skip
    desk = Desk(market)
    key = "p4d.24xlarge/us-east-1a/reserved"
    block = desk.by_key()[key]
    assert (block.starts_at, block.ends_at, block.quota_nodes) == (starts_at, ends_at, 4)
    assert (block.price_usd_per_hour, block.price_source) == (0.0, "capacity block, paid in advance")
    reserved = CapacityType.RESERVED
    assert desk.book.price_of("p4d.24xlarge", "us-east-1a", reserved, starts_at)[0] == 0.0
    assert desk.book.price_of("p4d.24xlarge", "us-east-1a", reserved, NOW)[0] == 22.0, "not begun: no block pays it"
    assert key in desk.by_key(DAY - MINUTE)
    assert key not in {o.key for o in desk.book.offerings(ends_at)}, "its end comes whether AWS answers or not"
    market.reservations = []
    desk.read(HOUR)
    assert desk.book.price_of("p4d.24xlarge", "us-east-1a", reserved, ends_at - MINUTE)[0] == 0.0


def test_a_reservation_that_is_gone_or_fits_no_pool_is_not_offered():
    market = Market()
    market.reservations = [
        a_reservation(),
        a_reservation("cr-2", zone="us-east-1f"),
        a_reservation("cr-3", "p5.48xlarge"),
    ]
    market.reservations += [a_reservation("cr-4", State="expired"), a_reservation("cr-5", InstancePlatform="Windows")]
    desk = Desk(market)
    assert [o.reservation_id for o in desk.read() if o.reservation_id] == ["cr-1"]
    assert "cr-2 (p4d.24xlarge in us-east-1f) fits no pool" in desk.trouble
    market.reservations = [a_reservation("cr-6", EndDate=NOW + DAY)]
    assert [o.reservation_id for o in desk.read(5 * MINUTE) if o.reservation_id] == ["cr-6"]
    market.reservations = []
    assert not [o for o in desk.read(5 * MINUTE) if o.reservation_id], "cancelled before its end"


# Scores


def test_scores_are_asked_only_where_wanted_and_only_for_three_types_or_more():
    market = Market()
    names = ["p4d.24xlarge", "p4x.24xlarge", "p4y.24xlarge"]
    market.types = [a_type(name) for name in names]
    market.zones = [(name, zone) for name in names for zone in SUBNETS]
    market.scores = [{"AvailabilityZoneId": "use1-az6", "Region": "us-east-1", "Score": 9}]
    Desk(market, instance_types=names).read()
    assert not market.counts["get_spot_placement_scores"]
    offerings = Desk(market, instance_types=tuple(names), wants_scores=True).read()
    assert {(o.zone, o.score) for o in offerings if o.capacity_type is CapacityType.SPOT} == {
        ("us-east-1a", None), ("us-east-1b", 9)
    }  # fmt: skip
    assert {o.score for o in offerings if o.capacity_type is CapacityType.ON_DEMAND} == {None}
    asked = market.last("get_spot_placement_scores")
    assert (asked["SingleAvailabilityZone"], asked["RegionNames"]) == (True, ["us-east-1"])
    few = Market()
    Desk(few, wants_scores=True).read()
    assert not few.counts["get_spot_placement_scores"]
