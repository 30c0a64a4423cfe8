"""A pool in which new jobs run on one GPU first, around any policy."""
