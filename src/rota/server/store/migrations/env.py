"""What Alembic runs: the migrations that are missing, in the transaction it is given."""

from __future__ import annotations

from alembic import context

from rota.server.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
