"""The setting `autoscale`: how far the cluster may grow and shrink, and which hook receives the number.

It is read wherever settings are, also where no controller can run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rota.errors import InputError, RotaError
from rota.model.units import parse_duration
from rota.server.hooks.delivery import command_or_url
from rota.worlds.live.wanted_nodes import ScaleLimits

_KNOWN = ("min", "max", "cooldown", "timeout", "again", "nodes")


@dataclass(frozen=True)
class AutoscaleSetting:
    """The setting `autoscale`."""

    limits: ScaleLimits
    command: tuple[str, ...] = ()
    """Program and arguments; it gets the message on its standard input."""
    url: str = ""
    """Address that gets it by POST."""
    timeout_s: float = 60.0
    """How long the command may run, or the webhook take to answer."""
    again_s: float = 600.0
    """Seconds that machines may take to come or to go before the hook is called again."""


def autoscale_of(said: Any) -> AutoscaleSetting | None:
    """The setting `autoscale`; None if it says nothing.  InputError names what is wrong with it."""
    if not said:
        return None
    command, url = command_or_url(said, "autoscale", _KNOWN)
    if "max" not in said:
        raise InputError("autoscale: it does not say `max`; expected the most nodes that there may ever be")
    least, most, nodes = said.get("min", 1), said["max"], said.get("nodes", "*")
    if not _is_count(least) or not _is_count(most) or not 1 <= least <= most:
        raise InputError(
            f"autoscale: min {least!r} and max {most!r}; expected whole numbers, 1 <= min <= max"
        )
    if not isinstance(nodes, str) or not nodes:
        raise InputError(f"autoscale: nodes is {nodes!r}; expected a pattern of names such as 'worker-*'")

    def seconds(name: str, default: str) -> float:
        try:
            return parse_duration(str(said.get(name, default)), name)
        except RotaError as error:
            raise InputError(f"autoscale: {error}") from None

    limits = ScaleLimits(least, most, seconds("cooldown", "1m"), nodes)
    timeout_s = seconds("timeout", "1m")
    if timeout_s <= 0.0:
        raise InputError("autoscale: timeout leaves no time to answer; expected a duration such as 1m")
    return AutoscaleSetting(limits, command, url, timeout_s, seconds("again", "10m"))


def _is_count(said: Any) -> bool:
    return isinstance(said, int) and not isinstance(said, bool)
