"""Where the GPU-hours of a cluster or of a trace went, and what they cost."""
