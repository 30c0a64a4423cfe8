"""The list of pages: each with its path, its key and the module that serves it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from fastapi import APIRouter


@dataclass(frozen=True, slots=True)
class NavigationEntry:
    """One entry of the navigation."""

    name: str
    path: str = ""
    """Where it is; empty for a page that is not there yet."""
    key: str = ""
    """Letter that leads to it after `g`."""
    module: str = ""
    """Module with the `router` that serves it."""


PAGES = (
    NavigationEntry("Cluster", "/", "c", "cluster"),
    NavigationEntry("Queue", "/queue", "q", "queue"),
    NavigationEntry("Job", "/jobs", "j", "job"),
    NavigationEntry("Policy", "/policy", "p", "policy"),
    NavigationEntry("Tenants", "/tenants", "t", "tenants"),
    NavigationEntry("Usage", "/usage", "u", "usage"),
    NavigationEntry("History", "/history", "h", "history"),
    NavigationEntry("API", "/api", "a", "api"),
)
"""In the order of the navigation; those without a path are listed without a link."""
SHARED = ("sessions", "stream", "acts", "statics")
"""Modules with routes that belong to no page."""


def routers() -> list[APIRouter]:
    """All routes of the dashboard; no part of the API's description."""
    modules = [*SHARED, *(page.module for page in PAGES if page.module)]
    return [import_module(f"rota.server.dashboard.{module}").router for module in modules]
