"""`elastic sweep --dry-run`: what is rented against what is written down, from outside. Changes nothing."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elastic.commands.ledger_option import DataOption, LedgerOption, asked_ledger
from elastic.commands.output import FINDING, Format, FormatOption, print_json, refuse
from elastic.commands.tables import say, show_table

if TYPE_CHECKING:
    from elastic.ledger import SqlLedger
    from elastic.planning.policy import Policy
    from elastic.sweep import Finding


def sweep(
    policy: Annotated[Path, typer.Option("--policy", help="policy file whose clouds are asked")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="say what does not match; needed: nothing else is done")],
    data: DataOption = Path("var"),
    ledger: LedgerOption = "",
    output: FormatOption = Format.TEXT,
) -> None:
    """Leaks both ways: machines with our tags and no record, records without a machine. The running controller settles
    them by itself with its ticks; this shows what it would do. Exit code 1 if anything does not match.

    Example: [bold]elastic sweep --dry-run --policy policies/quant-desk.yaml[/bold]
    """
    from elastic.ledger_port import LedgerError
    from elastic.policy_file import PolicyError, load_policy
    from elastic.wiring import system_now
    from providers.errors import ProviderError

    if not dry_run:
        refuse("sweep only looks: write --dry-run. The running controller settles what it finds with every tick")
    try:
        wanted = load_policy(policy, at=system_now(), data_may_end=True)
    except PolicyError as trouble:
        refuse(*[str(c) for c in trouble.complaints])
    kept = asked_ledger(data, ledger)
    try:
        found = _look(wanted, kept)
    except (LedgerError, ProviderError, ValueError) as trouble:
        refuse(f"{policy}: {trouble}")
    finally:
        kept.close()
    if output is Format.JSON:
        print_json({"findings": [asdict(f) for f in found]})
    elif found:
        rows = [(f.cloud, f.id, f.pool, f.what, f.next_step, f"{f.at:%m-%d %H:%M}" if f.at else "now") for f in found]
        show_table(("cloud", "machine or token", "pool", "what", "the controller does", "from (UTC)"), rows)
    else:
        say("everything that is rented is written down, and the other way round")
    if found:
        raise typer.Exit(FINDING)


def _look(policy: "Policy", kept: "SqlLedger") -> "list[Finding]":
    from elastic.ledger_reads import known_tokens
    from elastic.sweep import findings
    from elastic.wiring import system_clock
    from elastic.wiring_aws import aws_clouds

    clock = system_clock()
    clouds = aws_clouds(policy, clock)
    if not clouds:
        raise ValueError("no cloud of kind aws under `clouds`: there is no account to look at")
    state, recorded = kept.rebuild_state(), known_tokens(kept)
    found: list[Finding] = []
    for name, cloud in clouds.items():
        mine = {t: f for t, f in state.in_flight.items() if (p := policy.pools.get(f.launch.pool)) and p.cloud == name}
        instances = cloud.instances.all(clock.now())
        found += findings(instances, recorded=recorded, in_flight=mine, policy=policy, at=clock.now())
    return found
