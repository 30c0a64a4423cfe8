"""Users with read-only access."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("users", sa.Column("viewer", sa.Boolean, nullable=False, server_default=sa.false()))
