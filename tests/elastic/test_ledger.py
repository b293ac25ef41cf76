"""The ledger: whole ticks or none, the memory rebuilt from it, schema steps at start, trouble told in words."""

import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from elastic.ledger import SqlLedger
from elastic.ledger_port import LedgerError
from elastic.ledger_reads import find_tick, last_seen, last_texts, open_to_read, ticks_naming
from elastic.ledger_schema import HEAD
from elastic.ledger_tables import CHECKPOINTS, INTENTS, META, RECORDS
from elastic.planning.advance import advance
from elastic.planning.plan import Launch
from elastic.planning.planner import make_plan
from elastic.planning.state import ControllerState, Lease
from forecast.forecaster import Forecasts
from tests.builders import NOW
from tests.builders_site import Site, a_market, a_sim_job


def busy_jobs():
    """More than four nodes carry: launches, moves home and releases within a few hours."""
    return [a_sim_job(f"j{n}", 8, at_s=n * 300, runs_s=3000 + 400 * (n % 5)) for n in range(40)]


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'ledger.sqlite'}"


@pytest.fixture
def ledger(url):
    opened = SqlLedger(url, checkpoint_every=50)
    yield opened
    opened.close()


def rows(ledger, table):
    with ledger.engine.connect() as connection:
        return connection.execute(sa.select(table)).all()


def count(ledger, table):
    return len(rows(ledger, table))


def test_the_memory_rebuilt_from_the_ledger_is_the_one_that_was_lost(ledger):
    site = Site(busy_jobs(), ledger=ledger, markets=[a_market(mean_life_s=3600)])
    site.run(170)
    assert site.controller.state.spend.usd_day > 0
    assert site.controller.state.moves or site.controller.state.pools
    assert ledger.rebuild_state() == site.controller.state


def test_a_checkpoint_is_only_a_cache_of_the_fold_over_all_records(ledger):
    site = Site(busy_jobs(), ledger=ledger)
    site.run(130)
    assert count(ledger, CHECKPOINTS) == 2
    assert ledger.rebuild_state() == ledger.rebuild_state(from_checkpoint=False)


def test_a_damaged_checkpoint_costs_time_and_nothing_else(ledger):
    site = Site(busy_jobs(), ledger=ledger)
    site.run(60)
    with ledger.engine.begin() as connection:
        connection.execute(CHECKPOINTS.update().values(state=b"no state"))
    assert ledger.rebuild_state() == site.controller.state


def test_what_is_read_back_makes_the_same_plan_again(ledger):
    site = Site(busy_jobs(), ledger=ledger)
    records = site.run(60)
    acted = next(r for r in records if any(isinstance(a, Launch) for a in r.plan.actions))
    kept = find_tick(ledger, acted.tick)
    assert kept is not None
    assert kept.is_whole
    assert kept.record.plan == acted.plan
    assert kept.record.outcomes == acted.outcomes
    assert kept.record.snapshot == acted.snapshot
    before = ledger.rebuild_state(before_record=kept.id)
    assert make_plan(kept.record.snapshot, Forecasts(), site.policy, before) == acted.plan


def test_quiet_ticks_are_small_rows_without_jobs(ledger):
    site = Site([a_sim_job(f"j{n}", 1, runs_s=1e6) for n in range(20)], ledger=ledger)
    site.run(30)
    quiet = [r for r in rows(ledger, RECORDS) if not r.whole]
    assert len(quiet) > 20
    assert all(len(r.snapshot) + len(r.body) + len(r.text) < 800 for r in quiet)


def named(plan, job_id):
    of_actions = [getattr(a, "job_id", "") for a in plan.actions]
    of_launches = [j for a in plan.actions for j in getattr(a, "job_ids", ())]
    return job_id in [*of_actions, *of_launches, *[j for w in plan.waits for j in w.job_ids]]


def test_a_job_that_a_decision_named_is_found_by_its_exact_name(ledger):
    site = Site(busy_jobs(), ledger=ledger)
    site.run(60)
    found = ticks_naming(ledger, "j5")
    assert found
    assert all(named(t.record.plan, "j5") for t in found)
    assert ticks_naming(ledger, "j") == []
    assert ticks_naming(ledger, "%") == []


