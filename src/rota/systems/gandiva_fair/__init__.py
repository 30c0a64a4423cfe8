"""Gandiva_fair: GPU time in proportion to tickets, and types traded."""
