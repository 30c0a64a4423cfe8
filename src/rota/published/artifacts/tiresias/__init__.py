"""Tiresias as three simulators carry it out."""
