"""A day of our costs held against the cloud's bill: the difference and its likely causes, each with its amount. Pure.

Called by the daily beat; kept by `costs_ledger`, shown by `elastic costs`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

from elastic.costs import MINIMUM, UNWATCHED, Cost, CostKey
from elastic.planning.cost import NO_PRICE
from providers.facts import BilledDay

# Cost Explorer shows a day whole one to two days after its end (AWS: updated at least once every 24 hours).
BILL_LAG = timedelta(hours=48)
SMALL_SHARE, SMALL_USD = 0.01, 0.5  # a smaller difference needs no cause: rounding, seconds of a start
UNWATCHED_H = 0.5  # less than this unwatched is a restart or two
MOST_SOURCES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """One day and cloud: ours, billed (machines and all), what differs (billed machines less ours) and why, likely."""

    day: str
    cloud: str
    made_at: datetime
    ours_usd: float
    billed_usd: float
    billed_compute_usd: float
    is_final: bool
    causes: tuple[str, ...] = ()
    source: str = ""

    @property
    def difference_usd(self) -> float:
        """Billed for machines, less what we counted; positive: the bill is higher."""
        return self.billed_compute_usd - self.ours_usd

    @property
    def share(self) -> float | None:
        """The difference as a share of the bill; None without a bill."""
        return self.difference_usd / self.billed_compute_usd if self.billed_compute_usd else None

    @property
    def agrees(self) -> bool:
        """Whether the difference is too small to look for a cause."""
        return abs(self.difference_usd) <= max(SMALL_USD, SMALL_SHARE * self.billed_compute_usd)


def reconcile(
    billed: BilledDay,
    ours: Sequence[tuple[CostKey, Cost]],
    *,
    watched_h: float | None,
    made_at: datetime,
) -> Reconciliation:
    """Hold our costs of one day and cloud against its bill. `watched_h`: how much of the day ticks saw, if known."""
    usd = sum(cost.usd for _, cost in ours)
    is_final = billed.is_final and made_at - _end(billed.day) >= BILL_LAG
    found = Reconciliation(
        day=billed.day.isoformat(),
        cloud=billed.cloud,
        made_at=made_at,
        ours_usd=usd,
        billed_usd=billed.usd,
        billed_compute_usd=billed.compute_usd,
        is_final=is_final,
        source=billed.source,
    )
    causes = [*_of_the_bill(found, billed), *_of_ours(found, ours, watched_h)]
    return replace(found, causes=tuple(causes))


def _end(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1)


def _of_the_bill(found: Reconciliation, billed: BilledDay) -> Iterable[str]:
    if not found.is_final:
        yield "the bill is not final yet: it lags by one to two days"
    other = [(kind, usd) for kind, usd in billed.by_usage if kind not in billed.compute and abs(usd) >= 0.005]
    if other:
        named = ", ".join(f"{kind} {usd:.2f}" for kind, usd in other[:MOST_SOURCES])
        more = f" and {len(other) - MOST_SOURCES} more" if len(other) > MOST_SOURCES else ""
        yield f"{sum(usd for _, usd in other):.2f} USD billed beside machines, not costed here: {named}{more}"
    if not billed.by_usage and found.ours_usd > 0:
        yield "the bill shows nothing with our controller's tag: is it activated as a cost allocation tag?"


def _of_ours(found: Reconciliation, ours: Sequence[tuple[CostKey, Cost]], watched_h: float | None) -> Iterable[str]:
    unwatched = watched_h is not None and watched_h < 24 - UNWATCHED_H
    if watched_h is not None and unwatched:
        yield f"{24 - watched_h:.1f} h of the day were not watched: machines that came and went then are not in ours"
    if found.agrees:
        return
    estimated = [(k, c) for k, c in ours if k.estimated and c.usd > 0]
    if estimated:
        share = 100 * sum(c.usd for _, c in estimated) / found.ours_usd
        yield f"{share:.0f} % of ours rests on estimated prices ({_sources(estimated)})"
    gaps_usd = sum(c.usd for k, c in ours if k.spent_on == UNWATCHED)
    if gaps_usd > 0:
        yield f"{gaps_usd:.2f} USD of ours fill times without a tick at the price seen after them"
    unpriced_s = sum(c.seconds for k, c in ours if k.source == NO_PRICE)
    if unpriced_s > 0:
        yield f"{unpriced_s / 3600:.1f} node-hours had no price at all and are not in ours"
    minimum_usd = sum(c.usd for k, c in ours if k.spent_on == MINIMUM)
    if minimum_usd >= 0.01:
        yield f"{minimum_usd:.2f} USD of ours are minutes begun by machines that lived shorter"
    yield from _unexplained(found, has_other_cause=bool(unwatched or estimated or gaps_usd or unpriced_s))


def _unexplained(found: Reconciliation, *, has_other_cause: bool) -> Iterable[str]:
    if has_other_cause or not found.is_final:
        return
    if found.difference_usd > 0:
        yield "machines with this controller's tag that this ledger never saw: another controller of the same name?"
    elif found.billed_compute_usd > 0:
        yield "a discount on the bill (savings plan, credits, negotiated price), or prices read that are not ours"


def _sources(rows: Iterable[tuple[CostKey, Cost]]) -> str:
    usd: dict[str, float] = {}
    for key, cost in rows:
        usd[key.source] = usd.get(key.source, 0.0) + cost.usd
    dearest = sorted(usd.items(), key=lambda item: (-item[1], item[0]))[:MOST_SOURCES]
    return ", ".join(f"{source} {amount:.2f} USD" for source, amount in dearest)


def reconciliation_line(found: Reconciliation) -> str:
    """For people."""
    share = "" if found.share is None else f" ({100 * found.share:+.1f} %)"
    state = "agree" if found.agrees else f"differ by {found.difference_usd:+.2f} USD{share}"
    line = (
        f"{found.day} {found.cloud}: ours {found.ours_usd:.2f} USD, {found.source or 'the bill'}"
        f" {found.billed_compute_usd:.2f} USD for machines, {found.billed_usd:.2f} in all: they {state}"
    )
    return "; ".join((line, *found.causes))
