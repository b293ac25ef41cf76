"""Prices of offerings: source and age, what held when, what serves while an API is down, and nonsense (F015)."""

from datetime import timedelta

import pytest

from providers.facts import CapacityType
from tests.builders import NOW
from tests.providers.aws_market import DAY, Desk, Market, a_list_item, a_spot_row, a_type

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
A, B = "p4d.24xlarge/us-east-1a/spot", "p4d.24xlarge/us-east-1b/spot"
ON_DEMAND = "p4d.24xlarge/us-east-1a/on-demand"
SPOT, LIST = CapacityType.SPOT, CapacityType.ON_DEMAND


def spot_at(desk, at, zone="us-east-1a"):
    return desk.book.price_of("p4d.24xlarge", zone, SPOT, at)


def test_a_spot_price_holds_from_its_instant_until_the_next_one():
    market = Market()
    market.spot = [a_spot_row(usd=usd, at=NOW - hours * HOUR) for usd, hours in (("5", 40), ("6", 20), ("7", 1))]
    desk = Desk(market)
    desk.read()
    assert market.last("describe_spot_price_history")["StartTime"] <= NOW - 3 * DAY
    assert spot_at(desk, NOW - 41 * HOUR) == (None, "no price known")
    assert spot_at(desk, NOW - 40 * HOUR) == (5.0, "spot price history")
    assert spot_at(desk, NOW - 20 * HOUR - MINUTE)[0] == 5.0
    assert spot_at(desk, NOW - 20 * HOUR)[0] == 6.0
    assert spot_at(desk, NOW)[0] == 7.0
    assert desk.by_key()[A].price_usd_per_hour == 7.0


def test_later_reads_ask_for_the_last_minutes_only_and_keep_what_is_known():
    market = Market()
    desk = Desk(market)
    desk.read()
    market.spot.append(a_spot_row(usd="8.0", at=NOW + 3 * MINUTE))
    offerings = desk.by_key(5 * MINUTE)
    asked = market.last("describe_spot_price_history")
    assert NOW - HOUR < asked["StartTime"] < NOW
    assert asked["ProductDescriptions"] == ["Linux/UNIX"]
    assert offerings[A].price_usd_per_hour == 8.0
    assert offerings[B].price_usd_per_hour == 7.25, "unchanged: carried forward"
    assert offerings[B].priced_at == NOW + 5 * MINUTE, "and known to hold until now"
    assert spot_at(desk, NOW)[0] == 6.5


def test_a_change_that_the_history_shows_late_is_found_and_told_once():
    market = Market()
    desk = Desk(market)
    desk.read()
    desk.read(5 * MINUTE)
    market.spot.append(a_spot_row(usd="8.0", at=NOW - 4 * MINUTE))
    desk.read(5 * MINUTE)
    desk.read(5 * MINUTE)
    assert spot_at(desk, NOW - 5 * MINUTE)[0] == 6.5
    assert spot_at(desk, NOW - 4 * MINUTE)[0] == 8.0


def test_the_past_is_forgotten_after_some_days_but_not_what_still_holds():
    market = Market()
    desk = Desk(market)
    for hour in range(1, 24 * 10):
        if hour < 24 * 9:
            market.spot.append(a_spot_row(usd=str(5 + hour % 3), at=NOW + hour * HOUR - MINUTE))
        desk.clock.at = NOW + hour * HOUR
        desk.read()
    kept = desk.book._prices._spot["p4d.24xlarge", "us-east-1a"].points
    assert len(kept) < 24 * 9
    assert spot_at(desk, desk.clock.at - 7 * DAY)[0] in (5.0, 6.0, 7.0)
    assert spot_at(desk, NOW)[0] is None
    assert spot_at(desk, desk.clock.at, "us-east-1b")[0] == 7.25


def test_a_feed_that_falls_silent_leaves_the_last_prices_with_their_age():
    market = Market()
    desk = Desk(market)
    desk.read()
    market.refused["describe_spot_price_history"] = "down"
    late = desk.by_key(26 * HOUR)[A]
    assert (late.price_usd_per_hour, late.priced_at, late.estimated) == (6.5, NOW, False)
    assert spot_at(desk, NOW + 26 * HOUR) == (6.5, "spot price history, last read 26.0 h before")
    assert "spot prices: unreachable" in desk.trouble
    assert "what is known is 26 h old" in desk.trouble
    del market.refused["describe_spot_price_history"]
    assert desk.by_key(10 * MINUTE)[A].priced_at == desk.clock.at
    assert desk.book.trouble == ()


