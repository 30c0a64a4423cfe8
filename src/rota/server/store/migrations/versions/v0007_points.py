"""Points of the curves of jobs, in place of unreadable samples of their usage."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
whole = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "points",
        sa.Column("seq", whole, primary_key=True, autoincrement=True),
        sa.Column("row", sa.BigInteger, sa.ForeignKey("jobs.row"), nullable=False),
        sa.Column("attempt", sa.BigInteger, nullable=False),
        sa.Column("at_s", sa.Double, nullable=False),
        sa.Column("until_s", sa.Double, nullable=False),
        sa.Column("spacing_s", sa.Double, nullable=False),
        sa.Column("curves", sa.Text, nullable=False),
    )
    op.create_index("points_row", "points", ["row", "spacing_s"])
    op.drop_table("samples")
