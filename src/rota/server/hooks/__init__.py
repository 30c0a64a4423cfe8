"""What an operator is told, by a command or a webhook: what becomes of jobs, how many nodes are wanted."""
