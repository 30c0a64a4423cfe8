"""Algorithms that know nothing of clusters: filling, linear programs, indices."""
