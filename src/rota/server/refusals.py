"""The errors with which the controller refuses a call.

RotaError
├── NotFound    404   no such job, node, user
├── Forbidden   403   it is there, and not for this caller
├── Conflict    409   not in the state it is in now
├── Busy        503   not now: the store is away, or the controller is stopping; ask again
├── InputError  400   a value that no model of `rota.wire` can check (an unknown policy)
└── PolicyError 400   a policy that cannot run as asked
Any other exception is a bug: it is logged with its traceback and answered with 500.
"""

from __future__ import annotations

from rota.errors import RotaError


class NotFound(RotaError):  # noqa: N818
    """There is no such job, node or user."""


class Forbidden(RotaError):  # noqa: N818
    """The caller may not do this."""


class Conflict(RotaError):  # noqa: N818
    """The request does not fit the present state: `job 7 has ended`."""


class Busy(RotaError):  # noqa: N818
    """It cannot be done now, though later perhaps; nothing has happened."""

    def __init__(self, sentence: str, retry_after_s: int = 1) -> None:
        super().__init__(sentence)
        self.retry_after_s = retry_after_s
