"""`elastic replay`: a queue's whole history through the controller on the simulated world."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elastic.commands.output import Format, FormatOption, print_json, refuse

if TYPE_CHECKING:
    from elastic.planning.policy import Policy
    from elastic.replay import TraceJob
    from elastic.report import Told

NOTE = "segments, nodes, jobs, waits (Parquet), decisions.jsonl, summary.json, report.html"


def replay(
    trace: Annotated[Path, typer.Argument(help="any history: our Parquet or a kind that `history import` knows")],
    onprem_gpus: Annotated[int, typer.Option("--onprem-gpus", min=1, help="GPUs of the site, as whole nodes")],
    out: Annotated[Path, typer.Option(help=f"folder for {NOTE}")],
    policy: Annotated[Path | None, typer.Option(help="policy file; policies/replay.yaml if none is given")] = None,
    checkpointable: Annotated[float, typer.Option(min=0, max=1, help="seeded share of jobs that may move")] = 1.0,
    seed: Annotated[int, typer.Option(help="of that share")] = 0,
    max_gpus: Annotated[int, typer.Option(help="larger jobs are left out")] = 256,
    forecast: Annotated[bool, typer.Option(help="set forecasts against what came in the report")] = True,
    output: FormatOption = Format.TEXT,
) -> None:
    """Replay a history: what the controller would have decided, how long jobs would have waited, what it costs.

    Ctrl-C ends it with 130; files are whole or not there.

    Example: [bold]elastic replay desk.parquet --onprem-gpus 128 --out out/desk[/bold]
    """
    from elastic.commands.trace import INTERRUPTED, replay_policy, trace_of
    from elastic.report import Told

    try:
        jobs = trace_of(trace, max_gpus=max_gpus)
        wanted = replay_policy(policy, jobs, onprem_gpus=onprem_gpus)
        told = Told(
            trace=str(trace),
            policy=str(policy) if policy else "policies/replay.yaml",
            onprem_gpus=onprem_gpus,
            checkpointable=checkpointable,
            seed=seed,
        )
        summary = _play(jobs, wanted, told, out=out, forecast=forecast)
    except KeyboardInterrupt:
        typer.secho(f"interrupted; files in {out} are whole or not there", err=True, fg=typer.colors.YELLOW)
        raise typer.Exit(INTERRUPTED) from None
    except OSError as trouble:
        refuse(f"--out {out}: {trouble.strerror or trouble}")
    if output is Format.JSON:
        print_json(summary)
        return
    for key, value in summary.items():
        typer.echo(f"{key:24} {value}")
    typer.echo(f"written to {out}: {NOTE}")


def _play(jobs: "list[TraceJob]", policy: "Policy", told: "Told", *, out: Path, forecast: bool) -> dict[str, object]:
    """The replay, its report and its files; returns what stands in summary.json."""
    from elastic.commands.progress import bar
    from elastic.replay import replay as play
    from elastic.replay import sim_jobs
    from elastic.replay_files import job_table, plain, score, tables, write_replay
    from elastic.report import report_html

    out.mkdir(parents=True, exist_ok=True)  # a folder that cannot be made is told before the work, not after
    world_jobs = sim_jobs(jobs, policy, checkpointable_share=told.checkpointable, seed=told.seed)
    with bar("replay") as report:
        done = play(world_jobs, policy, onprem_gpus=told.onprem_gpus, progress=lambda share: report(0.9 * share, ""))
        report(0.9, "writing the report")
        figures = plain(score(jobs, done, onprem_gpus=told.onprem_gpus))
        page = report_html(jobs, done, policy, figures, told=told, forecast=forecast)
        summary: dict[str, object] = {
            "trace": told.trace,
            "policy": told.policy,
            "policy_hash": policy.content_hash,
            "onprem_gpus": told.onprem_gpus,
            "checkpointable": told.checkpointable,
            "seed": told.seed,
            "jobs": len(jobs),
            "ticks": done.ticks,
            **figures,
            "prices_from": "the simulated market's list prices",
        }
        rows = job_table(jobs, tables(done)[0], until_s=done.until_s)
        write_replay(out, done, summary, zero_s=jobs[0].zero_s, jobs=rows, texts={"report.html": page})
    return summary
