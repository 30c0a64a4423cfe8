"""Deadlines as service-level agreements."""
