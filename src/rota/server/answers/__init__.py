"""Answers to people: why a job waits, what would become of one, what another policy would do."""
