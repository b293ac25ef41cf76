"""Reservations of nodes and money: opened in the transaction that writes a launch's token, closed when its machines are
confirmed ended (F016). Called by `ledger`; caps hold whatever a tick's picture missed, also among several threads.

A reservation holds the nodes asked for at the dearest price that may come. Each tick shrinks it to what came, at the
price that holds then. It is closed by

- an outcome that surely brought nothing: failed, no machine, and the cloud did answer; or
- a listing that shows machines of its token, all of them terminated, and none is in flight; or
- a whole listing with none alive and none in flight, once an outcome told what came, or `UNKNOWN_S` after it was
  opened (an answer that never came; a launch of another process).

Machines that are alive without a reservation (adopted, or listed again) are given one. All this happens when a tick is
written: what ended since the tick before is free for launches of the next one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from elastic.ledger_port import BudgetRefused, Caps
from elastic.ledger_tables import RESERVATIONS
from elastic.planning.cost import dearest_usd_per_hour, held_price
from elastic.planning.flights import UNKNOWN_S
from elastic.planning.plan import Launch
from elastic.planning.state import ControllerState, InFlight, Outcome, Record, Result
from providers.facts import Instance, InstanceState

ASKED, CAME, UNSURE = "asked", "came", "answer unknown"
# Kinds after which a failed launch may have had an effect all the same (`providers.errors`).
UNSURE_KINDS = ("unreachable", "unknown_trouble", "")
_LOCK = 715_518  # PostgreSQL's advisory lock of our reservations: any number of our own
_CENT = 0.005  # USD an hour: smaller changes of price are not written


def reserve(connection: sa.Connection, launch: Launch, at: datetime, caps: Caps) -> None:
    """Hold the launch's nodes and money. BudgetRefused if that would pass a cap; the transaction is then undone."""
    if connection.dialect.name == "postgresql":  # SQLite lets one writer in at a time (BEGIN IMMEDIATE)
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    usd = launch.nodes * dearest_usd_per_hour(launch.offerings)
    held = [row for row in _open(connection) if row.token != launch.token]
    _refuse_nodes(held, launch, caps.max_nodes)
    _refuse_money(held, usd, caps.usd_per_hour)
    values = {
        "pool": launch.pool,
        "team": launch.team,
        "nodes": launch.nodes,
        "usd_per_hour": usd,
        "opened_at": at,
        "closed_at": None,
        "why": ASKED,
    }
    _put(connection, launch.token, values)


def _refuse_nodes(held: Iterable["sa.Row[Any]"], launch: Launch, cap: int | None) -> None:
    nodes = sum(row.nodes for row in held if row.pool == launch.pool)
    if cap is not None and nodes + launch.nodes > cap:
        raise BudgetRefused(f"budget: {nodes} of {cap} nodes of {launch.pool} are reserved, {launch.nodes} more asked")


def _refuse_money(held: Iterable["sa.Row[Any]"], usd: float, cap: float | None) -> None:
    reserved = sum(row.usd_per_hour for row in held)
    if cap is not None and reserved + usd > cap + 1e-9:
        raise BudgetRefused(f"budget: {reserved:.2f} of {cap:.2f} USD an hour are reserved, {usd:.2f} more asked")


@dataclass(slots=True)
class _Token:
    """What one tick knows of a launch token."""

    alive: list[Instance] = field(default_factory=list)
    ended: int = 0


def settle(connection: sa.Connection, record: Record, state: ControllerState) -> None:
    """Bring the open reservations to what this tick saw and did; `state` is the one after it."""
    rows = {row.token: row for row in _open(connection)}
    if not rows and not record.snapshot.instances:
        return
    tick = _Tick(record, state)
    for token, row in rows.items():
        nodes, usd = tick.held(token, per_node_usd=row.usd_per_hour / row.nodes if row.nodes else 0.0)
        closed = "" if nodes else tick.why_closed(row)
        if closed:
            _update(connection, token, closed_at=record.snapshot.at, why=closed)
        else:
            _follow(connection, row, nodes, usd, tick)
    for token in tick.alive_tokens() - set(rows):
        nodes, usd = tick.held(token, per_node_usd=0.0)
        _put(connection, token, {**tick.origin(token), "nodes": nodes, "usd_per_hour": usd})


def drop_closed(connection: sa.Connection, before: datetime) -> None:
    """Forget reservations that were closed long ago."""
    connection.execute(RESERVATIONS.delete().where(RESERVATIONS.c.closed_at < before))