def test_a_launch_whose_tick_was_never_written_counts_as_in_flight_after_a_crash(ledger):
    """F002: the token is in the ledger before the call; after the crash its machine is adopted, not bought again."""
    site = Site([a_sim_job(f"j{n}", 8, runs_s=1e6) for n in range(5)], ledger=ledger)

    def crash(record, state):
        if any(isinstance(a, Launch) for a in record.plan.actions):
            raise KeyboardInterrupt

    real, ledger.append = ledger.append, lambda record, state: (crash(record, state), real(record, state))
    with pytest.raises(KeyboardInterrupt):
        site.run(30)
    del ledger.append
    assert [r.recorded for r in rows(ledger, INTENTS)] == [False]
    state = ledger.rebuild_state()
    assert list(state.in_flight) == [rows(ledger, INTENTS)[0].token]
    site.restart(state)
    site.clock.wait(60)
    later = site.run(30)
    assert not [a for r in later for a in r.plan.actions if isinstance(a, Launch)]
    assert len(site.cloud.instances()) == 1
    assert not site.controller.state.in_flight


def test_leases_survive_a_restart(ledger):
    lease = Lease(
        id="l1", team="rates", pool="burst", gpus=8, starts_at=NOW, ends_at=NOW + timedelta(hours=2), requested_by="ann"
    )
    ledger.put_lease(lease)
    ledger.put_lease(replace(lease, gpus=16))
    assert ledger.rebuild_state().leases == {"l1": replace(lease, gpus=16)}


def test_the_last_decision_comes_back_with_the_memory_before_it(ledger):
    site = Site(busy_jobs(), ledger=ledger)
    site.run(90)
    seen = last_seen(ledger)
    assert seen is not None
    assert seen.state.tick + 1 == max(r.tick for r in rows(ledger, RECORDS) if r.whole)
    assert last_texts(ledger, 3)
    assert len(last_texts(ledger, 3)) == 3


def test_records_past_their_time_go_but_never_those_the_memory_rests_on(ledger):
    site = Site(busy_jobs(), ledger=ledger)
    site.run(80)
    before = ledger.rebuild_state()
    assert ledger.prune(NOW + timedelta(days=30)) == 0
    gone = ledger.prune(NOW + timedelta(days=120))
    assert gone == 49
    assert ledger.rebuild_state() == before


def test_a_disk_that_is_full_is_told_in_words_and_nothing_is_half_written(ledger):
    site = Site(busy_jobs(), ledger=ledger)
    site.run(3)
    with ledger.engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
    site.run(60)
    trouble = site.controller.ledger_trouble
    assert "full" in trouble
    assert "free space" in trouble
    written = [r.tick for r in rows(ledger, RECORDS)]
    assert 3 <= len(written) < 63
    assert written == list(range(1, len(written) + 1))
    ledger.rebuild_state()


def test_a_full_disk_holds_launches_and_all_goes_on_by_itself_when_there_is_space(ledger):
    """The first dead-man switch: no launch without its token on disk; what happened meanwhile is written later."""
    site = Site(busy_jobs(), ledger=ledger)
    with ledger.engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
    held = site.run(60)
    assert site.controller.ledger_trouble
    assert not site.cloud.instances()
    assert any(w.rule == "protected" and "ledger" in w.detail for r in held for w in r.plan.withheld)
    with ledger.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count=1000000")
    site.run(5)
    assert site.controller.ledger_trouble == ""
    assert site.cloud.instances()
    assert [r.tick for r in rows(ledger, RECORDS)] == list(range(1, 66))
    assert ledger.rebuild_state() == site.controller.state


FULL_DISK = """
import resource, sys
from elastic.ledger import SqlLedger
from elastic.ledger_port import LedgerError
from tests.builders_site import Site, a_sim_job
ledger = SqlLedger(sys.argv[1])
site = Site([a_sim_job(f"j{n}", 8, runs_s=1e6) for n in range(9)], ledger=ledger)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
site.run(600)
print(site.controller.ledger_trouble)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
site.run(1)
print("after:", site.controller.ledger_trouble, ledger.rebuild_state() == site.controller.state)
"""


