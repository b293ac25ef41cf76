"""Quantiles around a median path from the errors of past origins: rolling conformal calibration. Pure.

Per block of the horizon (six hours) the errors of the last `WINDOW_ORIGINS` origins whose actuals are known are pooled;
the wanted level is moved a little after each origin by what was covered (adaptive conformal inference, Gibbs & Candès
2021). A growing window is over-wide on short, drifting records (measured on Helios Earth), so the window rolls.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forecast.forecaster import QUANTILES, Floats

BLOCK_S = 6 * 3600
WINDOW_ORIGINS = 45  # between the 30 and 60 that the field studies name
ADAPTIVE_STEP = 0.05
LEVEL_LIMITS = (0.005, 0.995)
MIN_ORIGINS = 5  # with fewer, `PRIOR_FACTORS` speak
# Quantile over median when nothing was calibrated: day-ahead errors of single teams on Helios Earth span 13 to 80 %.
PRIOR_FACTORS: Mapping[float, float] = {0.05: 0.4, 0.25: 0.8, 0.5: 1.0, 0.75: 1.2, 0.9: 1.5, 0.95: 1.8}
CLIP_TIMES = 3.0  # no quantile above three times the peak of the last fortnight; said by a flag


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calibrated:
    """Quantiles of every origin: `gpus[q]` has shape (origins, horizon). `calibrated[i]`: by errors, not by the prior;
    `clipped[i]`: a quantile was cut at `CLIP_TIMES` recent peaks."""

    gpus: Mapping[float, Floats]
    calibrated: NDArray[Any]
    clipped: NDArray[Any]


def calibrate(
    paths: Floats,
    actuals: Floats,
    *,
    origins: Sequence[int],
    peaks: Floats,
    block_steps: int,
    quantiles: Sequence[float] = QUANTILES,
) -> Calibrated:
    """Quantiles at each origin from the errors known there.

    `paths`, `actuals` (origins, horizon): median paths, and what came (NaN: not known). `origins`: steps known at
    each, ascending. `peaks` (origins,): the recent peak, for the clip.
    """
    at = np.asarray(origins)
    steps = paths.shape[1]
    blocks = -(-steps // block_steps)
    padded = np.pad(actuals - paths, ((0, 0), (0, blocks * block_steps - steps)), constant_values=np.nan)
    errors = padded.reshape(len(paths), blocks, block_steps)
    offsets = np.full((len(paths), blocks, len(quantiles)), np.nan)
    ends = np.minimum((np.arange(blocks) + 1) * block_steps, steps)
    # For each block, how many origins have it in their past; blocks of one day mostly agree and go together.
    seen = np.array([np.searchsorted(at + end, at, side="right") for end in ends])
    for pattern in np.unique(seen, axis=0):
        together = (seen == pattern).all(axis=1)
        offsets[:, together] = _offsets(errors[:, together], pattern, np.array(quantiles))
    by_step = np.repeat(offsets, block_steps, axis=1)[:, :steps]
    out = {}
    for number, q in enumerate(quantiles):
        moved = paths + by_step[:, :, number]
        out[q] = np.where(np.isnan(moved), paths * PRIOR_FACTORS[q], moved)
    return _ordered(out, paths, peaks, ~np.isnan(offsets[:, 0, 0]))


def _offsets(errors: Floats, seen: NDArray[Any], wanted: Floats) -> Floats:
    """`errors` (origins, blocks, steps) -> (origins, blocks, quantiles); offsets, NaN where too few are known."""
    origins, blocks = errors.shape[:2]
    levels = np.repeat(wanted[None], blocks, axis=0)
    offsets = np.full((origins, blocks, len(wanted)), np.nan)
    answered = ~np.asarray(np.isnan(errors).all(axis=2))
    judged = 0
    for origin in range(origins):
        while judged < seen[origin]:  # what has come true since the last origin moves the levels
            levels = _adapted(levels, wanted, errors[judged], offsets[judged])
            judged += 1
        window = slice(max(int(seen[origin]) - WINDOW_ORIGINS, 0), int(seen[origin]))
        pool = errors[window].transpose(1, 0, 2).reshape(blocks, -1)
        if pool.shape[1]:
            found = _empirical(np.sort(pool, axis=1), levels)
            offsets[origin] = np.where((answered[window].sum(axis=0) >= MIN_ORIGINS)[:, None], found, np.nan)
    return offsets


def _adapted(levels: Floats, wanted: Floats, errors: Floats, offsets: Floats) -> Floats:
    """Levels (blocks, quantiles) after one more origin came true; blocks without errors or offsets keep theirs."""
    known = ~np.isnan(errors)
    count = known.sum(axis=1)
    covered = (errors[:, :, None] <= offsets[:, None, :]).sum(axis=1) / np.maximum(count, 1)[:, None]
    moved = np.minimum(np.maximum(levels + ADAPTIVE_STEP * (wanted - covered), LEVEL_LIMITS[0]), LEVEL_LIMITS[1])
    judgeable = (count > 0)[:, None] & ~np.isnan(offsets)
    return np.where(judgeable, moved, levels)


def _empirical(ascending: Floats, levels: Floats) -> Floats:
    """The conformal quantile of each block: the ceil((n + 1) level)-th smallest of its n errors (NaN lie behind)."""
    count = (~np.isnan(ascending)).sum(axis=1)[:, None]
    ranks = np.ceil((count + 1) * levels).astype(np.int64) - 1
    within = np.maximum(np.minimum(ranks, count - 1), 0)
    chosen: Floats = ascending[np.arange(len(ascending))[:, None], within]
    return chosen


def _ordered(out: dict[float, Floats], paths: Floats, peaks: Floats, calibrated: NDArray[Any]) -> Calibrated:
    """Never negative, never crossing, the median in the middle, nothing above `CLIP_TIMES` recent peaks."""
    limit = (CLIP_TIMES * peaks)[:, None]
    clipped = np.zeros(len(paths), dtype=np.bool_)
    lowest = np.zeros_like(paths)
    median = np.maximum(paths, 0.0)
    ordered: dict[float, Floats] = {}
    for q in sorted(out):
        values = np.minimum(out[q], median) if q < 0.5 else np.maximum(out[q], median)
        values = median if q == 0.5 else values
        clipped |= (values > limit + 1e-9).any(axis=1)
        lowest = np.maximum(lowest, np.minimum(values, limit))
        ordered[q] = lowest
    return Calibrated(gpus=ordered, calibrated=calibrated, clipped=clipped)


def pinball(actuals: Floats, values: Floats, *, quantile: float) -> Floats:
    """Pinball loss of a quantile, elementwise: the price of too low is q, of too high 1 - q, per GPU."""
    miss = actuals - values
    return np.maximum(quantile * miss, (quantile - 1) * miss)
