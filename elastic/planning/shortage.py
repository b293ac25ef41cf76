"""Our timed memory of offerings that gave nothing, by what each failure covers. Called by `advance`.

A capacity error sets aside what it is about (offering, zone), a quota the whole market, an interruption the offering
it hit, two boots in a row that failed the offering they were of.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import blake2b

from elastic.planning.flights import Boot
from elastic.planning.plan import Launch
from elastic.planning.snapshot import Snapshot
from elastic.planning.state import Outcome, Result, UnavailableOffering
from providers.facts import Interruption, InterruptionKind, Offering

# Set aside (type, zone, market) 10 min after a capacity error, doubling to 60, with up to 20 % more so that retries
# do not fall together; the whole market of the region for 60 min after a quota error (capacity-anchors (d)).
SET_ASIDE_S, SET_ASIDE_MAX_S, JITTER_SHARE = 600.0, 3600.0, 0.2
QUOTA_S = 3600.0
# An interruption marks its offering for 30 min: a quarter to a half of loss events take several (capacity-anchors (d)).
INTERRUPTED_S = 1800.0
# So many boots of one offering in a row that failed set it aside, before they add up to the pool's breaker; no longer
# than the breaker's own pause, or its probe would find nothing to try.
BOOT_FAILURES, BOOT_FAILURE_S = 2, 900.0
CAPACITY_KINDS = ("insufficient_capacity", "quota_exceeded")

Failure = tuple[str, str, str]  # (offering key, error kind, detail)


def unavailable(
    known: Mapping[str, UnavailableOffering],
    snapshot: Snapshot,
    launches: list[tuple[Launch, Outcome]],
    *,
    notices: Iterable[Interruption],
    failed_boots: Iterable[str],
) -> Mapping[str, UnavailableOffering]:
    """The memory after a tick. `notices` are those first seen in it, `failed_boots` offerings that keep failing."""
    lost = {n.instance_id for n in notices if n.kind is InterruptionKind.SPOT_INTERRUPTION}
    booted = sorted(failed_boots)
    if not launches and not lost and not booted:
        return known
    at = snapshot.at
    kept = {k: u for k, u in known.items() if at - u.until < timedelta(seconds=SET_ASIDE_MAX_S)}
    for launch, outcome in launches:
        for instance in outcome.instances:
            kept.pop(instance.offering_key, None)
        for key, kind, detail in _failed_offerings(launch, outcome, snapshot.offerings):
            strikes = kept[key].strikes + 1 if key in kept else 1
            seconds = QUOTA_S if kind == "quota_exceeded" else min(SET_ASIDE_MAX_S, SET_ASIDE_S * 2 ** (strikes - 1))
            until = at + timedelta(seconds=seconds * (1 + JITTER_SHARE * _fraction(f"{key}|{strikes}|{at}")))
            kept[key] = UnavailableOffering(key=key, until=until, strikes=strikes, error_kind=kind, detail=detail)
    for key in dict.fromkeys(i.offering_key for i in snapshot.instances if i.id in lost):
        _set_aside(kept, key, at, INTERRUPTED_S, "interrupted", "the cloud took a machine of it back")
    for key in booted:
        _set_aside(kept, key, at, BOOT_FAILURE_S, "boot_failure", f"{BOOT_FAILURES} machines in a row never joined")
    return kept


def _set_aside(
    kept: dict[str, UnavailableOffering], key: str, at: datetime, seconds: float, kind: str, detail: str
) -> None:
    """For so long from now, unless a longer memory is there."""
    until, known = at + timedelta(seconds=seconds), kept.get(key)
    if known is None:
        kept[key] = UnavailableOffering(key=key, until=until, strikes=1, error_kind=kind, detail=detail)
    elif known.until < until:
        kept[key] = replace(known, until=until, error_kind=kind, detail=detail)


def _failed_offerings(launch: Launch, outcome: Outcome, offerings: Iterable[Offering]) -> list[Failure]:
    """Every offering a launch's failures cover, each once; the wider trouble wins (F014: a quota closes its market)."""
    told = [(f.offering_key, f.error_kind, f.detail, f.scope) for f in outcome.failures]
    if outcome.result is Result.FAILED and outcome.error_kind in CAPACITY_KINDS:
        named = {key for key, *_ in told}
        scope = outcome.error_scope or "offering"
        told += [(o.key, outcome.error_kind, outcome.detail, scope) for o in launch.offerings if o.key not in named]
    told = [row for row in told if row[1] in CAPACITY_KINDS]
    if not told:
        return []
    every = {o.key: o for o in (*offerings, *launch.offerings)}
    failed: dict[str, Failure] = {}
    for key, kind, detail, scope in sorted(told, key=lambda row: row[1] == "quota_exceeded"):
        wide = "market" if kind == "quota_exceeded" and scope == "offering" else scope
        for covered in _covered(every, key, wide):
            failed[covered] = covered, kind, detail
    return list(failed.values())


def _covered(every: Mapping[str, Offering], key: str, scope: str) -> list[str]:
    """Keys of the offerings that a trouble with one of them covers."""
    one = every.get(key)
    if one is None or scope == "offering":
        return [key]
    return [o.key for o in every.values() if _place(o, scope) == _place(one, scope)]


def _place(offering: Offering, scope: str) -> tuple[str, ...]:
    match scope:
        case "zone":
            return offering.cloud, offering.zone
        case "market":
            return offering.cloud, offering.region, offering.capacity_type.value
        case "region":
            return offering.cloud, offering.region
        case _:
            return (offering.cloud,)


def boots_in_a_row(known: Mapping[str, int], boots: Iterable[Boot]) -> Mapping[str, int]:
    """Boots that failed in a row, by offering; one that joined forgets them."""
    news = [b for b in boots if b.offering_key]
    if not news:
        return known
    rows = dict(known)
    for boot in news:
        if boot.joined:
            rows.pop(boot.offering_key, None)
        else:
            rows[boot.offering_key] = rows.get(boot.offering_key, 0) + 1
    return rows


def _fraction(seed: str) -> float:
    """A number in [0, 1) that depends on the seed alone: jitter without randomness."""
    return int.from_bytes(blake2b(seed.encode(), digest_size=4).digest()) / 2**32
