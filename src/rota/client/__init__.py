"""A small HTTP client through which the command line, agents and scripts call a controller."""

from __future__ import annotations

from rota.client.http import Client, Refused, Unreachable, route

__all__ = ["Client", "Refused", "Unreachable", "route"]
