"""Whatever a file holds, reading it gives a history or a HistoryError, and a history is always in order."""

import json
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elastic.history_demand import demand_of
from providers.history import KINDS, History, HistoryError, load_history, read_history
from providers.history.history import JOB_COLUMNS

HEADERS = {
    "sacct": "JobID|User|Submit|Eligible|Start|End|State|AllocTRES|ReqTRES|ReqMem|ElapsedRaw",
    "swf": "; UnixStartTime: 1772442000",
    "csv": "job_id,gpus,submit_s,start_s,end_s,duration_s",
    "helios": "job_id,vc,gpus,submit_s,start_s,end_s,status",
    "philly": "vc,job_id,submit_s,gpus,duration_s",
    "alibaba-openb": "pod,creation_s,scheduled_s,deletion_s,cpu_milli,mem_mib,num_gpu,gpu_milli,qos,phase",
}
word = st.one_of(
    st.sampled_from(
        [
            "",
            "1",
            "8",
            "-1",
            "0",
            "1772442000",
            "1772445600",
            "2026-03-02T09:00:00",
            "2099-01-01",
            "nan",
            "inf",
            "1e309",
        ]
    ),
    st.sampled_from(["Unknown", "gres/gpu=8", "mem=4000Mc", "12_[1-5]", "3+1", "9.batch", "0001-01-01T00:00:00Z", '"']),
    st.text(max_size=8),
)
quiet = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)


def in_order(history: History) -> None:
    jobs = history.jobs
    assert tuple(jobs.columns) == JOB_COLUMNS
    assert jobs["job_id"].is_unique
    assert (jobs["gpus"] > 0).all()
    assert np.isfinite(jobs["submit_s"]).all()
    assert not (jobs["end_s"] < jobs["start_s"]).any()
    assert not (jobs["start_s"] < jobs["submit_s"]).any()
    assert jobs["submit_s"].is_monotonic_increasing
    for series in demand_of(history).values():
        assert np.nanmin(series.gpus, initial=0) >= 0


@pytest.mark.parametrize("kind", KINDS)
@quiet
@given(rows=st.lists(st.lists(word, min_size=1, max_size=18), max_size=8))
def test_rows_of_anything_never_crash_a_reader(tmp_path: Path, kind: str, rows: list[list[str]]) -> None:
    mark = {"sacct": "|", "swf": " "}.get(kind, ",")
    width = 18 if kind == "swf" else HEADERS[kind].count(mark) + 1
    lines = [mark.join((row * width)[:width]) for row in rows]
    path = tmp_path / "any.txt"
    path.write_bytes("\n".join([HEADERS[kind], *lines]).encode("utf-8", "surrogatepass"))
    with suppress(HistoryError):
        in_order(read_history(kind, [path]))


@pytest.mark.parametrize("kind", KINDS)
@quiet
@given(content=st.binary(max_size=300))
def test_bytes_of_anything_never_crash_a_reader(tmp_path: Path, kind: str, content: bytes) -> None:
    path = tmp_path / "any.bin"
    path.write_bytes(content)
    for read in (lambda: read_history(kind, [path]), lambda: load_history(path)):
        with suppress(HistoryError):
            in_order(read())


values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just({"set": True, "number": 7})
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=5,
)
fields = st.sampled_from(["job_id", "array", "het", "time", "state", "tres", "name", "account", "required"])


@quiet
@given(jobs=st.lists(st.one_of(values, st.dictionaries(fields, values)), max_size=4))
def test_json_of_anything_never_crashes_the_accounting_reader(tmp_path: Path, jobs: list[object]) -> None:
    path = tmp_path / "any.json"
    path.write_text(json.dumps({"jobs": jobs}))
    with suppress(HistoryError):
        in_order(read_history("sacct", [path]))
