"""Everything wrong with a policy is told at once, each with its place and what to do."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from elastic.policy_file import PolicyError, check_policy, load_policy, parse_policy
from elastic.policy_findings import Severity
from tests.builders_policy import AT, complaints_of, policy_text, write_policy

TEN_MISTAKES = """\
version: 1
mode: actt
time_zone: EST
calendars:
  office:
    time_zone: Europe/London
    office: {country: GB, hours: 9-18}
  night:
    time_zone: Europe/London
    allow: [20:00-06:00 Mon-Fri]
    forbid: [02:00-03:00 Tue]
clusters:
  main: {kind: sim}
  main: {kind: slurm}
pools:
  home: {place: on-prem, cluster: main, gpu_model: a100, gpus_per_node: 8, nodes: 2}
  cloud:
    place: burst
    cluster: mian
    cloud: sim
    gpu_modle: a100
    gpu_model: a100
    gpus_per_node: 8
    max_nodes: 1e3
classes:
  batch: {capacity_types: [spot]}
  costly: {capacity_types: [on-demand]}
default_class: batch
teams:
  research:
    guaranteed_gpus: 17
    calendars: [office, night]
"""


def test_ten_different_mistakes_give_ten_complaints_each_in_its_place() -> None:
    complaints = complaints_of(TEN_MISTAKES)
    rows = TEN_MISTAKES.splitlines()
    found = [(c.path, rows[c.line - 1].strip()) for c in complaints]
    assert found == [
        ("mode", "mode: actt"),
        ("time_zone", "time_zone: EST"),
        ("calendars.office.office.hours", "office: {country: GB, hours: 9-18}"),
        ("calendars.night.forbid[0]", "forbid: [02:00-03:00 Tue]"),
        ("clusters.main", "main: {kind: slurm}"),
        ("pools.cloud.cluster", "cluster: mian"),
        ("pools.cloud.gpu_modle", "gpu_modle: a100"),
        ("pools.cloud.max_nodes", "max_nodes: 1e3"),
        ("classes.costly", "costly: {capacity_types: [on-demand]}"),
        ("teams", "teams:"),
    ]
    assert all(c.hint for c in complaints)
    hints = {c.path: c.hint for c in complaints}
    assert hints["mode"] == "did you mean act?"
    assert hints["pools.cloud.gpu_modle"] == "did you mean gpu_model?"
    assert hints["pools.cloud.cluster"] == "did you mean main?"
    assert "America/New_York" in hints["time_zone"]
    assert {c.severity for c in complaints} == {Severity.ERROR}


def test_one_mistake_mended_leaves_the_other_nine() -> None:
    assert len(complaints_of(TEN_MISTAKES.replace("time_zone: EST", "time_zone: America/New_York"))) == 9


def test_a_value_that_can_not_be_read_causes_no_second_complaint() -> None:
    # With max_nodes left out its default of 0 would be below the floor, and nothing could be rented.
    text = policy_text(max_nodes="many").replace("    cloud: sim", "    cloud: sim\n    min_nodes: 2")
    assert [c.path for c in complaints_of(text)] == ["pools.cloud.max_nodes"]
    # With the pool's place unknown, the class could not burst and the site would be empty.
    text = policy_text().replace("place: burst", "place: brst")
    assert [c.path for c in complaints_of(text)] == ["pools.cloud.place"]
    text = policy_text().replace("gpus_per_node: 8\n    nodes", "nodes")
    assert [c.message for c in complaints_of(text)] == ["`gpus_per_node` is missing"]


def changed(old: str, new: str) -> str:
    text = policy_text()
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        (changed("max_nodes: 4", "max_nodes: 4\n    min_nodes: 5"), "pools.cloud.max_nodes", "below the floor of 5"),
        (changed("guaranteed_gpus: 16", "guaranteed_gpus: 33"), "teams", "the site has 32"),
        (changed("capacity_types: [spot]", "capacity_types: [on-demand]"), "classes.batch", "no burst pool rents that"),
        (changed("    cloud: sim\n", ""), "pools.cloud", "none is named"),
        (
            changed("nodes: 4\n  cloud", "nodes: 4\n    capacity_types: [spot]\n  cloud"),
            "pools.home.capacity_types",
            "rented",
        ),
        (
            changed("nodes: 4\n  cloud", "max_nodes: 4\n    nodes: 4\n  cloud"),
            "pools.home.max_nodes",
            "as big as it is",
        ),
        (changed("default_class: batch", "default_class: bath"), "default_class", "no 'bath' under classes"),
        (changed("calendars: [office]", "calendars: [ofice]"), "teams.research.calendars[0]", "no 'ofice'"),
        (
            changed("calendars: [office]", "calendars: [office]\n    cache_group: x"),
            "teams.research.cache_group",
            "no 'x'",
        ),
        (changed("country: GB", "country: XX"), "calendars.office.office.country", "no public holidays of 'XX'"),
        (
            changed("Europe/London\n    office", "Europe/Lodnon\n    office"),
            "calendars.office.time_zone",
            "no time zone",
        ),
        (changed("Europe/London\n    office", "CST\n    office"), "calendars.office.time_zone", "no place"),
        (changed("hours: 09:00-18:00", "hours: 09:00-25:00"), "calendars.office.office.hours", "no such time"),
        (changed("hours: 09:00-18:00", "days: Mon-Fru"), "calendars.office.office.days", "is no day"),
        (changed("hours: 09:00-18:00", "holidays: [25.12.2026]"), "calendars.office.office.holidays[0]", "is no date"),
        (
            changed("hours: 09:00-18:00", "half_days: [2026-12-24]"),
            "calendars.office.office.half_days",
            "without hours",
        ),
        (changed("checkpointable: true", "may_be_displaced: true"), "classes.batch.may_be_displaced", "would be lost"),
        (
            changed("checkpointable: true", "deadline_fallback: true"),
            "classes.batch.deadline_fallback",
            "can't get any",
        ),
        (policy_text(more="money: {usd_per_day: 9, usd_per_hour: 10}\n"), "money.usd_per_day", "could never be used"),
        (policy_text(more="forecast: {refresh: 2 h, max_age: 1 h}\n"), "forecast", "too old"),
        (policy_text(more="money: {usd_per_hour: .inf}\n"), "money.usd_per_hour", "must be a number"),
        (policy_text(more="guard: {removal_ceiling: 1.5}\n"), "guard.removal_ceiling", "must be at most 1, not 1.5"),
        (policy_text(more="  other: {accounts: [research]}\n"), "teams.other.accounts", "belongs to team 'research'"),
        (policy_text(more="  'a b': {}\n"), "teams.a b", "can't be a name"),
        (
            policy_text(more="    cache_group: c\ncaches: {c: {service: sim, awake_workers: 1, asleep_workers: 2}}\n"),
            "caches.c.awake_workers",
            "fewer than 2 asleep",
        ),
        (
            changed(
                "default_class",
                "  quick: {qos: [q], capacity_types: [spot]}\n"
                "  other: {qos: [q, r], capacity_types: [spot]}\ndefault_class",
            ),
            "classes.other.qos",
            "q: these jobs belong to class 'quick'",
        ),
        (changed("wait_target: 15 min", "wait_target_s: 900"), "classes.batch.wait_target_s", "unknown key"),
        (
            changed("max_nodes: 4", "max_nodes: 4\n    headroom: [{gpus: 40, calendar: office}]"),
            "pools.cloud.headroom",
            "in a pool of at most 32",
        ),
    ],
)
def test_a_conflict_is_found_when_the_policy_is_loaded(text: str, path: str, words: str) -> None:
    [complaint] = complaints_of(text)
    assert complaint.path == path
    assert words in complaint.message
    assert complaint.hint or "at most" in complaint.message
    assert complaint.severity is Severity.ERROR


def test_a_team_ceiling_below_one_node_is_warned_of() -> None:
    [complaint] = complaints_of(changed("guaranteed_gpus: 16", "burst_ceiling_gpus: 7"))
    assert complaint.severity is Severity.WARNING
    assert complaint.path == "teams.research.burst_ceiling_gpus"


def test_a_name_with_an_escape_sequence_does_not_reach_the_terminal() -> None:
    complaints = complaints_of(policy_text(more='  "a\\e[31m": {}\n'))
    assert complaints
    assert all(str(complaint).isprintable() for complaint in complaints)


def test_an_exchange_nobody_knows_is_told_with_the_nearest_name() -> None:
    [complaint] = complaints_of(changed("      hours: 09:00-18:00", "    trading: {exchange: XNSY}"))
    assert complaint.path == "calendars.office.trading.exchange"
    assert complaint.hint == "did you mean XNYS?"


def test_sessions_the_package_can_not_give_are_a_complaint_not_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    """exchange_calendars 4.13 raises so for a few exchanges (XBEL), and for early years of others (XTAE)."""
    import exchange_calendars

    def refuse(*_: object, **__: object) -> None:
        raise NotImplementedError("implemented by subclasses")

    text = changed("      hours: 09:00-18:00", "    trading: {exchange: XNYS}")
    assert complaints_of(text) == []
    monkeypatch.setattr(exchange_calendars, "get_calendar", refuse)
    long_ago = datetime(1995, 1, 16, tzinfo=UTC)  # no answer for it is remembered from before
    [complaint] = complaints_of(text, at=long_ago)
    assert "no sessions of exchange 'XNYS' can be read for 1994-12-01" in complaint.message
    assert "as an office" in complaint.hint
    reading = parse_policy(text.encode(), file="p", at=AT, since=long_ago)
    assert reading.policy is None
    assert [c.path for c in reading.errors] == ["calendars"]


def test_a_calendar_that_never_opens_is_refused() -> None:
    text = policy_text().replace("    office:\n      country: GB\n      hours: 09:00-18:00\n", "")
    [complaint] = complaints_of(text)
    assert complaint.message.startswith("never open")


def calendar_until(day: datetime) -> str:
    """China's packaged days end with 2026; the policy vouches for its own lists up to `day`."""
    return policy_text().replace("country: GB", f"country: CN\n      complete_until: {day:%Y-%m-%d}")


