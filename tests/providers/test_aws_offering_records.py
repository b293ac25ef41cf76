"""AWS's answers to rows: whatever is missing or wrong costs its own row, with a word, and nothing else."""

import json
from math import isfinite

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.aws.offering_records import (
    hardware_rows,
    model_name,
    price_rows,
    quota_rows,
    reservation_rows,
    score_rows,
    spot_rows,
    zone_id_rows,
    zone_rows,
)
from tests.builders import NOW
from tests.providers.aws_market import a_list_item, a_reservation, a_spot_row, a_type

GOOD = {
    "hardware": (hardware_rows, a_type()),
    "zone": (zone_rows, {"InstanceType": "p5.48xlarge", "Location": "us-east-1a"}),
    "zone id": (zone_id_rows, {"ZoneId": "use1-az1", "ZoneName": "us-east-1a"}),
    "score": (score_rows, {"AvailabilityZoneId": "use1-az1", "Region": "us-east-1", "Score": 3}),
    "spot": (spot_rows, a_spot_row()),
    "price": (lambda items: price_rows(items, region="us-east-1"), json.loads(a_list_item())),
    "reservation": (reservation_rows, a_reservation(EndDate=NOW, ReservationType="capacity-block")),
    "quota": (lambda items: quota_rows(items[0]), {"Quota": {"QuotaCode": "L-1", "Value": 96.0}}),
}
NONSENSE = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just([]) | st.just({})
    | st.just([{}]) | st.just(NOW.replace(tzinfo=None))
)  # fmt: skip


def places(value, path=()):
    """The path of every field in a nest of objects and lists."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inner:
        yield (*path, key)
        yield from places(below, (*path, key))


def changed(value, path, new, *, remove):
    """A copy with the field at `path` removed or replaced."""
    copy = dict(value) if isinstance(value, dict) else list(value)
    if len(path) > 1:
        copy[path[0]] = changed(copy[path[0]], path[1:], new, remove=remove)
    elif remove:
        del copy[path[0]]
    else:
        copy[path[0]] = new
    return copy


CASES = [(kind, path) for kind, (_, good) in GOOD.items() for path in places(good)]


@pytest.mark.parametrize("kind", GOOD)
def test_a_good_row_is_read(kind):
    read, good = GOOD[kind]
    assert len(read([good]).rows) == 1
    assert read([good]).trouble == ()


@settings(max_examples=500, deadline=None)
@given(case=st.sampled_from(CASES), new=NONSENSE, remove=st.booleans())
def test_a_field_that_is_missing_or_wrong_costs_at_most_its_row(case, new, remove):
    kind, path = case
    read, good = GOOD[kind]
    bad = changed(good, path, new, remove=remove)
    found = read([bad])
    assert len(found.rows) + len(found.trouble) <= 1
    if kind != "quota":
        assert len(read([bad, good]).rows) == len(found.rows) + 1, "the row beside it stays"
    for row in found.rows:
        amounts = [getattr(row, name) for name in getattr(row, "__slots__", ())] or [row]
        flat = [x for part in amounts for x in (part if isinstance(part, tuple) else (part,))]
        assert all(isfinite(x) and x >= 0 for x in flat if isinstance(x, int | float))
        assert all(flat_text for flat_text in flat if isinstance(flat_text, str))


@settings(max_examples=200, deadline=None)
@given(kind=st.sampled_from(list(GOOD)), row=NONSENSE)
def test_a_row_that_is_no_object_is_left_out_with_a_word(kind, row):
    found = GOOD[kind][0]([row])
    assert found.rows == ()
    assert len(found.trouble) == 1


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (("VCpuInfo",), "p4d.24xlarge without VCpuInfo.DefaultVCpus"),
        (("MemoryInfo", "SizeInMiB"), "p4d.24xlarge without MemoryInfo.SizeInMiB"),
        (("GpuInfo", "Gpus", 0, "Name"), "p4d.24xlarge without Name"),
    ],
)
def test_the_word_names_the_type_and_the_field(path, words):
    assert hardware_rows([changed(a_type(), path, None, remove=True)]).trouble == (f"instance type left out: {words}",)


def test_a_share_of_a_gpu_and_no_gpu_are_no_gpu_machines():
    share = a_type("g6f.xlarge", gpus=0)
    none = {name: value for name, value in a_type("m7i.large").items() if name != "GpuInfo"}
    assert hardware_rows([share, none]).rows == hardware_rows([share, none]).trouble == ()


@pytest.mark.parametrize(
    ("network", "gbps"),
    [
        ({"NetworkPerformance": "3200 Gigabit"}, 3200.0),
        ({"NetworkPerformance": "4x 100 Gigabit"}, 400.0),
        ({"NetworkPerformance": "Up to 10 Gigabit", "NetworkCards": [{"BaselineBandwidthInGbps": 2.5}]}, 2.5),
        ({"NetworkPerformance": "Up to 10 Gigabit"}, 0.0),
        ({"NetworkPerformance": "High"}, 0.0),
        (None, 0.0),
    ],
)
def test_the_network_is_what_it_has_at_all_times(network, gbps):
    assert hardware_rows([a_type() | {"NetworkInfo": network}]).rows[0].network_gbps == gbps


@pytest.mark.parametrize(
    ("name", "ours"),
    [("A100", "a100"), ("L40S", "l40s"), ("T4g", "t4g"), ("RTX PRO Server 6000", "rtx-pro-6000"), ("X9 Max", "x9-max")],
)
def test_a_gpu_model_has_one_name_and_a_new_one_its_own(name, ours):
    assert model_name(name) == ours
    assert model_name(ours) == ours


def test_a_feed_that_is_all_wrong_is_told_in_a_few_words():
    found = spot_rows([{} for _ in range(5000)])
    assert len(found.trouble) == 6
    assert found.trouble[-1] == "and 4995 more like these"
