"""The migrations, one file each: `vNNNN_what.py`.  Once released, a file never changes."""
