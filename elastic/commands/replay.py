"""`elastic replay`: a queue's whole history through the controller on the simulated world."""

from pathlib import Path
from typing import Annotated

import typer

from elastic.commands.output import Format, FormatOption, print_json, refuse


def replay(
    trace: Annotated[Path, typer.Argument(help="any history: our Parquet or a kind that `history import` knows")],
    onprem_gpus: Annotated[int, typer.Option("--onprem-gpus", min=1, help="GPUs of the site, as whole nodes")],
    out: Annotated[Path, typer.Option(help="folder for segments.parquet, nodes.parquet, decisions, summary.json")],
    policy: Annotated[Path | None, typer.Option(help="policy file; policies/replay.yaml if none is given")] = None,
    checkpointable: Annotated[float, typer.Option(min=0, max=1, help="seeded share of jobs that may move")] = 1.0,
    seed: Annotated[int, typer.Option(help="of that share")] = 0,
    max_gpus: Annotated[int, typer.Option(help="larger jobs are left out")] = 256,
    output: FormatOption = Format.TEXT,
) -> None:
    """Replay a history: what the controller would have decided, how long jobs would have waited, what it costs.

    Example: [bold]elastic replay desk.parquet --onprem-gpus 128 --out out/desk[/bold]
    """
    from elastic.policy_file import PolicyError, default_policy_path, load_policy
    from elastic.replay import replay as play
    from elastic.replay import sim_jobs
    from elastic.replay_files import read_trace, score, write_replay
    from providers.history import HistoryError

    try:
        jobs = read_trace(trace, max_gpus=max_gpus)
    except HistoryError as trouble:
        refuse(str(trouble))
    if not jobs:
        refuse(f"{trace}: no job with a known run of at most {max_gpus} GPUs; nothing to replay")
    path = policy or default_policy_path().with_name("replay.yaml")
    try:
        wanted = load_policy(path, at=jobs[0].submitted_at, until=jobs[-1].submitted_at, data_may_end=True)
    except PolicyError as complaint:
        refuse(*[f"{c.file}:{c.line}:{c.column} {c.path}: {c.message}" for c in complaint.complaints])
    world_jobs = sim_jobs(jobs, wanted, checkpointable_share=checkpointable, seed=seed)
    with typer.progressbar(length=1000, label="replay", file=typer.get_text_stream("stderr")) as bar:
        done = play(world_jobs, wanted, onprem_gpus=onprem_gpus, progress=lambda s: bar.update(int(s * 1000) - bar.pos))
    summary = {"trace": str(trace), "onprem_gpus": onprem_gpus, "checkpointable": checkpointable}
    summary |= {"ticks": done.ticks, **score(jobs, done, onprem_gpus=onprem_gpus)}
    write_replay(out, done, summary)
    if output is Format.JSON:
        print_json(summary)
        return
    for key, value in summary.items():
        typer.echo(f"{key:24} {value}")
    typer.echo(f"written to {out}")
