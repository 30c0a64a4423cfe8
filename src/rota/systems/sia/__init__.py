"""Sia: GPU type, number of GPUs and batch of every job, chosen each minute by one integer program."""
