"""A script of trouble for the simulated site, as YAML: a list of entries, or a story's `faults`.

Only its text is read here; what an entry may say is told by `providers.sim.script`.
"""

from collections.abc import Mapping
from pathlib import Path

from elastic.policy_yaml import read_tree


class FaultFileError(Exception):
    """The file cannot be used; the message names it, the place and what to do."""


def read_fault_file(path: Path) -> list[Mapping[str, object]]:
    """The entries of a script. FaultFileError for what is no list of them, OSError for a file that cannot be read."""
    tree = read_tree(path.read_bytes())
    if tree.troubles:
        first = tree.troubles[0]
        raise FaultFileError(f"{path}:{first.mark.line}: {first.message}")
    found = tree.value.get("faults") if isinstance(tree.value, dict) else tree.value
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise FaultFileError(f"{path}: write a list of faults, such as `- {{at_min: 30, lost_reply: 1}}`")
    return found
