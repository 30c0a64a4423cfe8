"""Lists that are longer than one answer, read page by page."""

from __future__ import annotations

from typing import Any

from rota.client.http import Client, Query

A_PAGE = 1000
"""Most jobs that a controller puts into one answer."""


def newest_jobs(client: Client, query: Query, limit: int | None = None) -> list[dict[str, Any]]:
    """The newest `limit` jobs that match `query`, newest last; all of them without a limit.

    Raises the errors of `Client.call`.
    """
    pages: list[list[dict[str, Any]]] = []
    before, left = None, limit
    while left is None or left > 0:
        size = A_PAGE if left is None else min(left, A_PAGE)
        page = client.call("GET", "/v1/jobs", query={**query, "limit": size, "before": before})
        pages.append(page)
        if len(page) < size:
            break
        before, left = page[0]["id"], None if left is None else left - size
    return [job for page in reversed(pages) for job in page]
