"""The live world: jobs are process groups on machines, moved by agents as the loop decides."""
