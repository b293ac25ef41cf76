"""The AWS beside a simulated site: furnished as terraform would, and taking spot machines now and then."""

import socket
from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import urlsplit

import pytest

pytest.importorskip("moto", reason="moto is not installed: pip install 'elastic-capacity[aws-like]'")

from providers.aws.account import NodeShape
from providers.aws.clients import Boto3Clients
from providers.aws.cloud import AwsCloud
from providers.facts import CapacityType, Instance, InstanceState, LaunchRequest
from providers.sim.aws.like import MEAN_LIFE, AwsLike
from tests.contract.stand_aws import SteeredClock, an_account

# Machines live eight hours on average: after five such lives one in 150 would be left of those the market may take.
LONG = 5 * MEAN_LIFE


class _Demo:
    """One demo cloud with its adapter, in a clock of its own."""

    def __init__(self) -> None:
        self.clock = SteeredClock()
        bare = an_account(subnets={}, shapes={"burst": NodeShape(image_id="")}, queue_url="")
        self.like = AwsLike(bare, self.clock)
        self.cloud = AwsCloud(self.like.account, Boto3Clients(self.like.account), self.clock)

    def tick(self, seconds: float) -> tuple[Instance, ...]:
        """Time goes on; the market plays with what is listed."""
        self.clock.wait(seconds)
        instances = self.cloud.read().instances
        self.like.play(instances, self.clock.now())
        return instances

    def rent(self, nodes: int, capacity_type: CapacityType) -> set[str]:
        """The ids of so many machines."""
        offerings = [o for o in self.cloud.read().offerings if o.capacity_type is capacity_type]
        asked = LaunchRequest(
            token=f"t-{capacity_type}", pool="burst", cluster="main", nodes=nodes, gang=False, offerings=(*offerings,)
        )
        return {i.id for i in self.cloud.launch(asked).instances}


@pytest.fixture
def demo() -> Iterator[_Demo]:
    """moto's state is one for the whole process: what this made is forgotten."""
    made = _Demo()
    yield made
    made.like.stop()
    made.like.layer.reset()


def test_everything_a_pool_needs_is_made_and_has_prices(demo: _Demo) -> None:
    account, reading = demo.like.account, demo.cloud.read()
    assert sorted(account.subnets) == ["us-east-1a", "us-east-1b", "us-east-1c"]
    assert account.shapes["burst"].image_id.startswith("ami-")
    assert account.shapes["burst"].security_group_ids
    (image,) = Boto3Clients(account)("ec2").describe_images(ImageIds=[account.shapes["burst"].image_id])["Images"]
    assert image["Name"] == "elastic-node"
    spot = [o.price_usd_per_hour for o in reading.offerings if o.capacity_type is CapacityType.SPOT]
    assert len(spot) == 3
    assert len({round(usd or 0.0, 3) for usd in spot}) == 3  # no zone costs the same as another


def test_machines_take_a_while_to_run(demo: _Demo) -> None:
    demo.rent(1, CapacityType.SPOT)
    assert [i.state for i in demo.tick(5)] == [InstanceState.PENDING]
    assert [i.state for i in demo.tick(30)] == [InstanceState.RUNNING]


def test_the_market_takes_spot_machines_with_two_minutes_notice_and_no_others(demo: _Demo) -> None:
    spot, bought = demo.rent(4, CapacityType.SPOT), demo.rent(2, CapacityType.ON_DEMAND)
    demo.tick(60)
    noticed: set[str] = set()
    for _ in range(int(LONG / timedelta(hours=1))):
        demo.tick(3600)
        demo.cloud.notices.poll()
        fresh = {n.instance_id for n in demo.cloud.read().interruptions} - noticed
        states = {i.id: i.state for i in demo.cloud.read().instances}
        assert all(states[i] is InstanceState.RUNNING for i in fresh)
        demo.tick(121)
        states = {i.id: i.state for i in demo.cloud.read().instances}
        assert all(states.get(i) is not InstanceState.RUNNING for i in fresh)
        noticed |= fresh
        if noticed >= spot:
            break
    assert noticed
    assert noticed <= spot
    assert {i for i in bought if states[i] is InstanceState.RUNNING} == bought


def test_a_machine_given_back_is_not_taken_by_the_market_afterwards(demo: _Demo) -> None:
    demo.rent(2, CapacityType.SPOT)
    seen = demo.tick(60)
    demo.cloud.terminate([i.id for i in seen])
    demo.clock.wait(LONG.total_seconds())
    demo.like.play(seen, demo.clock.now())  # a listing from before
    demo.cloud.notices.poll()
    assert demo.cloud.read().interruptions == ()
    assert all(i.state is not InstanceState.RUNNING for i in demo.cloud.read().instances)


def test_nothing_listens_after_the_end(demo: _Demo) -> None:
    port = urlsplit(demo.like.account.endpoint_url).port
    demo.like.stop()
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", port or 0), timeout=2):
        pass
