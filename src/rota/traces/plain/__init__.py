"""Rota's own format: one row per job, CSV or Parquet, columns named as in `JobTable` and `Truth`."""
