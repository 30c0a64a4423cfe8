"""Gandiva as two simulators simplify it."""
