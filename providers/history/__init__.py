"""Histories of real queues: readers of accounting and of public trace formats, cleaning, our own Parquet.

`read_history(kind, paths)` and `load_history(path)` are the doors; pandas lives at this edge only.
"""

from providers.history.errors import HistoryError
from providers.history.history import CleaningReport, Dropped, History, Origin, ReadOptions
from providers.history.parquet import write_history
from providers.history.read import KINDS, detect_kind, load_history, read_history

__all__ = [
    "KINDS",
    "CleaningReport",
    "Dropped",
    "History",
    "HistoryError",
    "Origin",
    "ReadOptions",
    "detect_kind",
    "load_history",
    "read_history",
    "write_history",
]
