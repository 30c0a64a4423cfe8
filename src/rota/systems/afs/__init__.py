"""AFS: GPUs one by one, to whoever ends first or gains more."""
