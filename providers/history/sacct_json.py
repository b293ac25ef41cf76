"""`sacct --json` of Slurm 22.05 to 24.x -> the same named texts as the columns of `sacct --parsable2`."""

import gzip
import json
import zlib
from collections.abc import Mapping
from pathlib import Path

from providers.history.errors import HistoryError
from providers.history.text import GZIP_MAGIC, first_bytes

MAX_JSON_BYTES = 512 << 20  # a document is read as a whole: some 300,000 jobs; export longer spans in parts


def jobs_of(path: Path) -> list[object]:
    """The `jobs` of the document. HistoryError for anything that is not one."""
    advice = "Run sacct --json again, for a shorter span if it was long"
    packed = first_bytes(path).startswith(GZIP_MAGIC)
    try:
        with path.open("rb") as raw:
            content = (gzip.GzipFile(fileobj=raw) if packed else raw).read(MAX_JSON_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as trouble:
        raise HistoryError("the gzip file ends early; nothing was used", path=str(path), advice=advice) from trouble
    if len(content) > MAX_JSON_BYTES:
        raise HistoryError(f"is longer than {MAX_JSON_BYTES >> 20} MiB", path=str(path), advice=advice)
    try:
        document = json.loads(content)
    except json.JSONDecodeError as trouble:
        raise HistoryError(
            f"is no whole JSON ({trouble.msg})", path=str(path), line=trouble.lineno, advice=advice
        ) from trouble
    except (UnicodeDecodeError, RecursionError, ValueError) as trouble:
        raise HistoryError("is no JSON that can be read", path=str(path), advice=advice) from trouble
    jobs = document.get("jobs") if isinstance(document, dict) else None
    if not isinstance(jobs, list):
        raise HistoryError("has no list of jobs", path=str(path), field="jobs", advice=advice)
    return jobs


def flat_job(job: object, *, path: str, number: int) -> dict[str, str]:
    """One job's fields by sacct's column names. HistoryError when the element is no object."""
    if not isinstance(job, Mapping):
        raise HistoryError(
            "a job is no object", path=path, field=f"jobs[{number - 1}]", advice="Run sacct --json again"
        )
    time, state, required = _part(job, "time"), _part(job, "state"), _part(job, "required")
    return {
        "JobID": _job_id(job),
        "JobName": _text(job.get("name")),
        "User": _text(job.get("user") or _part(job, "association").get("user")),
        "Account": _text(job.get("account")),
        "QOS": _text(job.get("qos") or job.get("partition")),
        "Submit": _time(time.get("submission")),
        "Eligible": _time(time.get("eligible")),
        "Start": _time(time.get("start")),
        "End": _time(time.get("end")),
        "ElapsedRaw": _number(time.get("elapsed")) or "0",
        "State": _state(state.get("current")),
        "Reason": _text(state.get("reason")),
        "AllocTRES": _tres(_part(job, "tres").get("allocated")),
        "ReqTRES": _tres(_part(job, "tres").get("requested")),
        "NNodes": _number(job.get("allocation_nodes")),
        "ReqCPUS": _number(required.get("CPUs")),
    }


def _part(job: Mapping[object, object], name: str) -> Mapping[object, object]:
    part = job.get(name)
    return part if isinstance(part, Mapping) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> str:
    """Plain (22.05) or `{set, infinite, number}` (from 23.02); '' where not set."""
    if isinstance(value, Mapping):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) > 1e15:
        return ""
    return str(int(value))


def _time(value: object) -> str:
    """Epoch seconds; 0 and the largest 32-bit number stand for 'not known'."""
    seconds = _number(value)
    return "" if seconds in ("0", "4294967295", "4294967294") else seconds


def _state(value: object) -> str:
    if isinstance(value, list):
        return _text(value[0]) if value else ""
    return _text(value)


def _tres(entries: object) -> str:
    texts = []
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, Mapping) and (amount := _number(entry.get("count"))):
            kind, name = _text(entry.get("type")), _text(entry.get("name"))
            suffix = "M" if kind == "mem" else ""
            texts.append(f"{kind}/{name}={amount}" if name else f"{kind}={amount}{suffix}")
    return ",".join(texts)


def _job_id(job: Mapping[object, object]) -> str:
    array, het = _part(job, "array"), _part(job, "het")
    array_id, task = _number(array.get("job_id")), _number(array.get("task_id"))
    if array_id not in ("", "0") and task not in ("", "4294967294"):
        return f"{array_id}_{task}"
    if array_id not in ("", "0") and (waiting := _text(array.get("task"))):
        return f"{array_id}_[{waiting}]"
    het_id = _number(het.get("job_id"))
    if het_id not in ("", "0"):
        return f"{het_id}+{_number(het.get('job_offset')) or '0'}"
    return _number(job.get("job_id"))
