"""What else a job may ask for: weight, batch range, steps in size, kept memory, deadlines, group rule."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    for column in (
        sa.Column("gpus_step", sa.BigInteger, nullable=False, server_default="1"),
        sa.Column("gpu_persistent_gib", sa.Double, nullable=False, server_default="0"),
        sa.Column("weight", sa.Double, nullable=False, server_default="1"),
        sa.Column("deadlines", sa.Text, nullable=False, server_default="[]"),
        sa.Column("batch_min", sa.Double, nullable=True),
        sa.Column("batch_max", sa.Double, nullable=True),
        sa.Column("group_rule", sa.BigInteger, nullable=False, server_default="0"),
    ):
        op.add_column("jobs", column)
