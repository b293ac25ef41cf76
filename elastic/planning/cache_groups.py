"""Sizes of the teams' cache groups by their calendars: awake in time for the day, asleep after it.

Scale only, never delete; no shrinking while the team's work runs. A team without a calendar is always awake.
"""

from datetime import timedelta

from elastic.planning.desk import Desk
from elastic.planning.plan import Action, ResizeCacheGroup, WarmCacheGroup
from elastic.planning.policy import CachePolicy, Team
from providers.facts import CacheGroup, CachePhase

# The share of the hot set that must be cached for a group to count as warm.
WARM_RATIO = 0.95


def cache_actions(desk: Desk) -> list[Action]:
    """Resizes and warm-ups that are due."""
    if not desk.snapshot.cache_groups:
        return []
    owners = {t.cache_group: (name, t) for name, t in desk.policy.teams.items() if t.cache_group}
    actions: list[Action] = []
    for group in desk.snapshot.cache_groups:
        rules, owner = desk.policy.caches.get(group.name), owners.get(group.name)
        if rules is not None and owner is not None:
            actions += _steer(desk, group, rules, *owner)
    return actions


def _steer(desk: Desk, group: CacheGroup, rules: CachePolicy, team_name: str, team: Team) -> list[Action]:
    awake, why = _wanted_awake(desk, rules, team)
    if awake:
        if group.workers_wanted < rules.awake_workers:
            return [_resize(group, rules.awake_workers, why)]
        warm = group.warm_ratio is not None and group.warm_ratio >= WARM_RATIO
        if not warm and group.phase not in (CachePhase.WARMING, CachePhase.STARTING):
            return [WarmCacheGroup(name=group.name, service=group.service, reason=why)]
        return []
    if group.workers_wanted <= rules.asleep_workers:
        return []
    if group.staged_bytes or any(j.team == team_name for j in desk.running.values()):
        return []
    return [_resize(group, rules.asleep_workers, "the team's day is over and none of its work runs")]


def _wanted_awake(desk: Desk, rules: CachePolicy, team: Team) -> tuple[bool, str]:
    """Whether the group should be awake now or will be within its warm-up lead."""
    calendars = [c for name in team.calendars if (c := desk.policy.calendars.get(name)) is not None]
    if not calendars:
        return True, "the team has no calendar: always awake"
    if any(c.is_open(desk.at) for c in calendars):
        return True, "the team's day has begun"
    soon = desk.at + timedelta(seconds=rules.warm_lead_s)
    if any(c.is_open(soon) for c in calendars):
        return True, f"the team's day begins within {rules.warm_lead_s / 60:.0f} min"
    return False, ""


def _resize(group: CacheGroup, workers: int, reason: str) -> ResizeCacheGroup:
    return ResizeCacheGroup(name=group.name, service=group.service, workers=workers, reason=reason)
