"""Words that stand in place of an account's name where a part says what it runs as; a name has no colon."""

OWN_ACCOUNT = ":own"
"""The agent's own account."""
NO_ACCOUNT = ":none"
"""No account is on record: nothing is started."""
