"""A comparison as a table: what `elastic compare` and the benchmark of economics print."""

import math
from collections.abc import Iterable, Mapping

from rich.table import Table

from elastic.comparison import COLUMNS

LEGEND = (
    "unavoidable: demand above the site's GPUs, every job counted from its submission; waits in minutes, a job that"
    " never started waits until the end; USD at the simulated market's list prices"
)


def comparison_table(contenders: Iterable[tuple[str, Mapping[str, float]]], *, title: str | None = None) -> Table:
    """One column a contender: a terminal is narrow, and there are more figures than ways to run a site."""
    shown = list(contenders)
    table = Table(title=title, title_justify="left")
    table.add_column("", no_wrap=True)
    for name, _ in shown:
        table.add_column(name, justify="right")
    for key, heading, digits in COLUMNS:
        table.add_row(heading, *(_number(figures[key], digits) for _, figures in shown))
    return table


def _number(value: float, digits: int) -> str:
    return "-" if math.isnan(value) else f"{value:,.{digits}f}"
