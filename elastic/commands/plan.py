"""`elastic plan`: one decision on a state - the service's newest one, or a file of yours. It changes nothing."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elastic.commands.ledger_option import DataOption, LedgerOption, asked_ledger
from elastic.commands.output import FINDING, Format, FormatOption, print_json, refuse

if TYPE_CHECKING:
    from elastic.codec import Seen
    from elastic.planning.plan import Plan
    from elastic.planning.policy import Policy
    from elastic.policy_file import PolicyReading

Texted = tuple["Seen", str | None]  # a state, and the policy file it was decided by where that is known


def plan(
    data: DataOption = Path("var"),
    ledger: LedgerOption = "",
    state: Annotated[Path | None, typer.Option("--state", help="a state file, as --save writes it")] = None,
    policy: Annotated[Path | None, typer.Option("--policy", help="policy file [default: the state's own]")] = None,
    save: Annotated[Path | None, typer.Option("--save", help="also write the state to a file, to edit and ask")] = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """One decision: targets with their arithmetic, actions, what is withheld, who waits and why, cost.

    It looks at what was seen, remembered and wanted; forecasts live in the service and are not part of a state.

    Examples: [bold]elastic plan --save now.json[/bold], [bold]elastic plan --state now.json --policy mine.yaml[/bold]
    """
    from elastic.plan_text import render
    from elastic.planning.planner import make_plan
    from forecast.forecaster import Forecasts

    seen, text = (_from_file(state), None) if state else _from_ledger(data, ledger)
    wanted = _policy(policy, text, seen)
    made = make_plan(seen.snapshot, Forecasts(), wanted, seen.state)
    if save is not None:
        _save(save, seen)
    if output is Format.JSON:
        print_json(_as_dict(made, seen, wanted))
        return
    typer.echo(render(made, zone=wanted.time_zone))
    if made.cost.committed_usd:
        typer.echo(f"  its launches commit to {made.cost.committed_usd:.2f} USD{_guess(made)}")
    if not made.actions:
        typer.echo("  nothing to do")


def _guess(made: "Plan") -> str:
    return " (a price was assumed, not quoted)" if made.cost.estimated else ""


def _as_dict(made: "Plan", seen: "Seen", policy: "Policy") -> dict[str, object]:
    from elastic.codec import plan_to_dict

    return {
        "at": seen.snapshot.at.isoformat(),
        "policy_hash": policy.content_hash,
        "mode": policy.mode.value,
        **plan_to_dict(made),
    }


def _from_file(path: Path) -> "Seen":
    from elastic.state_file import StateFileError, read_state

    try:
        return read_state(path)
    except StateFileError as trouble:
        refuse(*trouble.complaints)


def _from_ledger(data: Path, url: str) -> "Texted":
    from elastic.ledger_port import LedgerError
    from elastic.ledger_reads import last_seen, policy_text

    ledger = asked_ledger(data, url)
    try:
        seen = last_seen(ledger)
        text = policy_text(ledger, seen.policy_hash) if seen else None
    except LedgerError as trouble:
        refuse(str(trouble))
    finally:
        ledger.close()
    if seen is None:
        typer.secho(f"{ledger.shown}: no tick was written yet", err=True, fg=typer.colors.YELLOW)
        raise typer.Exit(FINDING)
    return seen, text


def _policy(file: Path | None, text: str | None, seen: "Seen") -> "Policy":
    """The asked policy, the ledger's own, or the embedded one; exit 2 with every complaint."""
    from elastic.policy_file import default_policy_path, parse_policy, read_policy

    at = seen.snapshot.at
    reading: PolicyReading
    if file is None and text is not None:
        reading = parse_policy(text.encode(), file="the ledger's policy", at=at, data_may_end=True)
    else:
        reading = read_policy(file or default_policy_path(), at=at, data_may_end=True)
    if reading.policy is None:
        refuse(*(str(complaint) for complaint in reading.errors))
    if file is None and seen.policy_hash and reading.policy.content_hash != seen.policy_hash:
        told = f"the policy of this state ({seen.policy_hash[:12]}) is not at hand; the embedded one is used"
        typer.secho(f"{told}: name it with --policy", err=True, fg=typer.colors.YELLOW)
    return reading.policy


def _save(path: Path, seen: "Seen") -> None:
    from elastic.state_file import write_state

    try:
        write_state(path, seen)
    except OSError as trouble:
        refuse(f"--save {path}: {trouble.strerror or trouble}")
    typer.secho(f"state saved: {path}", err=True)
