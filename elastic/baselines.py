"""What people run today, as policies and planners with levers left out: what `compare` and the benchmark hold us to.

Same controller, same world, same judge. Only what is decided differs, and only by the steps named here.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import blake2b

from elastic.controller import Planner
from elastic.planning.cost import plan_cost
from elastic.planning.desk import DUE_MARGIN_S, NEVER_S, Desk
from elastic.planning.family import families
from elastic.planning.guard import guard
from elastic.planning.plan import Action, Move, Plan, Purpose
from elastic.planning.policy import JobClass, Policy
from elastic.planning.routing import mend_gangs, to_cloud, use_what_is_paid, waits
from elastic.planning.scale_in import leave_interrupted, next_release_s, scale_in
from elastic.planning.scale_out import scale_out
from elastic.planning.target import keep_nodes, targets
from elastic.planning.turns import Turns
from providers.facts import Job

WAIT_S = 600.0  # the fixed wait before a job goes out


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """One way to run a desk: how it treats the classes of a policy, and how it plans."""

    name: str
    title: str
    wait_s: float | None  # a job goes out after this; None: the policy's own wait targets
    bursts: bool = True
    goes_home: bool = False  # uses idle rented nodes for any waiting work, and brings work home when it fits

    def policy(self, policy: Policy) -> Policy:
        """The policy as this baseline follows it."""
        lead_s = min((f.lead_time_s for f in families(policy) if f.burst), default=0.0)
        return replace(
            policy,
            content_hash=f"{policy.content_hash}+{self.name}",
            classes={name: self._class(rules, lead_s) for name, rules in policy.classes.items()},
        )

    @property
    def planner(self) -> Planner:
        """Plans by this baseline's steps."""
        return lambda snapshot, forecasts, policy, state: _plan(self, Desk(snapshot, forecasts, policy, state))

    def _class(self, rules: JobClass, lead_s: float) -> JobClass:
        changes: dict[str, object] = {"may_burst": rules.may_burst and self.bursts, "may_displace": False}
        if self.wait_s is not None:
            # The desk sends a job out so early that a node can boot within the target; here the wait itself is fixed.
            changes["wait_target_s"] = self.wait_s + lead_s + DUE_MARGIN_S if self.wait_s else 0.0
        return rules.model_copy(update=changes)


BASELINES = (
    Baseline(name="burst-at-once", title="burst at once", wait_s=0.0),
    Baseline(name="wait-10-min", title="wait 10 min, then burst", wait_s=WAIT_S),
    Baseline(name="go-home-only", title="wait, then burst; go home", wait_s=None, goes_home=True),
    Baseline(name="no-burst", title="no burst", wait_s=None, bursts=False),
)


def baseline(name: str) -> Baseline:
    """One of them by name. ValueError names those there are."""
    found = next((one for one in BASELINES if one.name == name), None)
    if found is None:
        raise ValueError(f"no baseline {name!r}; there are {', '.join(one.name for one in BASELINES)}")
    return found


class _NoTurns(Turns):
    """Nobody waits behind short work: every job that goes out gets nodes of its own."""

    def is_short(self, job: Job, pool: str) -> bool:
        """Never."""
        return False


def _plan(mine: Baseline, desk: Desk) -> Plan:
    """One decision: mend what breaks, fill rented nodes, bring home, rent, give back, and the guard over all of it."""
    actions: list[Action] = [*leave_interrupted(desk), *mend_gangs(desk), *_send_out(desk, fill=mine.goes_home)]
    if mine.goes_home:
        actions += _go_home(desk)
    for job in desk.running.values():
        desk.keep(job, job.node_ids)  # nothing else moves: no step after this one touches running work
    keep = keep_nodes(desk)
    bought, served = scale_out(desk, keep, _NoTurns(desk))
    actions += bought
    actions += scale_in(desk, keep)
    allowed, withheld = guard(desk, actions)
    soonest_s = min(desk.next_due_s, next_release_s(desk))
    return Plan(
        id=_plan_id(desk),
        at=desk.at,
        policy_hash=desk.policy.content_hash,
        targets=targets(desk),
        actions=tuple(allowed),
        withheld=tuple(withheld),
        waits=waits(desk, served, allowed, withheld),
        cost=plan_cost(desk.snapshot, allowed),
        next_look_at=desk.at + timedelta(seconds=soonest_s) if soonest_s < NEVER_S else None,
    )


def _send_out(desk: Desk, *, fill: bool) -> list[Action]:
    """Due work onto rented nodes that are ready; with `fill` any other waiting work too where they are idle anyway."""
    actions: list[Action] = []
    for job in desk.waiting():
        due = job.id in desk.due_now
        spot = use_what_is_paid(desk, job, desk.family(job), due=due) if due or fill else None
        if spot is not None:
            pool, node_ids = spot
            desk.assign(job, pool, node_ids)
            actions.append(to_cloud(job, pool, node_ids, "its wait is over" if due else "rented nodes have room"))
    return actions


def _go_home(desk: Desk) -> list[Action]:
    """Checkpointable cloud work returns when it fits at home as home is and nobody waits; the largest first."""
    actions: list[Action] = []
    for family in desk.families:
        if any(desk.family(job) is family for job in desk.waiting()):
            continue
        away = [job for job in desk.running.values() if job.pool in family.burst and desk.may_move(job)]
        for job in sorted(away, key=lambda j: (-j.gpus, j.id)):
            for pool in family.onprem:
                node_ids = desk.floors[pool].fit(job)
                if node_ids:
                    actions.append(_home(desk, job, pool, node_ids))
                    break
    return actions


def _home(desk: Desk, job: Job, pool: str, node_ids: tuple[str, ...]) -> Move:
    desk.lift(job)
    desk.assign(job, pool, node_ids)
    return Move(
        job_id=job.id,
        cluster=job.cluster,
        from_node_ids=job.node_ids,
        to_pool=pool,
        to_node_ids=node_ids,
        purpose=Purpose.HOME,
        reason="home has room and nobody waits",
    )


def _plan_id(desk: Desk) -> str:
    """A name for the decision: its instant, policy and place in the row."""
    seed = f"{desk.at.isoformat()}|{desk.policy.content_hash}|{desk.state.tick}|{len(desk.pending)}"
    return blake2b(seed.encode(), digest_size=8).hexdigest()
