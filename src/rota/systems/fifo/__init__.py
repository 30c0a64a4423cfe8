"""First in, first out, and EASY backfill."""
