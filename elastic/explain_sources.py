"""Where `explain` finds decisions: the service's ledger, or the files of a replay."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from elastic.codec import CodecError, decision_from_json
from elastic.explain import JobFacts, NodeFacts, Run
from elastic.ledger import SqlLedger
from elastic.ledger_reads import find_at, find_tick, ticks_naming, whole_ticks
from elastic.planning.state import Record
from elastic.replay_files import on_unix_clock
from elastic.replay_waits import Spell, wait_spells
from providers.facts import InstanceState, Job, JobState

MOST_MENTIONS = 500  # newest ticks that name it
MOST_SNAPSHOTS = 600  # whole snapshots looked through: some seconds of work
_BEFORE, _AFTER = timedelta(hours=2), timedelta(days=8)


class SourceError(Exception):
    """Decisions that cannot be read; the message says what to do."""


class LedgerDecisions:
    """Decisions of the service. Where a job ran is known from the snapshots that were kept whole: one an hour, and
    those of ticks that acted."""

    def __init__(self, ledger: SqlLedger) -> None:
        self._ledger = ledger
        self.where = f"the ledger {ledger.shown}"
        self._seen: dict[str, list[Record]] = {}

    def tick(self, number: int) -> Record | None:
        """The record of a tick."""
        kept = find_tick(self._ledger, number)
        return kept.record if kept else None

    def at(self, at: datetime) -> Record | None:
        """The newest tick at or before an instant."""
        kept = find_at(self._ledger, at)
        return kept.record if kept else None

    def naming(self, name: str) -> list[Record]:
        """Ticks that name it."""
        return [kept.record for kept in ticks_naming(self._ledger, name, limit=MOST_MENTIONS)]

    def job(self, job_id: str) -> JobFacts | None:
        """As a snapshot saw it."""
        found = next((j for _, j in self._sightings(job_id)), None)
        if found is None:
            return None
        return JobFacts(submitted_at=found.submitted_at, gpus=found.gpus, team=found.team, job_class=found.job_class)

    def node(self, node_id: str) -> NodeFacts | None:
        """As the newest snapshot that shows it saw it."""
        facts = None
        for record in self._snapshots(node_id):
            at = record.snapshot.at
            for instance in record.snapshot.instances:
                if node_id in (instance.id, instance.node_id) and instance.state is not InstanceState.TERMINATED:
                    facts = NodeFacts(
                        gpus=instance.gpus, capacity_type=instance.capacity_type.value, zone=instance.zone,
                        usd_per_hour=instance.price_usd_per_hour, requested_at=instance.requested_at,
                        released_at=self._released(record, node_id), seen_until=at,
                    )  # fmt: skip
            for node in record.snapshot.nodes:
                if node.id == node_id and node.instance_id is None:
                    facts = NodeFacts(
                        gpus=node.gpus, capacity_type=node.capacity_type.value, zone=node.zone or "", usd_per_hour=0.0,
                        requested_at=None, released_at=None, seen_until=at,
                    )  # fmt: skip
        return facts

    def spells(self, job_id: str) -> list[Spell]:
        """Why it waited, by the ticks that told something new."""
        records = {r.tick: r for r in [*self.naming(job_id), *self._snapshots(job_id)]}
        told = [
            (r.plan.at.timestamp(), tuple(w for w in r.plan.waits if job_id in w.job_ids))
            for _, r in sorted(records.items())
        ]
        last_s = told[-1][0] if told else 0.0
        return [s for s in wait_spells(told, until_s=last_s) if s.job_id == job_id]

    def runs_of(self, job_id: str) -> list[Run]:
        """Attempts as snapshots saw them."""
        return _runs(self._sightings(job_id))

    def runs_on(self, node_id: str) -> list[Run]:
        """Attempts of jobs that a snapshot saw on the node."""
        seen: dict[str, list[tuple[datetime, Job]]] = {}
        for record in self._snapshots(node_id):
            for job in record.snapshot.jobs:
                if node_id in job.node_ids:
                    seen.setdefault(job.id, []).append((record.snapshot.at, job))
        return sorted((run for rows in seen.values() for run in _runs(rows)), key=lambda run: run.start)

    def _released(self, record: Record, node_id: str) -> datetime | None:
        done = {o.action_key for o in record.outcomes if o.result.value == "done"}
        gone = any(a.key == f"terminate:{node_id}" and a.key in done for a in record.plan.actions)
        return record.plan.at if gone else None

    def _sightings(self, job_id: str) -> list[tuple[datetime, Job]]:
        return [(r.snapshot.at, job) for r in self._snapshots(job_id) for job in r.snapshot.jobs if job.id == job_id]

    def _snapshots(self, name: str) -> list[Record]:
        """Whole snapshots around the decisions that name it; the newest of all where none does."""
        if name not in self._seen:
            named = self.naming(name)
            since = named[0].plan.at - _BEFORE if named else datetime(1990, 1, 1, tzinfo=UTC)
            until = named[-1].plan.at + _AFTER if named else datetime(2199, 1, 1, tzinfo=UTC)
            kept = whole_ticks(self._ledger, since=since, until=until, limit=MOST_SNAPSHOTS)
            self._seen[name] = [one.record for one in kept]
        return self._seen[name]


def _runs(sightings: list[tuple[datetime, Job]]) -> list[Run]:
    """One run a start, with the last sighting of it: its end lies between that and the next snapshot."""
    runs: dict[datetime, Run] = {}
    for at, job in sightings:
        if job.state is JobState.RUNNING and job.started_at is not None:
            run = Run(
                job_id=job.id, attempt=job.attempt, node_ids=job.node_ids, gpus=job.gpus, start=job.started_at,
                end=None, last_seen=at,
            )  # fmt: skip
            runs[job.started_at] = run
    return list(runs.values())


class ReplayDecisions:
    """Decisions of a replay: its folder. SourceError where a file of it is missing or broken."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self.where = f"the replay {out}"
        if not (out / "decisions.jsonl").is_file():
            raise SourceError(f"--replay {out}: there is no decisions.jsonl; `elastic replay --out {out}` writes one")

    def tick(self, number: int) -> Record | None:
        """The record of a tick that acted; None for one that did not, or was never made."""
        return next(self._records(lambda line: line.startswith(f'{{"tick":{number},')), None)

    def at(self, at: datetime) -> Record | None:
        """The newest tick that acted at or before an instant."""
        newest = None
        for record in self._records(lambda line: True):
            if record.plan.at > at:
                break
            newest = record
        return newest

    def naming(self, name: str) -> list[Record]:
        """Ticks that name it."""
        quoted = json.dumps(name)
        return list(self._records(lambda line: quoted in line))

    def job(self, job_id: str) -> JobFacts | None:
        """From the replay's table of jobs."""
        row = next(iter(self._rows("jobs", "job_id", job_id)), None)
        if row is None:
            return None
        return JobFacts(submitted_at=_at(row["submit_s"]), gpus=int(row["gpus"]), team=str(row["team"]), job_class="")

    def node(self, node_id: str) -> NodeFacts | None:
        """From the replay's table of nodes."""
        row = next(iter(self._rows("nodes", "node_id", node_id)), None)
        if row is None:
            return None
        rented = row["place"] == "cloud"
        return NodeFacts(
            gpus=int(row["gpus"]),
            capacity_type=str(row["capacity_type"]),
            zone=str(row["zone"]),
            usd_per_hour=float(row["price_usd_per_hour"]) if rented else 0.0,
            requested_at=_at(row["requested_s"]) if rented else None,
            released_at=_at(row["released_s"]) if rented and row["released_s"] == row["released_s"] else None,
            seen_until=self._end,
        )

    def spells(self, job_id: str) -> list[Spell]:
        """From the replay's table of waits."""
        return [
            Spell(
                job_id=job_id, rule=str(row["rule"]), detail=str(row["detail"]), from_s=float(row["from_s"]),
                to_s=float(row["to_s"]),
            )
            for row in self._rows("waits", "job_id", job_id)
        ]  # fmt: skip

    def runs_of(self, job_id: str) -> list[Run]:
        """From the replay's segments."""
        return self._runs(self._rows("segments", "job_id", job_id))

    def runs_on(self, node_id: str) -> list[Run]:
        """From the replay's segments: what ran on this node, with the GPUs it had there."""
        return self._runs(self._rows("segments", "node_id", node_id))

    @cached_property
    def _end(self) -> datetime:
        jobs = self._table("jobs")
        return _at(float(jobs.submit_s.max()))

    def _runs(self, rows: list[dict[str, Any]]) -> list[Run]:
        parts: dict[tuple[str, int], list[dict[str, Any]]] = {}
        for row in rows:
            parts.setdefault((str(row["job_id"]), int(row["attempt"])), []).append(row)
        runs = [
            Run(
                job_id=job_id,
                attempt=attempt,
                node_ids=tuple(str(part["node_id"]) for part in mine),
                gpus=sum(int(part["gpus"]) for part in mine),
                start=_at(mine[0]["start_s"]),
                end=_at(mine[0]["end_s"]) if mine[0]["end_s"] == mine[0]["end_s"] else None,
            )
            for (job_id, attempt), mine in parts.items()
        ]
        return sorted(runs, key=lambda run: run.start)

    def _records(self, wanted: Callable[[str], bool]) -> Iterator[Record]:
        file = self._out / "decisions.jsonl"
        with file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if wanted(line):
                    try:
                        yield decision_from_json(line)
                    except CodecError as trouble:
                        raise SourceError(f"{file}:{number}: {trouble}; run the replay again") from trouble

    def _rows(self, name: str, column: str, value: str) -> list[dict[str, Any]]:
        table = self._table(name)
        return [{str(k): v for k, v in row.items()} for row in table[table[column] == value].to_dict("records")]

    def _table(self, name: str) -> pd.DataFrame:
        file = self._out / f"{name}.parquet"
        try:
            return on_unix_clock(pd.read_parquet(file))
        except (OSError, ValueError) as trouble:
            raise SourceError(f"{file} cannot be read ({trouble}); run the replay again") from trouble


def _at(seconds: float) -> datetime:
    return datetime.fromtimestamp(float(seconds), UTC)
