"""Dominant resource fairness."""
