"""Indexes to remove ended jobs and old keys without reading all of them."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_index("jobs_spec", "jobs", ["spec"])
    op.create_index("submissions_row", "submissions", ["first_row"])
