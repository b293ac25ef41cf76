"""`elastic doctor`: whether the accounts of a policy are ready, read-only, with the fix for what is not."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from elastic.commands.output import FINDING, Format, FormatOption, print_json, refuse
from elastic.commands.tables import say, show_table


def doctor(
    policy: Annotated[Path, typer.Option("--policy", help="policy file whose clouds are asked")],
    output: FormatOption = Format.TEXT,
) -> None:
    """Ask the policy's AWS accounts: identity, permissions, network, queue, image, quotas, prices. Changes nothing.

    Exit code 1 when anything failed. Example: [bold]elastic doctor --policy policies/quant-desk.yaml[/bold]
    """
    from elastic.policy_file import PolicyError, load_policy
    from elastic.wiring import system_clock
    from elastic.wiring_aws import examined

    clock = system_clock()
    try:
        wanted = load_policy(policy, at=clock.now(), data_may_end=True)
    except PolicyError as trouble:
        refuse(*[str(c) for c in trouble.complaints])
    try:
        found = examined(wanted, clock)
    except ValueError as trouble:
        refuse(f"{policy}: {trouble}")
    if not found:
        refuse(f"{policy}: no cloud of kind aws under `clouds`: there is no account to ask")
    checks = [(name, check) for name, each in found.items() for check in each]
    failed = sum(check.verdict == "failed" for _, check in checks)
    if output is Format.JSON:
        print_json({"failed": failed, "checks": [{"cloud": name, **asdict(check)} for name, check in checks]})
    else:
        rows = [(name, check.subject, check.verdict.value, check.detail, check.fix) for name, check in checks]
        show_table(("cloud", "what", "verdict", "found", "what to do"), rows)
        say(f"{failed} check(s) failed" if failed else "ready: no check failed")
    if failed:
        raise typer.Exit(FINDING)
