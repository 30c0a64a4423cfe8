"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

whole = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "commands",
        sa.Column("seq", whole, primary_key=True, autoincrement=True),
        sa.Column("at_s", sa.Double, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("row", sa.BigInteger, nullable=True),
        sa.Column("node", sa.Text, nullable=True),
        sa.Column("args", sa.Text, nullable=True),
        sa.Column("done_s", sa.Double, nullable=True),
        sa.Column("outcome", sa.Text, nullable=True),
    )
    op.create_index(
        "commands_open",
        "commands",
        ["seq"],
        sqlite_where=sa.text("done_s IS NULL"),
        postgresql_where=sa.text("done_s IS NULL"),
    )
    op.create_table(
        "costs",
        sa.Column("seq", whole, primary_key=True, autoincrement=True),
        sa.Column("workload", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("bytes", sa.Double, nullable=False),
        sa.Column("at_s", sa.Double, nullable=False),
    )
    op.create_table(
        "decisions",
        sa.Column("seq", whole, primary_key=True, autoincrement=True),
        sa.Column("now_s", sa.Double, nullable=False),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("took_s", sa.Double, nullable=False),
        sa.Column("grants", sa.BigInteger, nullable=False),
        sa.Column("preempted", sa.BigInteger, nullable=False),
        sa.Column("is_cut", sa.Boolean, nullable=False),
        sa.Column("is_late", sa.Boolean, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
    )
    op.create_table(
        "events",
        sa.Column("seq", whole, primary_key=True, autoincrement=True),
        sa.Column("at_s", sa.Double, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("job", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
    )
    op.create_index("events_job", "events", ["job", "seq"])
    op.create_table(
        "facts",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_table(
        "nodes",
        sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("info", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("first_device", sa.BigInteger, nullable=False),
        sa.Column("joined_s", sa.Double, nullable=False),
        sa.Column("token", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("drained_by", sa.Text, nullable=False),
    )
    op.create_table(
        "policies",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("since_s", sa.Double, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("memory", sa.LargeBinary, nullable=False),
        sa.Column("providers", sa.LargeBinary, nullable=False),
        sa.Column("wake", sa.Text, nullable=True),
        sa.Column("reservations", sa.Text, nullable=True),
    )
    op.create_table(
        "shadow",
        sa.Column("seq", whole, primary_key=True, autoincrement=True),
        sa.Column("at_s", sa.Double, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
    )
    op.create_table(
        "specs",
        sa.Column("number", whole, primary_key=True, autoincrement=False),
        sa.Column("text", sa.Text, nullable=False),
    )
    op.create_table(
        "submissions",
        sa.Column("user", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("first_row", sa.BigInteger, nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "tokens",
        sa.Column("hash", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("at_s", sa.Double, nullable=False),
    )
    op.create_table(
        "users",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("token_hash", sa.Text, nullable=False),
        sa.Column("salt", sa.Text, nullable=False),
        sa.Column("admin", sa.Boolean, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("account", sa.Text, nullable=False),
    )
    op.create_table(
        "jobs",
        sa.Column("row", whole, primary_key=True, autoincrement=False),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("submit_s", sa.Double, nullable=False),
        sa.Column("array_first", sa.BigInteger, nullable=True),
        sa.Column("array_index", sa.BigInteger, nullable=True),
        sa.Column("array_most", sa.BigInteger, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("group", sa.Text, nullable=False),
        sa.Column("workload", sa.Text, nullable=False),
        sa.Column("gpus", sa.BigInteger, nullable=False),
        sa.Column("gpus_min", sa.BigInteger, nullable=False),
        sa.Column("gpus_max", sa.BigInteger, nullable=False),
        sa.Column("counts", sa.BigInteger, nullable=False),
        sa.Column("gpu_share", sa.Double, nullable=False),
        sa.Column("gpu_memory_gib", sa.Double, nullable=False),
        sa.Column("gpu_types", sa.Text, nullable=False),
        sa.Column("cpus", sa.Double, nullable=False),
        sa.Column("memory_gib", sa.Double, nullable=False),
        sa.Column("kind", sa.BigInteger, nullable=False),
        sa.Column("priority", sa.BigInteger, nullable=False),
        sa.Column("deadline_s", sa.Double, nullable=True),
        sa.Column("limit_s", sa.Double, nullable=True),
        sa.Column("batch_size", sa.Double, nullable=True),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("phase", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("hold", sa.Text, nullable=False),
        sa.Column("first_start_s", sa.Double, nullable=True),
        sa.Column("since_s", sa.Double, nullable=False),
        sa.Column("run_s", sa.Double, nullable=False),
        sa.Column("service", sa.Double, nullable=False),
        sa.Column("service_rate", sa.Double, nullable=False),
        sa.Column("starts", sa.BigInteger, nullable=False),
        sa.Column("preemptions", sa.BigInteger, nullable=False),
        sa.Column("failures", sa.BigInteger, nullable=False),
        sa.Column("user_failures", sa.BigInteger, nullable=False),
        sa.Column("progress_base", sa.Double, nullable=False),
        sa.Column("progress_rate", sa.Double, nullable=False),
        sa.Column("progress_since", sa.Double, nullable=False),
        sa.Column("finish_s", sa.Double, nullable=True),
        sa.Column("exit_code", sa.BigInteger, nullable=True),
        sa.Column("signal", sa.BigInteger, nullable=True),
        sa.Column("cause", sa.Text, nullable=False),
        sa.Column("attempt", sa.BigInteger, nullable=False),
        sa.Column("capability", sa.Text, nullable=True),
        sa.Column("measured", sa.Text, nullable=True),
        sa.Column("spec", sa.BigInteger, sa.ForeignKey("specs.number"), nullable=False),
    )
    op.create_index("jobs_array", "jobs", ["array_first"])
    op.create_index("jobs_finish", "jobs", ["finish_s"])
    op.create_index(
        "jobs_live",
        "jobs",
        ["phase"],
        sqlite_where=sa.text("phase <= 3"),
        postgresql_where=sa.text("phase <= 3"),
    )
    op.create_index("jobs_user", "jobs", ["user", "row"])
    op.create_table(
        "attempts",
        sa.Column("row", sa.BigInteger, sa.ForeignKey("jobs.row"), primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("grant", sa.Text, nullable=True),
        sa.Column("parts", sa.Text, nullable=True),
        sa.Column("wanted", sa.Text, nullable=False),
        sa.Column("wanted_s", sa.Double, nullable=False),
        sa.Column("start_s", sa.Double, nullable=True),
        sa.Column("end_s", sa.Double, nullable=True),
        sa.Column("how", sa.Text, nullable=False),
        sa.Column("exit", sa.Text, nullable=True),
        sa.Column("cause", sa.Text, nullable=False),
        sa.Column("notice", sa.Text, nullable=True),
        sa.Column("costs", sa.Text, nullable=True),
        sa.Column("progress", sa.Text, nullable=True),
        sa.Column("usage", sa.Text, nullable=True),
        sa.Column("mechanism", sa.Text, nullable=False),
    )
    op.create_index(
        "attempts_live",
        "attempts",
        ["row"],
        sqlite_where=sa.text("end_s IS NULL"),
        postgresql_where=sa.text("end_s IS NULL"),
    )
    op.create_table(
        "intervals",
        sa.Column("seq", whole, primary_key=True, autoincrement=True),
        sa.Column("row", sa.BigInteger, sa.ForeignKey("jobs.row"), nullable=False),
        sa.Column("attempt", sa.BigInteger, nullable=False),
        sa.Column("start_s", sa.Double, nullable=False),
        sa.Column("end_s", sa.Double, nullable=False),
        sa.Column("devices", sa.Text, nullable=False),
        sa.Column("nodes", sa.Text, nullable=False),
        sa.Column("share", sa.Double, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("how", sa.Text, nullable=False),
        sa.Column("overhead_s", sa.Double, nullable=False),
        sa.Column("lost_work_s", sa.Double, nullable=False),
    )
    op.create_index("intervals_row", "intervals", ["row"])
    op.create_table(
        "samples",
        sa.Column("seq", whole, primary_key=True, autoincrement=True),
        sa.Column("row", sa.BigInteger, sa.ForeignKey("jobs.row"), nullable=False),
        sa.Column("attempt", sa.BigInteger, nullable=False),
        sa.Column("at_s", sa.Double, nullable=False),
        sa.Column("cpu_cores", sa.Double, nullable=False),
        sa.Column("memory_gib", sa.Double, nullable=False),
        sa.Column("gpu_utilisation", sa.Double, nullable=True),
        sa.Column("gpu_memory_gib", sa.Double, nullable=True),
    )
    op.create_index("samples_row", "samples", ["row"])
