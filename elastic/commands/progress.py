"""One bar on stderr for what lasts: shown after two seconds, on a terminal only."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

QUIET_S = 2.0  # no bar for what is over sooner


@contextmanager
def bar(title: str) -> Iterator[Callable[[float, str], None]]:
    """A bar that takes the share done (0 to 1) and a word for what is going on."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task(title, total=1.0, visible=False)

        def report(share: float, word: str = "") -> None:
            slow = (shown.tasks[0].elapsed or 0.0) > QUIET_S
            shown.update(task, completed=share, visible=slow, description=f"{title} {word}".rstrip())

        yield report
