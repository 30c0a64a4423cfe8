"""Hooks for ends, failures, preemptions, idle jobs, promises at risk and replaced policies.

Each is a command or a webhook.  The scheduler only puts a line into a queue of bounded length.  A thread for
each target takes the lines, asks the store for the jobs' states, and sends one message: at most one in
`every_s` seconds, repeated after a pause if it was not accepted, and given up in the end.  Lines still
queued when a controller ends are not sent.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rota.errors import InputError, RotaError, WorldError
from rota.model.units import format_duration, parse_duration
from rota.server.hooks.delivery import NotTaken, are_texts, command_or_url, post, run_command, shown_target

log = logging.getLogger(__name__)
END, FAILURE, PREEMPTION, IDLE, RISK, POLICY = "end", "failure", "preemption", "idle", "risk", "policy"
KINDS = (END, FAILURE, PREEMPTION, IDLE, RISK, POLICY)
NO_JOB = -1
"""Row of events of the cluster as a whole."""
FAILED = frozenset({"FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"})
PATIENCE_S = 30.0
"""Seconds that a command may run, or a webhook take to answer."""
MOST_TRIES = 6
FIRST_PAUSE_S, MOST_PAUSE_S = 1.0, 60.0
MOST_WAITING, MOST_AT_ONCE = 10_000, 100
"""Events that wait for one target, and that one message has."""
REMEMBERED = 10_000
"""Ends that are remembered, so that none is sent twice."""


@dataclass(frozen=True)
class Target:
    """One entry of the setting `notify`."""

    command: tuple[str, ...] = ()
    """Program and arguments; it gets the message on its standard input."""
    url: str = ""
    """Address that gets it by POST."""
    on: frozenset[str] = frozenset(KINDS)
    tenant: str = ""
    """Of this tenant and those below it only."""
    every_s: float = 1.0
    """Pause between two messages."""

    @property
    def name(self) -> str:
        """For people: without what an address may hold as a secret."""
        return shown_target(self.command, self.url)


@dataclass(frozen=True)
class Told:
    """Something that has happened to a job, or to the cluster (`NO_JOB`)."""

    kind: str
    row: int
    at_s: float
    """Seconds since the cluster's epoch."""
    text: str = ""


Details = Callable[[Sequence[int]], Mapping[int, Mapping[str, Any]]]
"""Rows -> what people are shown of these jobs."""


class Notices:
    """Sends events to all targets; `put` never waits."""

    def __init__(
        self, cluster: str, targets: Sequence[Target], details: Details, epoch_unix_s: float = 0.0
    ) -> None:
        """`epoch_unix_s` is the Unix time of moment 0."""
        self._tellers = [Teller(cluster, target, details, epoch_unix_s) for target in targets]
        self._ended: OrderedDict[int, None] = OrderedDict()

    def start(self) -> None:
        """Tell from now on."""
        for teller in self._tellers:
            teller.start()

    def close(self) -> None:
        """Stop; a message on its way is left alone."""
        for teller in self._tellers:
            teller.close()

    def preempted(self, row: int, how: str, at_s: float) -> None:
        """A job had to give devices up."""
        self._put(Told(PREEMPTION, row, at_s, how))

    def idle(self, row: int, text: str, at_s: float) -> None:
        """A job holds devices and does nothing, or has been suspended for that."""
        self._put(Told(IDLE, row, at_s, text))

    def at_risk(self, row: int, text: str, at_s: float) -> None:
        """The promised deadline of a job is not expected to be kept, or is again."""
        self._put(Told(RISK, row, at_s, text))

    def replaced(self, text: str, at_s: float) -> None:
        """Another policy has taken over from one that failed."""
        self._put(Told(POLICY, NO_JOB, at_s, text))

    def ended(self, row: int, state: str, at_s: float) -> None:
        """Note that a job has ended; a repeated note is sent once."""
        if not self._tellers or row in self._ended:
            return
        self._ended[row] = None
        if len(self._ended) > REMEMBERED:
            self._ended.popitem(last=False)
        self._put(Told(FAILURE if state in FAILED else END, row, at_s))

    def _put(self, told: Told) -> None:
        for teller in self._tellers:
            teller.put(told)

    def troubles(self) -> list[str]:
        """A sentence for each target that does not accept its messages."""
        return [said for teller in self._tellers if (said := teller.trouble)]


