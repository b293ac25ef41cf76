"""Why: the story of a job, a node or a tick, told from decisions that were kept. `explain_sources` fetches them from
the ledger or from a replay's files, `explain_text` puts them into words."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from elastic.plan_text import action_text
from elastic.planning.plan import Action, Displace, Launch, Move, Route, Terminate
from elastic.planning.state import Outcome, Record
from elastic.replay_waits import Spell
from providers.facts import Offering


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """A decision that names it: done, failed or withheld. Told again and again it is one, with `times` and `until`."""

    tick: int
    at: datetime
    what: str
    became: str
    until: datetime
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One attempt of a job. `end` None: not over, or its end was not seen; `last_seen`: when it still ran."""

    job_id: str
    attempt: int
    node_ids: tuple[str, ...]
    gpus: int
    start: datetime
    end: datetime | None
    last_seen: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """What is known of a job beside decisions."""

    submitted_at: datetime
    gpus: int
    team: str
    job_class: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What is known of a node beside decisions. Without a request it is the site's own."""

    gpus: int
    capacity_type: str
    zone: str
    usd_per_hour: float
    requested_at: datetime | None
    released_at: datetime | None
    seen_until: datetime


class Decisions(Protocol):
    """Where decisions are kept."""

    where: str

    def tick(self, number: int) -> Record | None: ...

    def at(self, at: datetime) -> Record | None: ...

    def naming(self, name: str) -> list[Record]: ...

    def job(self, job_id: str) -> JobFacts | None: ...

    def node(self, node_id: str) -> NodeFacts | None: ...

    def spells(self, job_id: str) -> list[Spell]: ...

    def runs_of(self, job_id: str) -> list[Run]: ...

    def runs_on(self, node_id: str) -> list[Run]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStory:
    """A job from its submission on."""

    job_id: str
    facts: JobFacts | None
    waits: tuple[Spell, ...]
    mentions: tuple[Mention, ...]
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStory:
    """A node: why it was rented, from which options, what ran there, why it was given back, what it cost."""

    node_id: str
    facts: NodeFacts | None
    launch: Mention | None
    options: tuple[Offering, ...]
    for_jobs: tuple[str, ...]
    returned: Mention | None
    mentions: tuple[Mention, ...]
    runs: tuple[Run, ...]

    @property
    def usd(self) -> float | None:
        """From the request to the return, or as long as it was seen; None for the site's own."""
        if self.facts is None or self.facts.requested_at is None:
            return None
        until = self.facts.released_at or self.facts.seen_until
        return self.facts.usd_per_hour * (until - self.facts.requested_at).total_seconds() / 3600


def job_story(kept: Decisions, job_id: str) -> JobStory | None:
    """None if nothing that was kept knows the job."""
    facts, runs = kept.job(job_id), kept.runs_of(job_id)
    mentions = mentions_of(kept.naming(job_id), job_id)
    waits = until_started(kept.spells(job_id), runs)
    if facts is None and not (runs or mentions or waits):
        return None
    return JobStory(job_id=job_id, facts=facts, waits=tuple(waits), mentions=tuple(mentions), runs=tuple(runs))


def until_started(spells: Iterable[Spell], runs: Sequence[Run]) -> list[Spell]:
    """Spells cut at the job's next start: the tick that no longer tells of the wait comes later."""
    starts = sorted(run.start.timestamp() for run in runs)
    cut = [replace(s, to_s=min([s.to_s, *(t for t in starts if t >= s.from_s)])) for s in spells]
    return [s for s in cut if s.to_s > s.from_s]


def node_story(kept: Decisions, node_id: str) -> NodeStory | None:
    """None if nothing that was kept knows the node."""
    facts, runs, records = kept.node(node_id), kept.runs_on(node_id), kept.naming(node_id)
    mentions = mentions_of(records, node_id)
    if facts is None and not (runs or mentions):
        return None
    launch = next((a for r in records for a in r.plan.actions if isinstance(a, Launch) and _made(r, a, node_id)), None)
    bought = [m for m in mentions if launch is not None and m.what == action_text(launch)]
    gone = [
        m
        for r in records
        for a in r.plan.actions
        if isinstance(a, Terminate) and node_id in names_of(a)
        for m in mentions
        if m.what == action_text(a)
    ]
    return NodeStory(
        node_id=node_id,
        facts=facts,
        launch=bought[0] if bought else None,
        options=launch.offerings if launch else (),
        for_jobs=launch.job_ids if launch else (),
        returned=gone[-1] if gone else None,
        mentions=tuple(mentions),
        runs=tuple(runs),
    )


def mentions_of(records: Iterable[Record], name: str) -> list[Mention]:
    """Every action and withheld action that names it, oldest first, folded where the same comes again in a row."""
    found: list[Mention] = []
    for record in records:
        outcomes = {o.action_key: o for o in record.outcomes}
        rows = [(a, _became(outcomes.get(a.key))) for a in record.plan.actions]
        rows += [(w.action, f"withheld by {w.rule}: {w.detail}") for w in record.plan.withheld]
        for action, became in rows:
            if name in names_of(action) or _made(record, action, name):
                at, what = record.plan.at, action_text(action)
                found.append(Mention(tick=record.tick, at=at, what=what, became=became, until=at))
    return fold(found)


def fold(mentions: Sequence[Mention]) -> list[Mention]:
    """The same withheld action tick after tick is one mention: numbers in its words may grow, the rule is the same."""
    folded: list[Mention] = []
    for one in mentions:
        last = folded[-1] if folded else None
        if last is not None and _kind(last) == _kind(one) and one.became.startswith("withheld"):
            folded[-1] = replace(last, until=one.at, times=last.times + 1)
        else:
            folded.append(one)
    return folded


def _kind(mention: Mention) -> tuple[str, str]:
    return mention.what.split(":")[0], mention.became.split(":")[0]


def names_of(action: Action) -> set[str]:
    """Jobs, nodes and machines that an action is about."""
    match action:
        case Launch():
            return {*action.job_ids, action.token}
        case Route():
            return {action.job_id, *action.node_ids}
        case Move():
            return {action.job_id, *action.from_node_ids, *action.to_node_ids}
        case Displace():
            return {action.job_id, action.for_job_id}
        case Terminate():
            return {action.instance_id, action.node_id or action.instance_id}
        case _:
            node_id = getattr(action, "node_id", None)
            return {node_id} if isinstance(node_id, str) else {getattr(action, "name", "")}


def _made(record: Record, action: Action, name: str) -> bool:
    """Whether a launch of this tick brought this machine."""
    if not isinstance(action, Launch):
        return False
    done = next((o for o in record.outcomes if o.action_key == action.key), None)
    return done is not None and (name in done.provider_ids or any(name in (i.id, i.node_id) for i in done.instances))


def _became(outcome: Outcome | None) -> str:
    if outcome is None:
        return "not carried out"
    return ": ".join(part for part in (outcome.result.value, outcome.error_kind, outcome.detail) if part)
