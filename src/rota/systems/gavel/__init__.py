"""Gavel: allocations of time on each GPU type, carried out in rounds."""
