"""The one list of pages: a page is there once it stands here with its path and its module."""

from __future__ import annotations

from importlib import import_module

from fastapi import APIRouter

from rota.server.dashboard.page import Page

PAGES = (
    Page("Cluster", "/", "c", "cluster"),
    Page("Queue", "/queue", "q", "queue"),
    Page("Job", "/jobs", "j", "job"),
    Page("Policy", "/policy", "p", "policy"),
    Page("Tenants", "/tenants", "t", "tenants"),
    Page("Usage", "/usage", "u", "usage"),
    Page("History", "/history", "h", "history"),
    Page("API", "/api", "a", "api"),
)
"""In the order of the navigation; those without a path are listed without a link."""
SHARED = ("sessions", "stream", "acts", "statics")
"""Modules with routes that belong to no page."""


def routers() -> list[APIRouter]:
    """All routes of the dashboard; no part of the API's description."""
    modules = [*SHARED, *(page.module for page in PAGES if page.module)]
    return [import_module(f"rota.server.dashboard.{module}").router for module in modules]
