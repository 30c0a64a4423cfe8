"""Least attained service first."""
