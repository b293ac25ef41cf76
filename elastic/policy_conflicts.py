"""Wishes of a policy that contradict each other or name what is not there. Called by `policy_file` once the shape fits.

Each check yields findings and names the paths it rests on, so that a value that could not be read causes no second,
false complaint.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import combinations

from elastic.planning.policy import Budget, JobClass, PolicyDocument, Pool
from elastic.policy_calendar_checks import calendar_findings, zone_words
from elastic.policy_clouds import cloud_findings
from elastic.policy_findings import Finding, Severity
from elastic.policy_words import nearest
from elastic.policy_yaml import Loc
from providers.facts import CapacityType

Names = Mapping[str, frozenset[str]]
_NAME = re.compile(r"^\w[\w.\-]{0,62}$")  # fits Slurm partitions, Kubernetes labels and cloud tags


def conflicts(document: PolicyDocument, *, at: datetime, names: Names) -> Iterator[Finding]:
    """Every conflict in a document. `names` are the entries the file gives by section, unreadable ones included."""
    yield from _names_are_plain(document)
    yield from _names_exist(document, names)
    for name, pool in document.pools.items():
        yield from _pool(name, pool)
    yield from cloud_findings(document)
    yield from _headroom_fits(document)
    for name, job_class in document.classes.items():
        yield from _job_class(name, job_class, document)
    yield from _classes_are_told_apart(document)
    yield from _teams(document)
    yield from _caches(document)
    yield from _money(document)
    yield from _sections_are_filled(document)
    yield from calendar_findings(document, at=at)


def _names_are_plain(document: PolicyDocument) -> Iterator[Finding]:
    for section in ("calendars", "clusters", "clouds", "pools", "classes", "teams", "caches"):
        for name in getattr(document, section):
            if not _NAME.match(name):
                yield Finding(
                    loc=(section, name),
                    of_key=True,
                    message=f"{name!r} can't be a name",
                    hint="letters, digits, dash, dot and underscore; at most 63; a letter or digit first",
                )


def _names_exist(document: PolicyDocument, names: Names) -> Iterator[Finding]:
    references: list[tuple[Loc, str, str]] = [(("default_class",), document.default_class, "classes")]
    for name, pool in document.pools.items():
        references.append((("pools", name, "cluster"), pool.cluster, "clusters"))
        for number, headroom in enumerate(pool.headroom):
            if headroom.calendar is not None:
                references.append((("pools", name, "headroom", number, "calendar"), headroom.calendar, "calendars"))
    for name, team in document.teams.items():
        for number, calendar in enumerate(team.calendars):
            references.append((("teams", name, "calendars", number), calendar, "calendars"))
        if team.cache_group is not None:
            references.append((("teams", name, "cache_group"), team.cache_group, "caches"))
    for loc, wanted, section in references:
        known = names.get(section, frozenset())
        if wanted not in known:
            yield Finding(loc=loc, message=f"no {wanted!r} under {section}", hint=nearest(wanted, sorted(known)))
    if trouble := zone_words(document.time_zone):
        yield Finding(loc=("time_zone",), message=trouble[0], hint=trouble[1])


def _pool(name: str, pool: Pool) -> Iterator[Finding]:
    given = pool.model_fields_set
    if pool.place == "on-prem":
        yield from _onprem_pool(name, pool, given)
        return
    if pool.cloud is None:
        yield Finding(
            loc=("pools", name),
            uses=(("pools", name, "cloud"),),
            of_key=True,
            message="a burst pool rents from a cloud, none is named",
            hint="add `cloud: ...`",
        )
    if pool.nodes is not None:
        yield Finding(
            loc=("pools", name, "nodes"),
            message="a burst pool has no fixed nodes",
            hint="give `max_nodes`, its ceiling",
        )
    if pool.max_nodes < pool.min_nodes:
        yield Finding(
            loc=("pools", name, "max_nodes" if "max_nodes" in given else "min_nodes"),
            uses=(("pools", name, "min_nodes"), ("pools", name, "max_nodes")),
            message=f"the ceiling of {pool.max_nodes} nodes is below the floor of {pool.min_nodes}",
            hint="raise max_nodes or lower min_nodes",
        )
    elif pool.max_nodes == 0:
        yield Finding(
            loc=("pools", name),
            uses=(("pools", name, "max_nodes"),),
            of_key=True,
            severity=Severity.WARNING,
            message="max_nodes is 0: nothing is ever rented here",
            hint="give the ceiling",
        )
    if not pool.capacity_types or CapacityType.ONPREM in pool.capacity_types:
        yield Finding(
            loc=("pools", name, "capacity_types"),
            message="a burst pool needs capacity types that can be rented",
            hint="spot, on-demand or reserved, in the order to try",
        )


def _onprem_pool(name: str, pool: Pool, given: set[str]) -> Iterator[Finding]:
    for key, words in (
        ("capacity_types", "capacity types are for rented nodes"),
        ("cloud", "no cloud stands behind an on-prem pool"),
        ("min_nodes", "an on-prem pool is as big as it is"),
        ("max_nodes", "an on-prem pool is as big as it is"),
        ("instance_types", "instance types are for rented nodes"),
    ):
        if key not in given or (key == "capacity_types" and set(pool.capacity_types) == {CapacityType.ONPREM}):
            continue
        hint = "give `nodes`" if key.endswith("_nodes") else "delete the key, or make it `place: burst`"
        yield Finding(loc=("pools", name, key), uses=(("pools", name, "place"),), message=words, hint=hint)
    if pool.nodes is None:
        yield Finding(
            loc=("pools", name),
            uses=(("pools", name, "nodes"), ("pools", name, "place")),
            of_key=True,
            severity=Severity.WARNING,
            message="`nodes` is not given: guarantees and headroom can't be checked",
            hint="add `nodes: ...`",
        )


def _headroom_fits(document: PolicyDocument) -> Iterator[Finding]:
    for name, pool in document.pools.items():
        nodes = pool.nodes if pool.place == "on-prem" else pool.max_nodes
        kept = sum(h.gpus for h in pool.headroom)
        if nodes is not None and kept > nodes * pool.gpus_per_node:
            fields = ("headroom", "nodes", "max_nodes", "gpus_per_node", "place")
            yield Finding(
                loc=("pools", name, "headroom"),
                uses=tuple(("pools", name, key) for key in fields),
                message=f"{kept} GPUs of headroom in a pool of at most {nodes * pool.gpus_per_node}",
                hint="headroom entries add up; lower them",
            )


def _job_class(name: str, job_class: JobClass, document: PolicyDocument) -> Iterator[Finding]:
    here = ("classes", name)
    if job_class.may_burst:
        fitting = [
            p.capacity_types
            for p in document.pools.values()
            if p.place == "burst" and set(p.capacity_types) & set(job_class.capacity_types)
        ]
        pool_uses = tuple(("pools", p, key) for p in document.pools for key in ("place", "capacity_types"))
        if not fitting:
            wanted = " or ".join(job_class.capacity_types) or "nothing"
            yield Finding(
                loc=here,
                uses=((*here, "may_burst"), (*here, "capacity_types"), ("pools",), *pool_uses),
                of_key=True,
                message=f"may burst to {wanted}, but no burst pool rents that",
                hint="add a burst pool, widen capacity_types, or write `may_burst: false`",
            )
        rented = {kind for kinds in fitting for kind in kinds}
        if job_class.deadline_fallback and CapacityType.ON_DEMAND not in rented & set(job_class.capacity_types):
            yield Finding(
                loc=(*here, "deadline_fallback"),
                uses=((*here, "capacity_types"), ("pools",), *pool_uses),
                message="falls back to on-demand near the deadline, but can't get any",
                hint="add on-demand to the class and to a burst pool",
            )
    if job_class.may_be_displaced and not job_class.checkpointable:
        yield Finding(
            loc=(*here, "may_be_displaced"),
            uses=((*here, "checkpointable"),),
            message="may be displaced but can't restart from a checkpoint: its work would be lost",
            hint="write `checkpointable: true` if it can, otherwise `may_be_displaced: false`",
        )


def _classes_are_told_apart(document: PolicyDocument) -> Iterator[Finding]:
    for (one, first), (other, second) in combinations(document.classes.items(), 2):
        partitions, qos = set(first.partitions) & set(second.partitions), set(first.qos) & set(second.qos)
        same_partition = bool(partitions) or not (first.partitions or second.partitions)
        same_qos = bool(qos) or not (first.qos or second.qos)
        if (partitions or qos) and same_partition and same_qos:
            yield Finding(
                loc=("classes", other, "partitions" if partitions else "qos"),
                uses=tuple(("classes", name, key) for name in (one, other) for key in ("partitions", "qos")),
                message=f"{', '.join(sorted(partitions or qos))}: these jobs belong to class {one!r} already",
                hint="tell the classes apart by partition or qos",
            )


def _teams(document: PolicyDocument) -> Iterator[Finding]:
    site = [p for p in document.pools.values() if p.place == "on-prem"]
    if site and all(p.nodes is not None for p in site):
        gpus = sum((p.nodes or 0) * p.gpus_per_node for p in site)
        guaranteed = sum(t.guaranteed_gpus for t in document.teams.values())
        if guaranteed > gpus:
            pool_uses = tuple(("pools", p, k) for p in document.pools for k in ("place", "nodes", "gpus_per_node"))
            team_uses = tuple(("teams", t, "guaranteed_gpus") for t in document.teams)
            yield Finding(
                loc=("teams",),
                uses=(("pools",), *pool_uses, *team_uses),
                of_key=True,
                message=f"{guaranteed} GPUs are guaranteed, the site has {gpus}",
                hint="lower guaranteed_gpus; what bursts is no guarantee",
            )
    sizes = [p.gpus_per_node for p in document.pools.values() if p.place == "burst"]
    for name, team in document.teams.items():
        ceiling = team.burst_ceiling_gpus
        if ceiling and sizes and ceiling < min(sizes):
            yield Finding(
                loc=("teams", name, "burst_ceiling_gpus"),
                uses=(("pools",), *(("pools", p, k) for p in document.pools for k in ("place", "gpus_per_node"))),
                severity=Severity.WARNING,
                message=f"{ceiling} GPUs are less than one rented node of {min(sizes)}: nothing is rented for it",
                hint="raise it to a whole node, or write 0",
            )
    for (one, first), (other, second) in combinations(document.teams.items(), 2):
        for key in ("accounts", "users"):
            for shared in sorted(set(getattr(first, key)) & set(getattr(second, key))):
                yield Finding(
                    loc=("teams", other, key),
                    uses=(("teams", one, key),),
                    message=f"{shared!r} belongs to team {one!r} already",
                    hint="jobs are counted to one team",
                )


def _caches(document: PolicyDocument) -> Iterator[Finding]:
    owners: dict[str, str] = {}
    for name, team in document.teams.items():
        if team.cache_group is not None and owners.setdefault(team.cache_group, name) != name:
            yield Finding(
                loc=("teams", name, "cache_group"),
                message=f"{team.cache_group!r} is team {owners[team.cache_group]!r}'s already",
                hint="a cache group follows the calendars of one team",
            )
    for name, cache in document.caches.items():
        if cache.awake_workers < cache.asleep_workers:
            yield Finding(
                loc=("caches", name, "awake_workers"),
                uses=(("caches", name, "asleep_workers"),),
                message=f"{cache.awake_workers} workers awake are fewer than {cache.asleep_workers} asleep",
                hint="raise awake_workers or lower asleep_workers (1 if not given)",
            )
        if name not in owners:
            yield Finding(
                loc=("caches", name),
                uses=(("teams",), *(("teams", team, "cache_group") for team in document.teams)),
                of_key=True,
                severity=Severity.WARNING,
                message="no team uses this cache group: it is never resized",
                hint="name it as a team's cache_group",
            )


def _money(document: PolicyDocument) -> Iterator[Finding]:
    money, forecast = document.money, document.forecast
    yield from _falling(("money",), money.usd_per_hour, "usd_per_hour", money.usd_per_day, "usd_per_day")
    yield from _falling(("money",), money.usd_per_day, "usd_per_day", money.usd_per_month, "usd_per_month")
    for name, team in document.teams.items():
        budget: Budget = team.budget
        here = ("teams", name, "budget")
        yield from _falling(here, budget.usd_per_day, "usd_per_day", budget.usd_per_month, "usd_per_month")
    if forecast.max_age_s < forecast.refresh_s:
        yield Finding(
            loc=("forecast",),
            uses=(("forecast", "max_age"), ("forecast", "refresh")),
            of_key=True,
            message="forecasts are refreshed later than they are too old to use",
            hint="max_age must not be below refresh",
        )


def _falling(here: Loc, short: float | None, short_key: str, longer: float | None, long_key: str) -> Iterator[Finding]:
    if short is not None and longer is not None and longer < short:
        yield Finding(
            loc=(*here, long_key),
            uses=((*here, short_key),),
            message=f"{longer:g} is below {short_key} of {short:g}: the shorter cap could never be used",
            hint="raise it or lower the other",
        )


def _sections_are_filled(document: PolicyDocument) -> Iterator[Finding]:
    for section in ("clusters", "pools", "classes"):
        if not getattr(document, section):
            yield Finding(loc=(section,), of_key=True, message=f"no {section} are given", hint="at least one is needed")
