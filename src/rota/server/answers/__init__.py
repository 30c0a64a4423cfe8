"""Answers to users: why a job waits, when it may start, what another policy would do."""
