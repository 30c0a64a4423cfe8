"""Optimus as the baseline in Pollux' simulator carries it out."""
