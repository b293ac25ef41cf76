"""One tick: observe, forecast, plan, act, record - in this order and nothing else.

A ledger that cannot be written holds launches (the first dead-man switch): the ticks go on in protected mode, what
they did is kept in memory, and as soon as the ledger takes it all of it is written and launches go on.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from elastic.act import BrokenPlan, apply_plan
from elastic.ledger_port import Ledger, LedgerError
from elastic.observe import Observer
from elastic.planning.advance import advance
from elastic.planning.plan import Plan
from elastic.planning.planner import make_plan
from elastic.planning.policy import Policy
from elastic.planning.snapshot import Snapshot
from elastic.planning.state import ControllerMode, ControllerState, Outcome, Record
from forecast.forecaster import Forecasts
from providers.errors import ProviderError
from providers.facts import InstanceState, InterruptionKind
from providers.ports import Ports

Planner = Callable[[Snapshot, Forecasts, Policy, ControllerState], Plan]
# Ticks kept for a ledger that cannot be written: half a day of minutes. Older ones are lost, their effect is not.
KEPT_TICKS = 720


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
        planner: Planner = make_plan,
    ) -> None:
        self._ports, self._ledger = ports, ledger
        self._policy, self._forecasts, self._planner = policy, forecasts, planner
        self._observer = Observer(ports)
        self._unwritten: deque[tuple[Record, ControllerState]] = deque(maxlen=KEPT_TICKS)
        self._paused: tuple[datetime, str] | None = None
        self.ledger_trouble = ""
        self.state = state or ControllerState()

    def tick(self) -> Record:
        """Run one tick and return its record."""
        now = self._ports.clock.now()
        if self.ledger_trouble:
            self._write_down()
        policy = self._policy()
        snapshot = self._observer.take_snapshot(now)
        plan = self._planner(snapshot, self._forecasts(), policy, self._in_mode(now))
        try:
            outcomes = apply_plan(plan, self._ports, policy, self._ledger)
        except BrokenPlan as broken:
            self._remember(snapshot, plan, broken.outcomes, policy)
            raise
        record = self._remember(snapshot, plan, outcomes, policy)
        if snapshot.interruptions and not self.ledger_trouble:
            self._acknowledge(snapshot)
        return record

    def _remember(self, snapshot: Snapshot, plan: Plan, outcomes: tuple[Outcome, ...], policy: Policy) -> Record:
        record = Record(tick=self.state.tick + 1, snapshot=snapshot, plan=plan, outcomes=outcomes, guard=policy.guard)
        self.state = advance(self.state, record)
        self._unwritten.append((record, self.state))
        self._write_down()
        return record

    def pause(self, until: datetime, reason: str) -> None:
        """Do nothing but look until then: what comes after ticks that failed again and again."""
        self._paused = until, reason

    @property
    def paused_reason(self) -> str:
        """Why it only looks, '' when it acts."""
        return self._paused[1] if self._paused else ""

    def _in_mode(self, now: datetime) -> ControllerState:
        """The state to plan with: paused, protected while the ledger is in trouble, or as it is."""
        if self._paused is not None and now >= self._paused[0]:
            self._paused = None
        if self._paused is not None:
            return replace(self.state, mode=ControllerMode.PAUSED, mode_reason=self._paused[1])
        if self.ledger_trouble:
            reason = f"no launches while the ledger is in trouble: {self.ledger_trouble}"
            return replace(self.state, mode=ControllerMode.PROTECTED, mode_reason=reason)
        return self.state

    def _write_down(self) -> None:
        """Write every tick that is not written yet, oldest first."""
        try:
            while self._unwritten:
                self._ledger.append(*self._unwritten[0])
                self._unwritten.popleft()
        except LedgerError as trouble:
            self.ledger_trouble = str(trouble)
        else:
            self.ledger_trouble = ""

    def _acknowledge(self, snapshot: Snapshot) -> None:
        """Settle the notices whose effect is recorded: hints at once, the others when their machine is gone."""
        alive = {i.id for i in snapshot.instances if i.state is not InstanceState.TERMINATED}
        over = [n for n in snapshot.interruptions if n.kind is InterruptionKind.REBALANCE or n.instance_id not in alive]
        for name, cloud in self._ports.clouds.items():
            settled = [n.id for n in over if n.cloud == name]
            if settled:
                try:
                    cloud.acknowledge(settled)
                except ProviderError:
                    return  # told again at the next reading
