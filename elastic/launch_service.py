"""Builds the service that `elastic run` starts: ledger, memory, policy watch, books, forecasts, beats, controller."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from elastic.adoption import Adoptions
from elastic.beats import Beats
from elastic.beats_thread import BeatsThread
from elastic.books import Books
from elastic.controller import Controller
from elastic.fault_file import FaultFileError, read_fault_file
from elastic.forecasting import ForecastDesk
from elastic.heartbeat import Heartbeat
from elastic.ledger import SqlLedger
from elastic.ledger_books import LedgerBooks
from elastic.ledger_port import LedgerError
from elastic.log import EventLog
from elastic.planning.policy import Policy
from elastic.planning.state import ControllerState
from elastic.policy_file import load_policy, read_bytes
from elastic.policy_watch import PolicyWatcher
from elastic.service import Service
from elastic.service_beats import forecasts_for, slow_beats
from elastic.settings import TICK_S, Settings
from elastic.wiring import ScriptError, Site, simulated_site, system_clock
from elastic.wiring import SiteError as SiteError
from forecast.forecaster import Forecasts

WORKERS = 1  # of forecasts: the other core is the controller's


@dataclass(slots=True)
class Running:
    """A service with what must end with it."""

    service: Service
    ledger: SqlLedger
    site: Site
    began: datetime
    _desk: ForecastDesk
    _thread: BeatsThread
    _books: Books

    def run(self) -> None:
        """Tick until the service is told to stop; then leave the ledger whole."""
        self._thread.start()
        self.site.start()
        try:
            self.service.run()
        finally:
            self.close()

    def close(self) -> None:
        """End the slow beats, write down what is not yet written, let go of the ledger."""
        self.site.stop()
        self._thread.stop()
        self._desk.close()
        self._books.write_down()
        controller = self.service.controller
        try:
            if not controller.ledger_trouble:  # a checkpoint must not know of ticks that are not written
                self.ledger.checkpoint(controller.state)
        except LedgerError as trouble:
            self.service.say(str(trouble))
        self.ledger.close()
        self.service.log.event("ended", at=self.service.controller.state.at)
        self.service.log.close()


def build(settings: Settings, *, say: Callable[[str], None]) -> Running:
    """Everything put together, nothing started. PolicyError, LedgerError, FaultFileError, SiteError or OSError for
    what is not usable."""
    clock = system_clock()
    now = clock.now().replace(microsecond=0)
    settings.data.mkdir(parents=True, exist_ok=True)
    ledger = SqlLedger(settings.url)
    state = ledger.rebuild_state()
    began = _begin(settings, state, now)
    log = _log(settings, ledger, began, tick=state.tick)
    policy = _Watched(settings, began)
    woken = _Later()
    site = _site(settings, policy.now, began, woken=woken)
    books = _books(ledger, site)
    desk = ForecastDesk(workers=WORKERS)
    site_clock = site.ports.clock

    def look() -> Policy:
        if policy.look(site_clock.now()):
            log.event("policy", at=site_clock.now().isoformat(), content=policy.now.content_hash)
            _note_policy(ledger, settings, policy.now, site_clock.now(), say)
        return policy.now

    def forecasts() -> Forecasts:
        return forecasts_for(desk, books, policy.now, site_clock.now())

    controller = Controller(site.ports, ledger, policy=look, forecasts=forecasts, state=state)
    beats = Beats(beats=[], store=LedgerBooks(ledger), alert=say)
    service = Service(
        controller,
        clock=site_clock,
        real_clock=clock,
        policy=lambda: policy.now,
        books=books,
        beats=beats,
        say=say,
        interval_s=settings.tick_s,
        speed=settings.speed,
        policy_notes=lambda: (*policy.notes, *site.trouble()),
        log=log,
        adopt=Adoptions(ledger.engine, say).after_tick,
        beat=Heartbeat(settings.heartbeat, say).beat if settings.heartbeat else lambda at: None,
    )
    woken.call = service.wake.set
    beats.alert = service.say
    beats.beats = slow_beats(
        policy=lambda: policy.now, books=books, desk=desk, ledger=ledger, say=service.say, bills=site.bills
    )
    thread = BeatsThread(lambda: beats.run_due(site_clock.now()))
    return Running(service, ledger, site, began, desk, thread, books)


def _log(settings: Settings, ledger: SqlLedger, began: datetime, *, tick: int) -> EventLog:
    log = EventLog(settings.data / "elastic.log")
    log.event("started", at=began.isoformat(), tick=tick, ledger=ledger.shown, policy=str(settings.policy))
    return log


def _books(ledger: SqlLedger, site: Site) -> Books:
    """What was learnt so far; a site that was never watched tells its past."""
    books = Books(LedgerBooks(ledger))
    if not books.remember():
        for hour, gpus in site.past():
            books.observe_past(hour, gpus)
    return books


class _Later:
    """A call to something that is made later: what a site wakes is built on the site."""

    def __init__(self) -> None:
        self.call: Callable[[], None] = lambda: None

    def __call__(self) -> None:
        self.call()


def _site(settings: Settings, policy: Policy, began: datetime, *, woken: Callable[[], None]) -> Site:
    faults = read_fault_file(settings.faults) if settings.faults else []
    try:
        return simulated_site(policy, start=began, seed=settings.seed, speed=settings.speed, faults=faults, woken=woken)
    except ScriptError as trouble:
        raise FaultFileError(f"{settings.faults}: {trouble}") from trouble


def _begin(settings: Settings, state: ControllerState, now: datetime) -> datetime:
    """The simulated site's first instant: as told, but never before the ledger's last one: time does not run back."""
    begin = settings.start or now
    return begin if state.at is None else max(begin, state.at + timedelta(seconds=TICK_S))


def _note_policy(
    ledger: SqlLedger, settings: Settings, policy: Policy, at: datetime, say: Callable[[str], None]
) -> None:
    try:
        text = read_bytes(settings.policy).decode(errors="replace")
        ledger.note_policy(content_hash=policy.content_hash, text=text, at=at)
    except (LedgerError, OSError) as trouble:
        say(f"the policy's text could not be kept: {trouble}")


class _Watched:
    """The policy file as it is followed: the newest good policy, and what a person should know about the file."""

    def __init__(self, settings: Settings, at: datetime) -> None:
        self.now = load_policy(settings.policy, at=at, data_may_end=True)
        self.notes: tuple[str, ...] = ()
        self._watcher = PolicyWatcher(settings.policy)
        self._noted = ""

    def look(self, at: datetime) -> bool:
        """Look at the file; whether the policy is one not looked at before."""
        seen = self._watcher.look(at)
        self.now = seen.policy or self.now
        self.notes = tuple(str(c) for c in seen.complaints) if seen.stale else ()
        is_new = self.now.content_hash != self._noted
        self._noted = self.now.content_hash
        return is_new
