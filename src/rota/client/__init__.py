"""The small HTTP client that the command line, the agent and scripts speak to a controller with."""

from __future__ import annotations

from rota.client.http import Client, Refused, Unreachable, route

__all__ = ["Client", "Refused", "Unreachable", "route"]
