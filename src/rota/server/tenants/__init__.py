"""Tenants of a live cluster: written down, in force, counted up, and moved."""
