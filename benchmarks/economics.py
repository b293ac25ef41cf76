"""What the levers earn on a real queue: paid over unavoidable cloud GPU-hours, waits, restarts.

    python -m benchmarks.economics --trace FILE --onprem-gpus N --checkpointable SHARE --seed S --out DIR

One replay through the same controller as in production; writes `segments.parquet` and `nodes.parquet`. Without
--onprem-gpus the whole table: 848, 1,000 and 1,096 GPUs, all and half of the jobs checkpointable, each beside the
baselines people run today. --baseline NAME plays one of those instead (without --onprem-gpus: in all six cases).
"""

import argparse
import json
import sys
from pathlib import Path

from elastic.baselines import BASELINES, baseline
from elastic.comparison import Case, Contender, baselines_of, compare, contender_of, play
from elastic.policy_file import default_policy_path, load_policy
from elastic.replay import Replay, TraceJob
from elastic.replay_files import plain, read_trace, score, write_replay
from providers.sim.world import instant

VENUS = Path(__file__).parents[2] / "shared" / "data" / "helios_venus_jobs_reconstructed.csv.gz"
TABLE = [(gpus, share) for share in (1.0, 0.5) for gpus in (848, 1000, 1096)]


def ours(trace: list[TraceJob]) -> Contender:
    """The planner under `policies/replay.yaml`."""
    path = default_policy_path().with_name("replay.yaml")
    policy = load_policy(path, at=instant(trace[0].submit_s), data_may_end=True)
    return Contender(name="ours", title="this controller", policy=policy)


def run(trace: list[TraceJob], *, onprem_gpus: int, checkpointable: float, seed: int) -> Replay:
    """One replay of a trace under `policies/replay.yaml`."""
    return play(trace, ours(trace), Case(onprem_gpus=onprem_gpus, checkpointable=checkpointable, seed=seed))


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path, default=VENUS)
    parser.add_argument("--onprem-gpus", type=int)
    parser.add_argument("--checkpointable", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--baseline", choices=[one.name for one in BASELINES])
    parser.add_argument("--format", choices=["text", "json"], default="text")
    asked = parser.parse_args()
    if not asked.trace.is_file():
        parser.error(f"there is no {asked.trace}; name a history with --trace")
    trace = read_trace(asked.trace)
    us = ours(trace)
    mine = contender_of(baseline(asked.baseline), us.policy) if asked.baseline else us
    if asked.onprem_gpus:
        case = Case(onprem_gpus=asked.onprem_gpus, checkpointable=asked.checkpointable, seed=asked.seed)
        _one(trace, mine, case, out=asked.out)
        return 0
    contenders = [mine] if asked.baseline else [us, *baselines_of(us.policy)]
    for onprem_gpus, share in TABLE:
        case = Case(onprem_gpus=onprem_gpus, checkpointable=share, seed=asked.seed)
        _tell(case, contenders, compare(trace, contenders, case), as_json=asked.format == "json")
    return 0


def _one(trace: list[TraceJob], contender: Contender, case: Case, *, out: Path | None) -> None:
    """One replay: its figures as a line of JSON, its tables in `out`."""
    done = play(trace, contender, case)
    row = {"onprem_gpus": case.onprem_gpus, "checkpointable": case.checkpointable, "ticks": done.ticks}
    sys.stdout.write(json.dumps(row | plain(score(trace, done, onprem_gpus=case.onprem_gpus))) + "\n")
    sys.stdout.flush()
    if out:
        write_replay(out, done, dict(row), zero_s=trace[0].zero_s)


def _tell(case: Case, contenders: list[Contender], figures: dict[str, dict[str, float]], *, as_json: bool) -> None:
    """One case's table, as soon as it is known: all of it takes the better part of an hour."""
    if as_json:
        for name, row in figures.items():
            shell = {"contender": name, "onprem_gpus": case.onprem_gpus, "checkpointable": case.checkpointable}
            sys.stdout.write(json.dumps(shell | plain(row)) + "\n")
        sys.stdout.flush()
        return
    from rich.console import Console

    from elastic.comparison_text import comparison_table

    title = f"{case.onprem_gpus:,} GPUs at home, {case.checkpointable:.0%} of the jobs can be moved"
    table = comparison_table([(c.title, figures[c.name]) for c in contenders], title=title)
    Console(width=None if sys.stdout.isatty() else 160).print(table)


if __name__ == "__main__":
    sys.exit(main())
