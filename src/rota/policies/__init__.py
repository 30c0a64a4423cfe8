"""The published systems, one file or one folder each."""
