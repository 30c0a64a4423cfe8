"""Earliest deadline first."""