@pytest.mark.parametrize(
    ("days", "severity"), [(1, Severity.ERROR), (7, Severity.WARNING), (44, Severity.WARNING), (46, None)]
)
def test_calendar_data_that_ends_is_told_in_time_and_refused_before_the_horizon(
    days: int, severity: Severity | None
) -> None:
    at = datetime(2030, 3, 4, 12, tzinfo=UTC)
    complaints = complaints_of(calendar_until(at + timedelta(days=days)), at=at)
    assert [c.severity for c in complaints] == ([severity] if severity else [])
    for complaint in complaints:
        assert complaint.path == "calendars.office"
        assert f"{at + timedelta(days=days):%Y-%m-%d}" in complaint.message
        assert "complete_until" in complaint.hint


def test_a_policy_whose_calendar_data_ends_next_week_loads_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(policy_text().replace("country: GB", "country: CN"))
    at = datetime(2026, 12, 24, 12, tzinfo=UTC)
    [complaint] = check_policy(path, at=at)
    assert complaint.severity is Severity.WARNING
    assert "ends on 2026-12-31" in complaint.message
    assert load_policy(path, at=at).calendars["office"].known_until.isoformat() == "2026-12-31"
    with pytest.raises(PolicyError, match="ends on 2026-12-31, before the forecast's horizon"):
        load_policy(path, at=datetime(2026, 12, 30, 12, tzinfo=UTC))


