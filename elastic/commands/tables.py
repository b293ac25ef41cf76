"""How commands print tables: one look, wide enough for a file, wrapped to a terminal."""

from collections.abc import Iterable, Sequence

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

FILE_WIDTH = 260  # columns where the output is no terminal


def show_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Iterable[str] = ()) -> None:
    """Print rows under their headings; columns named in `numbers` are right-aligned."""
    right = set(numbers)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console()
    if not console.is_terminal:
        console = Console(width=FILE_WIDTH)
    console.print(table)


def say(line: str) -> None:
    """A line of text beside a table."""
    typer.echo(line)
