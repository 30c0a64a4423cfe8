"""Chronus: deadlines kept by leases planned ahead; all other jobs run on what they leave."""
