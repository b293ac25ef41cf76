"""Policy files as text, for tests: a small valid one with a place for what a test is about."""

from datetime import UTC, datetime
from pathlib import Path

from elastic.policy_file import Complaint, parse_policy

AT = datetime(2026, 12, 1, 9, tzinfo=UTC)


def policy_text(*, max_nodes: object = 4, more: str = "") -> str:
    """A valid policy of an on-prem pool `home` and a burst pool `cloud`; `more` is put at the end."""
    return f"""\
version: 1
mode: act
time_zone: Europe/London
calendars:
  office:
    time_zone: Europe/London
    office:
      country: GB
      hours: 09:00-18:00
clusters:
  main: {{kind: sim}}
pools:
  home:
    place: on-prem
    cluster: main
    gpu_model: a100
    gpus_per_node: 8
    nodes: 4
  cloud:
    place: burst
    cluster: main
    cloud: sim
    gpu_model: a100
    gpus_per_node: 8
    max_nodes: {max_nodes}
classes:
  batch:
    wait_target: 15 min
    capacity_types: [spot]
    checkpointable: true
default_class: batch
teams:
  research:
    accounts: [research]
    guaranteed_gpus: 16
    calendars: [office]
{more}"""


def complaints_of(text: str | bytes, *, at: datetime = AT) -> list[Complaint]:
    """Everything wrong with a policy given as text."""
    raw = text.encode() if isinstance(text, str) else text
    return list(parse_policy(raw, file="policy.yaml", at=at).complaints)


def write_policy(folder: Path, **changes: object) -> Path:
    """A policy file in a folder."""
    path = folder / "policy.yaml"
    path.write_text(policy_text(**changes))  # type: ignore[arg-type]
    return path
