"""The guard: the rules for decisions, the sound part of a decision, and rules of live clusters only."""
