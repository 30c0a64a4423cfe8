"""What a policy may be told beyond what jobs ask for, and who told it."""
