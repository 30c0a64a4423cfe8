"""What a policy may know beyond what jobs ask for, and the sources of that knowledge."""
