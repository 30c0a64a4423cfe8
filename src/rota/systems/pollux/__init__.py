"""Pollux: GPUs and batch sizes of all jobs, searched together for the fairest goodput."""
