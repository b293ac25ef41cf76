"""The JSON Schema of policy files, generated from the models; `policies/schema.json` is its output."""

import json
from typing import Any

from elastic.planning.policy import PolicyDocument
from elastic.policy_keys import KEY_MEANINGS

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def policy_schema() -> dict[str, Any]:
    """Schema by the keys as written in YAML; durations as a number of seconds or as text."""
    schema = PolicyDocument.model_json_schema(by_alias=True)
    parts = schema.pop("$defs")
    _describe("PolicyDocument", schema)
    for name, part in parts.items():
        _describe(name, part)
    return {"$schema": DIALECT, **schema, "title": "Elastic capacity policy", "$defs": parts}


def schema_text() -> str:
    """The schema as it stands in the file."""
    return json.dumps(policy_schema(), indent=2, ensure_ascii=False) + "\n"


def _describe(model: str, part: dict[str, Any]) -> None:
    """Put each key's meaning where editors show it, in place of titles made up from the key."""
    for key, field in part.get("properties", {}).items():
        field.pop("title", None)
        field["description"] = KEY_MEANINGS[f"{model}.{key}"]
