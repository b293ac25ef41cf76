"""Launch templates, named by a hash of their content: never more than one per distinct content (F004).

Made when a launch first needs one, removed when nothing has wanted it for a week. Called by `fleet` and the sweep.
"""

import json
from base64 import b64encode
from collections.abc import Iterable
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from providers.aws.account import CONTROLLER_TAG, MADE_BY, MADE_BY_TAG, OWNER_TAG, AwsAccount, NodeShape
from providers.aws.calls import Calls
from providers.errors import InvalidRequest, NotFound, ProviderError

UNUSED_LIMIT = timedelta(days=7)
USER_DATA_LIMIT_BYTES = 16_384  # EC2's limit, before base64
HASH_LETTERS = 16
_TAKEN = "AlreadyExistsException"


class Templates:
    """The launch templates of one controller."""

    def __init__(self, account: AwsAccount, calls: Calls) -> None:
        self._account, self._calls = account, calls
        self._ids: dict[str, str] = {}  # template id by name
        self._wanted_at: dict[str, datetime] = {}  # by name, since this process started
        self._started_at: datetime | None = None

    def id_for(self, shape: NodeShape, at: datetime, *, reservation_id: str = "", is_block: bool = False) -> str:
        """The template with this content; made if there is none. InvalidRequest if user data is over EC2's limit."""
        content = template_content(self._account, shape, reservation_id=reservation_id, is_block=is_block)
        name = self._name(content)
        self._wanted_at[name] = at
        if name not in self._ids:
            self._ids[name] = self._found(name) or self._made(name, content)
        return self._ids[name]

    def forget(self, template_id: str) -> None:
        """A launch said that this template is not there: look again at the next one."""
        self._ids = {name: known for name, known in self._ids.items() if known != template_id}

    def unused(self, at: datetime, *, used_ids: Iterable[str]) -> list[tuple[str, str]]:
        """(id, name) of our templates that no launch wanted and no machine was made from for a week. What this process
        cannot know counts from its own start: rather a week too long."""
        self._started_at = self._started_at or at
        kept = set(used_ids)
        found = self._calls.pages("ec2", "describe_launch_templates", key="LaunchTemplates", Filters=self._ours())
        gone: list[tuple[str, str]] = []
        for row in found:
            name = str(row.get("LaunchTemplateName", ""))
            used_at = max(self._wanted_at.get(name, self._started_at), row.get("CreateTime") or at)
            if row.get("LaunchTemplateId") in kept:
                self._wanted_at[name] = at
            elif at - used_at >= UNUSED_LIMIT:
                gone.append((str(row["LaunchTemplateId"]), name))
        return gone

    def remove(self, template_id: str) -> None:
        """Delete one that is not used; one that is gone already is fine."""
        self.forget(template_id)
        try:
            self._calls.write("ec2", "delete_launch_template", LaunchTemplateId=template_id)
        except NotFound:
            return

    def _name(self, content: dict[str, Any]) -> str:
        digest = sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:HASH_LETTERS]
        return f"elastic-{self._account.controller}-{digest}"

    def _ours(self) -> list[dict[str, Any]]:
        return [
            {"Name": f"tag:{OWNER_TAG}", "Values": [self._account.owner]},
            {"Name": f"tag:{CONTROLLER_TAG}", "Values": [self._account.controller]},
        ]

    def _found(self, name: str) -> str:
        try:
            answer = self._calls.read("ec2", "describe_launch_templates", LaunchTemplateNames=[name])
        except NotFound:
            return ""
        rows = answer.get("LaunchTemplates") or []
        return str(rows[0]["LaunchTemplateId"]) if rows else ""

    def _made(self, name: str, content: dict[str, Any]) -> str:
        tags = [{"Key": k, "Value": v} for k, v in self._tags().items()]
        try:
            answer = self._calls.write(
                "ec2",
                "create_launch_template",
                LaunchTemplateName=name,
                LaunchTemplateData=content,
                ClientToken=name,
                TagSpecifications=[{"ResourceType": "launch-template", "Tags": tags}],
            )
        except ProviderError as trouble:
            found = self._found(name) if _TAKEN in trouble.detail else ""
            if found:  # another replica was quicker, or an answer of ours was lost
                return found
            raise
        return str(answer["LaunchTemplate"]["LaunchTemplateId"])

    def _tags(self) -> dict[str, str]:
        return {
            OWNER_TAG: self._account.owner,
            CONTROLLER_TAG: self._account.controller,
            MADE_BY_TAG: MADE_BY,
        }


def template_content(
    account: AwsAccount, shape: NodeShape, *, reservation_id: str = "", is_block: bool = False
) -> dict[str, Any]:
    """`LaunchTemplateData`: metadata by token only, volumes encrypted, no public address, and a power-off ends the
    machine: the node's own dead-man switch must not leave a stopped one behind."""
    raw = shape.user_data.encode()
    if len(raw) > USER_DATA_LIMIT_BYTES:
        over = len(raw) - USER_DATA_LIMIT_BYTES
        raise InvalidRequest(f"user data is {over} bytes over EC2's limit of {USER_DATA_LIMIT_BYTES}: shorten it")
    volume = {"VolumeSize": shape.root_volume_gib, "VolumeType": "gp3", "Encrypted": True, "DeleteOnTermination": True}
    owner_tags = [{"Key": OWNER_TAG, "Value": account.owner}, {"Key": CONTROLLER_TAG, "Value": account.controller}]
    content: dict[str, Any] = {
        "ImageId": shape.image_id,
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": {
            "HttpTokens": "required",
            "HttpPutResponseHopLimit": 1,
            "HttpEndpoint": "enabled",
            "InstanceMetadataTags": "enabled",
        },
        "BlockDeviceMappings": [{"DeviceName": shape.root_device, "Ebs": volume}],
        "NetworkInterfaces": [
            {"DeviceIndex": 0, "AssociatePublicIpAddress": False, "Groups": list(shape.security_group_ids)}
        ],
        "TagSpecifications": [{"ResourceType": "volume", "Tags": owner_tags}],
    }
    if shape.instance_profile:
        content["IamInstanceProfile"] = {"Name": shape.instance_profile}
    if raw:
        content["UserData"] = b64encode(raw).decode()
    if shape.key_name:
        content["KeyName"] = shape.key_name
    if reservation_id:
        target = {"CapacityReservationId": reservation_id}
        content["CapacityReservationSpecification"] = {"CapacityReservationTarget": target}
    if is_block:
        content["InstanceMarketOptions"] = {"MarketType": "capacity-block"}
    return content
