"""Our day against the bill: the difference, its likely causes with their amounts, and when the bill is asked."""

from datetime import UTC, date, datetime, timedelta

import pytest

from elastic.costs import IDLE, JOB, MINIMUM, UNWATCHED, Cost, CostKey
from elastic.costs_bills import reconcile_due
from elastic.costs_ledger import CostsLedger
from elastic.figures import Day
from elastic.ledger import SqlLedger
from elastic.ledger_books import LedgerBooks
from elastic.ledger_port import LedgerError
from elastic.ledger_tables import RECONCILIATIONS
from elastic.planning.cost import LAST_GOOD, NO_PRICE
from elastic.reconcile import reconcile, reconciliation_line
from elastic.service_beats import slow_beats
from providers.errors import AccessDenied
from providers.facts import BilledDay
from tests.builders import a_policy

DAY = date(2026, 12, 1)
LATE = datetime(2026, 12, 5, 8, 0, tzinfo=UTC)


def a_cost(usd, *, seconds=3600.0, **changes):
    parts = {
        "day": "2026-12-01", "cloud": "aws", "pool": "burst", "team": "", "job": "j", "spent_on": JOB,
        "offering": "x/a/spot", "source": "spot price history", "estimated": False,
    }  # fmt: skip
    return CostKey(**{**parts, **changes}), Cost(seconds, usd)


def a_billed(usd, *, other=(), **changes):
    machines = (("SpotUsage:x", usd),) if usd else ()
    parts = {
        "cloud": "aws", "day": DAY, "usd": usd + sum(amount for _, amount in other), "by_usage": (*machines, *other),
        "compute": frozenset({"SpotUsage:x"}), "source": "AWS Cost Explorer",
    }  # fmt: skip
    return BilledDay(**{**parts, **changes})


def held(billed, *ours, watched_h=24.0, made_at=LATE):
    return reconcile(billed, ours, watched_h=watched_h, made_at=made_at)


def test_a_day_that_agrees_to_the_cent_has_no_cause_to_tell():
    found = held(a_billed(100.0), a_cost(99.9))
    assert (found.agrees, found.causes, found.is_final) == (True, (), True)
    assert found.difference_usd == pytest.approx(0.1)
    assert found.share == pytest.approx(0.001)


def test_what_is_billed_beside_machines_is_named_and_not_taken_for_a_difference():
    found = held(a_billed(100.0, other=(("EBS:VolumeUsage.gp3", 7.0), ("DataTransfer-Out-Bytes", 3.0))), a_cost(100.0))
    assert found.agrees
    assert found.causes == (
        "10.00 USD billed beside machines, not costed here: EBS:VolumeUsage.gp3 7.00, DataTransfer-Out-Bytes 3.00",
    )


def test_estimated_prices_are_a_cause_with_their_share_and_source():
    found = held(a_billed(100.0), a_cost(40.0, estimated=True, source=LAST_GOOD), a_cost(40.0))
    assert not found.agrees
    assert found.causes == (f"50 % of ours rests on estimated prices ({LAST_GOOD} 40.00 USD)",)


def test_hours_nobody_watched_and_hours_without_a_price_are_causes():
    found = held(
        a_billed(100.0),
        a_cost(50.0, spent_on=UNWATCHED, estimated=True),
        a_cost(0.0, seconds=7200.0, source=NO_PRICE, estimated=True),
        watched_h=20.5,
    )
    told = "; ".join(found.causes)
    assert "3.5 h of the day were not watched" in told
    assert "50.00 USD of ours fill times without a tick" in told
    assert "2.0 node-hours had no price at all" in told
    assert "another controller" not in told


def test_minutes_begun_are_a_cause_where_they_cost_something():
    found = held(a_billed(90.0), a_cost(95.0), a_cost(5.0, spent_on=MINIMUM))
    assert "5.00 USD of ours are minutes begun by machines that lived shorter" in found.causes


def test_a_bill_higher_than_everything_we_know_points_at_machines_we_never_saw():
    (cause,) = held(a_billed(200.0), a_cost(100.0)).causes
    assert "another controller of the same name" in cause


def test_a_bill_lower_than_well_known_prices_points_at_a_discount():
    (cause,) = held(a_billed(70.0), a_cost(100.0, spent_on=IDLE)).causes
    assert "discount" in cause


def test_an_empty_bill_points_at_the_cost_allocation_tag():
    found = held(a_billed(0.0), a_cost(100.0))
    assert found.share is None
    assert "cost allocation tag" in found.causes[0]


@pytest.mark.parametrize(
    ("made_at", "told_final", "is_final"),
    [
        (datetime(2026, 12, 3, 23, 59, tzinfo=UTC), True, False),
        (datetime(2026, 12, 4, 0, 0, tzinfo=UTC), True, True),
        (datetime(2026, 12, 9, 0, 0, tzinfo=UTC), False, False),
    ],
)
def test_a_bill_is_final_when_it_says_so_and_two_days_have_passed(made_at, told_final, is_final):
    found = held(a_billed(50.0, is_final=told_final), a_cost(100.0), made_at=made_at)
    assert found.is_final is is_final
    assert any("not final" in cause for cause in found.causes) is not is_final


