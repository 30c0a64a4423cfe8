"""Shortest remaining service first."""
