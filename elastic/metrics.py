"""Metrics from the same record that is written down, in Prometheus' text format. Read by `/metrics`."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from elastic.figures import figures
from elastic.planning.state import ControllerState, Record

_HELP = {
    "elastic_ticks_total": ("counter", "ticks that ended"),
    "elastic_tick_failures_total": ("counter", "ticks that broke"),
    "elastic_tick_seconds": ("gauge", "real time of the last tick"),
    "elastic_gpus": ("gauge", "GPUs by kind"),
    "elastic_waiting_jobs": ("gauge", "jobs that wait for capacity"),
    "elastic_usd_per_hour": ("gauge", "price of the rented machines an hour"),
    "elastic_usd_day": ("gauge", "spent this UTC day"),
    "elastic_usd_month": ("gauge", "spent this UTC month"),
    "elastic_actions_total": ("counter", "actions by kind and result"),
    "elastic_withheld": ("gauge", "actions withheld at the last tick, by rule"),
    "elastic_unavailable_offerings": ("gauge", "offerings set aside"),
    "elastic_source_age_seconds": ("gauge", "age of the facts of a source"),
    "elastic_oldest_price_seconds": ("gauge", "age of the oldest price"),
}
Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Metrics:
    """Counters and gauges of one service."""

    _values: dict[tuple[str, Labels], float] = field(default_factory=dict)

    def after_tick(self, record: Record, state: ControllerState, *, tick_s: float) -> None:
        """Take a tick's record in."""
        now, snapshot = figures(record), record.snapshot
        for name in ("elastic_withheld", "elastic_source_age_seconds"):
            self._drop(name)
        self._add("elastic_ticks_total", 1)
        self._set("elastic_tick_seconds", tick_s)
        for kind in ("running", "waiting", "home", "rented"):
            self._set("elastic_gpus", getattr(now, f"{kind}_gpus"), kind=kind)
        self._set("elastic_waiting_jobs", now.waiting_jobs)
        self._set("elastic_usd_per_hour", now.usd_per_hour)
        self._set("elastic_usd_day", state.spend.usd_day)
        self._set("elastic_usd_month", state.spend.usd_month)
        self._set("elastic_unavailable_offerings", sum(u.until > now.at for u in state.unavailable.values()))
        for outcome in record.outcomes:
            kind = outcome.action_key.split(":", 1)[0]
            self._add("elastic_actions_total", 1, action=kind, result=outcome.result.value)
        for withheld in record.plan.withheld:
            self._add("elastic_withheld", 1, rule=withheld.rule)
        for reading in snapshot.readings:
            age_s = (now.at - reading.read_at).total_seconds()
            self._set("elastic_source_age_seconds", age_s, source=reading.source)
        if snapshot.offerings:
            oldest = min(o.priced_at for o in snapshot.offerings)
            self._set("elastic_oldest_price_seconds", (now.at - oldest).total_seconds())

    def tick_failed(self) -> None:
        """A tick broke."""
        self._add("elastic_tick_failures_total", 1)

    def render(self) -> str:
        """Everything in Prometheus' text format, version 0.0.4."""
        lines: list[str] = []
        values = dict(self._values)
        for name, (kind, words) in _HELP.items():
            rows = sorted((labels, value) for (found, labels), value in values.items() if found == name)
            if rows:
                lines += [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]
                lines += [f"{name}{_shown(labels)} {value:g}" for labels, value in rows]
        return "\n".join(lines) + "\n"

    def _set(self, name: str, value: float, **labels: str) -> None:
        self._values[name, tuple(sorted(labels.items()))] = float(value)

    def _add(self, name: str, value: float, **labels: str) -> None:
        key = name, tuple(sorted(labels.items()))
        self._values[key] = self._values.get(key, 0.0) + value

    def _drop(self, name: str) -> None:
        for key in [k for k in self._values if k[0] == name]:
            del self._values[key]


def _shown(labels: Iterable[tuple[str, str]]) -> str:
    parts = [f'{key}="{_escaped(value)}"' for key, value in labels]
    return "{" + ",".join(parts) + "}" if parts else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