@pytest.mark.parametrize("refusal", ["UnauthorizedOperation", "down", "RequestLimitExceeded", "NeverSeenBefore"])
def test_the_bundled_table_serves_when_nothing_answers_and_is_called_an_estimate(refusal):
    market = Market()
    operations = ("describe_instance_types", "describe_instance_type_offerings", "describe_spot_price_history",
                  "get_products", "get_service_quota", "describe_capacity_reservations")  # fmt: skip
    market.refused = dict.fromkeys(operations, refusal)
    desk = Desk(market, instance_types=(), gpu_models=("a100",))
    offerings = desk.by_key()
    assert {o.instance_type for o in offerings.values()} == {"p4d.24xlarge", "p4de.24xlarge"}
    spot, on_demand = offerings[A], offerings[ON_DEMAND]
    assert all(o.estimated and o.priced_at < NOW - 30 * DAY for o in offerings.values())
    assert (on_demand.price_usd_per_hour, on_demand.price_source) == (21.957642, "bundled table 2026-07 (us-east-1)")
    assert 0 < spot.price_usd_per_hour < on_demand.price_usd_per_hour
    assert "usual for spot" in spot.price_source
    assert spot.gpus == 8
    assert desk.trouble.count("bundled table 2026-07 serves") >= 1


def test_a_denied_source_is_asked_rarely_and_used_as_soon_as_the_right_is_there():
    market = Market()
    market.refused["get_products"] = "AccessDeniedException"
    desk = Desk(market)
    assert desk.by_key()[ON_DEMAND].estimated
    for _ in range(360):
        desk.read(timedelta(seconds=10))
    assert market.counts["get_products"] <= 7
    assert "on-demand prices: access_denied" in desk.trouble
    market.refused.clear()
    assert desk.by_key(10 * MINUTE)[ON_DEMAND].price_source == "price list"
    assert desk.book.trouble == ()


def test_a_region_that_is_down_is_not_asked_by_every_source_in_turn():
    market = Market()
    desk = Desk(market)
    desk.read()
    market.refused = dict.fromkeys(
        ("describe_spot_price_history", "describe_capacity_reservations", "describe_instance_type_offerings"), "down"
    )
    before = sum(market.counts.values())
    for _ in range(360):
        desk.read(timedelta(seconds=10))
    asked = sum(market.counts.values()) - before
    assert asked <= 40, "three attempts each, ever rarer"
    market.refused = {}
    desk.read(10 * MINUTE)
    market.refused = {"describe_spot_price_history": "down"}
    desk.read(5 * MINUTE)
    market.refused = {}
    desk.read(MINUTE)
    assert desk.book.trouble == (), "after an hour of silence that has ended a new one begins with a short pause"


# Nonsense


@pytest.mark.parametrize("usd", ["0", "0.0", "-3", "nan", "inf", "", "free", None, "0.00001", "4000"])
def test_a_spot_price_that_cannot_be_true_is_not_taken(usd):
    market = Market()
    market.spot[0] = a_spot_row(usd=usd)
    desk = Desk(market)
    offering = desk.by_key()[A]
    assert (offering.price_usd_per_hour, offering.estimated) == (None, False)
    assert desk.by_key()[B].price_usd_per_hour == 7.25
    assert "p4d.24xlarge in us-east-1a" in desk.trouble


@pytest.mark.parametrize("usd", ["0.0000000000", "-1", "0.0328", "NaN", "21957"])
def test_a_list_price_that_cannot_be_true_is_not_taken(usd):
    market = Market()
    market.price_list = [a_list_item(usd=usd)]
    desk = Desk(market)
    offering = desk.by_key()[ON_DEMAND]
    assert (offering.price_usd_per_hour, offering.estimated) == (21.957642, True)
    assert "p4d.24xlarge" in desk.trouble


