"""This machine's side of a cluster: processes, devices, and what the controller is told of them."""
