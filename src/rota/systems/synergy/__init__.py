"""CPU cores and host memory by need, under any policy that gives out GPUs."""
