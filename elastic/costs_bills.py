"""The daily reconciliation: days that are over held against the clouds' bills, until a bill is final. Run by a beat.

A bill is asked for a few days at most, once a day each: Cost Explorer takes money for every question.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, timedelta

from elastic.ledger_books import LedgerBooks
from elastic.reconcile import reconcile, reconciliation_line
from providers.errors import ProviderError
from providers.facts import BilledDay

Bills = Mapping[str, Callable[[date], BilledDay]]  # by the policy's name of the cloud
FIRST_LOOK_DAYS = 2  # Cost Explorer lags by one to two days
LAST_LOOK_DAYS = 7  # what is not final by then stays as it was seen last


def reconcile_due(now: datetime, *, bills: Bills, books: LedgerBooks) -> list[str]:
    """Reconcile every day that is due; the lines for people. A cloud whose bill cannot be read is asked again tomorrow:
    one line says why."""
    lines: list[str] = []
    for cloud, bill in bills.items():
        try:
            lines += [_reconcile(day, cloud, bill, books, now) for day in _due(cloud, books, now)]
        except ProviderError as trouble:
            lines.append(f"{cloud}: the bill was not read, asked again tomorrow: {trouble.kind}: {trouble.detail}")
    return lines


def _due(cloud: str, books: LedgerBooks, now: datetime) -> Iterable[date]:
    """Days that were watched or cost something and whose bill was not final yet, oldest first."""
    first = f"{now - timedelta(days=LAST_LOOK_DAYS):%Y-%m-%d}"
    last = f"{now - timedelta(days=FIRST_LOOK_DAYS):%Y-%m-%d}"
    settled = {r.day for r in books.costs.reconciliations(first, last) if r.cloud == cloud and r.is_final}
    known = {*books.known_days(), *books.costs.days()}
    return [date.fromisoformat(day) for day in sorted(known) if first <= day <= last and day not in settled]


def _reconcile(day: date, cloud: str, bill: Callable[[date], BilledDay], books: LedgerBooks, now: datetime) -> str:
    billed, name = bill(day), day.isoformat()
    kept = books.day(name)
    ours = [(key, cost) for key, cost in books.costs.rows(name, name) if key.cloud == cloud]
    found = reconcile(billed, ours, watched_h=kept.watched_h if kept else None, made_at=now)
    books.costs.put_reconciliation(found)
    return reconciliation_line(found)
