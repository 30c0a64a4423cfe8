"""Use of the GPU-hours of a cluster or of a trace, and their cost."""
