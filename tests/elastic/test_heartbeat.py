"""The heartbeat that rented nodes see: the time of the last whole tick; trouble with it is told once."""

from datetime import datetime, timedelta

from elastic.heartbeat import Heartbeat
from tests.builders import NOW


def test_a_beat_is_a_time_that_a_node_can_read(tmp_path):
    file = tmp_path / "heartbeat"
    heart = Heartbeat(file, print)
    for minute in (0, 1):
        heart.beat(NOW + timedelta(minutes=minute))
    assert datetime.fromisoformat(file.read_text().strip()) == NOW + timedelta(minutes=1)
    assert [p.name for p in tmp_path.iterdir()] == ["heartbeat"]


def test_a_folder_that_is_gone_is_told_once_and_again_only_after_it_was_back(tmp_path):
    said = []
    folder = tmp_path / "shared"
    heart = Heartbeat(folder / "heartbeat", said.append)
    for _ in range(3):
        heart.beat(NOW)
    assert len(said) == 1
    assert "power themselves off" in said[0]
    folder.mkdir()
    heart.beat(NOW)
    (folder / "heartbeat").unlink()
    folder.rmdir()
    heart.beat(NOW)
    assert len(said) == 2
