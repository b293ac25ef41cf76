"""`elastic compare`: the same trace under several policies and the baselines people use today."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elastic.commands.output import Format, FormatOption, print_json

if TYPE_CHECKING:
    from elastic.comparison import Contender
    from elastic.replay import TraceJob


def compare(
    trace: Annotated[Path, typer.Argument(help="any history: our Parquet or a kind that `history import` knows")],
    onprem_gpus: Annotated[int, typer.Option("--onprem-gpus", min=1, help="GPUs of the site, as whole nodes")],
    policies: Annotated[
        list[Path] | None, typer.Option("--policies", help="policy files, one an option; policies/replay.yaml if none")
    ] = None,
    baselines: Annotated[bool, typer.Option(help="also what people run today, on the first policy's pools")] = True,
    checkpointable: Annotated[float, typer.Option(min=0, max=1, help="seeded share of jobs that may move")] = 1.0,
    seed: Annotated[int, typer.Option(help="of that share")] = 0,
    max_gpus: Annotated[int, typer.Option(help="larger jobs are left out")] = 256,
    output: FormatOption = Format.TEXT,
) -> None:
    """The same trace under several policies and baselines: money, waits and restarts side by side.

    Example: [bold]elastic compare desk.parquet --onprem-gpus 128 --policies a.yaml --policies b.yaml[/bold]
    """
    from elastic.commands.progress import bar
    from elastic.commands.trace import INTERRUPTED, trace_of
    from elastic.comparison import Case
    from elastic.comparison import compare as play_all
    from elastic.replay_files import plain

    jobs = trace_of(trace, max_gpus=max_gpus)
    contenders = _contenders(policies or [None], jobs, onprem_gpus=onprem_gpus, baselines=baselines)
    case = Case(onprem_gpus=onprem_gpus, checkpointable=checkpointable, seed=seed)
    try:
        with bar("comparing") as report:
            figures = play_all(jobs, contenders, case, progress=lambda name, share: report(share, name))
    except KeyboardInterrupt:
        typer.secho("interrupted; nothing was compared", err=True, fg=typer.colors.YELLOW)
        raise typer.Exit(INTERRUPTED) from None
    rows = [{"name": c.name, "title": c.title, **plain(figures[c.name])} for c in contenders]
    if output is Format.JSON:
        asked = {"trace": str(trace), "onprem_gpus": onprem_gpus, "checkpointable": checkpointable, "seed": seed}
        print_json({**asked, "jobs": len(jobs), "contenders": rows})
        return
    _tell(trace, jobs, contenders, figures, case_words=f"{onprem_gpus} GPUs at home, {checkpointable:.0%} can move")


def _contenders(
    paths: "list[Path] | list[None]", jobs: "list[TraceJob]", *, onprem_gpus: int, baselines: bool
) -> "list[Contender]":
    """One a policy, named by its file (numbered where names repeat), and the baselines on the first one's pools."""
    from elastic.commands.trace import replay_policy
    from elastic.comparison import Contender, baselines_of

    found: list[Contender] = []
    for path in paths:
        stem = path.stem if path else "replay"
        name = stem if stem not in {c.name for c in found} else f"{stem}-{len(found) + 1}"
        policy = replay_policy(path, jobs, onprem_gpus=onprem_gpus)
        found.append(Contender(name=name, title=f"policy {name}", policy=policy))
    return [*found, *(baselines_of(found[0].policy) if baselines else [])]


def _tell(
    trace: Path,
    jobs: "list[TraceJob]",
    contenders: "list[Contender]",
    figures: dict[str, dict[str, float]],
    *,
    case_words: str,
) -> None:
    from rich.console import Console

    from elastic.comparison_text import LEGEND, comparison_table

    console = Console()
    head = f"{trace}: {len(jobs):,} jobs from {jobs[0].submitted_at:%Y-%m-%d} to {jobs[-1].submitted_at:%Y-%m-%d}"
    console.print(f"{head}; {case_words}", highlight=False, markup=False, soft_wrap=True)
    console.print(comparison_table([(c.title, figures[c.name]) for c in contenders]))
    console.print(LEGEND, highlight=False, markup=False, soft_wrap=True)
