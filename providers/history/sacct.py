"""Slurm accounting: `sacct --parsable2 --allusers --allocations` text with a header, and `sacct --json`."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from providers.history.columns import nearest
from providers.history.errors import HistoryError
from providers.history.fields import UNKNOWN, Fields
from providers.history.history import ReadOptions, Tally
from providers.history.sacct_json import flat_job, jobs_of
from providers.history.sacct_records import Amounts, array_tasks, count, duration_s, gres, is_step, memory_gib, tres
from providers.history.text import Table, first_bytes, read_lines

REQUIRED = ("JobID", "Submit")
GPU_FIELDS = ("AllocTRES", "ReqTRES", "AllocGRES", "ReqGRES", "AllocGres", "ReqGres")
_TIMES = {"submit_s": "Submit", "eligible_s": "Eligible", "start_s": "Start", "end_s": "End"}
HELD_REASONS = {"jobhelduser": "held", "jobheldadmin": "held", "dependency": "dependency", "begintime": "begin_time"}

_tres = lru_cache(maxsize=65_536)(tres)


def is_sacct_header(header: Sequence[str]) -> bool:
    """Whether a header line is one of sacct's."""
    return "JobID" in header and any(name in header for name in (*GPU_FIELDS, "Submit", "ElapsedRaw"))


def read_sacct(path: Path, options: ReadOptions, tally: Tally) -> pd.DataFrame:
    """Draft jobs. Steps are no jobs, waiting array tasks are told apart, a heterogeneous job is one gang."""
    if options.zone is None:
        tally.note("sacct writes local times without a zone: read as UTC (say which with --zone)")
    parts = [_draft(fields) for fields in _chunks(path, options, tally)]
    draft = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    return _whole_gangs(draft) if len(draft) else draft


def _chunks(path: Path, options: ReadOptions, tally: Tally) -> Iterator[Fields]:
    zone = options.zone or "UTC"
    if _is_json(path):
        rows = [flat_job(job, path=path.name, number=number) for number, job in enumerate(jobs_of(path), start=1)]
        tally.rows_read += len(rows)
        if rows:
            numbers = np.arange(1, len(rows) + 1, dtype=np.int64)
            raw = pd.DataFrame(rows, dtype=object)
            yield Fields(raw=raw, lines=numbers, file_name=f"{path.name}:job", tally=tally, zone=zone)
        return
    table = Table(path, options, tally, delimiter="|")
    if table.header and table.header[-1] == "":
        raise HistoryError("was made with --parsable", path=str(path), line=1, advice="Use sacct --parsable2")
    for name in REQUIRED:
        if name not in table.header:
            raise HistoryError(
                f"no column {name}",
                path=str(path),
                line=1,
                field=name,
                advice=f"{nearest(name, table.header)}. Run sacct --parsable2 -X -a -o JobID,User,Account,QOS,Submit,"
                "Eligible,Start,End,State,AllocTRES,ReqTRES,JobName",
            )
    if not any(name in table.header for name in GPU_FIELDS):
        raise HistoryError(
            "no column tells the GPUs", path=str(path), line=1, field="AllocTRES", advice="Add AllocTRES,ReqTRES to -o"
        )
    for raw, lines in table.chunks():
        yield Fields(raw=raw, lines=lines, file_name=path.name, tally=tally, zone=zone)


def _is_json(path: Path) -> bool:
    if not first_bytes(path):
        raise HistoryError("the file is empty", path=str(path), line=1, advice="Export it again")
    _, first = next(read_lines(path))
    return first.lstrip().startswith("{")


def _draft(fields: Fields) -> pd.DataFrame:
    ids = fields.words("JobID")
    fields.drop(ids.map(is_step).to_numpy(dtype=np.bool_), "job step, not a job")
    fields.drop((ids == "").to_numpy(dtype=np.bool_), "no job id")
    values: dict[str, object] = {name: fields.times(column) for name, column in _TIMES.items()}
    amounts, tasks = _amounts(fields), _tasks(fields, ids)
    state = fields.words("State").map(lambda text: text.split()[0].lower() if text else "")
    ran = np.array([_ran(text) for text in fields.words("ElapsedRaw")]) if "ElapsedRaw" in fields.raw else None
    start = np.asarray(values["start_s"], dtype=np.float64)
    waiting = state.isin(("pending", "requeued", "suspended")).to_numpy(dtype=np.bool_) & np.isnan(
        np.asarray(values["end_s"], dtype=np.float64)
    )
    never_ran = state.str.startswith("cancelled").to_numpy(dtype=np.bool_) & (ran == 0 if ran is not None else False)
    values["start_s"] = np.where((waiting & state.eq("pending").to_numpy(dtype=np.bool_)) | never_ran, np.nan, start)
    values.update(
        job_id=tasks,
        team=fields.words("Account"),
        user=fields.words("User"),
        job_class=fields.words("QOS" if "QOS" in fields.raw else "Partition"),
        name=fields.words("JobName"),
        gpus=[np.nan if a.gpus is None else float(a.gpus) for a in amounts],
        nodes=[np.nan if a.nodes is None else float(a.nodes) for a in amounts],
        cpus=[np.nan if a.cpus is None else float(a.cpus) for a in amounts],
        memory_gib=[np.nan if a.memory_gib is None else a.memory_gib for a in amounts],
        gpu_model=[a.gpu_model for a in amounts],
        state=state,
        pending_reason=_reasons(fields, values),
        place=[f"{fields.file_name}:{line}" for line in fields.lines],
    )
    return pd.DataFrame(values)[~fields.bad].explode("job_id", ignore_index=True)


