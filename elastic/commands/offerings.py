"""`elastic offerings`: what can be rented, where, at what price, and what we remember of each."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elastic.commands.ledger_option import DataOption, LedgerOption, asked_ledger
from elastic.commands.output import FINDING, Format, FormatOption, print_json, refuse
from elastic.commands.tables import say, show_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from elastic.planning.state import UnavailableOffering
    from providers.facts import Offering

Seen = tuple["Sequence[Offering]", "Mapping[str, UnavailableOffering]", datetime, "Sequence[str]"]


def offerings(
    gpu: Annotated[str | None, typer.Option("--gpu", help="only this GPU model, such as a100")] = None,
    region: Annotated[str | None, typer.Option("--region", help="only this region")] = None,
    policy: Annotated[
        Path | None, typer.Option("--policy", help="ask its clouds now instead of the service's ledger (reads only)")
    ] = None,
    data: DataOption = Path("var"),
    ledger: LedgerOption = "",
    output: FormatOption = Format.TEXT,
) -> None:
    """What can be rented, cheapest a GPU first: price with its source and age, quota, what is set aside and until when.

    Examples: [bold]elastic offerings --gpu a100[/bold],
    [bold]elastic offerings --policy policies/quant-desk.yaml --region us-east-1 --format json[/bold]
    """
    found, aside, at, notes = _asked(policy) if policy else _kept(data, ledger)
    rows = [o for o in found if gpu in (None, o.gpu_model) and region in (None, o.region)]
    rows.sort(key=lambda o: (o.price_usd_per_hour is None, (o.price_usd_per_hour or 0.0) / max(o.gpus, 1), o.key))
    if output is Format.JSON:
        values = [_as_dict(o, aside, at) for o in rows]
        print_json({"at": at.isoformat(), "currency": "USD", "offerings": values, "notes": list(notes)})
    else:
        _show(rows, aside, at)
        for note in notes:
            say(f"note: {note}")
    if not rows:
        asked = " ".join(w for w in (gpu, region) if w)
        models = ", ".join(sorted({o.gpu_model for o in found})) or "none"
        typer.secho(
            f"nothing is offered for {asked or 'this site'}; GPU models on offer: {models}", err=True, fg="yellow"
        )
        raise typer.Exit(FINDING)


def _kept(data: Path, url: str) -> "Seen":
    from elastic.ledger_port import LedgerError
    from elastic.ledger_reads import last_seen

    kept = asked_ledger(data, url)
    try:
        seen = last_seen(kept)
    except LedgerError as trouble:
        refuse(str(trouble))
    finally:
        kept.close()
    if seen is None:
        typer.secho(f"{kept.shown}: no tick was written yet", err=True, fg=typer.colors.YELLOW)
        raise typer.Exit(FINDING)
    return seen.snapshot.offerings, seen.state.unavailable, seen.snapshot.at, ()


def _asked(path: Path) -> "Seen":
    from elastic.policy_file import PolicyError, load_policy
    from elastic.wiring import system_clock
    from elastic.wiring_aws import aws_clouds

    clock = system_clock()
    at = clock.now()
    try:
        policy = load_policy(path, at=at, data_may_end=True)
    except PolicyError as trouble:
        refuse(*[str(c) for c in trouble.complaints])
    clouds = aws_clouds(policy, clock)
    if not clouds:
        refuse(f"{path}: no cloud of kind aws under `clouds`; without --policy the service's ledger is asked")
    found: list[Offering] = []
    notes: list[str] = []
    for name, cloud in clouds.items():
        cloud.offerings.refresh(at)
        found += cloud.offerings.offerings(at)
        notes += [f"{name}: {line}" for line in cloud.offerings.trouble]
    return found, {}, at, notes


def _as_dict(offering: "Offering", aside: "Mapping[str, UnavailableOffering]", at: datetime) -> dict[str, object]:
    from dataclasses import asdict

    known = aside.get(offering.key)
    held = known is not None and at < known.until
    return {
        "key": offering.key,
        **asdict(offering),
        "price_age_s": (at - offering.priced_at).total_seconds(),
        "set_aside_until": known.until.isoformat() if known is not None and held else None,
        "set_aside_why": known.error_kind if known is not None and held else "",
    }


def _show(rows: "Sequence[Offering]", aside: "Mapping[str, UnavailableOffering]", at: datetime) -> None:
    say(f"at {at:%Y-%m-%d %H:%M} UTC: {len(rows)} offering(s), prices in USD")
    if not rows:
        return
    show_table(
        ("type", "zone", "paid as", "GPUs", "model", "CPUs", "GiB", "USD/h", "USD/GPU/h", "price from", "age", "quota",
         "score", "now"),
        [
            (
                o.instance_type, o.zone, o.capacity_type.value, str(o.gpus), o.gpu_model, str(o.cpus),
                f"{o.memory_gib:.0f}", *_price(o), f"{o.price_source}{' (estimate)' if o.estimated else ''}",
                _age(o, at), "-" if o.quota_nodes is None else f"{o.quota_nodes} nodes",
                "-" if o.score is None else f"{o.score}/10", _now(o, aside, at),
            )
            for o in rows
        ],
        numbers=("GPUs", "CPUs", "GiB", "USD/h", "USD/GPU/h", "age"),
    )  # fmt: skip


def _price(offering: "Offering") -> tuple[str, str]:
    usd = offering.price_usd_per_hour
    return ("none", "-") if usd is None else (f"{usd:.3f}", f"{usd / max(offering.gpus, 1):.3f}")


def _age(offering: "Offering", at: datetime) -> str:
    minutes = max(0.0, (at - offering.priced_at).total_seconds() / 60)
    return (
        f"{minutes:.0f} min"
        if minutes < 120
        else f"{minutes / 60:.0f} h"
        if minutes < 2880
        else f"{minutes / 1440:.0f} d"
    )


def _now(offering: "Offering", aside: "Mapping[str, UnavailableOffering]", at: datetime) -> str:
    known = aside.get(offering.key)
    if known is not None and at < known.until:
        return f"set aside until {known.until:%H:%M} ({known.error_kind})"
    if offering.price_usd_per_hour is None:
        return "not eligible: no price"
    if offering.ends_at is not None:
        return f"until {offering.ends_at:%m-%d %H:%M}"
    if offering.zone_up_since is not None:
        return f"obtainable since {offering.zone_up_since:%m-%d %H:%M}"
    return "-"
