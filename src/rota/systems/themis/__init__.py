"""Themis: finish-time fairness by auctions over leased GPUs."""
