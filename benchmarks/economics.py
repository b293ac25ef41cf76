"""What the levers earn on a real queue: paid over unavoidable cloud GPU-hours, waits, restarts.

    python -m benchmarks.economics --trace FILE --onprem-gpus N --checkpointable SHARE --seed S --out DIR

One replay through the same controller as in production; writes `segments.parquet` and `nodes.parquet`. Without
--onprem-gpus the whole table: 848, 1,000 and 1,096 GPUs, all and half of the jobs checkpointable.
"""

import argparse
import json
import sys
from pathlib import Path

from elastic.policy_file import default_policy_path, load_policy
from elastic.replay import Replay, TraceJob, replay, sim_jobs
from elastic.replay_files import read_trace, score, write_replay
from providers.sim.world import instant

TABLE = [(gpus, share) for share in (1.0, 0.5) for gpus in (848, 1000, 1096)]


def run(trace: list[TraceJob], *, onprem_gpus: int, checkpointable: float, seed: int) -> Replay:
    """One replay of a trace under `policies/replay.yaml`."""
    path = default_policy_path().with_name("replay.yaml")
    policy = load_policy(path, at=instant(trace[0].submit_s), data_may_end=True)
    jobs = sim_jobs(trace, policy, checkpointable_share=checkpointable, seed=seed)
    return replay(jobs, policy, onprem_gpus=onprem_gpus)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--onprem-gpus", type=int)
    parser.add_argument("--checkpointable", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    trace = read_trace(asked.trace)
    cases = [(asked.onprem_gpus, asked.checkpointable)] if asked.onprem_gpus else TABLE
    for onprem_gpus, share in cases:
        done = run(trace, onprem_gpus=onprem_gpus, checkpointable=share, seed=asked.seed)
        row = {"onprem_gpus": onprem_gpus, "checkpointable": share, "ticks": done.ticks}
        sys.stdout.write(json.dumps(row | score(trace, done, onprem_gpus=onprem_gpus)) + "\n")
        sys.stdout.flush()
        if asked.out:
            write_replay(asked.out, done, dict(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
