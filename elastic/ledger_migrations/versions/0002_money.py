"""Money: costs with their mark, reservations, reconciliations with the bill."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """From the first schema."""
    op.create_table(
        "costs",
        sa.Column("day", sa.String(10), primary_key=True),
        sa.Column("cloud", sa.String(128), primary_key=True),
        sa.Column("pool", sa.String(128), primary_key=True),
        sa.Column("team", sa.String(128), primary_key=True),
        sa.Column("job", sa.Text, primary_key=True),
        sa.Column("spent_on", sa.String(16), primary_key=True),
        sa.Column("offering", sa.String(128), primary_key=True),
        sa.Column("source", sa.Text, primary_key=True),
        sa.Column("estimated", sa.Boolean, primary_key=True),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("usd", sa.Float, nullable=False),
    )
    op.create_table(
        "cost_mark",
        sa.Column("name", sa.String(16), primary_key=True),
        sa.Column("until", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "reservations",
        sa.Column("token", sa.String(128), primary_key=True),
        sa.Column("pool", sa.String(128), nullable=False),
        sa.Column("team", sa.String(128), nullable=False),
        sa.Column("nodes", sa.Integer, nullable=False),
        sa.Column("usd_per_hour", sa.Float, nullable=False),
        sa.Column("opened_at", sa.BigInteger, nullable=False),
        sa.Column("closed_at", sa.BigInteger, nullable=True),
        sa.Column("why", sa.Text, nullable=False),
    )
    op.create_index("ix_reservations_closed_at", "reservations", ["closed_at"])
    op.create_table(
        "reconciliations",
        sa.Column("day", sa.String(10), primary_key=True),
        sa.Column("cloud", sa.String(128), primary_key=True),
        sa.Column("made_at", sa.BigInteger, nullable=False),
        sa.Column("is_final", sa.Boolean, nullable=False),
        sa.Column("figures", sa.Text, nullable=False),
    )


def downgrade() -> None:
    """Back to the first schema; for tests only."""
    for name in ("reconciliations", "reservations", "cost_mark", "costs"):
        op.drop_table(name)
