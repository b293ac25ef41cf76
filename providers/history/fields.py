"""Columns of text -> numbers, times and words. A field that can't be read marks its row; the tally says how many."""

from dataclasses import dataclass, field
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from providers.history.errors import HistoryError
from providers.history.history import EXAMPLES, Tally

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

UNKNOWN = frozenset(
    {"", "nan", "none", "null", "(null)", "na", "n/a", "nat", "unknown", "not set", "not_set", "-", "unlimited"}
)
_AWARE = r"(?:[zZ]|\d[+-]\d\d(?::?\d\d)?)$"
_HAS_CLOCK = r"\d\d?:\d\d|\d[tT]\d"
# Epoch numbers above these are milli-, micro- and nanoseconds: 1e11 s is the year 5138, 1e11 ms is 1973.
EPOCH_SCALES = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))


def zone_of(name: str) -> ZoneInfo:
    """The IANA zone. HistoryError when there is none of that name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as trouble:
        raise HistoryError(
            f"no time zone is called {name!r}", advice="Use an IANA name such as Europe/London"
        ) from trouble


@dataclass(slots=True, kw_only=True)
class Fields:
    """One chunk of a file being read. `bad` gathers the rows that can't be used; each is counted for one reason."""

    raw: pd.DataFrame
    lines: NDArray[np.int64]
    file_name: str
    tally: Tally
    zone: str | None = None
    decimal_comma: bool = False
    bad: Flags = field(init=False)

    def __post_init__(self) -> None:
        self.bad = np.zeros(len(self.raw), dtype=np.bool_)

    def drop(self, rows: Flags, reason: str) -> None:
        """Leave out the rows not yet left out for another reason."""
        fresh = rows & ~self.bad
        count = int(fresh.sum())
        if count:
            first = [f"{self.file_name}:{line}" for line in self.lines[np.flatnonzero(fresh)[:EXAMPLES]]]
            self.tally.drop(reason, count, first)
            self.bad |= fresh

    def words(self, column: str | None) -> "pd.Series[str]":
        """Text without outer blanks; 'unknown' spellings become ''. A column that is not there: all ''."""
        if column is None or column not in self.raw:
            return pd.Series([""] * len(self.raw), dtype=object)
        text = self.raw[column].astype(object).map(str.strip)
        return text.where(~text.map(str.lower).isin(UNKNOWN), "")

    def numbers(self, column: str | None) -> Floats:
        """Floats, NaN where nothing stands. Rows with something that is no finite number are dropped."""
        text = self.words(column)
        if self.decimal_comma:
            text = text.str.replace(",", ".", regex=False)
        values = np.array(pd.to_numeric(text.where(text != "", None), errors="coerce"), dtype=np.float64)
        broken = ~np.isfinite(values) & (text != "").to_numpy(dtype=np.bool_)
        self.drop(broken, f"{column} is no number")
        values[broken] = np.nan
        return values

    def times(self, column: str | None, *, origin_s: float = 0.0) -> Floats:
        """Unix seconds: numbers are epoch seconds (ms, us, ns by size) or seconds after `origin_s`; else ISO 8601."""
        text = self.words(column)
        known = (text != "").to_numpy(dtype=np.bool_)
        seconds = np.array(pd.to_numeric(text.where(text != "", None), errors="coerce"), dtype=np.float64)
        for above, divisor in EPOCH_SCALES:
            seconds = np.where(np.abs(seconds) > above, seconds / divisor, seconds)
        seconds = seconds + origin_s
        written = known & ~np.isfinite(seconds)
        if written.any():
            seconds[written] = self._written_times(text[written], np.flatnonzero(written))
        self.drop(known & ~np.isfinite(seconds), f"{column} is no time")
        seconds[~np.isfinite(seconds)] = np.nan
        return seconds

    def _written_times(self, text: "pd.Series[str]", rows: NDArray[np.int64]) -> Floats:
        text = text.str.replace(" UTC", "Z", regex=False).str.replace("/", "-", regex=False)
        aware = (text.str.contains(_AWARE) & text.str.contains(_HAS_CLOCK)).to_numpy(dtype=np.bool_)
        seconds = np.full(len(text), np.nan)
        if aware.any():
            seconds[aware] = _unix(pd.to_datetime(text[aware], format="ISO8601", errors="coerce", utc=True))
        naive = ~aware
        if naive.any():
            parsed = pd.to_datetime(text[naive], format="ISO8601", errors="coerce")
            seconds[naive] = _unix(_localised(parsed, zone_of(self.zone or "UTC")))
            if self.zone is None and aware.any():
                mixed = np.zeros(len(self.raw), dtype=np.bool_)
                mixed[rows[naive]] = True
                self.drop(mixed, "time without a zone in a column that has zones (say which with --zone)")
            elif self.zone is None:
                self.tally.note("times carry no zone and are read as UTC (say which with --zone)")
        return seconds


def _localised(times: "pd.Series[pd.Timestamp]", zone: ZoneInfo) -> "pd.Series[pd.Timestamp]":
    """Wall-clock times in a zone. An hour that happens twice is the first one; one that never happens moves on."""
    first = np.ones(len(times), dtype=np.bool_)
    return times.dt.tz_localize(zone, ambiguous=first, nonexistent="shift_forward").dt.tz_convert("UTC")


def _unix(times: "pd.Series[pd.Timestamp]") -> Floats:
    """Unix seconds, NaN for NaT. Microseconds hold the years 1 to 9999; nanoseconds would not."""
    micros = times.dt.as_unit("us")
    return np.where(micros.isna(), np.nan, micros.astype("int64").to_numpy() / 1e6)
