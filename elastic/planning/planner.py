"""The decision: the steps in order, nothing else. Called by the controller, policy check, replay and the command line.

Policy check, dry run, replay and production all call this same function.
"""

from datetime import datetime, timedelta
from hashlib import blake2b

from elastic.planning.cache_groups import cache_actions
from elastic.planning.cost import plan_cost
from elastic.planning.desk import NEVER_S, Desk
from elastic.planning.guard import guard
from elastic.planning.moves import empty_nodes, make_room, swap
from elastic.planning.notes import notes
from elastic.planning.plan import Action, Plan
from elastic.planning.policy import Policy
from elastic.planning.routing import come_home, displace_for, fills_well, mend_gangs, to_cloud, use_what_is_paid, waits
from elastic.planning.scale_in import forget_ended, leave_ending, leave_interrupted, next_release_s, scale_in
from elastic.planning.scale_out import scale_out
from elastic.planning.snapshot import Snapshot
from elastic.planning.state import ControllerState
from elastic.planning.target import keep_nodes, targets
from elastic.planning.turns import Turns, queue
from forecast.forecaster import Forecasts
from providers.facts import Job


def make_plan(snapshot: Snapshot, forecasts: Forecasts, policy: Policy, state: ControllerState) -> Plan:
    """One decision. Pure: the same inputs give the same plan, to the byte.

    Order: mend and leave what breaks; use home (make room, displace); use what is paid; bring work home; buy for what
    must go out; give back what is idle; caches; and the guard over all of it.
    """
    desk = Desk(snapshot, forecasts, policy, state)
    actions: list[Action] = [*forget_ended(desk), *leave_interrupted(desk), *leave_ending(desk), *mend_gangs(desk)]
    turns = Turns(desk)
    if desk.pending:
        actions += come_home(desk)
        actions += make_room(desk)
        actions += _send_out(desk, turns)
    actions += empty_nodes(desk)
    keep = keep_nodes(desk)
    bought, served = scale_out(desk, keep, turns)
    actions += bought
    actions += scale_in(desk, keep)
    actions += cache_actions(desk)
    allowed, withheld = guard(desk, actions)
    return Plan(
        id=_plan_id(snapshot, forecasts, policy, state),
        at=snapshot.at,
        policy_hash=policy.content_hash,
        forecast_ids=tuple(f.id for f in forecasts.demand.values()),
        targets=targets(desk),
        actions=tuple(allowed),
        withheld=tuple(withheld),
        waits=waits(desk, served, allowed, withheld),
        cost=plan_cost(snapshot, allowed),
        notes=notes(desk),
        next_look_at=_next_look(desk),
    )


def _send_out(desk: Desk, turns: Turns) -> list[Action]:
    """Waiting work onto rented nodes that are ready, and urgent work into the place of lower classes."""
    actions: list[Action] = []
    displacing = {name for name, rules in desk.policy.classes.items() if rules.may_displace}
    room, due_now = _rented_room(desk, turns), desk.due_now
    for job in desk.waiting():
        due = job.id in due_now
        if not due and job.gpus > room and job.job_class not in displacing:
            continue  # nothing to decide: most of a long queue
        before = len(actions)
        if job.job_class in displacing:
            actions += displace_for(desk, job, desk.family(job))
        if job.id not in desk.placed and not desk.money_is_spent:
            actions += _send(desk, job, due, turns)
        if len(actions) > before:
            room = _rented_room(desk, turns)
    return actions


def _rented_room(desk: Desk, turns: Turns) -> float:
    """The most GPUs a job may ask for to have any hope of rented nodes now: a turn has no limit here."""
    free = [sum(desk.floors[p].free_gpus for p in family.burst) for family in desk.families]
    return NEVER_S if turns.has_nodes else max(free, default=0)


def _send(desk: Desk, job: Job, due: bool, turns: Turns) -> list[Action]:
    """One waiting job onto rented nodes, or home in the place of work that goes there; [] if neither is possible or
    wanted yet."""
    if fills_well(desk, job) and (turn := turns.take(job)):
        desk.keep(job, ())
        return list[Action](queue(job, turn))
    spot = use_what_is_paid(desk, job, desk.family(job), due=due)
    movable = desk.is_checkpointable(job)
    if (spot and not movable) or (due and not spot and desk.burst_pools(job)):
        swapped = swap(desk, job)
        if swapped:
            return swapped
    if spot is None or not (due or movable):
        return []
    pool, node_ids = spot
    desk.assign(job, pool, node_ids)
    turns.placed(job, pool, node_ids)
    return [to_cloud(job, pool, node_ids, "its wait target is near" if due else "rented nodes have room")]


def _plan_id(snapshot: Snapshot, forecasts: Forecasts, policy: Policy, state: ControllerState) -> str:
    """A hash of the inputs: what was seen (by id, state and place), forecast, wanted and remembered."""
    digest = blake2b(digest_size=8)
    digest.update(f"{snapshot.at.isoformat()}|{policy.content_hash}|{state.tick}|{state.mode}".encode())
    digest.update("|".join(f.id for f in forecasts.demand.values()).encode())
    digest.update("|".join([f"{j.id}{j.attempt}{j.state}" for j in snapshot.jobs]).encode())
    digest.update("|".join([f"{n.id}{n.free_gpus}" for n in snapshot.nodes]).encode())
    return digest.hexdigest()


def _next_look(desk: Desk) -> datetime | None:
    """When time alone may change the decision: a job becomes due, an idle node reaches its limit."""
    soonest_s = min(desk.next_due_s, next_release_s(desk))
    return desk.at + timedelta(seconds=soonest_s) if soonest_s < NEVER_S else None
