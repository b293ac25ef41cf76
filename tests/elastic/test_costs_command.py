"""`elastic costs`: the books' money for people and programs, and the bill beside it."""

import json
from datetime import timedelta

import pytest
from typer.testing import CliRunner

from elastic.books import Books
from elastic.cli import app
from elastic.costs_ledger import CostsLedger, total
from elastic.ledger import SqlLedger
from elastic.ledger_books import LedgerBooks
from elastic.planning.policy import Money, Team
from elastic.reconcile import reconcile
from providers.facts import BilledDay
from tests.builders import NOW, a_policy
from tests.builders_site import Site, a_sim_job

DAY = "2026-12-01"


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Seventeen hours of a small site over midnight: a long job on two rented nodes, its first day held against a bill;
    the last tick is half an hour after the last written hour."""
    data = tmp_path_factory.mktemp("service")
    ledger = SqlLedger(f"sqlite:///{data / 'ledger.sqlite'}")
    jobs = [
        a_sim_job("home", 32, runs_s=1e6, job_class="fixed", team="alpha"),
        a_sim_job("long", 8, at_s=1, runs_s=1e6, job_class="fixed", team="beta"),
        a_sim_job("small", 4, at_s=1, runs_s=1e6, job_class="fixed", team="alpha"),
    ]
    policy = a_policy(teams={"alpha": Team(), "beta": Team()}, money=Money(onprem_usd_per_gpu_hour=0.5))
    site = Site(jobs, ledger=ledger, policy=policy)
    books = Books(LedgerBooks(ledger))
    for _ in range(round(17.5 * 12)):
        (record,) = site.run(minutes=5, step_s=300)
        books.after_tick(record, site.controller.state, site.policy)
    costs = CostsLedger(ledger.engine)
    billed = BilledDay(
        cloud="sim", day=NOW.date(), usd=130.0, by_usage=(("SpotUsage:x", 120.0), ("EBS:VolumeUsage.gp3", 10.0)),
        compute=frozenset({"SpotUsage:x"}), source="AWS Cost Explorer",
    )  # fmt: skip
    costs.put_reconciliation(
        reconcile(billed, costs.rows(DAY, DAY), watched_h=15.0, made_at=NOW + timedelta(days=4))
    )  # fmt: skip
    ledger.close()
    return data


def costs(*options, code=0):
    told = CliRunner().invoke(app, ["costs", *(str(o) for o in options)])
    assert told.exit_code == code, told.output
    return told


def told_json(kept, *options):
    return json.loads(costs("--data", kept, "--format", "json", *options).stdout)


@pytest.mark.parametrize("by", ["team", "pool", "job", "day", "offering"])
def test_whatever_the_lines_are_their_sum_is_the_total(kept, by):
    report = told_json(kept, "--by", by)
    assert report["total"]["usd"] > 60
    for amount in ("usd", "node_h", "estimated_usd", "committed_usd"):
        assert sum(line[amount] for line in report["lines"]) == pytest.approx(report["total"][amount])


def test_a_month_is_the_sum_of_its_days_as_the_summaries_tell_them(kept):
    report = told_json(kept, "--month", "2026-12", "--by", "day")
    ledger = SqlLedger(f"sqlite:///{kept / 'ledger.sqlite'}")
    first, second = (LedgerBooks(ledger).day(day) for day in (DAY, "2026-12-02"))
    rows = CostsLedger(ledger.engine).rows(DAY, DAY)
    ledger.close()
    assert [line["name"] for line in report["lines"]] == [DAY, "2026-12-02"]
    assert [line["usd"] for line in report["lines"]] == [pytest.approx(first.usd), pytest.approx(second.usd)]
    assert first.usd == pytest.approx(total(rows).usd)


def test_jobs_pay_for_their_gpus_and_the_rest_is_named_by_what_it_was(kept):
    lines = {line["name"]: line for line in told_json(kept, "--by", "job")["lines"]}
    assert {"long", "small", "(idle)", "(booting)"} <= set(lines)
    assert lines["long"]["usd"] == pytest.approx(2 * lines["small"]["usd"], rel=0.01)
    assert "home" not in lines


def test_costs_since_the_last_written_hour_are_told_apart(kept):
    report = told_json(kept)
    assert report["written_until"].startswith("2026-12-02 02:00")
    assert report["unwritten_usd"] > 0


def test_the_text_names_currency_days_sources_and_the_bill(kept):
    told = costs("--data", kept, "--month", "2026-12").stdout
    for words in (
        "2026-12 (UTC days), in USD",
        "accrued USD",
        "committed USD",
        "total",
        "by the cloud's listing",
        "against: the same rented machines, on demand",
        f"bill: {DAY} sim: ours",
        "AWS Cost Explorer 120.00 USD for machines, 130.00 in all",
        "EBS:VolumeUsage.gp3 10.00",
        "9.0 h of the day were not watched",
    ):
        assert words in told


def test_only_the_bill_can_be_asked_for(kept):
    told = costs("--data", kept, "--reconciled").stdout
    assert told.startswith("bill: ")
    assert (
        "no day of these was held against a bill yet"
        in costs("--data", kept, "--day", "2026-12-02", "--reconciled").stdout
    )


def test_bought_peak_of_a_month_is_the_highest_of_its_days(kept):
    """Twelve GPUs above the site, fifteen hours of one day and two of the next, half a dollar an hour."""
    avoided = told_json(kept, "--month", "2026-12")["avoided_usd"]
    (bought,) = (usd for name, usd in avoided.items() if name.startswith("bought peak"))
    assert bought == pytest.approx(12 * 0.5 * 17.0 - told_json(kept)["total"]["usd"])


def test_asking_changes_no_byte(kept):
    before = (kept / "ledger.sqlite").read_bytes()
    costs("--data", kept, "--by", "job")
    assert (kept / "ledger.sqlite").read_bytes() == before


def test_what_was_not_watched_is_a_finding_and_bad_usage_ends_with_two(kept, tmp_path):
    assert "2026-12-01 to 2026-12-02" in costs("--data", kept, "--month", "2020-01", code=1).stderr
    assert "2020-01-01 was not watched" in costs("--data", kept, "--day", "2020-01-01", code=1).stderr
    assert "--month soon" in costs("--data", kept, "--month", "soon", code=2).stderr
    assert "--day 2026-02-30" in costs("--data", kept, "--day", "2026-02-30", code=2).stderr
    assert "give one of them" in costs("--data", kept, "--day", DAY, "--month", "2026-12", code=2).stderr
    assert "there is no ledger" in costs("--data", tmp_path, code=2).stderr
    SqlLedger(f"sqlite:///{tmp_path / 'ledger.sqlite'}").close()
    assert "no day was written yet" in costs("--data", tmp_path, code=1).stderr
