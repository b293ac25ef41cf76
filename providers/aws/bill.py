"""What AWS billed for our machines on a day: Cost Explorer by usage type. Asked once a day by the reconciliation.

Every request costs 0.01 USD (Cost Explorer pricing), so it is asked seldom and never in a loop. The bill lags by a day
or two, and shows only tags that are activated as cost allocation tags in the payer's account.
"""

from collections.abc import Iterator
from datetime import date, timedelta
from math import isfinite, nan
from typing import Any

from providers.aws.account import CONTROLLER_TAG, AwsAccount
from providers.aws.calls import Calls
from providers.errors import UnknownTrouble, Unreachable
from providers.facts import BilledDay

SOURCE, METRIC, CURRENCY = "AWS Cost Explorer", "UnblendedCost", "USD"
# Machines themselves, and what hangs on them: volumes, addresses, transfer (Cost Explorer's names of services).
SERVICES = ("Amazon Elastic Compute Cloud - Compute", "EC2 - Other")
# Usage types of machines, without the region before them: USE1-SpotUsage:p4d.24xlarge, BoxUsage:g5.xlarge.
MACHINES = ("SpotUsage", "BoxUsage", "UnusedBox", "Reservation", "UnusedDed", "DedicatedUsage", "HeavyUsage")
MOST_PAGES = 50


class Bill:
    """The bill of one account and region, for the machines that carry our controller's tag."""

    def __init__(self, calls: Calls, account: AwsAccount) -> None:
        self._calls, self._account = calls, account

    def day(self, day: date) -> BilledDay:
        """What was billed for one UTC day so far. ProviderError kinds; UnknownTrouble for another currency than USD."""
        usd: dict[str, float] = {}
        is_final = True
        for page in self._pages(day):
            for result in page.get("ResultsByTime") or ():
                is_final = is_final and not result.get("Estimated", False)
                for group in result.get("Groups") or ():
                    kind = str((group.get("Keys") or [""])[0])
                    usd[kind] = usd.get(kind, 0.0) + _amount(group.get("Metrics") or {})
        return BilledDay(
            cloud=self._account.name,
            day=day,
            usd=sum(usd.values()),
            by_usage=tuple(sorted(usd.items(), key=lambda item: (-item[1], item[0]))),
            compute=frozenset(kind for kind in usd if is_machine(kind)),
            is_final=is_final,
            source=SOURCE,
        )

    def _pages(self, day: date) -> Iterator[dict[str, Any]]:
        asked: dict[str, Any] = {
            "TimePeriod": {"Start": day.isoformat(), "End": (day + timedelta(days=1)).isoformat()},
            "Granularity": "DAILY",
            "Metrics": [METRIC],
            "GroupBy": [{"Type": "DIMENSION", "Key": "USAGE_TYPE"}],
            "Filter": self._ours(),
        }
        token: str | None = None
        for _ in range(MOST_PAGES):
            page = self._calls.read("ce", "get_cost_and_usage", **asked, **({"NextPageToken": token} if token else {}))
            yield page
            token = page.get("NextPageToken") or None
            if token is None:
                return
        raise Unreachable(f"get_cost_and_usage: more than {MOST_PAGES} pages of one day", scope="account")

    def _ours(self) -> dict[str, Any]:
        return {
            "And": [
                {"Tags": {"Key": CONTROLLER_TAG, "Values": [self._account.controller], "MatchOptions": ["EQUALS"]}},
                {"Dimensions": {"Key": "SERVICE", "Values": list(SERVICES)}},
                {"Dimensions": {"Key": "REGION", "Values": [self._account.region]}},
            ]
        }


def is_machine(usage_type: str) -> bool:
    """Whether a usage type is of machines themselves, rather than of their volumes or traffic."""
    kind = usage_type.partition(":")[0]
    return kind.rpartition("-")[2] in MACHINES


def _amount(metrics: dict[str, Any]) -> float:
    told = metrics.get(METRIC) or {}
    unit = str(told.get("Unit", CURRENCY))
    if unit != CURRENCY:
        raise UnknownTrouble(f"the bill is in {unit}, not in {CURRENCY}", scope="account")
    try:
        usd = float(told.get("Amount", 0.0))
    except (TypeError, ValueError):
        usd = nan
    if not isfinite(usd):
        raise UnknownTrouble(f"an amount of the bill is no number: {told.get('Amount')!r}", scope="account")
    return usd
