"""Whatever stands in a policy file, reading it ends with a policy or with complaints, never with a crash."""

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elastic.policy_file import parse_policy
from elastic.policy_findings import Severity
from tests.builders_policy import AT, policy_text

ROWS = (Path(__file__).parents[2] / "policies" / "default.yaml").read_text().splitlines()
VALUES = (
    *("", "~", "[]", "{}", "-1", "1e3", "true", "NO", "22:30", "2026-12-25", "[1, {a: b}]", "*x", "'", "9" * 20),
    *("Europe/London", "spot", "office", "a: b", "\t", "# x", "!!int x", "0x7f", "XNYS", "9999-12-31", "0001-01-01"),
)
OFFICE_KEYS = ("holidays", "half_days", "workdays", "complete_until", "hours", "days", "country", "half_day_hours")


def judged(raw: bytes) -> None:
    reading = parse_policy(raw, file="p.yaml", at=AT)
    errors = [c for c in reading.complaints if c.severity is Severity.ERROR]
    assert (reading.policy is None) is bool(errors)
    rows = raw.count(b"\n") + raw.count(b"\r") + 2
    assert all(1 <= c.line <= rows and c.column >= 1 and c.message for c in reading.complaints)


@settings(max_examples=60, deadline=None)
@given(raw=st.binary(max_size=200))
def test_any_bytes(raw: bytes) -> None:
    judged(raw)


@settings(max_examples=60, deadline=None)
@given(text=st.text(alphabet="ab:-[]{}&*!|>'\"#%@,? \n\t0", max_size=80))
def test_any_punctuation(text: str) -> None:
    judged(text.encode())


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    changes=st.lists(
        st.tuples(
            st.integers(0, len(ROWS) - 1), st.sampled_from(("value", "drop", "repeat", "key")), st.sampled_from(VALUES)
        ),
        min_size=1,
        max_size=6,
    )
)
def test_a_good_policy_with_rows_changed(changes: list[tuple[int, str, str]]) -> None:
    rows = list(ROWS)
    for number, what, value in changes:
        key, mark, _ = rows[number].partition(":")
        rows[number] = {
            "value": f"{key}{mark} {value}",
            "drop": "",
            "repeat": f"{rows[number]}\n{rows[number]}",
            "key": f"{key}x{mark} {value}",
        }[what]
    judged("\n".join(rows).encode())


@settings(max_examples=60, deadline=None)
@given(key=st.sampled_from(OFFICE_KEYS), value=st.sampled_from(VALUES), more=st.sampled_from(VALUES))
def test_a_calendar_with_any_value(key: str, value: str, more: str) -> None:
    text = policy_text().replace("      hours: 09:00-18:00", f"      {key}: {value}\n    holidays: [{more}]")
    judged(text.encode())