def test_the_line_tells_both_sums_the_difference_and_the_causes():
    line = reconciliation_line(held(a_billed(80.0), a_cost(100.0, estimated=True)))
    assert line.startswith("2026-12-01 aws: ours 100.00 USD, AWS Cost Explorer 80.00 USD for machines, 80.00 in all")
    assert "differ by -20.00 USD (-25.0 %)" in line
    assert "100 % of ours rests on estimated prices" in line


# The beat


class Explorer:
    """A bill by day, and which days were asked for."""

    def __init__(self, usd, *, cloud="aws", is_final=True, trouble=None):
        self.cloud, self.usd, self.is_final, self.trouble, self.asked = cloud, usd, is_final, trouble, []

    def __call__(self, day):
        self.asked.append(day.isoformat())
        if self.trouble is not None:
            raise self.trouble
        return a_billed(self.usd, cloud=self.cloud, day=day, is_final=self.is_final)


@pytest.fixture
def books(tmp_path):
    """Watched from November 20 to December 8; 100 USD on each of two clouds on December 1."""
    ledger = SqlLedger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    kept = LedgerBooks(ledger)
    for number in range(19):
        kept.put_day(Day(day=f"{date(2026, 11, 20) + timedelta(days=number)}", watched_h=24.0))
    both = dict((a_cost(100.0), a_cost(100.0, cloud="other")))
    kept.costs.add(both, until=LATE)
    yield kept
    ledger.close()


def test_days_are_asked_for_from_two_days_after_them_and_each_only_until_its_bill_is_final(books):
    explorer = Explorer(100.0)
    lines = reconcile_due(LATE, bills={"aws": explorer}, books=books)
    assert explorer.asked == ["2026-11-28", "2026-11-29", "2026-11-30", "2026-12-01", "2026-12-02", "2026-12-03"]
    assert len(lines) == 6
    explorer.asked.clear()
    reconcile_due(LATE + timedelta(days=1), bills={"aws": explorer}, books=books)
    assert explorer.asked == ["2026-12-03", "2026-12-04"]  # the third was looked at before its two days were over


def test_each_cloud_is_held_against_its_own_costs(books):
    reconcile_due(LATE, bills={"aws": Explorer(100.0), "other": Explorer(150.0, cloud="other")}, books=books)
    found = {r.cloud: r for r in books.costs.reconciliations("2026-12-01", "2026-12-01")}
    assert {name: r.ours_usd for name, r in found.items()} == {"aws": 100.0, "other": 100.0}
    assert (found["aws"].agrees, found["other"].agrees) == (True, False)


def test_a_bill_that_is_denied_costs_one_question_a_day_and_stops_no_other_cloud(books):
    denied, other = Explorer(0.0, trouble=AccessDenied("ce:GetCostAndUsage")), Explorer(100.0)
    lines = reconcile_due(LATE, bills={"aws": denied, "other": other}, books=books)
    assert len(denied.asked) == 1
    assert lines[0] == "aws: the bill was not read, asked again tomorrow: access_denied: ce:GetCostAndUsage"
    assert len(other.asked) == 6


def test_a_later_look_replaces_an_earlier_one(books):
    reconcile_due(LATE, bills={"aws": Explorer(50.0, is_final=False)}, books=books)
    reconcile_due(LATE + timedelta(days=1), bills={"aws": Explorer(100.0)}, books=books)
    (found,) = books.costs.reconciliations("2026-12-01", "2026-12-01")
    assert (found.billed_usd, found.is_final) == (100.0, True)


def test_a_damaged_reconciliation_is_told_by_its_days(books, tmp_path):
    reconcile_due(LATE, bills={"aws": Explorer(50.0)}, books=books)
    ledger = SqlLedger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    with ledger.engine.begin() as connection:
        connection.execute(RECONCILIATIONS.update().values(figures="{"))
    with pytest.raises(LedgerError, match="2026-12-01"):
        CostsLedger(ledger.engine).reconciliations("2026-12-01", "2026-12-01")
    ledger.close()


def test_the_service_reconciles_daily_where_a_bill_can_be_asked_and_not_elsewhere(books, tmp_path):
    ledger, said, explorer = SqlLedger(f"sqlite:///{tmp_path / 'ledger.sqlite'}"), [], Explorer(100.0)
    parts = {"policy": a_policy, "books": None, "desk": None, "ledger": ledger, "say": said.append}
    beats = {b.name: b for b in slow_beats(**parts, bills={"aws": explorer})}
    note = beats["reconciliation"].run(LATE)
    assert len(said) == 6
    assert "they agree" in note
    assert "reconciliation" not in {b.name for b in slow_beats(**parts)}
    ledger.close()
