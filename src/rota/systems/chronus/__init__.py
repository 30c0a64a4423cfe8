"""Chronus: deadlines that are kept by leases planned ahead, and all else on what they leave."""
