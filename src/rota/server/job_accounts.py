"""The machines' account that each job runs as: put on record when it is submitted, and asked for again since.

A user may be removed, and the name be given to another person, while jobs of it wait, run or are to be tried
again: a job starts only as the account it was submitted as, and only while its user has that account.
"""

from __future__ import annotations

import os

from rota.server.auth import ROOT, Directory, account_of
from rota.server.callers import Caller
from rota.server.store.rows import JobRow
from rota.wire.accounts import OWN_ACCOUNT


class JobAccounts:
    """What `directory` says of the accounts of users, for a controller that runs as `owner_uid`.

    Any thread may ask.
    """

    def __init__(self, directory: Directory, owner_uid: int | None = None) -> None:
        owner_uid = os.geteuid() if owner_uid is None else owner_uid
        self._directory = directory
        self._is_root = owner_uid == ROOT
        self._own = account_of(ROOT) if self._is_root else OWN_ACCOUNT
        """Of a user without one: a controller that is root says that it means root."""
        self._at_the_socket = {account_of(ROOT): account_of(ROOT), account_of(owner_uid): self._own}
        """Accounts of those who need not be users, by their names: see `auth.identify_peer`."""

    def of_caller(self, who: Caller) -> str:
        """The account as which jobs of `who` run; empty if there is none."""
        return who.account or (self._own if who.admin or not self._is_root else "")

    def of_user(self, name: str) -> str:
        """The account as which jobs of the user of this name run now; empty if there is none."""
        user = self._directory.user(name)
        if user is None:
            return self._at_the_socket.get(name, "")
        return self.of_caller(Caller(user=name, admin=user.admin, account=user.account))

    def bars(self, job: JobRow) -> str:
        """Why `job` may not start, as a clause; empty if its user has the account it was submitted as.

        Jobs on record from before accounts were have none unless their users had one of their own then: they
        run as this cluster's own.
        """
        submitted_as, now = job.account or self._own, self.of_user(job.user)
        if now == submitted_as:
            return ""
        if now:
            return f"user {job.user!r} submitted it as {_named(submitted_as)}, and has {_named(now)} now"
        if self._directory.user(job.user) is None:
            return f"user {job.user!r}, who submitted it as {_named(submitted_as)}, was removed"
        return f"user {job.user!r} has no account on the machines, and this cluster runs as root"

    def given(self, job: JobRow) -> str:
        """The account that `job` was submitted as."""
        return job.account or self._own


def _named(account: str) -> str:
    return "the agents' own account" if account == OWN_ACCOUNT else f"account {account!r}"
