"""`python -m elastic` is the `elastic` command."""

from elastic.cli import main

main()