def test_a_file_that_may_not_grow_is_the_same_as_a_full_disk(url):
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, url], cwd=root, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    trouble, after = done.stdout.strip().splitlines()
    assert "cannot be written" in trouble
    assert "nothing was half-written" in trouble
    assert after == "after:  True"


# The schema


def test_the_migrations_make_exactly_the_tables_the_program_uses(ledger):
    found = sa.MetaData()
    found.reflect(ledger.engine)
    assert set(found.tables) == {*META.tables, "alembic_version"}
    for name, table in META.tables.items():
        made = found.tables[name]
        assert [(c.name, c.primary_key, c.nullable) for c in made.columns] == [
            (c.name, c.primary_key, c.nullable) for c in table.columns
        ], name
        assert {tuple(i.columns.keys()) for i in made.indexes} == {tuple(i.columns.keys()) for i in table.indexes}


def test_the_head_is_the_newest_migration(ledger):
    with ledger.engine.connect() as connection:
        assert connection.execute(sa.text("select version_num from alembic_version")).scalar() == HEAD


def test_a_newer_schema_stops_the_program_before_it_acts(url, ledger):
    """F038: an older program against a newer schema."""
    with ledger.engine.begin() as connection:
        connection.execute(sa.text("update alembic_version set version_num = '9999'"))
    with pytest.raises(LedgerError, match=r"schema is newer.*9999.*start the newer program"):
        SqlLedger(url)


def test_a_migration_that_dies_in_the_middle_leaves_nothing_and_the_next_start_is_whole(url, monkeypatch):
    """F038: killed in the middle of a migration."""
    import alembic.op

    real = alembic.op.create_table

    def dies(name, *columns, **options):
        if name == "demand":
            raise OSError("killed")
        return real(name, *columns, **options)

    with monkeypatch.context() as patch:
        patch.setattr(alembic.op, "create_table", dies)
        with pytest.raises(OSError, match="killed"):
            SqlLedger(url)
    with sa.create_engine(url).connect() as connection:
        assert sa.inspect(connection).get_table_names() == []
    opened = SqlLedger(url)
    assert rows(opened, RECORDS) == []
    opened.close()


START = "import sys; from elastic.ledger import SqlLedger; SqlLedger(sys.argv[1]).close(); print('up')"


def test_three_starts_at_once_on_an_empty_ledger_all_come_up(url):
    """F038: one migrates, the others wait."""
    root = Path(__file__).parents[2]
    starts = [
        subprocess.Popen(
            [sys.executable, "-c", START, url], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    ends = [start.communicate(timeout=60) for start in starts]
    assert [out.strip() for out, _ in ends] == ["up"] * 3, ends


def test_tables_of_another_program_are_left_alone(url):
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("create table records (id integer)"))
    engine.dispose()
    with pytest.raises(LedgerError, match="did not make"):
        SqlLedger(url)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("sqlite:////no/such/folder/x.sqlite", "must be there"),
        ("no url", "Write it like"),
        ("oracle+no://x", "Write it"),
    ],
)
def test_a_ledger_that_cannot_be_opened_says_what_to_do(bad, words):
    with pytest.raises(LedgerError, match=words):
        SqlLedger(bad)


def test_folding_from_any_saved_middle_gives_the_same(ledger):
    site = Site(busy_jobs(), ledger=ledger)
    records = site.run(40)
    state = ControllerState()
    states = [state := advance(state, r) for r in records]
    for number in (1, 17, 33):
        kept = find_tick(ledger, number + 1)
        assert kept is not None
        assert ledger.rebuild_state(before_record=kept.id) == states[number - 1]


def test_asking_an_older_ledger_says_who_upgrades_it_and_changes_nothing(tmp_path):
    file = tmp_path / "ledger.sqlite"
    ledger = SqlLedger(f"sqlite:///{file}")
    with ledger.engine.begin() as connection:
        connection.execute(sa.text("update alembic_version set version_num = '0001'"))
    ledger.close()
    before = file.read_bytes()
    with pytest.raises(LedgerError, match="elastic run"):
        open_to_read(f"sqlite:///{file}")
    assert file.read_bytes() == before
