"""The account that each job was submitted as; of live jobs, that of their user at this moment."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("account", sa.Text, nullable=False, server_default=""))
    op.execute(
        "UPDATE jobs SET account = coalesce("
        "(SELECT users.account FROM users WHERE users.name = jobs.\"user\"), '') WHERE phase <= 3"
    )
