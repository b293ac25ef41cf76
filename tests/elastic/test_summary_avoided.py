"""What was not spent, against counterfactuals computed from the day's recorded figures."""

from datetime import timedelta

import pytest

from elastic.books import Books
from elastic.figures import Day
from elastic.ledger import SqlLedger
from elastic.ledger_books import LedgerBooks
from elastic.planning.policy import Money
from elastic.summary import BOUGHT_PEAK, BURST_AT_ONCE, EXCESS_ON_DEMAND, SAME_ON_DEMAND, avoided_usd, summary_text
from providers.facts import CapacityType
from tests.builders import NOW, a_policy
from tests.builders_site import Site, a_market, a_sim_job

WATCHED_H = 4.0


def watched(tmp_path, *, onprem_usd: float = 0.5) -> Day:
    """Four hours of a site of 32 GPUs: 48 are wanted at most, spot at 4 USD and on-demand at 16 USD a node of 8."""
    policy = a_policy(money=Money(onprem_usd_per_gpu_hour=onprem_usd))
    markets = [a_market(), a_market(capacity_type=CapacityType.ON_DEMAND, price_usd_per_hour=16.0)]
    jobs = [a_sim_job("home", 32, runs_s=9000.0), a_sim_job("more", 8), a_sim_job("last", 8, at_s=1800.0)]
    ledger = SqlLedger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    site = Site(jobs, policy=policy, markets=markets)
    books = Books(LedgerBooks(ledger))
    for _ in range(round(WATCHED_H * 12) + 1):
        (record,) = site.run(minutes=5, step_s=300)
        books.after_tick(record, site.controller.state, site.policy)
    books.write_down()
    kept = LedgerBooks(ledger).day(f"{NOW:%Y-%m-%d}")
    ledger.close()
    assert kept is not None
    return kept


def test_bought_peak_is_the_highest_excess_for_the_watched_hours_at_the_price_of_the_policy(tmp_path):
    day = watched(tmp_path)
    assert day.watched_h == pytest.approx(WATCHED_H)
    assert day.peak_excess_gpus == 16
    assert day.usd > 0
    assert avoided_usd(day)[BOUGHT_PEAK] == pytest.approx(16 * 0.5 * WATCHED_H - day.usd)


def test_the_excess_on_demand_costs_every_gpu_hour_above_the_site(tmp_path):
    day = watched(tmp_path)
    assert day.excess_gpu_h > 0
    assert avoided_usd(day)[EXCESS_ON_DEMAND] == pytest.approx(day.excess_gpu_h * 2.0 - day.usd)


def test_burst_at_once_costs_the_runs_of_jobs_that_found_the_site_full_and_a_boot_for_each(tmp_path):
    """Jobs `more` and `last` of 8 GPUs, two hours each, boots of 4 min; ticks of 5 min see a run to within one."""
    day = watched(tmp_path)
    assert day.at_once_gpu_h == pytest.approx(16 * 2.0 + 16 * 240 / 3600, abs=16 * 5 / 60)
    assert avoided_usd(day)[BURST_AT_ONCE] == pytest.approx(day.at_once_gpu_h * 2.0 - day.usd)


def test_without_an_on_prem_price_bought_peak_is_not_known_and_the_others_are(tmp_path):
    found = avoided_usd(watched(tmp_path, onprem_usd=0.0))
    assert found[BOUGHT_PEAK] is None
    assert found[BURST_AT_ONCE] is not None


def test_an_hour_without_an_on_demand_price_leaves_only_bought_peak():
    day = Day(day="2026-12-01", watched_h=2.0, peak_excess_gpus=8, onprem_usd_per_gpu_hour=1.0, unpriced_gpu_h=3.0)
    assert avoided_usd(day) == {EXCESS_ON_DEMAND: None, BURST_AT_ONCE: None, SAME_ON_DEMAND: None, BOUGHT_PEAK: 16.0}


def test_every_counterfactual_is_named_in_the_text_also_where_it_is_not_known():
    told = summary_text(Day(day="2026-12-01", until=NOW + timedelta(hours=1)))
    for name in (EXCESS_ON_DEMAND, BURST_AT_ONCE, SAME_ON_DEMAND, BOUGHT_PEAK):
        assert f"against: {name}" in told
    assert "not known" in told
