"""Launch templates in memory, of one version each: made once a name, found by name, id or tag, removed. For `fake`."""

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from providers.sim.aws.trouble import refused

MOST_TEMPLATES = 5000  # EC2's limit a region
MOST_A_PAGE = 200  # DescribeLaunchTemplates, `MaxResults`
Row = dict[str, Any]


class FakeTemplates:
    """The templates of one account and region. `rows` are by id, with their content under `Data`."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now, self._number = now, 0
        self.rows: dict[str, Row] = {}
        self._tokens: dict[str, tuple[str, str]] = {}  # (wish, template id) by client token

    def create_launch_template(
        self,
        *,
        LaunchTemplateName: str,
        LaunchTemplateData: Mapping[str, Any],
        TagSpecifications: Iterable[Mapping[str, Any]] = (),
        ClientToken: str = "",
        **more: Any,
    ) -> dict[str, Any]:
        """One of a name. The same client token again gives the same template while it is there."""
        tags = [tag for s in TagSpecifications for tag in s["Tags"]]
        wish = json.dumps([LaunchTemplateName, LaunchTemplateData, tags], sort_keys=True)
        asked, known_id = self._tokens.get(ClientToken, ("", ""))
        if known_id in self.rows and asked == wish:
            return {"LaunchTemplate": _told(self.rows[known_id])}
        if any(row["LaunchTemplateName"] == LaunchTemplateName for row in self.rows.values()):
            code = "InvalidLaunchTemplateName.AlreadyExistsException"
            raise refused(code, "Launch template name already in use.")
        if len(self.rows) >= MOST_TEMPLATES:
            words = f"You have reached your limit of {MOST_TEMPLATES} launch templates"
            raise refused("LaunchTemplateLimitExceeded", words)
        self._number += 1
        row: Row = {
            "LaunchTemplateId": f"lt-{self._number:017x}",
            "LaunchTemplateName": LaunchTemplateName,
            "CreateTime": self._now(),
            "DefaultVersionNumber": 1,
            "LatestVersionNumber": 1,
            "Tags": tags,
            "Data": LaunchTemplateData,
        }
        self.rows[row["LaunchTemplateId"]] = row
        if ClientToken:
            self._tokens[ClientToken] = wish, row["LaunchTemplateId"]
        return {"LaunchTemplate": _told(row)}

    def describe_launch_templates(
        self,
        *,
        LaunchTemplateNames: Iterable[str] = (),
        LaunchTemplateIds: Iterable[str] = (),
        Filters: Iterable[Mapping[str, Any]] = (),
        MaxResults: int = MOST_A_PAGE,
        NextToken: str = "",
        **more: Any,
    ) -> dict[str, Any]:
        """By name, id, or filters; a name or an id that is not there is an error for all of them."""
        names, ids = set(LaunchTemplateNames), set(LaunchTemplateIds)
        if names - {row["LaunchTemplateName"] for row in self.rows.values()}:
            code = "InvalidLaunchTemplateName.NotFoundException"
            raise refused(code, "At least one of the launch templates specified in the request does not exist.")
        for template_id in sorted(ids):
            self.found({"LaunchTemplateId": template_id})
        filters = list(Filters)
        rows = [
            _told(row)
            for template_id, row in self.rows.items()
            if (not names or row["LaunchTemplateName"] in names)
            and (not ids or template_id in ids)
            and template_id > NextToken
            and all(_has(row, one) for one in filters)
        ]
        following = rows[MaxResults - 1]["LaunchTemplateId"] if len(rows) > MaxResults else ""
        return {"LaunchTemplates": rows[:MaxResults], "NextToken": following}

    def delete_launch_template(
        self, *, LaunchTemplateId: str = "", LaunchTemplateName: str = "", **more: Any
    ) -> dict[str, Any]:
        """Gone."""
        asked = {"LaunchTemplateId": LaunchTemplateId, "LaunchTemplateName": LaunchTemplateName}
        row = self.found({key: value for key, value in asked.items() if value})
        return {"LaunchTemplate": _told(self.rows.pop(row["LaunchTemplateId"]))}

    def found(self, specification: Mapping[str, Any]) -> Row:
        """The template that a `LaunchTemplateSpecification` means."""
        template_id, name = specification.get("LaunchTemplateId", ""), specification.get("LaunchTemplateName", "")
        if name:
            named = [row for row in self.rows.values() if row["LaunchTemplateName"] == name]
            if not named:
                code = "InvalidLaunchTemplateName.NotFoundException"
                raise refused(code, f"The specified launch template, with template name {name}, does not exist.")
            return named[0]
        if template_id not in self.rows:
            words = f"The specified launch template, with template ID {template_id}, does not exist."
            raise refused("InvalidLaunchTemplateId.NotFound", f"LaunchTemplate: {words}")
        return self.rows[template_id]


def _told(row: Row) -> Row:
    return {key: value for key, value in row.items() if key != "Data"}


def _has(row: Row, one: Mapping[str, Any]) -> bool:
    name, values = one["Name"], one["Values"]
    if name == "launch-template-name":
        return row["LaunchTemplateName"] in values
    if name.startswith("tag:"):
        return any(t["Key"] == name[4:] and t["Value"] in values for t in row["Tags"])
    if name == "tag-key":
        return any(t["Key"] in values for t in row["Tags"])
    raise refused("InvalidParameterValue", f"The filter '{name}' is invalid")
