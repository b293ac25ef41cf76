"""What a replay leaves behind: one row a job, attempt and node, and one row a node that ever existed."""

from dataclasses import dataclass, field
from typing import ClassVar

NAN = float("nan")
Segment = tuple[str, int, str, int, float, float]
NodeRow = tuple[str, str, int, float, float, float, str, float, str]


@dataclass(slots=True)
class WorldRecord:
    """Rows in the order they were closed."""

    segment_columns: ClassVar = ("job_id", "attempt", "node_id", "gpus", "start_s", "end_s")
    node_columns: ClassVar = ("node_id", "place", "gpus", "requested_s", "ready_s", "released_s", "capacity_type",
                              "price_usd_per_hour", "zone")  # fmt: skip

    segments: list[Segment] = field(default_factory=list)
    nodes: list[NodeRow] = field(default_factory=list)

    def segment(self, job_id: str, attempt: int, node_id: str, gpus: int, start_s: float, end_s: float) -> None:
        """An attempt ended on a node (NaN: still runs)."""
        self.segments.append((job_id, attempt, node_id, gpus, start_s, end_s))

    def node(self, row: NodeRow) -> None:
        """A node was released (NaN: still held)."""
        self.nodes.append(row)
