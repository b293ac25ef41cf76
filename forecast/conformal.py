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
    errors = actuals - paths
    at = np.asarray(origins)
    out = {q: np.array(paths, dtype=np.float64) for q in quantiles}
    calibrated = np.zeros(len(paths), dtype=np.bool_)
    for begin in range(0, paths.shape[1], block_steps):
        block = slice(begin, min(begin + block_steps, paths.shape[1]))
        seen = np.searchsorted(at + block.stop, at, side="right")  # origins whose block lies in the past of each
        offsets = _offsets(errors[:, block], seen, quantiles)
        calibrated |= ~np.isnan(offsets[:, 0])
        for number, q in enumerate(quantiles):
            moved = paths[:, block] + offsets[:, number, None]
            prior = paths[:, block] * PRIOR_FACTORS[q]
            out[q][:, block] = np.where(np.isnan(moved), prior, moved)
    return _ordered(out, paths, peaks, calibrated)


def _offsets(errors: Floats, seen: NDArray[Any], quantiles: Sequence[float]) -> Floats:
    """(origins, quantiles) offset of each level for one block; NaN where too few origins are known."""
    wanted = np.array(quantiles)
    levels = wanted.copy()
    offsets = np.full((len(errors), len(wanted)), np.nan)
    judged = 0
    for origin in range(len(errors)):
        while judged < seen[origin]:  # what has come true since the last origin moves the levels
            levels = _adapted(levels, wanted, errors[judged], offsets[judged])
            judged += 1
        rows = errors[max(seen[origin] - WINDOW_ORIGINS, 0) : seen[origin]]
        usable = rows[~np.isnan(rows)]
        if np.sum(~np.isnan(rows).all(axis=1)) >= MIN_ORIGINS:
            offsets[origin] = _empirical(np.sort(usable), levels)
    return offsets


def _adapted(levels: Floats, wanted: Floats, errors: Floats, offsets: Floats) -> Floats:
    known = errors[~np.isnan(errors)]
    if len(known) == 0 or np.isnan(offsets).any():
        return levels
    covered = (known[:, None] <= offsets).mean(axis=0)
    return np.asarray(np.clip(levels + ADAPTIVE_STEP * (wanted - covered), *LEVEL_LIMITS))


def _empirical(ascending: Floats, levels: Floats) -> Floats:
    """The conformal quantile: the ceil((n + 1) level)-th smallest, between neighbours below the middle."""
    count = len(ascending)
    ranks = np.clip(np.ceil((count + 1) * levels).astype(np.int64) - 1, 0, count - 1)
    return ascending[ranks]


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
