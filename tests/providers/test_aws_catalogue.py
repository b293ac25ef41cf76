"""The bundled table of GPU types: whole and right, and a wrong row is told by line and field."""

from importlib import resources

import pytest

from providers.aws.catalogue import COLUMNS, catalogue, read_catalogue
from providers.aws.offering_records import hardware_rows

moto_types = pytest.importorskip("moto.ec2.models.instance_types", reason="moto is not installed")
TEXT = resources.files("providers.aws").joinpath("catalogue.csv").read_text(encoding="utf-8")
GOOD = "p9.xlarge,4,16,1,x1,24,125,5,1.5,0.3"


def table(*rows):
    return "\n".join(("instance_type,vcpus,memory_gib,gpus,gpu_model,gpu_memory_gib,local_nvme_gb,network_gbps,"
                      "on_demand_usd_per_hour,spot_share", *rows))  # fmt: skip


def test_every_row_of_the_table_can_be_read():
    rows, complaints = read_catalogue(TEXT)
    assert complaints == ()
    assert len(rows) == len(TEXT.splitlines()) - 1
    assert len(rows) >= 35
    assert catalogue() == rows


def test_only_the_type_that_is_not_sold_on_demand_has_no_price():
    without = {name for name, row in catalogue().items() if row.on_demand_usd_per_hour is None}
    assert without == {"p5e.48xlarge"}


def test_the_table_tells_the_same_hardware_as_ec2():
    """moto carries EC2's own answer; p3 is no longer in it."""
    told = {h.instance_type: h for h in hardware_rows(moto_types.INSTANCE_TYPES.values()).rows}
    compared = [name for name in catalogue() if name in told]
    assert len(compared) >= 40
    for name in compared:
        ours, theirs = catalogue()[name].hardware, told[name]
        assert (ours.cpus, ours.gpus, ours.gpu_model) == (theirs.cpus, theirs.gpus, theirs.gpu_model), name
        assert ours.memory_gib == theirs.memory_gib, name
        assert ours.gpu_memory_gib == pytest.approx(theirs.gpu_memory_gib, abs=0.1), name
        assert ours.local_nvme_gib == pytest.approx(theirs.local_nvme_gib), name
        assert ours.network_gbps == pytest.approx(theirs.network_gbps), name


def test_more_of_everything_in_one_family_costs_more():
    rows = list(catalogue().values())
    for small in rows:
        for large in rows:
            same = small.hardware.instance_type.split(".")[0] == large.hardware.instance_type.split(".")[0]
            more = large.hardware.gpus > small.hardware.gpus and large.hardware.cpus > small.hardware.cpus
            if same and more and small.on_demand_usd_per_hour:
                assert (large.on_demand_usd_per_hour or 0) > small.on_demand_usd_per_hour, large


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("p9.xlarge,4,16,0,x1,24,125,5,1.5,0.3", "line 2: gpus is '0'"),
        ("p9.xlarge,4,16,1.5,x1,24,125,5,1.5,0.3", "gpus is '1.5'; give a whole number"),
        ("p9.xlarge,4,16,1,,24,125,5,1.5,0.3", "gpu_model is empty"),
        ("p9.xlarge,4,16,1,x1,24,125,5,-1.5,0.3", "on_demand_usd_per_hour is '-1.5'"),
        ("p9.xlarge,4,16,1,x1,24,125,5,nan,0.3", "on_demand_usd_per_hour is 'nan'"),
        ("p9.xlarge,4,16,1,x1,24,125,5,1.5,1.3", "spot_share is 1.3"),
        ("p9.xlarge,4,16", "gpu_model is empty"),
    ],
)
def test_a_wrong_row_is_told_by_line_and_field_and_the_others_stay(row, words):
    rows, complaints = read_catalogue(table(row, "g9.xlarge,4,16,1,x1,24,125,5,1.5,0.3"))
    assert list(rows) == ["g9.xlarge"]
    assert len(complaints) == 1
    assert words in complaints[0]


def test_a_type_stands_in_the_table_once():
    rows, complaints = read_catalogue(table(GOOD, GOOD))
    assert len(rows) == 1
    assert complaints == ("catalogue.csv line 3: instance_type: p9.xlarge stands here twice",)


def test_a_table_without_a_column_is_no_table():
    for column in COLUMNS:
        rows, complaints = read_catalogue(table(GOOD).replace(column + ",", "x,", 1).replace(",spot_share", ",x"))
        assert rows == {}
        assert "no column" in complaints[0]
