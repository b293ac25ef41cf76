"""Live observations: the maximum a step, nothing invented where no tick was, memory bounded."""

from datetime import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecast.series import DemandLog
from tests.builders_history import MONDAY, hour


def test_step_holds_the_highest_of_its_ticks() -> None:
    log = DemandLog(step_s=3600)
    for minute, gpus in ((0, 5.0), (10, 9.0), (50, 7.0), (70, 3.0)):
        log.observe(hour(minute / 60), {"total": gpus})
    series = log.series("total")
    assert series is not None
    assert (series.start, series.gpus.tolist()) == (MONDAY, [9, 3])


def test_hours_without_a_tick_are_gaps_not_zeros() -> None:
    log = DemandLog(step_s=3600)
    log.observe(hour(0), {"total": 5})
    log.observe(hour(3), {"total": 6})
    series = log.series("total", until=hour(5))
    assert series is not None
    assert series.gaps.tolist() == [False, True, True, False, True]
    assert np.isnan(series.gpus[[1, 2, 4]]).all()


def test_team_that_a_tick_does_not_name_wanted_nothing_then() -> None:
    log = DemandLog(step_s=3600)
    log.observe(hour(0), {"a": 4})
    log.observe(hour(1), {"b": 2})
    a, b = log.series("a"), log.series("b")
    assert a is not None
    assert b is not None
    assert (a.gpus.tolist(), b.start, b.gpus.tolist()) == ([4, 0], hour(1), [2])


def test_unfinished_step_is_left_out_until_it_ends() -> None:
    log = DemandLog(step_s=3600)
    log.observe(hour(0.5), {"total": 5})
    assert log.series("total", until=hour(0.9)) is None
    assert log.series("nobody") is None


def test_memory_is_bounded_and_the_oldest_steps_go_first() -> None:
    log = DemandLog(step_s=60, max_steps=10)
    for minute in range(100):
        log.observe(hour(minute / 60), {"total": minute}, marked=True)
    series = log.series("total")
    assert series is not None
    assert series.gpus.tolist() == list(range(90, 100))
    assert series.marked.all()


def test_clock_that_jumps_a_year_does_not_make_a_year_of_steps() -> None:
    log = DemandLog(step_s=60, max_steps=10)
    log.observe(hour(0), {"total": 1})
    log.observe(hour(24 * 365), {"total": 2})
    series = log.series("total")
    assert series is not None
    assert len(series.gpus) <= 10


@pytest.mark.parametrize("gpus", [-1.0, float("nan"), float("inf")])
def test_senseless_demand_is_refused(gpus: float) -> None:
    with pytest.raises(ValueError, match="finite and not negative"):
        DemandLog(step_s=60).observe(MONDAY, {"total": gpus})


def test_naive_time_is_refused() -> None:
    with pytest.raises(ValueError, match="aware"):
        DemandLog(step_s=60).observe(datetime(2026, 3, 2), {})  # noqa: DTZ001
    with pytest.raises(ValueError, match="room"):
        DemandLog(step_s=0)


@given(st.lists(st.tuples(st.integers(0, 5000), st.floats(0, 1e5)), min_size=1, max_size=50))
def test_order_of_ticks_does_not_change_the_series(ticks: list[tuple[int, float]]) -> None:
    forth, back = DemandLog(step_s=600), DemandLog(step_s=600)
    for minute, gpus in ticks:
        forth.observe(hour(minute / 60), {"x": gpus})
    for minute, gpus in reversed(ticks):
        back.observe(hour(minute / 60), {"x": gpus})
    one, two = forth.series("x"), back.series("x")
    assert one is not None
    assert two is not None
    assert np.array_equal(one.gpus, two.gpus, equal_nan=True)
    assert np.nanmax(one.gpus) == max(gpus for _, gpus in ticks)
