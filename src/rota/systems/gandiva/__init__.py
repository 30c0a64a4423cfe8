"""Gandiva: turns, packing by trial, migration."""
