"""Registers a variant of a paper's policy with the facts of the paper's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from rota.scheduler.policy import register, system

_T = TypeVar("_T", bound=Callable[..., Any])


def register_like(
    paper: str,
    name: str,
    summary: str,
    *,
    parameters: type[Any],
) -> Callable[[_T], _T]:
    """As `register`; what the variant needs, may do and heeds is what is registered of the policy `paper`.

    Conditions of these facts read `parameters` of the variant, which therefore have the fields that they
    look at.
    """
    own = system(paper)
    return register(
        name,
        summary,
        paper=own.paper,
        needs=own.needs_when,
        levers=own.levers_when,
        parameters=parameters,
        rotates=own.rotates,
        work_conserving=own.work_conserving,
        heeds_priority=own.heeds_priority_when,
        heeds_deadlines=own.heeds_deadlines_when,
        heeds_groups=own.heeds_groups_when,
        heeds_kind=own.heeds_kind_when,
        heeds_weight=own.heeds_weight_when,
        promises=own.promises_when,
        between=own.between_when,
    )
