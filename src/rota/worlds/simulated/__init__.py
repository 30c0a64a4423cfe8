"""The simulated world: jobs are rows, and time jumps from event to event."""
