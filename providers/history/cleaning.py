"""Rows that cannot be true are left out and counted, one reason each. Works on canonical columns, in one sweep."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from providers.history.history import EXAMPLES, ReadOptions, Tally, canonical_types

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

# No site's history is silent for a year and then goes on: what lies beyond such a gap is a typing error (1970, 2099).
BULK_GAP_S = 366 * 86_400.0
YEAR_1990_S = 631_152_000.0  # no GPU queue is older
FUTURE_S = 86_400.0  # clocks differ, zones are mixed up: a day past `now` is still believed


def clean(draft: pd.DataFrame, options: ReadOptions, tally: Tally) -> pd.DataFrame:
    """Canonical jobs, sorted by submission, from rows that carry `place` (file:line) beside the canonical columns."""
    if draft.empty:
        return canonical_types(draft)
    draft = draft.reset_index(drop=True)
    keep = np.ones(len(draft), dtype=np.bool_)

    def drop(rows: Flags, reason: str) -> None:
        fresh = rows & keep
        where = np.flatnonzero(fresh)
        tally.drop(reason, len(where), [str(draft["place"].iloc[row]) for row in where[:EXAMPLES]])
        keep[where] = False

    gpus, submit = _floats(draft, "gpus"), _floats(draft, "submit_s")
    start, end = _floats(draft, "start_s"), _floats(draft, "end_s")
    with np.errstate(invalid="ignore"):
        drop(np.isnan(submit), "no submission time")
        drop(np.isnan(gpus), "number of GPUs not known")
        drop(gpus < 0, "negative GPUs")
        drop(gpus == 0, "asks for no GPUs")
        drop(gpus > options.max_gpus, f"more than {options.max_gpus} GPUs in one job")
        if options.now_s is not None:
            latest = np.fmax(np.fmax(submit, start), end)
            drop(latest > options.now_s + FUTURE_S, "a time in the future")
        drop(far_from_bulk(submit, keep), "submitted over a year apart from the rest of the file")
        if keep.any():
            last = float(submit[keep].max()) + BULK_GAP_S
            drop((start > last) | (end > last), "starts or ends over a year after the last submission")
        drop(end < start, "ends before it starts")
        drop(start < submit, "starts before it was submitted")
        drop(end < submit, "ends before it was submitted")
    if keep.any() and float(np.median(submit[keep])) < YEAR_1990_S:
        tally.note("times lie before 1990: are they seconds after some start? Say which with --origin")
    kept = _one_row_a_job(draft[keep], tally)
    kept = kept.sort_values(["submit_s", "job_id"], kind="stable").reset_index(drop=True)
    jobs = canonical_types(kept)
    jobs["nodes"] = jobs["nodes"].clip(lower=1)
    return jobs


def _floats(draft: pd.DataFrame, column: str) -> Floats:
    return np.array(draft[column], dtype=np.float64)


def far_from_bulk(submit: Floats, keep: Flags) -> Flags:
    """Rows outside the largest run of submissions without a year's gap in it."""
    far = np.zeros(len(submit), dtype=np.bool_)
    rows = np.flatnonzero(keep)
    if len(rows) == 0:
        return far
    order = rows[np.argsort(submit[rows], kind="stable")]
    part = np.concatenate([[0], np.cumsum(np.diff(submit[order]) > BULK_GAP_S)])
    bulk = int(np.bincount(part).argmax())
    far[order[part != bulk]] = True
    return far


def _one_row_a_job(rows: pd.DataFrame, tally: Tally) -> pd.DataFrame:
    """Drop rows that tell of a job again. A later run of the same id (requeued, or an id used anew) that begins after
    the earlier one ended is a job of its own: it gets `~2`, `~3` behind its id and waits from that end at the earliest.
    """
    if not rows["job_id"].duplicated().any():
        return rows
    rows = rows.sort_values(["job_id", "submit_s", "start_s"], kind="stable")
    ids = rows["job_id"].astype(object)
    again = (ids == ids.shift()).to_numpy(dtype=np.bool_)
    end, start, submit = _floats(rows, "end_s"), _floats(rows, "start_s"), _floats(rows, "submit_s")
    before_end = np.concatenate([[np.nan], end[:-1]])
    begins = np.where(np.isnan(start), np.where(np.isnan(end), np.inf, submit), start)
    with np.errstate(invalid="ignore"):
        new_run = again & (begins >= before_end) & (end != before_end)
    twice = again & ~new_run
    where = np.flatnonzero(twice)
    tally.drop("job id seen before", len(where), [str(place) for place in rows["place"].iloc[where[:EXAMPLES]]])
    rows = rows.copy()
    eligible = _floats(rows, "eligible_s")
    waits_from = np.fmax(np.where(np.isnan(eligible), submit, eligible), before_end)
    rows["eligible_s"] = np.where(new_run, waits_from, eligible)
    rows = rows[~twice]
    run = rows.groupby("job_id", sort=False).cumcount().to_numpy()
    rows["job_id"] = np.where(run > 0, rows["job_id"].astype(str) + "~" + (run + 1).astype(str), rows["job_id"])
    if new_run.any():
        tally.note(f"{int(new_run.sum())} later runs of the same job id count as jobs of their own (~2, ~3, ...)")
    return rows
