"""What `replay` and `compare` share: reading the trace and the policy it is played under, refusing what is neither."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from elastic.commands.output import refuse

if TYPE_CHECKING:
    from elastic.planning.policy import Policy
    from elastic.replay import TraceJob

INTERRUPTED = 130  # ended by Ctrl-C: 128 and the number of the signal


def trace_of(path: Path, *, max_gpus: int) -> "list[TraceJob]":
    """The trace's jobs, or exit 2 with the reason."""
    from elastic.replay_files import read_trace
    from providers.history import HistoryError

    try:
        jobs = read_trace(path, max_gpus=max_gpus)
    except HistoryError as trouble:
        refuse(str(trouble))
    if not jobs:
        refuse(f"{path}: no job with a known run of at most {max_gpus} GPUs; nothing to replay")
    return jobs


def replay_policy(path: Path | None, trace: "list[TraceJob]", *, onprem_gpus: int) -> "Policy":
    """The policy for the trace's span, policies/replay.yaml if none is given, or exit 2 with every complaint."""
    from elastic.policy_file import PolicyError, default_policy_path, load_policy
    from elastic.replay_policy import as_played

    file = path or default_policy_path().with_name("replay.yaml")
    try:
        policy = load_policy(file, at=trace[0].submitted_at, until=trace[-1].submitted_at, data_may_end=True)
    except PolicyError as complaint:
        refuse(*(str(one) for one in complaint.complaints))
    try:
        played, notes = as_played(policy)
    except ValueError as trouble:
        refuse(f"{file}: {trouble}")
    for note in notes:
        typer.secho(f"{file}: {note}", err=True, fg=typer.colors.YELLOW)
    home = next(pool for pool in played.pools.values() if pool.place == "on-prem")
    if onprem_gpus < home.gpus_per_node:
        refuse(f"--onprem-gpus {onprem_gpus}: less than one node of {home.gpus_per_node} GPUs")
    return played
