"""Demand against supply as a small SVG drawing, without any script."""

from collections.abc import Sequence
from dataclasses import dataclass

from elastic.figures import Figures

WIDTH, HEIGHT = 960, 220
LEFT, BOTTOM, TOP = 44, 24, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Paths in the drawing's own coordinates, and its marks."""

    width: int
    height: int
    bottom: int
    left: int
    running: str  # area of running GPUs
    demand: str  # line of running and waiting
    supply: str  # line of home and rented
    home: str  # line of home alone
    levels: tuple[tuple[float, int], ...]  # (y, GPUs)
    times: tuple[tuple[float, str], ...]  # (x, label)


def demand_chart(points: Sequence[Figures]) -> Chart | None:
    """The chart of these points, oldest first; None for fewer than two."""
    if len(points) < 2:
        return None
    first, span_s = points[0].at, (points[-1].at - points[0].at).total_seconds() or 1.0
    top = max(1, *(max(p.demand_gpus, p.home_gpus + p.rented_gpus) for p in points)) * 1.05
    floor = HEIGHT - BOTTOM

    def x(point: Figures) -> float:
        return LEFT + (point.at - first).total_seconds() / span_s * (WIDTH - LEFT - 8)

    def y(gpus: float) -> float:
        return floor - gpus / top * (floor - TOP)

    def steps(values: list[tuple[Figures, float]]) -> str:
        path = f"M{x(values[0][0]):.1f},{y(values[0][1]):.1f}"
        return path + "".join(f"H{x(p):.1f}V{y(v):.1f}" for p, v in values[1:])

    running = steps([(p, p.running_gpus) for p in points]) + f"V{floor}H{LEFT}Z"
    step = _round_step(top)
    return Chart(
        width=WIDTH,
        height=HEIGHT,
        bottom=floor,
        left=LEFT,
        running=running,
        demand=steps([(p, p.demand_gpus) for p in points]),
        supply=steps([(p, p.home_gpus + p.rented_gpus) for p in points]),
        home=steps([(p, p.home_gpus) for p in points]),
        levels=tuple((y(g), g) for g in range(0, int(top) + 1, step)),
        times=tuple((x(p), f"{p.at:%a %H:%M}") for p in points[:: max(1, len(points) // 8)]),
    )


def _round_step(top: float) -> int:
    """A step of about a quarter of the height: 1, 2 or 5 times a power of ten."""
    step = 1
    while True:
        for factor in (1, 2, 5):
            if step * factor * 4 >= top:
                return step * factor
        step *= 10
