"""One tick: observe, forecast, plan, act, record - in this order and nothing else."""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from elastic.act import apply_plan
from elastic.observe import Observer
from elastic.planning.advance import advance
from elastic.planning.plan import Launch
from elastic.planning.planner import make_plan
from elastic.planning.policy import Policy
from elastic.planning.state import ControllerState, Record
from forecast.forecaster import Forecasts
from providers.ports import Ports


class Ledger(Protocol):
    """Where a tick is written down. Raises OSError when it cannot be written: then nothing is launched."""

    def write_intent(self, launch: Launch, at: datetime) -> None:
        """The launch token, before the call."""
        ...

    def append(self, record: Record) -> None:
        """The tick, whole."""
        ...


class Controller:
    """The loop's body over whatever stands behind the ports: the real world or the simulated one."""

    def __init__(
        self,
        ports: Ports,
        ledger: Ledger,
        *,
        policy: Callable[[], Policy],
        forecasts: Callable[[], Forecasts],
        state: ControllerState | None = None,
    ) -> None:
        self._ports, self._ledger = ports, ledger
        self._policy, self._forecasts = policy, forecasts
        self._observer = Observer(ports)
        self.state = state or ControllerState()

    def tick(self) -> Record:
        """Run one tick and return its record."""
        now = self._ports.clock.now()
        policy = self._policy()
        snapshot = self._observer.take_snapshot(now)
        plan = make_plan(snapshot, self._forecasts(), policy, self.state)
        outcomes = apply_plan(plan, self._ports, policy, self._ledger.write_intent)
        record = Record(tick=self.state.tick + 1, snapshot=snapshot, plan=plan, outcomes=outcomes)
        self._ledger.append(record)
        self.state = advance(self.state, record)
        return record