def test_a_wrong_list_price_does_not_replace_the_good_one():
    market = Market()
    desk = Desk(market)
    desk.read()
    market.price_list = [a_list_item(usd="0.0328")]
    offering = desk.by_key(4 * HOUR)[ON_DEMAND]
    assert (offering.price_usd_per_hour, offering.priced_at) == (22.0, NOW)
    assert "0.0328 USD/h for p4d.24xlarge is not taken" in desk.trouble


def test_a_type_without_any_price_is_offered_without_one_never_for_nothing():
    market = Market()
    market.types.append(a_type("q9.8xlarge"))
    market.zones.append(("q9.8xlarge", "us-east-1a"))
    offerings = Desk(market, instance_types=("q9.8xlarge",)).read()
    assert [(o.price_usd_per_hour, o.price_source, o.estimated) for o in offerings] == [
        (None, "no price known", False)
    ] * 2


def test_a_zone_without_a_spot_price_has_none_while_the_history_answers():
    market = Market()
    market.spot = [a_spot_row()]
    offerings = Desk(market).by_key()
    assert offerings[A].price_usd_per_hour == 6.5
    assert offerings[B].price_usd_per_hour is None


def test_only_linux_in_our_region_on_demand_is_read_from_the_price_list():
    market = Market()
    market.price_list = [
        a_list_item(usd="40", system="Windows"),
        a_list_item(usd="30", region="eu-west-1"),
        a_list_item(),
    ]
    market.spot.append(a_spot_row(usd="20", at=NOW, product="Windows"))
    desk = Desk(market)
    offerings = desk.by_key()
    assert (offerings[ON_DEMAND].price_usd_per_hour, offerings[A].price_usd_per_hour) == (22.0, 6.5)
    asked = {f["Field"]: (f["Type"], f["Value"]) for f in market.last("get_products")["Filters"]}
    assert asked["instanceType"] == ("ANY_OF", "p4d.24xlarge")
    assert asked["regionCode"] == ("TERM_MATCH", "us-east-1")
    assert desk.book.trouble == ()


def test_a_zone_that_we_do_not_use_is_not_read():
    market = Market()
    market.spot.append(a_spot_row(zone="us-east-1f", usd="0.00001"))
    desk = Desk(market)
    desk.read()
    assert desk.book.trouble == ()
    assert desk.book.price_of("p4d.24xlarge", "us-east-1f", SPOT, NOW)[0] is None


def test_an_on_demand_price_that_changed_costs_each_hour_by_its_own():
    market = Market()
    desk = Desk(market)
    desk.read()
    market.price_list = [a_list_item(usd="18.5")]
    desk.read(3 * HOUR)
    prices = [desk.book.price_of("p4d.24xlarge", "us-east-1a", LIST, NOW + h * HOUR)[0] for h in (-5, 0, 2, 3, 9)]
    assert prices == [22.0, 22.0, 22.0, 18.5, 18.5]


def test_the_price_of_a_type_nobody_knows_is_none():
    desk = Desk()
    desk.read()
    for market in CapacityType:
        assert desk.book.price_of("q9.8xlarge", "us-east-1a", market, NOW)[0] is None
    assert desk.book.gpus_of("q9.8xlarge") == 0
    assert (desk.book.gpus_of("p4d.24xlarge"), desk.book.gpus_of("g5.xlarge")) == (8, 1)


def test_a_feed_that_is_all_nonsense_and_a_page_of_html_are_told_in_few_words():
    market = Market()
    names = tuple(f"q{n}.xlarge" for n in range(40))
    market.types = [a_type(name) for name in names]
    market.zones = [(name, zone) for name in names for zone in ("us-east-1a", "us-east-1b")]
    market.price_list = [a_list_item(name, usd="8") for name in names]
    market.spot = [a_spot_row(name, zone, usd="0.00001") for name, zone in market.zones]
    market.refused["describe_capacity_reservations"] = "<html>\n" + "<p>no</p>\n" * 500
    desk = Desk(market, instance_types=names)
    assert {o.price_usd_per_hour for o in desk.read()} == {None, 8.0}
    assert "and 75 more like these" in desk.trouble
    assert len(desk.book.trouble) < 10
    assert all(len(words) < 400 and "\n" not in words for words in desk.book.trouble)
