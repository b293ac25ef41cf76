"""Which account, region and settings the adapter works with, and the tags by which it knows what is ours."""

from collections.abc import Mapping
from dataclasses import dataclass, field

# Terraform makes slow things, the controller makes nodes; the border is a tag.
MADE_BY_TAG, MADE_BY = "elastic:made-by", "controller"
OWNER_TAG, CONTROLLER_TAG = "elastic:owner", "elastic:controller"
CLUSTER_TAG, POOL_TAG, TEAM_TAG = "elastic:cluster", "elastic:pool", "elastic:team"
TOKEN_TAG, ENDS_AT_TAG = "elastic:token", "elastic:ends-at"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShape:
    """What the machines of one pool start with. `user_data` is plain text, at most 16 KiB; no secrets in it."""

    image_id: str  # ami-..., or resolve:ssm:/a/parameter
    security_group_ids: tuple[str, ...] = ()
    instance_profile: str = ""  # name of an instance profile
    user_data: str = ""
    root_device: str = "/dev/sda1"  # as the image names it: /dev/xvda on Amazon Linux
    root_volume_gib: int = 200
    key_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsAccount:
    """One account and region under the policy's name of the cloud. `owner` and `controller` are tag values: nothing
    without both is ever touched. `subnets` by zone; a zone without one is not used. `endpoint_url` '' is AWS itself."""

    name: str
    region: str
    owner: str
    controller: str
    subnets: Mapping[str, str]
    shapes: Mapping[str, NodeShape] = field(default_factory=dict)  # by pool
    instance_types: tuple[str, ...] = ()  # those the pools name; () where a pool asks by GPU model
    gpu_models: tuple[str, ...] = ()  # those the pools ask for
    queue_url: str = ""
    endpoint_url: str = ""
    lease_s: float = 86_400.0  # the hard lease: a node powers itself off then (capacity-anchors: 24 h)
    wants_scores: bool = False  # ask for spot placement scores
