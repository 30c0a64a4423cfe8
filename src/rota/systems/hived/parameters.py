"""Parameters of HiveD."""

from __future__ import annotations

from dataclasses import dataclass

from rota.errors import InputError
from rota.scheduler.policy import Lever, Policy, levers_of, parse_inner


@dataclass(frozen=True)
class HivedParameters:
    """Parameters of `hived`."""

    policy: str = ""
    """Policy inside each virtual cluster, with its parameters in brackets: `las[quantum=7200]`; empty for
    HiveD's own: priority, then submission, and each job that fits starts."""
    lazy: bool = False
    """A job that loses its cells to a higher priority of its tenant runs on without a guarantee."""

    def __post_init__(self) -> None:
        inner = self.inner()
        if inner is not None and levers_of(inner) & {Lever.SHARE, Lever.RESIZE, Lever.RESERVE}:
            raise InputError(
                f"policy 'hived': {self.policy} shares, resizes or reserves GPUs, and cells are given to one "
                "job each, as it asks for them; expected a policy that gives whole GPUs, as many as asked for"
            )

    def inner(self) -> Policy | None:
        """A fresh instance of the policy for one virtual cluster; None for HiveD's own."""
        return parse_inner(self.policy).make() if self.policy else None
