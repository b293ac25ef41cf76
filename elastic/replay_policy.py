"""A site's policy as a replay can play it: one family of pools on the simulated cluster and cloud, and it acts.

A trace tells no GPU models, clusters or classes, and a replay shows what the policy would do, whatever its mode today.
"""

from dataclasses import replace

from elastic.planning.family import families
from elastic.planning.policy import Cluster, Mode, Policy

CLUSTER, CLOUD = "main", "sim"  # the names of the simulated ones


def as_played(policy: Policy) -> tuple[Policy, tuple[str, ...]]:
    """The policy for a replay, and in words what was changed for it. ValueError if it has no on-prem pool."""
    at_home = [family for family in families(policy) if family.onprem]
    if not at_home:
        raise ValueError("pools: a replay needs an on-prem pool; add one with `place: on-prem`")
    family = next((one for one in at_home if one.burst), at_home[0])
    home = family.onprem[0]
    kept = (home, *family.burst)
    pools = {
        name: policy.pools[name].model_copy(
            update={"cluster": CLUSTER, "cloud": CLOUD if name in family.burst else None}
        )
        for name in kept
    }
    notes = []
    if left_out := [name for name in policy.pools if name not in kept]:
        notes.append(f"a trace tells no GPU models: it is played on {', '.join(kept)}, without {', '.join(left_out)}")
    if policy.mode is not Mode.ACT:
        notes.append(f"its mode is {policy.mode.value}; the replay acts")
    if missing := [name for name in ("batch", "fixed") if name not in policy.classes]:
        notes.append(
            f"it has no class {' or '.join(missing)}: such jobs follow {policy.default_class}, its default class"
        )
    played = replace(policy, mode=Mode.ACT, clusters={CLUSTER: Cluster(kind="sim")}, pools=pools, caches={})
    return played, tuple(notes)
