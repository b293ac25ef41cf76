"""The ledger's tables as SQLAlchemy sees them. `ledger_migrations` makes them; a test holds the two together."""

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa


class Instant(sa.TypeDecorator[datetime]):
    """An aware UTC datetime, kept as microseconds since 1970: the same order and value in every database."""

    impl = sa.BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> int | None:
        return None if value is None else round(value.timestamp() * 1_000_000)

    def process_result_value(self, value: int | None, dialect: Any) -> datetime | None:
        return None if value is None else datetime.fromtimestamp(value / 1_000_000, UTC)


META = sa.MetaData()
# SQLite numbers rows by itself only where the key is a plain INTEGER.
_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")

INTENTS = sa.Table(
    "intents",
    META,
    sa.Column("token", sa.String(128), primary_key=True),
    sa.Column("at", Instant, nullable=False, index=True),
    sa.Column("pool", sa.String(128), nullable=False),
    sa.Column("nodes", sa.Integer, nullable=False),
    sa.Column("launch", sa.Text, nullable=False),
    sa.Column("recorded", sa.Boolean, nullable=False, default=False),
)
RECORDS = sa.Table(
    "records",
    META,
    sa.Column("id", _ID, primary_key=True, autoincrement=True),
    sa.Column("tick", sa.BigInteger, nullable=False, index=True),
    sa.Column("at", Instant, nullable=False, index=True),
    sa.Column("plan_id", sa.String(64), nullable=False),
    sa.Column("acted", sa.Boolean, nullable=False),
    sa.Column("told", sa.Boolean, nullable=False),  # decided other than the tick before: worth a person's time
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("whole", sa.Boolean, nullable=False),  # the snapshot holds everything, not only what the fold reads
    sa.Column("snapshot", sa.LargeBinary, nullable=False),
)
CHECKPOINTS = sa.Table(
    "checkpoints",
    META,
    sa.Column("record_id", _ID, primary_key=True, autoincrement=False),
    sa.Column("at", Instant, nullable=False),
    sa.Column("state", sa.LargeBinary, nullable=False),
)
LEASES = sa.Table(
    "leases",
    META,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("team", sa.String(128), nullable=False),
    sa.Column("pool", sa.String(128), nullable=False),
    sa.Column("gpus", sa.Integer, nullable=False),
    sa.Column("starts_at", Instant, nullable=False),
    sa.Column("ends_at", Instant, nullable=False, index=True),
    sa.Column("requested_by", sa.String(128), nullable=False),
    sa.Column("approved_by", sa.String(128), nullable=False),
    sa.Column("note", sa.Text, nullable=False),
)
DEMAND = sa.Table(
    "demand",
    META,
    sa.Column("key", sa.String(128), primary_key=True),
    sa.Column("hour", Instant, primary_key=True),
    sa.Column("gpus", sa.Float, nullable=False),
)
DAYS = sa.Table(
    "days",
    META,
    sa.Column("day", sa.String(10), primary_key=True),
    sa.Column("figures", sa.Text, nullable=False),
)
POLICIES = sa.Table(
    "policies",
    META,
    sa.Column("hash", sa.String(64), primary_key=True),
    sa.Column("first_used_at", Instant, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
)
BEATS = sa.Table(
    "beats",
    META,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("due_at", Instant, nullable=False),
    sa.Column("done_at", Instant, nullable=False),
    sa.Column("note", sa.Text, nullable=False),
)
COSTS = sa.Table(
    "costs",
    META,
    sa.Column("day", sa.String(10), primary_key=True),  # UTC
    sa.Column("cloud", sa.String(128), primary_key=True),
    sa.Column("pool", sa.String(128), primary_key=True),
    sa.Column("team", sa.String(128), primary_key=True),  # the one the machine was rented for
    sa.Column("job", sa.Text, primary_key=True),  # '' where no job used it: `spent_on` says why
    sa.Column("spent_on", sa.String(16), primary_key=True),
    sa.Column("offering", sa.String(128), primary_key=True),
    sa.Column("source", sa.Text, primary_key=True),  # of the price
    sa.Column("estimated", sa.Boolean, primary_key=True),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Column("usd", sa.Float, nullable=False),
)
# Up to when costs are written: one row.
COST_MARK = sa.Table(
    "cost_mark",
    META,
    sa.Column("name", sa.String(16), primary_key=True),
    sa.Column("until", Instant, nullable=False),
)
RESERVATIONS = sa.Table(
    "reservations",
    META,
    sa.Column("token", sa.String(128), primary_key=True),
    sa.Column("pool", sa.String(128), nullable=False),
    sa.Column("team", sa.String(128), nullable=False),
    sa.Column("nodes", sa.Integer, nullable=False),
    sa.Column("usd_per_hour", sa.Float, nullable=False),  # of all its nodes
    sa.Column("opened_at", Instant, nullable=False),
    sa.Column("closed_at", Instant, nullable=True, index=True),
    sa.Column("why", sa.Text, nullable=False),
)
RECONCILIATIONS = sa.Table(
    "reconciliations",
    META,
    sa.Column("day", sa.String(10), primary_key=True),
    sa.Column("cloud", sa.String(128), primary_key=True),
    sa.Column("made_at", Instant, nullable=False),
    sa.Column("is_final", sa.Boolean, nullable=False),
    sa.Column("figures", sa.Text, nullable=False),
)
