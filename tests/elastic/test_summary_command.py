"""`elastic summary`: a day from the ledger, for people and programs."""

import json

import pytest
from typer.testing import CliRunner

from elastic.books import Books
from elastic.cli import app
from elastic.ledger import SqlLedger
from elastic.ledger_books import LedgerBooks
from tests.builders import NOW
from tests.builders_site import Site, a_sim_job


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Sixteen hours of a small site that rents a node, over midnight."""
    data = tmp_path_factory.mktemp("service")
    ledger = SqlLedger(f"sqlite:///{data / 'ledger.sqlite'}")
    site = Site([a_sim_job("long", 32, runs_s=9 * 3600.0), a_sim_job("late", 8, at_s=60.0)], ledger=ledger)
    books = Books(LedgerBooks(ledger))
    for _ in range(16 * 12):
        (record,) = site.run(minutes=5, step_s=300)
        books.after_tick(record, site.controller.state, site.policy)
    books.write_down()
    ledger.close()
    return data


def summary(*options, code=0):
    told = CliRunner().invoke(app, ["summary", *(str(o) for o in options)])
    assert told.exit_code == code, told.output
    return told


def test_a_day_is_told_with_use_waits_spend_and_named_counterfactuals(kept):
    told = summary("--data", kept, "--day", f"{NOW:%Y-%m-%d}").stdout
    assert told.startswith(f"{NOW:%Y-%m-%d} (UTC)")
    for word in (
        "use ",
        "waits ",
        "spend ",
        "avoided ",
        "against: the same rented machines, on demand",
        "1 node(s) launched",
    ):
        assert word in told


def test_the_newest_day_is_told_where_none_is_asked_for(kept):
    figures = json.loads(summary("--data", kept, "--format", "json").stdout)
    assert figures["day"] == "2026-12-02"
    assert set(figures["waits"]) >= {"within_15_min", "longer"}


def test_json_and_text_tell_the_same_money(kept):
    figures = json.loads(summary("--data", kept, "--day", "2026-12-01", "--format", "json").stdout)
    assert figures["usd"] > 0
    assert f"spend   {figures['usd']:.2f} USD" in summary("--data", kept, "--day", "2026-12-01").stdout


def test_a_day_nobody_watched_is_a_finding_that_names_those_there_are(kept):
    told = summary("--data", kept, "--day", "2020-01-01", code=1).stderr
    assert "2026-12-01 to 2026-12-02" in told


def test_asking_changes_no_byte(kept):
    before = (kept / "ledger.sqlite").read_bytes()
    summary("--data", kept)
    assert (kept / "ledger.sqlite").read_bytes() == before


def test_an_empty_ledger_is_a_finding_and_bad_usage_ends_with_two(tmp_path, kept):
    assert "there is no ledger" in summary("--data", tmp_path, code=2).stderr
    assert "--day soon" in summary("--data", kept, "--day", "soon", code=2).stderr
    SqlLedger(f"sqlite:///{tmp_path / 'ledger.sqlite'}").close()
    assert "no day was written yet" in summary("--data", tmp_path, code=1).stderr
