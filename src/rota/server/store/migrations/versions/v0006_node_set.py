"""The nodes that will do for a job."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("node_set", sa.Text, nullable=False, server_default=""))
