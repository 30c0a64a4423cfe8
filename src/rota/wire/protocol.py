"""The protocol of controller and agents: a number that changes when one would misunderstand the other."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

PROTOCOL, FIRST_PROTOCOL = 1, 1
"""Ours, and that of agents which do not say theirs."""


class OtherProtocol(ValueError):  # noqa: N818
    """An agent that we do not understand."""


def check_protocol(theirs: Any) -> Any:
    """The protocol of an agent.  Raises OtherProtocol, for whoever reads the agent's log, if it is not ours:
    whatever else it says may mean something else."""
    if theirs != PROTOCOL:
        from rota import __version__

        raise OtherProtocol(
            f"this agent speaks protocol {str(theirs)[:20]}, and the controller protocol {PROTOCOL}: install "
            f"version {__version__} of Rota on the agent's machine, or the agent's on the controller's"
        )
    return theirs


Ours = Annotated[
    int, BeforeValidator(check_protocol), Field(validate_default=True, json_schema_extra={"const": PROTOCOL})
]
"""A protocol that has to be ours."""
