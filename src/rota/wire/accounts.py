"""Words that a part may give in place of an account name to run as; account names contain no colon."""

OWN_ACCOUNT = ":own"
"""The agent's own account."""
NO_ACCOUNT = ":none"
"""No account is known for the job, so nothing is started."""
