"""Hooks of an operator, commands or webhooks: news of jobs, and the number of nodes wanted."""
