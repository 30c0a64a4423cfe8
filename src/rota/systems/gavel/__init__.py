"""Gavel: the time of each job on each GPU type, carried out in rounds."""
