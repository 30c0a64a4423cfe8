"""Slurm's multifactor priority, with EASY backfill."""
