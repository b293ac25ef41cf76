"""The first start of a pool's machines, rendered from bundled templates or from a text of one's own. Called by wiring.

The same text for every launch of a pool (one launch template a content), never with a secret in it: what is secret is
fetched on the node by its own role.
"""

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from gzip import compress
from importlib import resources

LIMIT_BYTES = 16_384  # EC2's limit of user data, before base64
_PLACEHOLDER = re.compile(r"@\{(\w+)\}")  # nothing that a shell would take for its own
BUNDLED = ("slurm", "kubernetes", "eks")
# By template: what warns the jobs, drains the node, and tells whether jobs run.
_SLURM = {
    "jobs_command": "squeue --noheader --states=running,completing --nodelist=$(hostname -s) --format=%i",
    "warn_command": "squeue --noheader --states=running --nodelist=$(hostname -s) --format=%i"
    " | xargs -r -n1 scancel --signal=USR1 --batch",
    "drain_command": "scontrol update nodename=$(hostname -s) state=drain reason=interruption",
}
_KUBERNETES = {
    "jobs_command": "crictl pods --state ready --namespace '^[^k]' --quiet",
    "drain_command": "kubectl --kubeconfig /etc/kubernetes/kubelet.conf cordon $(hostname)",
}
_COMMANDS: Mapping[str, Mapping[str, str]] = {"slurm": _SLURM, "kubernetes": _KUBERNETES, "eks": _KUBERNETES}
# Values of the policy that go into the agent's settings rather than into the text.
_AGENT_KEYS = {
    "HEARTBEAT_FILE": "heartbeat_file",
    "HEARTBEAT_COMMAND": "heartbeat_command",
    "WARN_COMMAND": "warn_command",
    "DRAIN_COMMAND": "drain_command",
    "JOBS_COMMAND": "jobs_command",
}


def render(template: str, *, site: Mapping[str, str], own: Mapping[str, str]) -> str:
    """The user data of a pool. `template` is a bundled name (slurm, kubernetes, eks) or a text with a line break in it;
    `site` are values every text may use (POOL, CLUSTER, OWNER, CONTROLLER, REGION, LEASE_S), `own` those of the policy,
    all of which it must use. ValueError names the template, line and placeholder, or how much the text is too long."""
    if template in BUNDLED:
        text = _filled(template, _bundled(f"{template}.sh"), {**site, **own})
        whole = _filled("start", _bundled("start.sh"), {**site, "JOIN": text, **_agent(template, site, own)})
        used = _names(_bundled(f"{template}.sh")) | set(_AGENT_KEYS)
    elif "\n" in template:
        whole, used = _filled("user_data", template, {**site, **own}), _names(template)
    else:
        raise ValueError(f"no user data template {template!r}: use {', '.join(BUNDLED)}, or the path of a file")
    unused = sorted(set(own) - used)
    if unused:
        raise ValueError(f"user data template {_shown(template)} has no placeholder for {', '.join(unused)}")
    over = len(whole.encode()) - LIMIT_BYTES
    if over > 0:
        raise ValueError(
            f"user data is {over} bytes over EC2's {LIMIT_BYTES}: shorten it, or fetch the rest on the node"
        )
    return whole


def _agent(template: str, site: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The agent, compressed, with its unit and settings."""
    settings: dict[str, object] = {**_COMMANDS[template], "lease_s": float(site["LEASE_S"])}
    settings |= {key: own[name] for name, key in _AGENT_KEYS.items() if name in own}
    packed = b64encode(compress(_bundled("elastic_node.py").encode(), 9, mtime=0)).decode()
    return {
        "AGENT_PACKED": packed,
        "UNIT": _bundled("elastic-node.service").rstrip(),
        "SETTINGS": json.dumps(settings, indent=1, sort_keys=True),
    }


def _bundled(name: str) -> str:
    return resources.files("providers.aws").joinpath("node", name).read_text()


def _filled(name: str, text: str, values: Mapping[str, str]) -> str:
    """The text with its `@{NAME}`s."""
    for match in _PLACEHOLDER.finditer(text):
        if match[1] not in values:
            line = text.count("\n", 0, match.start()) + 1
            raise ValueError(f"user data template {name}, line {line}: no value for {match[1]}; give it under `values`")
    return _PLACEHOLDER.sub(lambda match: values[match[1]], text)


def _names(text: str) -> set[str]:
    return set(_PLACEHOLDER.findall(text))


def _shown(template: str) -> str:
    return template if template in BUNDLED else "of the policy"
