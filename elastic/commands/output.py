"""What every command shares: the two formats, complaints on stderr, exit codes."""

import json
from enum import StrEnum
from typing import Annotated, NoReturn

import typer

OK, FINDING, USAGE = 0, 1, 2


class Format(StrEnum):
    """How results are printed."""

    TEXT = "text"
    JSON = "json"


FormatOption = Annotated[Format, typer.Option("--format", help="text for people, json for programs")]


def print_json(value: object) -> None:
    """One JSON document on stdout, stable order of keys as given."""
    typer.echo(json.dumps(value, indent=2, default=str))


def refuse(*complaints: str) -> NoReturn:
    """Bad usage or bad input: every complaint on stderr, exit code 2."""
    for complaint in complaints:
        typer.secho(complaint, err=True, fg=typer.colors.RED)
    raise typer.Exit(USAGE)
