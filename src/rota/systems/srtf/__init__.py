"""Shortest remaining time first."""
