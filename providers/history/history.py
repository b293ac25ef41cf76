"""The canonical form of a queue's history: one row a job, or a ready-made demand series. What the readers make."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pandas as pd

TEXT_COLUMNS = ("job_id", "team", "user", "job_class", "name", "gpu_model", "state", "pending_reason")
TIME_COLUMNS = ("submit_s", "eligible_s", "start_s", "end_s")
JOB_COLUMNS = (
    *("job_id", "team", "user", "job_class", "name", "gpus", "nodes", "cpus", "memory_gib", "gpu_model"),
    *TIME_COLUMNS,
    *("state", "pending_reason"),
)
SERIES_COLUMNS = ("key", "time_utc", "gpus", "running_gpus", "pending_gpus", "capacity_gpus")

# More GPUs than any single job on the largest known sites ever had; above it a row is a typing error.
MAX_GPUS = 100_000
EXAMPLES = 5  # example lines kept per reason: enough to look at, never a list of thousands


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How a file is to be read.

    `columns`: canonical name -> the file's column (kind `csv`). `zone`: IANA zone of times written without one.
    `now_s`: nothing later than a day after it is believed (None: judged by the bulk of the file). `origin_s`: Unix
    seconds of second 0 for files with relative times. `cpus_per_gpu`: processors that count as one GPU (kind `swf`).
    `progress(done_bytes, total_bytes)` is called now and then while a file is read.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    zone: str | None = None
    now_s: float | None = None
    origin_s: float | None = None
    max_gpus: int = MAX_GPUS
    cpus_per_gpu: float = 1.0
    progress: Callable[[int, int], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Rows left out for one reason, and where the first of them stand (`file:line`)."""

    reason: str
    rows: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningReport:
    """What was read, what was kept, what was left out and why; `notes` are assumptions a reader should know."""

    rows_read: int
    rows_kept: int
    dropped: tuple[Dropped, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a history came from. `zero_s`: the Unix second at which its own second 0 was placed (0: its times are
    dates or Unix seconds)."""

    kind: str
    files: tuple[str, ...]
    zero_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class History:
    """Jobs, or (for sources that only have one) a demand series.

    `jobs` has `JOB_COLUMNS`: times in float Unix seconds (NaN: not known), `gpus` int > 0 over all nodes, text never
    missing ('' instead), sorted by submission, ids unique; `nodes` is 1, `cpus` and `memory_gib` are 0 where the source
    does not tell. `series` has `SERIES_COLUMNS`, one row a key and step of
    `step_s` seconds, `time_utc` the step's start; a missing or NaN step is a gap. A source has one of the two;
    `series` is None when demand is to be made from `jobs`.
    """

    jobs: pd.DataFrame
    series: pd.DataFrame | None
    step_s: int | None
    report: CleaningReport
    origin: Origin


class Tally:
    """Counts rows left out by reason while files are read; `report` freezes it. `zero_s`: see `Origin`."""

    def __init__(self) -> None:
        self.rows_read = 0
        self.zero_s = 0.0
        self._rows: dict[str, int] = {}
        self._examples: dict[str, list[str]] = {}
        self._notes: dict[str, None] = {}

    def drop(self, reason: str, rows: int, examples: "list[str]") -> None:
        """`rows` more left out for `reason`; the first examples are kept."""
        if rows <= 0:
            return
        self._rows[reason] = self._rows.get(reason, 0) + rows
        kept = self._examples.setdefault(reason, [])
        kept.extend(examples[: max(0, EXAMPLES - len(kept))])

    def note(self, text: str) -> None:
        """An assumption, told once."""
        self._notes[text] = None

    def report(self, *, rows_kept: int) -> CleaningReport:
        """The frozen count, most rows first."""
        dropped = [
            Dropped(reason=reason, rows=rows, examples=tuple(self._examples[reason]))
            for reason, rows in sorted(self._rows.items(), key=lambda entry: (-entry[1], entry[0]))
        ]
        return CleaningReport(
            rows_read=self.rows_read, rows_kept=rows_kept, dropped=tuple(dropped), notes=tuple(self._notes)
        )


def empty_jobs() -> pd.DataFrame:
    """A jobs table without rows, in canonical types."""
    return canonical_types(pd.DataFrame({column: [] for column in JOB_COLUMNS}))


def canonical_types(jobs: pd.DataFrame) -> pd.DataFrame:
    """The canonical columns in order and with their types; missing columns are filled with 'not known'."""
    columns: dict[str, object] = {}
    for column in JOB_COLUMNS:
        given = jobs.get(column)
        if column in TEXT_COLUMNS:
            columns[column] = "" if given is None else given.astype(object).fillna("").astype(str)
        elif column in TIME_COLUMNS:
            columns[column] = float("nan") if given is None else given.astype(float)
        elif column == "memory_gib":
            columns[column] = 0.0 if given is None else given.astype(float).fillna(0.0)
        else:
            columns[column] = (1 if column == "nodes" else 0) if given is None else given.fillna(0).astype("int64")
    return pd.DataFrame(columns, index=jobs.index)
