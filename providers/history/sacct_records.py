"""Spellings of Slurm accounting -> numbers. Pure, one value at a time; ValueError for what can't be read.

TRES: `cpu=8,mem=64G,node=1,gres/gpu=8,gres/gpu:a100=8`. GRES: `gpu:8`, `gpu:a100:2`, `gres:gpu:8`, `gres/gpu:8`.
"""

import re
from dataclasses import dataclass

_SUFFIX_GIB = {"": 1 / 1024, "K": 1 / 1024**2, "M": 1 / 1024, "G": 1.0, "T": 1024.0, "P": 1024.0**2}  # bare: MiB
_MEMORY = re.compile(r"^(\d+(?:\.\d+)?)([KMGTP]?)(?:i?B)?([cn]?)$", re.IGNORECASE)
_DURATION = re.compile(r"^(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?$")
_ARRAY = re.compile(r"^(\d+)_\[([\d,\-:]+)(?:%\d+)?\]$")
_COUNT = re.compile(r"^(\d+)([KM]?)$", re.IGNORECASE)
MAX_ARRAY_TASKS = 10_000  # ten times Slurm's default MaxArraySize; a longer waiting array is left out and told


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """What one job was given or asked for; None where the text does not tell."""

    gpus: int | None = None
    cpus: int | None = None
    memory_gib: float | None = None
    nodes: int | None = None
    gpu_model: str = ""


def memory_gib(text: str, *, cpus: int = 1, nodes: int = 1) -> float:
    """`64G`, `4000Mc` (per CPU), `16Gn` (per node), `1048576K`, bare numbers in MiB."""
    found = _MEMORY.match(text.strip())
    if not found:
        raise ValueError(f"{text!r} is no amount of memory")
    per = {"c": cpus, "n": nodes, "": 1}[found[3].lower()]
    return float(found[1]) * _SUFFIX_GIB[found[2].upper()] * per


def duration_s(text: str) -> float:
    """`D-HH:MM:SS`, `HH:MM:SS`, `MM:SS(.mmm)`, or plain seconds."""
    text = text.strip()
    if text.isdigit() and len(text) <= 12:
        return float(text)
    found = _DURATION.match(text)
    if not found or any(part and len(part) > 9 for part in found.groups()):
        raise ValueError(f"{text!r} is no duration")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def count(text: str) -> int:
    """`8`, `2K` (sacct shortens large counts)."""
    found = _COUNT.match(text.strip())
    if not found or len(found[1]) > 12:
        raise ValueError(f"{text!r} is no count")
    return int(found[1]) * {"": 1, "K": 1000, "M": 1_000_000}[found[2].upper()]


def tres(text: str) -> Amounts:
    """AllocTRES or ReqTRES. The untyped GPU count is the total; typed ones are its parts, or all there is."""
    untyped: int | None = None
    typed: dict[str, int] = {}
    cpus = nodes = memory = None
    for entry in filter(None, text.split(",")):
        key, mark, value = entry.partition("=")
        if not mark:
            raise ValueError(f"{entry!r} is no TRES")
        if key == "gres/gpu":
            untyped = count(value)
        elif key.startswith("gres/gpu:"):
            typed[key.removeprefix("gres/gpu:")] = count(value)
        elif key == "cpu":
            cpus = count(value)
        elif key == "node":
            nodes = count(value)
        elif key == "mem":
            memory = memory_gib(value)
    gpus = untyped if untyped is not None else (sum(typed.values()) if typed else None)
    return Amounts(gpus=gpus, cpus=cpus, memory_gib=memory, nodes=nodes, gpu_model=_most(typed))


def gres(text: str, *, nodes: int) -> Amounts:
    """AllocGRES or ReqGRES of older versions: per node, so times `nodes`."""
    typed: dict[str, int] = {}
    for entry in filter(None, text.split(",")):
        words = entry.split("(")[0].replace("gres/", "").removeprefix("gres:").replace("=", ":").split(":")
        if words[0] != "gpu":
            continue
        number = count(words[-1]) if len(words) > 1 and words[-1][:1].isdigit() else 1
        model = words[1] if len(words) > 2 else ""
        typed[model] = typed.get(model, 0) + number
    if not typed:
        return Amounts()
    return Amounts(gpus=sum(typed.values()) * max(nodes, 1), gpu_model=_most(typed))


def _most(typed: dict[str, int]) -> str:
    return max(typed, key=lambda model: typed[model], default="")


def array_tasks(job_id: str) -> list[str]:
    """`12_[1-3,7%2]` -> its waiting tasks `12_1`, ...; any other id -> itself. ValueError above `MAX_ARRAY_TASKS`."""
    found = _ARRAY.match(job_id)
    if not found:
        return [job_id]
    tasks: list[str] = []
    for span in filter(None, found[2].split(",")):
        bounds, _, stride = span.partition(":")
        low, _, high = bounds.partition("-")
        wanted = range(int(low), int(high or low) + 1, int(stride or 1))
        if len(tasks) + len(wanted) > MAX_ARRAY_TASKS:
            raise ValueError(f"an array of more than {MAX_ARRAY_TASKS} waiting tasks")
        tasks += [f"{found[1]}_{task}" for task in wanted]
    return tasks


def is_step(job_id: str) -> bool:
    """`12.batch`, `12.0`, `12_3.extern`: a step, not a job."""
    return "." in job_id
