"""Optimus: how long jobs still need, and who gains most from one more worker."""
