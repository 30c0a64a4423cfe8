"""What every engine shares: the conversation with the controller, and the rules of what to do on a node."""