def test_a_good_policy_loads_with_its_hash_and_calendars(tmp_path: Path) -> None:
    path = write_policy(tmp_path)
    policy = load_policy(path, at=AT)
    assert len(policy.content_hash) == 16
    assert policy.calendars["office"].is_open(AT + timedelta(hours=1))
    path.write_text(path.read_text() + "# a note\n")
    assert load_policy(path, at=AT).content_hash != policy.content_hash


def test_loading_raises_with_every_complaint(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(TEN_MISTAKES)
    with pytest.raises(PolicyError) as caught:
        load_policy(path, at=AT)
    assert len(caught.value.complaints) == 10
    assert str(caught.value).count("\n") == 9
    assert f"{path}:2:7: error: mode: must be observe or advise or act, not 'actt' (did you mean act?)" in str(
        caught.value
    )


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "there is no such file"),
        (lambda path: path.mkdir(), "is a directory"),
        (lambda path: path.write_bytes(b""), "the file is empty"),
        (lambda path: path.symlink_to(path), "symbolic links"),
    ],
)
def test_a_file_that_can_not_be_read_is_a_complaint_not_a_crash(tmp_path: Path, make: object, words: str) -> None:
    path = tmp_path / "policy.yaml"
    make(path)  # type: ignore[operator]
    [complaint] = check_policy(path, at=AT)
    assert words in complaint.message
