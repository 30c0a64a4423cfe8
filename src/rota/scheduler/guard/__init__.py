"""The guard: what no decision may do, what remains of one that did, and what live clusters forbid besides."""
