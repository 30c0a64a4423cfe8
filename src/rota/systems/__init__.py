"""The published systems, one folder each."""
