"""Shortest job first."""
