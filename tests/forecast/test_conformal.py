"""Quantiles from past errors: coverage on made-up truth, order, sign, clipping."""

from itertools import pairwise

import numpy as np
import pytest

from forecast.conformal import CLIP_TIMES, MIN_ORIGINS, PRIOR_FACTORS, WINDOW_ORIGINS, Calibrated, calibrate, pinball

DAYS = 200


def calibrated(paths: np.ndarray, actuals: np.ndarray, **changes: object) -> Calibrated:
    options = {"origins": range(24, 24 * (len(paths) + 1), 24), "peaks": np.full(len(paths), 1e9), "block_steps": 6}
    return calibrate(paths, actuals, **{**options, **changes})


@pytest.mark.parametrize("shape", ["normal", "skewed", "drifting", "biased"])
def test_a_quantile_covers_its_share(shape: str) -> None:
    rng = np.random.default_rng(5)
    errors = {
        "normal": rng.normal(0, 10, (DAYS, 24)),
        "skewed": rng.exponential(10, (DAYS, 24)) - 5,
        "drifting": rng.normal(0, 1, (DAYS, 24)) * np.linspace(5, 30, DAYS)[:, None],
        "biased": rng.normal(4, 10, (DAYS, 24)),
    }[shape]
    paths = np.full((DAYS, 24), 500.0)
    made = calibrated(paths, paths + errors)
    for q in (0.05, 0.25, 0.75, 0.9, 0.95):
        if shape == "biased" and q < 0.5:
            continue  # lower quantiles never rise above the median path
        covered = float((paths + errors <= made.gpus[q])[20:].mean())
        assert covered == pytest.approx(q, abs=0.04), q


def test_blocks_of_the_horizon_have_their_own_spread() -> None:
    rng = np.random.default_rng(6)
    spread = np.repeat([1.0, 5.0, 20.0, 40.0], 6)
    paths = np.full((80, 24), 500.0)
    made = calibrated(paths, paths + rng.normal(0, 1, (80, 24)) * spread)
    width = (made.gpus[0.9] - paths)[-1]
    assert width[0] < width[6] < width[12] < width[18]
    assert np.unique(width).size == 4


def test_quantiles_never_cross_nor_turn_negative() -> None:
    rng = np.random.default_rng(7)
    paths = rng.uniform(0, 5, (60, 24))
    made = calibrated(paths, np.maximum(paths + rng.normal(0, 30, (60, 24)), 0))
    levels = [made.gpus[q] for q in sorted(made.gpus)]
    assert (levels[0] >= 0).all()
    assert all((below <= above).all() for below, above in pairwise(levels))


def test_only_what_had_come_true_at_an_origin_calibrates_it() -> None:
    rng = np.random.default_rng(8)
    paths = np.full((40, 48), 100.0)
    actuals = paths + rng.normal(0, 5, (40, 48))
    changed = actuals.copy()
    changed[30:] += 1_000.0  # of origin 30 the first day is known at origin 31, the second at origin 32
    before, after = calibrated(paths, actuals), calibrated(paths, changed)
    assert np.array_equal(before.gpus[0.9][:31], after.gpus[0.9][:31])
    assert np.array_equal(before.gpus[0.9][31, 24:], after.gpus[0.9][31, 24:])
    assert not np.array_equal(before.gpus[0.9][34], after.gpus[0.9][34])


def test_old_errors_are_forgotten() -> None:
    paths = np.full((WINDOW_ORIGINS + 30, 24), 100.0)
    actuals = paths.copy()
    actuals[:10] += 60.0
    made = calibrated(paths, actuals)
    assert made.gpus[0.95][12].max() == pytest.approx(160.0)
    assert made.gpus[0.95][-1].max() == pytest.approx(100.0)


def test_with_few_origins_a_rule_of_thumb_speaks_and_says_so() -> None:
    paths = np.full((MIN_ORIGINS + 2, 24), 10.0)
    made = calibrated(paths, paths)
    assert made.calibrated.tolist() == [False] * MIN_ORIGINS + [True] * 2
    assert made.gpus[0.9][0, 0] == pytest.approx(10.0 * PRIOR_FACTORS[0.9])
    assert made.gpus[0.9][-1, 0] == pytest.approx(10.0)


def test_a_quantile_far_above_the_recent_peak_is_cut_and_flagged() -> None:
    paths = np.full((20, 24), 50.0)
    actuals = paths.copy()
    actuals[::2, 3] = 900.0
    made = calibrated(paths, actuals, peaks=np.full(20, 60.0))
    assert made.gpus[0.95].max() == pytest.approx(CLIP_TIMES * 60.0)
    assert made.clipped[-1]
    assert not made.clipped[0]


def test_gaps_in_what_came_are_no_errors() -> None:
    paths = np.full((20, 24), 50.0)
    actuals = paths + 5.0
    actuals[:, 2] = np.nan
    actuals[9] = np.nan
    made = calibrated(paths, actuals)
    assert np.allclose(made.gpus[0.9][-1], 55.0)


def test_pinball_prices_too_low_by_the_quantile() -> None:
    loss = pinball(np.array([10.0, 10.0]), np.array([8.0, 12.0]), quantile=0.9)
    assert loss == pytest.approx([1.8, 0.2])
