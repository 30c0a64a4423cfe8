"""What would become of the live jobs: a moment forked into the simulated world, and what is read off it."""
