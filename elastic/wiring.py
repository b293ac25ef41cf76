"""Puts adapters behind the ports: the one place, beside `replay`, that names them."""

from datetime import datetime

from providers.clock import SystemClock


def system_now() -> datetime:
    """The time by the machine's clock, aware and in UTC; for commands whose `--at` is not given."""
    return SystemClock().now()