class _Tick:
    """One tick's machines by launch token."""

    def __init__(self, record: Record, state: ControllerState) -> None:
        self.at = record.snapshot.at
        self.is_whole = not record.snapshot.trouble("cloud:")
        self._guard, self._state = record.guard, state
        self._listed = {i.id for i in record.snapshot.instances}
        self._tokens: dict[str, _Token] = {}
        for instance in record.snapshot.instances:
            known = self._tokens.setdefault(instance.token, _Token())
            if instance.state is InstanceState.TERMINATED:
                known.ended += 1
            else:
                known.alive.append(instance)
        by_key = {o.action_key: o for o in record.outcomes}
        launches = [a for a in record.plan.actions if isinstance(a, Launch)]
        self._outcomes = {a.token: by_key[a.key] for a in launches if a.key in by_key}

    def alive_tokens(self) -> set[str]:
        return {token for token, known in self._tokens.items() if token and known.alive}

    def held(self, token: str, *, per_node_usd: float) -> tuple[int, float]:
        """(nodes, USD an hour) of its machines alive, and of those in flight that no listing shows yet."""
        alive = self._tokens.get(token, _Token()).alive
        usd = sum(self._usd(i, per_node_usd) for i in alive)
        flight = self._state.in_flight.get(token)
        unseen = 0 if flight is None else self._unseen(flight, len(alive))
        if flight is not None and unseen:
            came = self._outcomes.get(token)
            prices = [i.price_usd_per_hour for i in came.instances] if came else []
            usd += unseen * (max(prices, default=0.0) or per_node_usd or dearest_usd_per_hour(flight.launch.offerings))
        return len(alive) + unseen, usd

    def _usd(self, instance: Instance, per_node_usd: float) -> float:
        price = held_price(instance, guard=self._guard, last_good=self._state.prices)
        return price.usd_per_hour if price.is_known else per_node_usd

    def _unseen(self, flight: InFlight, alive: int) -> int:
        if flight.instance_ids:
            return len([i for i in flight.instance_ids if i not in self._listed and i not in flight.listed_ids])
        return max(0, flight.launch.nodes - alive)

    def why_closed(self, row: "sa.Row[Any]") -> str:
        """Why a reservation without a machine is over; '' while it is not."""
        outcome = self._outcomes.get(row.token)
        if outcome is not None:
            return f"launch failed: {outcome.error_kind}" if self.is_sure_failure(outcome) else ""
        if row.token in self._state.in_flight:
            return ""
        if row.token in self._tokens:
            return "its machines are terminated"
        told = row.why == CAME or self.at - row.opened_at >= timedelta(seconds=UNKNOWN_S)
        return "no machine of it is listed any more" if self.is_whole and told else ""

    def is_sure_failure(self, outcome: Outcome) -> bool:
        """Nothing came, and the cloud said so."""
        return (
            outcome.result in (Result.FAILED, Result.SKIPPED)
            and not outcome.instances
            and (outcome.result is Result.SKIPPED or outcome.error_kind not in UNSURE_KINDS)
        )

    def stage(self, token: str, known: str) -> str:
        """What is known of its launch: asked, came, or an answer that never came."""
        outcome = self._outcomes.get(token)
        if outcome is None:
            return CAME if self._tokens.get(token, _Token()).alive else known
        return CAME if outcome.instances else UNSURE

    def origin(self, token: str) -> Mapping[str, object]:
        first = self._tokens[token].alive[0]
        return {"pool": first.pool, "team": first.team, "opened_at": self.at, "closed_at": None, "why": CAME}


def _follow(connection: sa.Connection, row: "sa.Row[Any]", nodes: int, usd: float, tick: _Tick) -> None:
    """Shrink to what is there. On a listing that is not whole, or before the answer is known, nothing shrinks."""
    why = tick.stage(row.token, row.why)
    if not nodes or not tick.is_whole:
        nodes, usd = max(nodes, row.nodes), max(usd, row.usd_per_hour)
    if nodes != row.nodes or abs(usd - row.usd_per_hour) >= _CENT or why != row.why:
        _update(connection, row.token, nodes=nodes, usd_per_hour=usd, why=why)


def _open(connection: sa.Connection) -> list["sa.Row[Any]"]:
    return list(connection.execute(sa.select(RESERVATIONS).where(RESERVATIONS.c.closed_at.is_(None))).all())


def _update(connection: sa.Connection, token: str, **values: object) -> None:
    connection.execute(RESERVATIONS.update().where(RESERVATIONS.c.token == token).values(**values))


def _put(connection: sa.Connection, token: str, values: Mapping[str, object]) -> None:
    connection.execute(RESERVATIONS.delete().where(RESERVATIONS.c.token == token))
    connection.execute(RESERVATIONS.insert().values(token=token, **values))
