"""AFS: GPUs one by one, to the job that ends first or gains more."""
