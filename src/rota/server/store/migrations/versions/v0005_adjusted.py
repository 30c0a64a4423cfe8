"""When the holdings of a job were last adjusted in place, and how devices were held."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

LIMITS = ("batch_size", "cpus", "memory_gib", "gpu_memory_gib", "power_limit_w")


def upgrade() -> None:
    op.add_column("jobs", sa.Column("adjusted_s", sa.Double, nullable=False, server_default="0"))
    for name in LIMITS:
        op.add_column("intervals", sa.Column(name, sa.Double, nullable=True))
