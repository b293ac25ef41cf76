"""The running service follows its policy file through every way of saving it (F022, F023)."""

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

from elastic.policy_watch import PolicyLook, PolicyWatcher
from tests.builders_policy import policy_text

START = datetime(2026, 12, 1, 9, tzinfo=UTC)
TICK = timedelta(seconds=30)


class Ticks:
    """Looks at a policy once a tick and remembers which ceilings were applied."""

    def __init__(self, path: Path) -> None:
        self.watcher, self.now = PolicyWatcher(path), START
        self.applied: list[int] = []

    def tick(self, times: int = 1) -> PolicyLook:
        for _ in range(times):
            look = self.watcher.look(self.now)
            self.now += TICK
            if look.changed:
                assert look.policy is not None
                self.applied.append(look.policy.pools["cloud"].max_nodes)
        return look


def save_by_rename(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text)
    temporary.replace(path)


def test_swapped_configmap_links_renames_in_place_saves_and_a_new_directory_are_each_applied_once(
    tmp_path: Path,
) -> None:
    """F022."""
    mount = tmp_path / "mount"
    mount.mkdir()
    (mount / "..v0").mkdir()
    (mount / "..v0" / "policy.yaml").write_text(policy_text(max_nodes=1))
    (mount / "..data").symlink_to("..v0")
    (mount / "policy.yaml").symlink_to("..data/policy.yaml")
    ticks = Ticks(mount / "policy.yaml")
    ticks.tick(3)
    assert ticks.applied == [1]

    for number in range(10):
        inner = mount / f"..v{number + 1}"
        inner.mkdir()
        (inner / "policy.yaml").write_text(policy_text(max_nodes=10 + number))
        (mount / "..tmp").symlink_to(inner.name)
        os.replace(mount / "..tmp", mount / "..data")
        ticks.tick(2)
    assert ticks.applied == [1, *range(10, 20)]

    for number in range(10):
        save_by_rename(mount / "policy.yaml", policy_text(max_nodes=20 + number))
        ticks.tick()
    assert ticks.applied[-10:] == list(range(20, 30))

    for number in range(10):
        (mount / "policy.yaml").write_text(policy_text(max_nodes=30 + number))
        ticks.tick(2)
    assert ticks.applied[-10:] == list(range(30, 40))

    shutil.rmtree(mount)
    gone = ticks.tick()
    assert gone.policy is not None
    assert gone.policy.pools["cloud"].max_nodes == 39
    assert gone.stale
    assert [c.message for c in gone.complaints] == ["there is no such file"]
    mount.mkdir()
    (mount / "policy.yaml").write_text(policy_text(max_nodes=40))
    assert ticks.tick().policy.pools["cloud"].max_nodes == 40  # type: ignore[union-attr]
    assert len(ticks.applied) == 32


def test_a_bad_policy_keeps_the_last_good_one_and_says_which_is_active(tmp_path: Path) -> None:
    """F023."""
    path = tmp_path / "policy.yaml"
    path.write_text(policy_text(max_nodes=7))
    ticks = Ticks(path)
    good = ticks.tick()
    save_by_rename(path, policy_text(max_nodes="1e3"))
    look = ticks.tick()
    assert look.active_hash == good.active_hash != look.wanted_hash
    assert look.stale
    assert not look.changed
    assert "whole number" in look.complaints[0].message
    # It stays so, and coming back is no change of wishes.
    assert ticks.tick(5).stale
    save_by_rename(path, policy_text(max_nodes=7))
    back = ticks.tick()
    assert not back.stale
    assert not back.complaints
    assert ticks.applied == [7]


def test_half_a_save_in_place_is_never_taken_for_a_policy(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    whole = policy_text(max_nodes=5) + "money: {usd_per_hour: 10}\n"
    path.write_text(whole)
    ticks = Ticks(path)
    ticks.tick()
    # Cut behind the last complete section: what is there is valid, but has lost its cap on money.
    path.write_text(policy_text(max_nodes=5))
    look = ticks.tick()
    assert not look.changed
    assert look.stale
    path.write_text(whole.replace("10}", "20}"))
    ticks.tick()
    final = ticks.tick()
    assert final.policy is not None
    assert final.policy.money.usd_per_hour == 20
    assert ticks.applied == [5, 5]


def test_the_same_file_coming_back_ends_the_complaint_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(policy_text(max_nodes=7))
    ticks = Ticks(path)
    ticks.tick()
    path.unlink()
    assert ticks.tick().complaints
    path.write_text(policy_text(max_nodes=7))
    back = ticks.tick()
    assert not back.complaints
    assert not back.stale
    assert ticks.applied == [7]


def test_no_policy_at_first_is_told_and_the_file_is_taken_when_it_comes(tmp_path: Path) -> None:
    ticks = Ticks(tmp_path / "policy.yaml")
    look = ticks.tick()
    assert look.policy is None
    assert look.complaints[0].message == "there is no such file"
    (tmp_path / "policy.yaml").write_text(policy_text(max_nodes=3))
    assert ticks.tick().changed


def test_calendars_move_along_with_the_days(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(policy_text(max_nodes=3))
    ticks = Ticks(path)
    ticks.tick()
    ticks.now = START + timedelta(days=200)
    look = ticks.tick()
    assert look.policy is not None
    assert not look.changed
    tuesday_noon = datetime(2027, 6, 22, 12, tzinfo=UTC)
    assert look.policy.calendars["office"].is_open(tuesday_noon)


def test_a_policy_in_use_outlives_its_calendar_data_with_estimated_days(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(policy_text(max_nodes=3).replace("country: GB", "country: CN"))
    ticks = Ticks(path)
    assert ticks.tick().policy is not None
    ticks.now = datetime(2031, 6, 16, 9, tzinfo=UTC)
    look = ticks.tick()
    assert look.policy is not None
    assert any("ends" in c.message for c in look.complaints)
    assert look.policy.calendars["office"].is_open(datetime(2031, 6, 18, 12, tzinfo=UTC))
