"""Alembic's entry: runs the steps on the connection that `ledger_schema` hands over."""

from alembic import context

from elastic.ledger_tables import META

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=META, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
