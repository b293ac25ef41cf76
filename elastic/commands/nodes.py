"""`elastic nodes`: every rented machine, where it stands in its life and what it costs."""

from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from zoneinfo import ZoneInfo

import typer

from elastic.commands.instant import zone_of
from elastic.commands.ledger_option import DataOption, LedgerOption, asked_ledger
from elastic.commands.output import FINDING, Format, FormatOption, print_json, refuse
from elastic.commands.tables import say, show_table

if TYPE_CHECKING:
    from elastic.machines import Machine


def nodes(
    ended: Annotated[bool, typer.Option("--ended", help="also those that ended within the hour")] = False,
    pool: Annotated[str | None, typer.Option("--pool", help="only this pool's")] = None,
    data: DataOption = Path("var"),
    ledger: LedgerOption = "",
    tz: Annotated[str, typer.Option("--tz", metavar="Z", help="show times in this zone")] = "UTC",
    output: FormatOption = Format.TEXT,
) -> None:
    """Rented machines as the newest tick saw them: stage, deadline and what follows, price and cost so far, lease.

    Examples: [bold]elastic nodes[/bold], [bold]elastic nodes --pool a100-spot --tz Asia/Shanghai --format json[/bold]
    """
    from elastic.ledger_port import LedgerError
    from elastic.ledger_reads import newest
    from elastic.machines import Stage, machines

    zone = zone_of(tz)
    kept = asked_ledger(data, ledger)
    try:
        seen = newest(kept)
    except LedgerError as trouble:
        refuse(str(trouble))
    finally:
        kept.close()
    if seen is None:
        typer.secho(f"{kept.shown}: no tick was written yet", err=True, fg=typer.colors.YELLOW)
        raise typer.Exit(FINDING)
    found = [
        m
        for m in machines(seen.snapshot, seen.state)
        if (ended or m.stage is not Stage.TERMINATED) and pool in (None, m.pool)
    ]
    if output is Format.JSON:
        print_json({"at": seen.snapshot.at.isoformat(), "currency": "USD", "machines": [asdict(m) for m in found]})
        return
    _show(found, seen.snapshot.at, zone)


def _show(found: "list[Machine]", at: datetime, zone: ZoneInfo) -> None:
    def clock(when: datetime | None) -> str:
        return f"{when.astimezone(zone):%m-%d %H:%M}" if when else "-"

    say(f"at {at.astimezone(zone):%Y-%m-%d %H:%M} {zone.key}: {len(found)} rented machine(s)")
    if not found:
        return
    show_table(
        ("machine", "node", "pool", "team", "stage", "since", "by", "or else", "type", "zone", "paid as", "GPUs used",
         "USD/h", "USD so far", "lease until"),
        [
            (
                m.id, m.node_id if m.node_id != m.id else "=", m.pool, m.team or "-", m.stage.value, clock(m.since),
                clock(m.deadline), m.then or "-", m.instance_type, m.zone or "-", m.capacity_type.value,
                f"{'?' if m.used_gpus is None else m.used_gpus}/{m.gpus}", f"{m.usd_per_hour:.2f}", f"{m.usd:.2f}",
                clock(m.lease_ends_at),
            )
            for m in found
        ],
        numbers=("USD/h", "USD so far", "GPUs used"),
    )  # fmt: skip
    total = sum(m.usd_per_hour for m in found)
    sources = ", ".join(sorted({m.price_source for m in found if m.price_source})) or "the cloud's listing"
    say(f"{total:.2f} USD an hour now; prices: {sources}; cost so far at today's price (`elastic costs` has the books)")
