"""YAML 1.2 and nothing looser: what people write is what is read, or a complaint with its line (F023)."""

import pytest

from elastic.policy_yaml import MAX_BYTES, Mark, plain_value, read_tree
from tests.builders_policy import complaints_of, policy_text


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("06:30", "06:30"),
        ("22:30", "22:30"),
        ("10:00", "10:00"),
        ("7:00", "7:00"),
        ("NO", "NO"),
        ("on", "on"),
        ("yes", "yes"),
        ("012", "012"),
        ("0o14", "0o14"),
        ("1_000", "1_000"),
        ("2026-12-25", "2026-12-25"),
        ("1e3", 1000.0),
        ("12", 12),
        ("-3", -3),
        ("0.5", 0.5),
        (".", "."),
        ("-", "-"),
        (".inf", ".inf"),
        ("1e999", "1e999"),
        ("9" * 5000, "9" * 5000),
        ("true", True),
        ("False", False),
        ("tRue", "tRue"),
        ("~", None),
        ("", None),
    ],
)
def test_plain_scalars_are_read_as_yaml_1_2_and_never_as_base_60(written: str, read: object) -> None:
    """F023."""
    value = plain_value(written)
    assert value == read
    assert type(value) is type(read)


@pytest.mark.parametrize(
    ("line", "inside", "words"),
    [
        ("max_nodes: 1e3", "pools.cloud", "must be a whole number, not 1e3"),
        ("max_nodes: 012", "pools.cloud", "must be a whole number, not '012'"),
        ("max_nodes: '4'", "pools.cloud", "must be a whole number, not '4'"),
        ("max_nodes: true", "pools.cloud", "must be a whole number, not true"),
        ("gpu_model: 100", "pools.cloud", "must be text, not 100"),
        ("lead_time: 22:30", "pools.cloud", "'22:30' is no duration"),
    ],
)
def test_what_yaml_1_1_would_have_changed_is_refused_with_its_line(line: str, inside: str, words: str) -> None:
    """F023."""
    key = line.partition(":")[0]
    home, mark, cloud = policy_text().partition("    cloud: sim\n")
    cloud = "\n".join(row for row in cloud.splitlines() if not row.startswith(f"    {key}:"))
    text = f"{home}{mark}    {line}\n{cloud}\n"
    [complaint] = complaints_of(text)
    assert words in complaint.message
    assert complaint.path == f"{inside}.{key}"
    assert text.splitlines()[complaint.line - 1].strip() == line
    assert complaint.hint


def test_a_team_called_no_and_dates_and_times_keep_their_meaning() -> None:
    """F023: `NO` stays a name, dates work as dates, 06:30 and 22:30 are both times."""
    more = "  NO:\n    accounts: [NO]\n    guaranteed_gpus: 8\n"
    text = policy_text(more=more).replace(
        "      hours: 09:00-18:00", "      hours: 06:30-22:30\n      holidays: [2026-12-28]"
    )
    assert complaints_of(text) == []


def test_switches_take_true_and_false_only() -> None:
    """F023: `on` is text in YAML 1.2."""
    [complaint] = complaints_of(policy_text().replace("checkpointable: true", "checkpointable: on"))
    assert complaint.message == "must be true or false, not 'on'"
    assert "true or false" in complaint.hint


def test_a_repeated_key_is_told_with_both_lines() -> None:
    tree = read_tree(b"a: 1\nb:\n  c: 1\n  c: 2\n")
    [trouble] = tree.troubles
    assert trouble.mark == Mark(4, 3)
    assert "line 3" in trouble.hint
    assert tree.value == {"a": 1, "b": {"c": 1}}


def test_every_key_and_value_knows_its_place() -> None:
    tree = read_tree(b"a:\n  - x\n  - {k: v}\n")
    assert tree.mark(("a", 0)) == Mark(2, 5)
    assert tree.mark(("a", 1, "k"), of_key=True) == Mark(3, 6)
    assert tree.mark(("a", 1, "k")) == Mark(3, 9)
    assert tree.mark(("a", 1, "gone")) == Mark(3, 5)


@pytest.mark.parametrize(
    ("raw", "words", "place"),
    [
        (b"", "empty", (1, 1)),
        (b"# only a comment\n", "empty", (1, 1)),
        (b"- a\n- b\n", "keys and values", (1, 1)),
        (b"just words", "keys and values", (1, 1)),
        (b"a: [1, 2\n", "no YAML", (2, 1)),
        (b"a: 1\n\tb: 2\n", "no YAML", (2, 1)),
        (b"a: 1\n---\nb: 2\n", "second document", (2, 1)),
        (b"a: *nowhere\n", "not defined", (1, 4)),
        (b"&a [*a]\n", "not defined", (1, 5)),
        (b"a: !python/object:os.system x\n", "tag", (1, 4)),
        (b"? [a, b]\n: 1\n", "key must be a word", (1, 3)),
        (b"version: 1\nmode: a\xe9t\n", "not UTF-8", (2, 8)),
        ("version: 1\n".encode("utf-16"), "UTF-16", (1, 1)),
        (b"a: 1\nb: \x00\n", "control character", (2, 4)),
        (b'a: "\\ud800"\n', "half a character", (1, 4)),
        (b"[" * 100_000, "nested deeper", (1, 14)),
        (b"{a: " * 50_000, "nested deeper", (1, 53)),
        (b"#" * (MAX_BYTES + 1), "over 256 KiB", (1, 1)),
    ],
)
def test_a_file_that_is_no_policy_is_told_where_it_goes_wrong(raw: bytes, words: str, place: tuple[int, int]) -> None:
    complaint = next(c for c in complaints_of(raw) if words in c.message)
    assert (complaint.line, complaint.column) == place


def test_aliases_that_multiply_are_stopped_before_they_fill_memory() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    [complaint] = complaints_of("\n".join(rows))
    assert "aliases counted" in complaint.message


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm() -> None:
    text = policy_text().replace("\n", "\r\n")
    assert complaints_of(b"\xef\xbb\xbf" + text.encode()) == []


def test_anchors_and_aliases_are_for_people_who_repeat_themselves() -> None:
    more = "caches:\n  one: &size {service: sim, awake_workers: 4}\n  two: *size\n"
    complaints = complaints_of(policy_text(more=more))
    assert {c.severity.value for c in complaints} == {"warning"}  # no team uses them
    assert [c.path for c in complaints] == ["caches.one", "caches.two"]
