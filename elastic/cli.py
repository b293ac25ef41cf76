"""The `elastic` command: puts the command groups together. Exit codes: 0 ok, 1 finding, 2 usage or bad input."""

import typer

from elastic.commands import (
    compare,
    costs,
    doctor,
    explain,
    forecast,
    history,
    init,
    nodes,
    offerings,
    plan,
    policy,
    replay,
    run,
    summary,
    sweep,
)

app = typer.Typer(
    name="elastic",
    help="Rent GPU nodes only for what the site cannot carry, and bring work home.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)

app.command("run")(run.run)
app.command("replay")(replay.replay)
app.command("plan")(plan.plan)
app.command("explain")(explain.explain)
app.command("summary")(summary.summary)
app.command("costs")(costs.costs)
app.command("nodes")(nodes.nodes)
app.command("offerings")(offerings.offerings)
app.command("sweep")(sweep.sweep)
app.command("doctor")(doctor.doctor)
app.command("compare")(compare.compare)
app.command("init")(init.init)
app.command("forecast")(forecast.forecast)
app.command("backtest")(forecast.backtest)
app.add_typer(policy.app, name="policy")
app.add_typer(history.app, name="history")


def main() -> None:
    """Entry point of the console script."""
    app()
