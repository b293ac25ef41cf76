"""Machines that carry our tags and that no launch of the ledger knows: they get a record, so that they are followed and
given back like any other (F002, leaks). Called after every tick of the service.

How one comes to be: a ledger that was lost or restored from an older copy. From its record on the planner decides: a
machine that joins is used, one that does not goes at the join deadline.
"""

from collections.abc import Callable

import sqlalchemy as sa

from elastic.codec import launch_to_json
from elastic.ledger_engine import reading, writing
from elastic.ledger_tables import INTENTS
from elastic.planning.plan import Launch
from elastic.planning.state import Record
from providers.facts import Instance, InstanceState

_AT_ONCE = 500  # tokens in one question: SQLite takes about a thousand values


class Adoptions:
    """Remembers which tokens are known, so that a tick without news asks nothing."""

    def __init__(self, engine: sa.Engine, say: Callable[[str], None]) -> None:
        self._engine, self._say = engine, say
        self._known: set[str] = set()

    def after_tick(self, record: Record) -> None:
        """Write a record for every machine without one, and say so. LedgerError if the ledger cannot be asked."""
        alive = [i for i in record.snapshot.instances if i.state is not InstanceState.TERMINATED]
        tokens = {i.token for i in alive if i.token}
        self._known &= tokens
        new = sorted(tokens - self._known)
        for begin in range(0, len(new), _AT_ONCE):
            asked = new[begin : begin + _AT_ONCE]
            unknown = set(asked) - self._written(asked)
            for token in sorted(unknown):
                self._adopt([i for i in alive if i.token == token], record)
            self._known |= set(asked)

    def _written(self, tokens: list[str]) -> set[str]:
        with reading(self._engine) as connection:
            query = sa.select(INTENTS.c.token).where(INTENTS.c.token.in_(tokens))
            return {str(row[0]) for row in connection.execute(query)}

    def _adopt(self, machines: list[Instance], record: Record) -> None:
        first = machines[0]
        launch = Launch(
            pool=first.pool,
            nodes=len(machines),
            gang=False,
            offerings=(),
            token=first.token,
            needed_by=first.requested_at,
            reason="adopted: it carries our tags, and no launch of this ledger asked for it",
            team=first.team,
        )
        with writing(self._engine) as connection:
            connection.execute(
                INTENTS.insert().values(
                    token=first.token,
                    at=record.snapshot.at,
                    pool=first.pool,
                    nodes=len(machines),
                    launch=launch_to_json(launch).decode(),
                    recorded=True,
                )
            )
        ids = ", ".join(i.id for i in machines[:5]) + (", ..." if len(machines) > 5 else "")
        self._say(
            f"adopted {len(machines)} machine(s) of pool {first.pool or '?'} that this ledger did not know: {ids}"
        )
