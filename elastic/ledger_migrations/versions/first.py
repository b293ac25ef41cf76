"""The first schema: intents, records, checkpoints, leases, demand, days, policies, beats."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """From nothing."""
    op.create_table(
        "intents",
        sa.Column("token", sa.String(128), primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("pool", sa.String(128), nullable=False),
        sa.Column("nodes", sa.Integer, nullable=False),
        sa.Column("launch", sa.Text, nullable=False),
        sa.Column("recorded", sa.Boolean, nullable=False),
    )
    op.create_index("ix_intents_at", "intents", ["at"])
    op.create_table(
        "records",
        sa.Column("id", _ID, primary_key=True, autoincrement=True),
        sa.Column("tick", sa.BigInteger, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("plan_id", sa.String(64), nullable=False),
        sa.Column("acted", sa.Boolean, nullable=False),
        sa.Column("told", sa.Boolean, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("whole", sa.Boolean, nullable=False),
        sa.Column("snapshot", sa.LargeBinary, nullable=False),
    )
    op.create_index("ix_records_at", "records", ["at"])
    op.create_index("ix_records_tick", "records", ["tick"])
    op.create_table(
        "checkpoints",
        sa.Column("record_id", _ID, primary_key=True, autoincrement=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("state", sa.LargeBinary, nullable=False),
    )
    _create_desk_tables()


def _create_desk_tables() -> None:
    op.create_table(
        "leases",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("team", sa.String(128), nullable=False),
        sa.Column("pool", sa.String(128), nullable=False),
        sa.Column("gpus", sa.Integer, nullable=False),
        sa.Column("starts_at", sa.BigInteger, nullable=False),
        sa.Column("ends_at", sa.BigInteger, nullable=False),
        sa.Column("requested_by", sa.String(128), nullable=False),
        sa.Column("approved_by", sa.String(128), nullable=False),
        sa.Column("note", sa.Text, nullable=False),
    )
    op.create_index("ix_leases_ends_at", "leases", ["ends_at"])
    op.create_table(
        "demand",
        sa.Column("key", sa.String(128), primary_key=True),
        sa.Column("hour", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("gpus", sa.Float, nullable=False),
    )
    op.create_table(
        "days",
        sa.Column("day", sa.String(10), primary_key=True),
        sa.Column("figures", sa.Text, nullable=False),
    )
    op.create_table(
        "policies",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("first_used_at", sa.BigInteger, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
    )
    op.create_table(
        "beats",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("due_at", sa.BigInteger, nullable=False),
        sa.Column("done_at", sa.BigInteger, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
    )


def downgrade() -> None:
    """Back to nothing; for tests only."""
    for name in ("beats", "policies", "days", "demand", "leases", "checkpoints", "records", "intents"):
        op.drop_table(name)