class Teller:
    """One target, in a thread of its own."""

    def __init__(self, cluster: str, target: Target, details: Details, epoch_unix_s: float) -> None:
        self.trouble = ""
        self._epoch_unix_s = epoch_unix_s
        self._cluster, self._target, self._details = cluster, target, details
        self._waiting: deque[Told] = deque()
        self._left_out = 0
        self._news = threading.Condition()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="notices", daemon=True)

    def start(self) -> None:
        """Tell from now on."""
        self._thread.start()

    def put(self, told: Told) -> None:
        """Queue the event if the target wants it and there is room."""
        wants = self._target.on
        if told.kind not in wants and not (told.kind == FAILURE and END in wants):
            return
        with self._news:
            if len(self._waiting) >= MOST_WAITING:
                self._left_out += 1
                return
            self._waiting.append(told)
            self._news.notify()

    def close(self) -> None:
        """Stop soon."""
        self._closing.set()
        with self._news:
            self._news.notify()

    def _run(self) -> None:
        while not self._closing.is_set():
            with self._news:
                while not self._waiting and not self._closing.is_set():
                    self._news.wait()
                count = min(len(self._waiting), MOST_AT_ONCE)
                batch = [self._waiting.popleft() for _ in range(count)]
                left_out, self._left_out = self._left_out, 0
            try:
                message = self._message(batch, left_out)
                if message["events"] or left_out:
                    self._tell(message)
            except Exception:  # a notice is worth less than the controller
                log.exception("%d notices for %s are lost", len(batch), self._target.name)
            self._closing.wait(self._target.every_s)

    def _message(self, batch: Sequence[Told], left_out: int) -> dict[str, Any]:
        """The message, with the jobs' present states; a tenant's target gets its own jobs only."""
        jobs: dict[int, Mapping[str, Any] | None] = {NO_JOB: None} if not self._target.tenant else {}
        jobs |= self._jobs([one.row for one in batch if one.row != NO_JOB])
        events = [
            {"event": one.kind, "at_s": self._epoch_unix_s + one.at_s, "text": one.text, "job": jobs[one.row]}
            for one in batch
            if one.row in jobs and self._is_for(jobs[one.row])
        ]
        return {"cluster": self._cluster, "events": events, "left_out": left_out}

    def _is_for(self, job: Mapping[str, Any] | None) -> bool:
        """True if the target gets events of `job`."""
        of = self._target.tenant
        return job is None or not of or f"{job['tenant']}/".startswith(f"{of}/")

    def _jobs(self, rows: Sequence[int]) -> Mapping[int, Mapping[str, Any]]:
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                return self._details(rows)
            except WorldError as error:  # it comes back, or the controller ends
                self.trouble = f"notices to {self._target.name} wait: {error}"
                if self._closing.wait(pause_s):
                    return {}
                pause_s = min(2 * pause_s, MOST_PAUSE_S)

    def _tell(self, message: dict[str, Any]) -> None:
        """Until it is taken, or has been tried often enough."""
        pause_s = FIRST_PAUSE_S
        for number in range(1, MOST_TRIES + 1):
            try:
                deliver(self._target, message)
            except NotTaken as error:
                self.trouble = f"notices are not taken by {self._target.name}: {error}"
                if not error.again or number == MOST_TRIES:
                    count = len(message["events"])
                    log.error("%s; %d of them are given up", self.trouble, count)
                    return
                log.warning("%s; again in %s", self.trouble, format_duration(pause_s))
                if self._closing.wait(pause_s):
                    return
                pause_s = min(2 * pause_s, MOST_PAUSE_S)
            else:
                self.trouble = ""
                return


def deliver(target: Target, message: Mapping[str, Any]) -> None:
    """Hand a message over; raises NotTaken."""
    data = json.dumps(message).encode()
    if target.command:
        run_command(target.command, data, PATIENCE_S)
    else:
        post(target.url, data, PATIENCE_S)


def targets_of(said: Any) -> list[Target]:
    """The setting `notify`: a list of commands and addresses.  InputError names what is wrong with it."""
    if not isinstance(said, list):
        raise InputError(f"notify: {said!r} is no list; expected entries such as `- {{url: https://…}}`")
    return [_target(one, f"notify: entry {number}") for number, one in enumerate(said, start=1)]


def _target(said: Any, where: str) -> Target:
    command, url = command_or_url(said, where, ("on", "tenant", "every"))
    on = said.get("on", list(KINDS))
    if not are_texts(on) or not on or not set(on) <= set(KINDS):
        raise InputError(f"{where}: on is {on!r}; expected a list of {', '.join(KINDS)}")
    try:
        every_s = parse_duration(str(said.get("every", "1s")), "every")
    except RotaError as error:
        raise InputError(f"{where}: {error}") from None
    return Target(command, url, frozenset(on), str(said.get("tenant", "")), every_s)
