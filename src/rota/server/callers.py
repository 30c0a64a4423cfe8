"""Callers of the controller, and the jobs that they may change."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller: a person, the agent of one node, or a machine that wants to join."""

    user: str = ""
    """Name of a person; empty for machines."""
    tenant: str = ""
    admin: bool = False
    viewer: bool = False
    """May read its own jobs and public pages, and change nothing."""
    account: str = ""
    """The machine's account that the person's commands run as; empty for the daemon's own."""
    node: str = ""
    """Node of the agent."""
    joining: bool = False
    """Holds a join token, good for nothing else."""

    def owns(self, user: str, tenant: str) -> bool:
        """Whether this person may touch a job of that user and tenant.

        Users may touch their own jobs and all jobs of their tenant and the tenants below it; admins all.
        """
        if self.admin or (self.user and user == self.user):
            return True
        return bool(self.user and self.tenant) and f"{tenant}/".startswith(f"{self.tenant}/")


def why_no_job(name: str, admin: bool, account: str) -> str:
    """Why no job of a user would be accepted, with the way out; empty if jobs are.

    Where the cluster runs as root, a job without an account would run as root.
    """
    if os.geteuid() or admin or account:
        return ""
    return (
        f"user {name!r} has no account on the machines, and this cluster runs as root: no job of theirs is "
        f"accepted; an admin mends that: `rota user rm {name}`, then `rota user add {name} --account LOGIN`"
    )
