"""What every engine shares: the protocol with the controller, and the rules for a node."""
