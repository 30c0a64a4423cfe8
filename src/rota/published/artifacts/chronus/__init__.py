"""Chronus as its authors' simulator carries it out."""
