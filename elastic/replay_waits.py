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


def wait_spells(told: Iterable[tuple[float, tuple[Wait, ...]]], *, until_s: float) -> list[Spell]:
    """Spells in the order in which they ended. `told`: at each tick who waited why, oldest first; a spell ends at the
    first tick that tells another reason or none, the last ones at `until_s`."""
    spells: list[Spell] = []
    open_spells: dict[str, tuple[str, str, float]] = {}
    for at_s, waits in told:
        still: dict[str, tuple[str, str, float]] = {}
        for wait in waits:
            for job_id in wait.job_ids:
                known = open_spells.get(job_id)
                if known is not None and known[0] == wait.rule and known[1] == wait.detail:
                    still[job_id] = known
                else:
                    still[job_id] = (wait.rule, wait.detail, at_s)
        for job_id, spell in open_spells.items():
            if still.get(job_id) is not spell:
                spells.append(_spell(job_id, spell, at_s))
        open_spells = still
    spells += [_spell(job_id, spell, until_s) for job_id, spell in open_spells.items()]
    return spells


def _spell(job_id: str, spell: tuple[str, str, float], to_s: float) -> Spell:
    rule, detail, from_s = spell
    return Spell(job_id=job_id, rule=rule, detail=detail, from_s=from_s, to_s=to_s)
