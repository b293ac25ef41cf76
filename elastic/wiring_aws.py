"""Puts AWS behind the port `Cloud`, as a policy's `clouds` describe it. Used by `wiring` and by commands that ask an
account."""

from collections.abc import Callable
from datetime import date
from pathlib import Path

from elastic.planning.policy import Cloud, Mode, Policy, Pool
from providers.aws.account import AwsAccount, NodeShape
from providers.aws.bill import Bill
from providers.aws.clients import Boto3Clients, is_loopback
from providers.aws.cloud import AwsCloud
from providers.aws.doctor import Check, PoolWish, examine
from providers.aws.user_data import render
from providers.facts import BilledDay
from providers.ports import Clock
from providers.ports import Cloud as CloudPort
from providers.sim.aws.like import AwsLike, MissingMoto
from providers.sim.joining import JoiningCloud, NodeKind
from providers.sim.world import World

AWS, AWS_LIKE = "aws", "aws-like"


class RealCloud:
    """A cloud that is EC2, or like it, for a simulated cluster: machines that run join it as nodes."""

    def __init__(self, aws: AwsCloud, port: CloudPort, like: AwsLike | None) -> None:
        self.aws, self.port, self._like = aws, port, like

    @property
    def shown(self) -> str:
        """Where it is and what it owns, in one line."""
        account = self.aws.account
        where = account.endpoint_url or f"AWS {account.region}"
        return f"{where}, owner {account.owner}, controller {account.controller}"

    @property
    def bill(self) -> Callable[[date], BilledDay] | None:
        """What the account was billed for a day; None for an AWS on loopback, which bills nobody."""
        return None if self._like is not None else Bill(self.aws.calls, self.aws.account).day

    def start(self) -> None:
        """Listen to its notices."""
        self.aws.start()

    def stop(self) -> None:
        """Listen no more; end what was started on loopback."""
        self.aws.stop()
        if self._like is not None:
            self._like.stop()


class SiteError(Exception):
    """A site that cannot be put together as the policy describes it; the message says what to do."""


def real_clouds(
    policy: Policy, clock: Clock, world: World, *, woken: Callable[[], None], speed: float, rents_for_real: bool
) -> dict[str, RealCloud]:
    """The clouds of a policy that are not simulated, by name. SiteError where a simulated queue would rent real
    machines without somebody having said so, or where user data or a package is missing."""
    made: dict[str, RealCloud] = {}
    for name, cloud in policy.clouds.items():
        if cloud.kind == "sim":
            continue
        if cloud.kind == AWS and policy.mode is Mode.ACT and not (rents_for_real or is_loopback(cloud.endpoint_url)):
            raise SiteError(
                f"clouds.{name} rents real machines, and the queue is simulated: use `mode: advise` for a dry run,"
                " `kind: aws-like` to try it for nothing, or --rent-for-real if you mean it"
            )
        if cloud.kind == AWS and speed != 1.0:
            raise SiteError(f"clouds.{name} runs in real time: use --speed 1 (and --tick 10)")
        try:
            made[name] = _real_cloud(policy, name, clock, world, woken)
        except (ValueError, MissingMoto, OSError) as trouble:
            raise SiteError(f"clouds.{name}: {trouble}") from trouble
    return made


def _real_cloud(policy: Policy, name: str, clock: Clock, world: World, woken: Callable[[], None]) -> RealCloud:
    account, like = account_of(policy, name), None
    if policy.clouds[name].kind == AWS_LIKE:
        like = AwsLike(account, clock)
        account = like.account
    aws = AwsCloud(account, Boto3Clients(account), clock, woken=woken)
    kinds = {key: _node_kind(pool) for key, pool in policy.pools.items() if pool.cloud == name}
    port = JoiningCloud(aws, world, kinds, listed=like.play) if like else JoiningCloud(aws, world, kinds)
    return RealCloud(aws, port, like)


def _node_kind(pool: Pool) -> NodeKind:
    return NodeKind(
        cluster=pool.cluster,
        gpus=pool.gpus_per_node,
        gpu_model=pool.gpu_model,
        cpus=pool.cpus_per_node,
        memory_gib=pool.memory_gib_per_node,
    )


def aws_clouds(policy: Policy, clock: Clock) -> dict[str, AwsCloud]:
    """The clouds of kind `aws` of a policy, by name; nothing is asked yet. ValueError for user data that cannot be
    made, with the template and the placeholder."""
    accounts = [account_of(policy, name) for name, cloud in policy.clouds.items() if cloud.kind == AWS]
    return {account.name: AwsCloud(account, Boto3Clients(account), clock) for account in accounts}


def account_of(policy: Policy, name: str) -> AwsAccount:
    """What the adapter needs to know of a cloud and of the pools that rent from it."""
    cloud = policy.clouds[name]
    pools = {key: pool for key, pool in policy.pools.items() if pool.place == "burst" and pool.cloud == name}
    return AwsAccount(
        name=name,
        region=cloud.region,
        owner=cloud.owner,
        controller=cloud.controller,
        subnets=cloud.subnets,
        shapes={key: _shape(cloud, pool, key) for key, pool in pools.items()},
        instance_types=tuple(dict.fromkeys(t for pool in pools.values() for t in pool.instance_types)),
        gpu_models=tuple(dict.fromkeys(p.gpu_model for p in pools.values() if not p.instance_types)),
        queue_url=cloud.queue_url,
        endpoint_url=cloud.endpoint_url,
        lease_s=cloud.lease_s,
        wants_scores=cloud.placement_scores,
    )


def _shape(cloud: Cloud, pool: Pool, name: str) -> NodeShape:
    return NodeShape(
        image_id=pool.image or cloud.image,
        security_group_ids=cloud.security_groups,
        instance_profile=cloud.instance_profile,
        user_data=_user_data(cloud, pool, name),
        root_device=cloud.root_device,
        root_volume_gib=cloud.root_volume_gib,
        key_name=cloud.key_name,
    )


def _user_data(cloud: Cloud, pool: Pool, name: str) -> str:
    """The pool's first start, the same text for all its machines: one launch template a content."""
    asked = cloud.user_data
    if asked is None:
        return ""
    site = {
        "POOL": name,
        "CLUSTER": pool.cluster,
        "OWNER": cloud.owner,
        "CONTROLLER": cloud.controller,
        "REGION": cloud.region,
        "LEASE_S": f"{cloud.lease_s:.0f}",
    }
    template = Path(asked.template).read_text() if "/" in asked.template else asked.template
    return render(template, site=site, own=asked.values)


def examined(policy: Policy, clock: Clock) -> dict[str, list[Check]]:
    """What `doctor` finds about every account of a policy. Reads only."""
    return {
        name: examine(
            cloud, [_wish(key, pool) for key, pool in policy.pools.items() if pool.cloud == name], clock.now()
        )
        for name, cloud in aws_clouds(policy, clock).items()
    }


def _wish(name: str, pool: Pool) -> PoolWish:
    return PoolWish(
        name=name,
        gpu_model=pool.gpu_model,
        gpus_per_node=pool.gpus_per_node,
        max_nodes=pool.max_nodes,
        instance_types=pool.instance_types,
        zones=pool.zones,
        capacity_types=pool.capacity_types,
    )
