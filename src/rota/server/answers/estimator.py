"""The controller's end of the forecast process: started when first needed, killed if it hangs."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from rota.errors import InputError, RotaError
from rota.server.policy.child import PolicyProcess
from rota.server.policy.messages import PipeError
from rota.server.refusals import Busy

WORKER = "rota.server.answers.worker"
START_S = 30.0
"""How long the process may take to start on a busy machine."""
SLACK_S = 10.0
"""What an answer may take beyond its budget: a policy that is deciding is not interrupted."""

IDLE_S = 300.0
"""Seconds without a question after which the process is ended: it holds memory."""


class Estimator:
    """Asks one process one question at a time; may be used by any thread."""

    def __init__(self, log: Path | None = None, idle_s: float = IDLE_S, memory_gib: float = 0.0) -> None:
        """Its process may take `memory_gib`; half of the machine's memory if that is 0."""
        self._log, self._memory_gib = log, memory_gib
        self._idle_s = idle_s
        self._rest: threading.Timer | None = None
        self._lock = threading.Lock()
        self._process: PolicyProcess | None = None

    def ask(self, question: object, budget_s: float) -> dict[str, Any]:
        """The answer.  Raises Busy if it does not come in time, InputError or RotaError with the sentence of
        the process if there is none."""
        if not self._lock.acquire(timeout=budget_s):
            raise Busy("another question is being answered; ask again in a moment")
        self._wake()
        try:
            reply = self._living().ask(question, budget_s + SLACK_S)
        except (TimeoutError, PipeError) as error:
            self._bury()
            why = "took too long" if isinstance(error, TimeoutError) else f"broke off ({error})"
            raise Busy(f"looking ahead {why}; ask again with fewer jobs or policies") from None
        finally:
            self._rest = threading.Timer(self._idle_s, self.close)
            self._rest.daemon = True
            self._rest.start()
            self._lock.release()
        if "error" in reply:
            raise (InputError if reply.get("is_input") else RotaError)(str(reply["error"]))
        return reply

    def _living(self) -> PolicyProcess:
        if self._process is None or not self._process.is_alive():
            self._bury()
            self._process = PolicyProcess(self._log, WORKER, self._memory_gib)
            self._process.ask("hello", START_S)
        return self._process

    def _wake(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None

    def _bury(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def close(self) -> None:
        """End the process; a later question starts another one."""
        with self._lock:
            self._wake()
            self._bury()