def _ran(text: str) -> float:
    try:
        return duration_s(text)
    except ValueError:
        return float("nan")


def _reasons(fields: Fields, values: Mapping[str, object]) -> list[str]:
    """Why it waited. A job that was never eligible waited for a person or another job, not for capacity."""
    told = fields.words("Reason").map(lambda text: HELD_REASONS.get(text.lower(), text.lower()))
    if "Eligible" not in fields.raw:
        return list(told)
    eligible = np.asarray(values["eligible_s"], dtype=np.float64)
    never = np.isnan(eligible) & np.isnan(np.asarray(values["start_s"], dtype=np.float64))
    return ["held" if no and reason in ("", "none") else reason for reason, no in zip(told, never, strict=True)]


def _tasks(fields: Fields, ids: "pd.Series[str]") -> list[list[str]]:
    tasks: list[list[str]] = []
    broken = np.zeros(len(ids), dtype=np.bool_)
    for row, job_id in enumerate(ids):
        try:
            tasks.append(array_tasks(job_id))
        except (ValueError, OverflowError):
            tasks.append([])
            broken[row] = True
    fields.drop(broken, "JobID is no array this long or this written")
    return tasks


def _amounts(fields: Fields) -> list[Amounts]:
    """Allocated where it was, asked for where it was not (pending, or never started)."""
    names = ("AllocTRES", "ReqTRES", "NNodes", "AllocNodes", "NCPUS", "ReqCPUS", "ReqMem", *GPU_FIELDS[2:])
    texts = [dict.fromkeys(names, "") for _ in range(len(fields.raw))]
    for name in names:
        if name in fields.raw:
            for row, word in enumerate(fields.words(name)):
                texts[row][name] = word
    amounts: list[Amounts] = []
    broken = np.zeros(len(texts), dtype=np.bool_)
    for row, text in enumerate(texts):
        try:
            amounts.append(_amount(text))
        except (ValueError, OverflowError):
            amounts.append(Amounts())
            broken[row] = True
    fields.drop(broken, "TRES, GRES or memory is written in no known way")
    no_gpus = np.array([a.gpus is None for a in amounts], dtype=np.bool_)
    fields.drop(no_gpus, "asks for no GPUs")
    return amounts


def _amount(text: Mapping[str, str]) -> Amounts:
    given, asked = _tres(text["AllocTRES"]), _tres(text["ReqTRES"])
    nodes = _first(given.nodes, asked.nodes, _count(text["AllocNodes"]), _count(text["NNodes"]))
    cpus = _first(given.cpus, asked.cpus, _count(text["NCPUS"]), _count(text["ReqCPUS"]))
    old = next((gres(text[name], nodes=nodes or 1) for name in GPU_FIELDS[2:] if text[name]), Amounts())
    memory = given.memory_gib if given.memory_gib is not None else asked.memory_gib
    if memory is None and text["ReqMem"] and text["ReqMem"].lower() not in UNKNOWN:
        memory = memory_gib(text["ReqMem"], cpus=cpus or 1, nodes=nodes or 1)
    return Amounts(
        gpus=_first(given.gpus, asked.gpus, old.gpus),
        cpus=cpus,
        memory_gib=memory,
        nodes=nodes,
        gpu_model=given.gpu_model or asked.gpu_model or old.gpu_model,
    )


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _count(text: str) -> int | None:
    return count(text) or None if text else None


def _whole_gangs(draft: pd.DataFrame) -> pd.DataFrame:
    """The components of a heterogeneous job (`12+0`, `12+1`) start together: one job with their sums."""
    ids = draft["job_id"].astype(object)
    part = ids.str.contains("+", regex=False).to_numpy(dtype=np.bool_)
    if not part.any():
        return draft
    sums = dict.fromkeys(("gpus", "cpus", "memory_gib", "nodes"), "sum")
    rest = {name: "first" for name in draft.columns if name not in sums and name != "job_id"}
    parts = draft[part].assign(job_id=ids[part].str.split("+").str[0])
    gangs = parts.groupby("job_id", sort=False).agg({**sums, **rest, "end_s": "max"}).reset_index()
    return pd.concat([draft[~part], gangs], ignore_index=True)
