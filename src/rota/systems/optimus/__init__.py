"""Optimus: predicts how long jobs still need, and which gains most from one more worker."""
