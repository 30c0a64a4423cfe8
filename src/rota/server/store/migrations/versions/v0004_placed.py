"""When a job last came to other devices, and how often it has."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("placed_s", sa.Double, nullable=False, server_default="0"))
    op.add_column("jobs", sa.Column("moves", sa.BigInteger, nullable=False, server_default="0"))
    # Moves were not counted: of those still there, starts after the first are known.
    op.execute("UPDATE jobs SET placed_s = since_s")
    op.execute("UPDATE jobs SET moves = starts - 1 WHERE starts > 1")
