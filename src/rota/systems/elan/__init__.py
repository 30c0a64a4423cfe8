"""Elan: elastic FIFO and backfill, batches that grow with the job."""
