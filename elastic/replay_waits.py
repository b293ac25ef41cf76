"""Why each job of a replay waited, folded: one spell for as long as the reason stays the same, not one line a tick."""

from collections.abc import Iterable
from dataclasses import dataclass

from elastic.planning.plan import Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """A job waited for one reason from `from_s` until `to_s` (Unix seconds)."""

    job_id: str
    rule: str
    detail: str
    from_s: float
    to_s: float


class WaitSpells:
    """Folds what each tick told of waits, oldest first; a long queue costs memory once a reason, not once a tick."""

    def __init__(self) -> None:
        self._ended: list[Spell] = []
        self._open: dict[str, tuple[str, str, float]] = {}

    def add(self, at_s: float, waits: Iterable[Wait]) -> None:
        """Who waits why at a tick. A spell ends at the first tick that tells another reason or none."""
        before, still = self._open, {}
        for wait in waits:
            rule, detail = wait.rule, wait.detail
            for job_id in wait.job_ids:
                known = before.get(job_id)
                if known is None or known[0] != rule or known[1] != detail:
                    known = (rule, detail, at_s)
                still[job_id] = known
        for job_id, spell in before.items():
            if still.get(job_id) is not spell:
                self._ended.append(_spell(job_id, spell, at_s))
        self._open = still

    def until(self, end_s: float) -> list[Spell]:
        """Every spell, in the order of their ends; those that last end there."""
        return [*self._ended, *(_spell(job_id, spell, end_s) for job_id, spell in self._open.items())]


def wait_spells(told: Iterable[tuple[float, tuple[Wait, ...]]], *, until_s: float) -> list[Spell]:
    """The spells of all ticks at once."""
    folded = WaitSpells()
    for at_s, waits in told:
        folded.add(at_s, waits)
    return folded.until(until_s)


def _spell(job_id: str, spell: tuple[str, str, float], to_s: float) -> Spell:
    rule, detail, from_s = spell
    return Spell(job_id=job_id, rule=rule, detail=detail, from_s=from_s, to_s=to_s)
