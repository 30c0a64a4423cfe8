"""One policy for each part of the cluster."""
