"""The protocol of controller and agents: a number that changes when one would misunderstand the other."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from rota.wire.text import clean

PROTOCOL, FIRST_PROTOCOL = 1, 1
"""Our protocol, and the one of agents that do not report theirs."""


class OtherProtocol(ValueError):  # noqa: N818
    """The agent's protocol is another than ours."""


def check_protocol(theirs: Any) -> Any:
    """Return the protocol of an agent. Raises OtherProtocol, with a sentence for the agent's log, if it is
    not ours: its other fields may then mean something else."""
    if theirs != PROTOCOL:
        from rota import __version__

        older, way = "the agent", f"; install version {__version__} of Rota on its machine"
        if isinstance(theirs, int) and theirs > PROTOCOL:
            older, way = "the controller", f", and runs version {__version__}; upgrade Rota on its machine"
        raise OtherProtocol(
            f"this agent speaks protocol {clean(str(theirs))[:20]}, and the controller protocol {PROTOCOL}: "
            f"{older} is older{way}"
        )
    return theirs


Ours = Annotated[
    int, BeforeValidator(check_protocol), Field(validate_default=True, json_schema_extra={"const": PROTOCOL})
]
"""A protocol number that has to equal ours."""
