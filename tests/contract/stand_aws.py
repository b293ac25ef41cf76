"""AWS as a stand of the cloud contract: the adapter over the AWS in memory, with the same markets as the others."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from providers.aws.account import AwsAccount, NodeShape
from providers.aws.cloud import AwsCloud
from providers.errors import ProviderError
from providers.facts import CapacityType, Offering
from providers.ports import Cloud
from providers.sim.aws.fake import FakeAws
from providers.sim.aws.market import GROUP, IMAGE, subnet_of
from providers.sim.aws.queue import QUEUE_URL
from providers.sim.aws.trouble import AwsTrouble, refused
from tests.builders import NOW

TYPE = "p4d.24xlarge"
FOREVER = NOW + timedelta(days=365)
# The AWS code (and status) that stands for each of our kinds when a call fails with it.
CODES = {
    "insufficient_capacity": ("InsufficientInstanceCapacity", 500),
    "quota_exceeded": ("MaxSpotInstanceCountExceeded", 400),
    "throttled": ("RequestLimitExceeded", 503),
    "access_denied": ("UnauthorizedOperation", 403),
    "unreachable": ("InternalError", 500),
    "invalid_request": ("InvalidParameterValue", 400),
}


class SteeredClock:
    """A clock that a test sets; waiting moves it on."""

    def __init__(self, at: datetime = NOW) -> None:
        self.at = at

    def now(self) -> datetime:
        """As set."""
        return self.at

    def wait(self, seconds: float, *, until: Callable[[], bool] | None = None) -> None:
        """Move on, unless what is waited for is there already."""
        if until is None or not until():
            self.at += timedelta(seconds=seconds)


def an_account(**changes: Any) -> AwsAccount:
    """Zones a and b, one pool `burst`, one instance type."""
    parts: dict[str, Any] = {
        "name": "aws", "region": "us-east-1", "owner": "research", "controller": "main-1",
        "subnets": {zone: subnet_of(zone) for zone in ("us-east-1a", "us-east-1b")},
        "shapes": {"burst": NodeShape(image_id=IMAGE, security_group_ids=(GROUP,))},
        "instance_types": (TYPE,), "queue_url": QUEUE_URL,
    }  # fmt: skip
    return AwsAccount(**{**parts, **changes})


class AwsCloudStand:
    """Zone a with room for three spot nodes, zone b with room for five, on-demand without a limit in a."""

    # Machines become nodes when a cluster says so; EC2 knows none, so no node is told here (observe joins the two).
    tells_nodes = False
    # EC2 picks by price and capacity among the ranked offerings of one market.
    keeps_rank_within_a_market = False

    def __init__(self) -> None:
        self.clock = SteeredClock()
        stock = {(TYPE, "us-east-1a", "spot"): 3, (TYPE, "us-east-1b", "spot"): 5}
        prices = {
            (TYPE, f"us-east-1{zone}"): [(NOW - timedelta(days=30), usd)] for zone, usd in (("a", 4.0), ("b", 5.0))
        }
        self.trouble = AwsTrouble(stock=stock, spot_prices=prices, on_demand_prices={TYPE: 12.0})
        self.aws = FakeAws(self.clock.now, trouble=self.trouble)
        self.adapter = AwsCloud(an_account(), self.aws.clients, self.clock)
        self.port: Cloud = self.adapter

    def zone(self, letter: str) -> str:
        """What the cloud calls the zone."""
        return f"us-east-1{letter}"

    def offering(self, zone: str, capacity_type: CapacityType = CapacityType.SPOT) -> Offering:
        """One of those on offer."""
        found = self.port.read().offerings
        return next(o for o in found if o.zone == self.zone(zone) and o.capacity_type is capacity_type)

    def play(self, seconds: float) -> None:
        """Time goes on."""
        self.clock.wait(seconds)

    def interrupt(self, instance_id: str) -> None:
        """The cloud announces that it takes the machine; the message is received."""
        self.aws.interrupt(instance_id)
        self.adapter.notices.poll()

    def fail_next_launch(self, trouble: ProviderError) -> None:
        """The next launch call is refused."""
        code, status = CODES[trouble.kind]
        self.trouble.errors["create_fleet"] = [(code, trouble.detail, status)]

    def lose_next_reply(self) -> None:
        """The next launch takes effect, its answer does not come."""
        self.trouble.lost_replies["create_fleet"] = 1

    @contextmanager
    def broken(self, trouble: ProviderError | str) -> Iterator[None]:
        """Readings fail, or their second page does (a text)."""
        if isinstance(trouble, str):
            whole = self.aws.ec2.describe_instances
            self.aws.ec2.describe_instances = lambda **asked: _second_page_fails(whole, trouble, asked)  # type: ignore[method-assign]
            yield
            self.aws.ec2.describe_instances = whole  # type: ignore[method-assign]
        else:
            self.trouble.outages["describe_instances"] = CODES[trouble.kind][0], FOREVER
            yield
            del self.trouble.outages["describe_instances"]


def _second_page_fails(
    whole: Callable[..., dict[str, Any]], words: str, asked: dict[str, Any]
) -> dict[str, Any]:  # fmt: skip
    """A listing in pages of one machine, of which only the first can be read."""
    if asked.get("NextToken"):
        raise refused("RequestLimitExceeded", words, status=503, action="DescribeInstances")
    return whole(**{**asked, "MaxResults": 1})
