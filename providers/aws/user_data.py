"""The first start of a pool's machines, rendered from bundled templates or from a text of one's own. Called by wiring.

The same text for every launch of a pool (one launch template a content), never with a secret in it: what is secret is
fetched on the node by its own role. What the node does with it: deploy/node/README.md.
"""

import json
import re
import shlex
from base64 import encodebytes
from collections.abc import Mapping
from gzip import compress
from importlib import resources

LIMIT_BYTES = 16_384  # EC2's limit of user data, before base64
BUNDLED: Mapping[str, str] = {"slurm": "slurm.sh", "kubernetes": "kubernetes.sh", "eks": "eks.mime"}
_PLACEHOLDER = re.compile(r"@\{(\w+)\}")  # nothing that a shell would take for its own
_PLAIN = re.compile(r"[\w ./:=,@+%\[\]-]*")  # means the same in a shell's quotes, in YAML and in MIME

# By template: what warns the jobs, drains the node, and tells whether jobs run.
_SLURM = {
    # The node's own processes need no network to be seen; slurmctld, where it answers, adds what only prepares.
    "jobs_command": r"{ pgrep -fa '^slurmstepd: \[' || test $? -eq 1; } && { timeout 10 squeue --noheader"
    " --states=running,configuring,completing --nodelist=$(hostname -s) --format=%i 2>/dev/null || true; }",
    "warn_command": "scancel --signal=USR1 --batch --state=running --nodelist=$(hostname -s)",
    "drain_command": "scontrol update nodename=$(hostname -s) state=drain reason=elastic-node",
}
# Pods of DaemonSets (they alone carry that label) and static pods are no work. The node's own identity may evict its
# pods but not look DaemonSets up: it passes them over by the same label.
_PODS = """crictl pods --state ready -o json | python3 -c '
import json, sys
for pod in json.load(sys.stdin).get("items") or []:
    known = {**(pod.get("labels") or {}), **(pod.get("annotations") or {})}
    if "pod-template-generation" not in known and known.get("kubernetes.io/config.source") != "file":
        print(pod["metadata"]["name"])
'"""
_DRAIN = (
    "kubectl --kubeconfig {} drain $(hostname) --force --delete-emptydir-data"
    " --pod-selector='!pod-template-generation' --timeout=85s"
)
_COMMANDS: Mapping[str, Mapping[str, str]] = {
    "slurm": _SLURM,
    "kubernetes": {"jobs_command": _PODS, "drain_command": _DRAIN.format("/etc/kubernetes/kubelet.conf")},
    "eks": {"jobs_command": _PODS, "drain_command": _DRAIN.format("/var/lib/kubelet/kubeconfig")},
}
# Values of the policy that go into the agent's settings rather than into the text.
_AGENT_TEXTS = {
    "HEARTBEAT_FILE": "heartbeat_file",
    "HEARTBEAT_COMMAND": "heartbeat_command",
    "JOBS_COMMAND": "jobs_command",
    "WARN_COMMAND": "warn_command",
    "DRAIN_COMMAND": "drain_command",
    "REBALANCE_COMMAND": "rebalance_command",
    "SCHEDULED_COMMAND": "scheduled_command",
}
_OPTIONS = "SLURMD_OPTIONS"  # words for slurmd; none unless the policy says so


def render(template: str, *, site: Mapping[str, str], own: Mapping[str, str]) -> str:
    """The user data of a pool. `template` is a bundled name (slurm, kubernetes, eks) or a text with a line break in it;
    `site` are values every text may use (POOL, CLUSTER, OWNER, CONTROLLER, REGION, LEASE_S), `own` those of the policy,
    all of which it must use; a text of one's own gets the agent by `@{START}`. ValueError names the template, line and
    placeholder, or how much the text is too long."""
    shown = template if template in BUNDLED else "of the policy"
    values = _plain(shown, {**site, _OPTIONS: "", **own})
    if template in BUNDLED:
        text = _bundled(BUNDLED[template])
        is_script = not text.startswith("MIME")
        join = _filled(template, text, values) if is_script else ""
        start = _start(_COMMANDS[template], join=join, site=site, own=own)
        whole = start if is_script else _filled(template, text, {**values, "START": start})
        used = _names(text) | set(_AGENT_TEXTS)
    elif "\n" in template:
        used = _names(template)
        if "START" in used:
            used |= set(_AGENT_TEXTS)
            values["START"] = _start({}, join="", site=site, own=own)
        whole = _filled(shown, template, values)
    else:
        raise ValueError(f"no user data template {template!r}: use {', '.join(BUNDLED)}, or the path of a file")
    unused = sorted(set(own) - used)
    if unused:
        raise ValueError(f"user data template {shown} has no placeholder for {', '.join(unused)}")
    over = len(whole.encode()) - LIMIT_BYTES
    if over > 0:
        raise ValueError(
            f"user data is {over} bytes over EC2's {LIMIT_BYTES}: shorten it, or fetch the rest on the node"
        )
    return whole


def _start(commands: Mapping[str, str], *, join: str, site: Mapping[str, str], own: Mapping[str, str]) -> str:
    """The script that installs the agent, compressed, with its unit and settings, mounts the cache, and joins."""
    settings: dict[str, object] = {**commands, "lease_s": float(site["LEASE_S"])}
    settings |= {key: own[name] for name, key in _AGENT_TEXTS.items() if name in own}
    packed = compress(_bundled("elastic_node.py").encode(), 9, mtime=0)
    parts = {
        "AGENT_PACKED": encodebytes(packed).decode().rstrip(),
        "UNIT": _bundled("elastic-node.service").rstrip(),
        "SETTINGS": json.dumps(settings, indent=1, sort_keys=True),
        "JOIN": join.rstrip(),
    }
    return _filled("start", _bundled("start.sh"), {**site, **parts})


def _plain(template: str, values: Mapping[str, str]) -> dict[str, str]:
    """The values as they may stand in the text. ValueError for one that a shell or a parser would read otherwise."""
    checked: dict[str, str] = dict(values)
    for name in values.keys() - _AGENT_TEXTS.keys():
        try:
            if name == _OPTIONS:
                checked[name] = shlex.join(shlex.split(values[name]))
            elif template in BUNDLED and not _PLAIN.fullmatch(values[name]):
                raise ValueError("only letters, digits, blanks and . / : = , @ + % [ ] - may stand there")
        except ValueError as trouble:
            raise ValueError(f"user data template {template}: {name} {values[name]!r}: {trouble}") from trouble
    return checked


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
