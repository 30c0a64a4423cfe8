"""The guard: what no decision may do, what remains of one that did, and the further rules of live clusters."""
