"""Text files of any size, line by line with bounded memory: plain or gzip, BOM or none, any of four delimiters."""

import csv
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from providers.history.errors import HistoryError
from providers.history.history import ReadOptions, Tally

MAX_LINE_BYTES = 1 << 20  # the longest sane row (an array job's node list) is a few kB
CHUNK_ROWS = 100_000  # text of so many rows is held at once
MAX_COLUMNS = 1_000
GZIP_MAGIC = b"\x1f\x8b"
PARQUET_MAGIC = b"PAR1"
FOREIGN = {
    b"PK\x03\x04": "a ZIP archive or a spreadsheet",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}


def first_bytes(path: Path, count: int = 8) -> bytes:
    """The first bytes of a file as they lie on disk."""
    try:
        with path.open("rb") as file:
            return file.read(count)
    except OSError as trouble:
        raise HistoryError(f"cannot be read ({trouble.strerror})", path=str(path), advice="Check the path") from trouble


def read_lines(path: Path, options: ReadOptions | None = None) -> Iterator[tuple[int, str]]:
    """(line number from 1, text without its line end) of a plain or gzip text file. HistoryError: a line above
    `MAX_LINE_BYTES`, a gzip that ends early (with the rows read until then), a file that is not text."""
    head = first_bytes(path)
    for magic, name in FOREIGN.items():
        if head.startswith(magic):
            raise HistoryError(f"is {name}", path=str(path), advice="Save it as UTF-8 text, plain or gzip")
    number = 0
    total = path.stat().st_size
    with path.open("rb") as raw:
        source: BinaryIO = raw
        if head.startswith(GZIP_MAGIC):
            source = cast(
                BinaryIO, gzip.GzipFile(fileobj=raw)
            )  # a buffer around it would swallow a cut file's last rows
        try:
            while line := source.readline(MAX_LINE_BYTES + 1):
                number += 1
                yield number, _decoded(line, number, path)
                if options and options.progress and number % CHUNK_ROWS == 0:
                    options.progress(raw.tell(), total)
        except (EOFError, zlib.error, gzip.BadGzipFile) as trouble:
            raise HistoryError(
                f"the gzip file ends early or is damaged; {number} lines could be read and nothing was used",
                path=str(path),
                line=number + 1,
                advice="Copy or export the file again",
            ) from trouble


def _decoded(line: bytes, number: int, path: Path) -> str:
    if len(line) > MAX_LINE_BYTES:
        raise HistoryError(
            f"a line is longer than {MAX_LINE_BYTES // 1024} kB",
            path=str(path),
            line=number,
            advice="Is this the right file? A history has one row a line",
        )
    text = line.decode("utf-8-sig" if number == 1 else "utf-8", errors="replace")
    return text.rstrip("\r\n").replace("\r", " ")


def delimiter_of(header: str) -> str:
    """The most frequent of , ; tab | in a header line; ',' when there is none."""
    return max(",;\t|", key=lambda mark: (header.count(mark), mark == ","))


class Table:
    """A text table: `header`, and chunks of rows as text with their line numbers. Ragged rows go to the tally."""

    def __init__(self, path: Path, options: ReadOptions, tally: Tally, *, delimiter: str | None = None) -> None:
        self.path, self._tally = path, tally
        self._lines = read_lines(path, options)
        number, first = next(self._lines, (0, ""))
        if not first.strip():
            raise HistoryError(
                "the first line is blank" if number else "the file is empty",
                path=str(path),
                line=1,
                advice="A table needs a header line with the names of its columns",
            )
        self.delimiter = delimiter or delimiter_of(first)
        try:
            self.header = [name.strip() for name in next(csv.reader([first], delimiter=self.delimiter))]
        except csv.Error as trouble:
            raise HistoryError(f"the header is not a table's ({trouble})", path=str(path), line=1) from trouble
        if len(self.header) > MAX_COLUMNS:
            raise HistoryError(f"the header has {len(self.header)} columns", path=str(path), line=1)
        twice = sorted({name for name in self.header if name and self.header.count(name) > 1})
        if twice:
            raise HistoryError(
                f"column {twice[0]!r} stands in the header more than once", path=str(path), line=1, advice="Rename one"
            )

    def chunks(self) -> Iterator[tuple[pd.DataFrame, NDArray[np.int64]]]:
        """(text columns, line numbers), `CHUNK_ROWS` rows at a time."""
        rows: list[list[str]] = []
        numbers: list[int] = []
        for number, row in self._rows():
            self._tally.rows_read += 1
            if len(row) != len(self.header):
                reason = "too few fields" if len(row) < len(self.header) else "too many fields"
                self._tally.drop(reason, 1, [f"{self.path.name}:{number}"])
                continue
            rows.append(row)
            numbers.append(number)
            if len(rows) == CHUNK_ROWS:
                yield self._frame(rows), np.array(numbers, dtype=np.int64)
                rows, numbers = [], []
        if rows:
            yield self._frame(rows), np.array(numbers, dtype=np.int64)

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        reader = csv.reader((text + "\n" for _, text in self._lines), delimiter=self.delimiter)
        try:
            for row in reader:
                if row and any(row):
                    yield reader.line_num + 1, row
        except csv.Error as trouble:
            raise HistoryError(
                f"not a table ({trouble})", path=str(self.path), line=reader.line_num + 1, advice="Check the quotes"
            ) from trouble

    def _frame(self, rows: list[list[str]]) -> pd.DataFrame:
        return pd.DataFrame(dict(zip(self.header, map(list, zip(*rows, strict=True)), strict=True)), dtype=object)
