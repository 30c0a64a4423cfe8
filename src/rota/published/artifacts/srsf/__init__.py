"""Shortest remaining service first as Tiresias' simulator sorts it."""
