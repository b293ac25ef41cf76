"""The contract of the port `Cloud` once more: the adapter with boto3 over HTTP, against the AWS on loopback."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import pytest

from providers.aws.account import NodeShape
from providers.aws.clients import Boto3Clients
from providers.aws.cloud import AwsCloud
from providers.clock import SystemClock
from providers.errors import ProviderError
from providers.facts import CapacityType, Offering
from tests.contract import test_cloud_contract as contract
from tests.contract.stand_aws import CODES, TYPE, an_account
from tests.real.aws.aws_process import AwsProcess, Site

READ_ATTEMPTS = 3  # of the adapter: as many errors must be planned before it gives up

globals().update({name: test for name, test in vars(contract).items() if name.startswith("test_")})


@cache
def _clients(url: str) -> Boto3Clients:
    """The adapter's own clients; made once, for that takes boto3 longer than most tests take."""
    return Boto3Clients(an_account(endpoint_url=url))


class LayerClock:
    """The real clock and what the cloud's was advanced by: waiting moves both on and takes no time."""

    def __init__(self, aws: AwsProcess) -> None:
        self._aws, self._real, self._ahead = aws, SystemClock(), timedelta()

    def now(self) -> datetime:
        """As the cloud's."""
        return self._real.now() + self._ahead

    def wait(self, seconds: float, *, until: Callable[[], bool] | None = None) -> None:
        """Move on, unless what is waited for is there already."""
        if until is None or not until():
            self._aws.advance(seconds)
            self._ahead += timedelta(seconds=seconds)


class OneByOne:
    """boto3's EC2 client, with listings in pages of one machine of which only the first can be read."""

    def __init__(self, client: Any, fail: Callable[[], None]) -> None:
        self._client, self._fail = client, fail

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def describe_instances(self, **asked: Any) -> Any:
        """One page."""
        if asked.get("NextToken"):
            self._fail()
        return self._client.describe_instances(**{**asked, "MaxResults": 1})


class AwsProcessStand:
    """See `CloudStand`: three spot nodes in zone a, five in b, on-demand without a limit."""

    tells_nodes = False
    keeps_rank_within_a_market = False

    def __init__(self, site: Site) -> None:
        self.aws, self.clock, self._one_by_one = site.aws, LayerClock(site.aws), False
        self._words = ""
        month_ago = (self.clock.now() - timedelta(days=30)).isoformat()
        self.aws.trouble(
            stock={f"{TYPE}/us-east-1a/spot": 3, f"{TYPE}/us-east-1b/spot": 5},
            spot_prices={f"{TYPE}/us-east-1{zone}": [[month_ago, usd]] for zone, usd in (("a", 4.0), ("b", 5.0))},
            on_demand_prices={TYPE: 12.0},
        )
        account = replace(
            an_account(),
            subnets={zone: site.subnets[zone] for zone in ("us-east-1a", "us-east-1b")},
            shapes={"burst": NodeShape(image_id=site.image, security_group_ids=(site.group,))},
            queue_url=site.queue_url,
            endpoint_url=site.aws.url,
        )
        self._clients = _clients(account.endpoint_url)
        self.adapter = AwsCloud(account, self._client, self.clock)
        self.port = self.adapter

    def _client(self, service: str) -> Any:
        client = self._clients(service)
        return OneByOne(client, self._fail_listings) if service == "ec2" and self._one_by_one else client

    def _fail_listings(self) -> None:
        self.aws.trouble(errors={"describe_instances": [["RequestLimitExceeded", self._words, 503]] * READ_ATTEMPTS})

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
        self.aws.trouble(errors={"create_fleet": [[code, trouble.detail, status]]})

    def lose_next_reply(self) -> None:
        """The next launch takes effect, its answer does not come."""
        self.aws.trouble(lost_replies={"create_fleet": 1})

    @contextmanager
    def broken(self, trouble: ProviderError | str) -> Iterator[None]:
        """Readings fail, or their second page does (a text)."""
        if isinstance(trouble, str):
            self._one_by_one, self._words = True, trouble
        else:
            until = (self.clock.now() + timedelta(days=1)).isoformat()
            self.aws.trouble(outages={"describe_instances": [CODES[trouble.kind][0], until]})
        yield
        self._one_by_one = False
        self.aws.trouble(outages={}, errors={})


@pytest.fixture
def stand(site: Site) -> AwsProcessStand:
    """One world over an AWS in which nothing has happened."""
    return AwsProcessStand(site)
