"""The hook that brings machines and takes them away: an operator's command or webhook.

The number of nodes wanted is stored with the decision that wants it (`rota.worlds.live.cluster_size`).  A
thread sends it to the hook until the cluster has that size: after a failure again with growing pauses; after
a success only if the number changes, or if the machines have not come within `again_s`.  A message states
what shall be, not what has changed, so sending it twice does no harm; after a crash the next controller sends
it again.  Calls never overlap: the successor of a killed controller waits for the command that it had begun.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rota.engines.rota.identity import ProcessIdentity
from rota.model.atomic import replacing
from rota.model.units import format_duration, plural
from rota.scheduler.policy import Lever, levers_of, parse_policy
from rota.server.clocks import Clock
from rota.server.hooks.autoscale_setting import AutoscaleSetting
from rota.server.hooks.delivery import NotTaken, kill_group, post, run_command, shown_target
from rota.server.scheduler_view import SchedulerView
from rota.server.store.failures import StoreError
from rota.server.store.rows import REAL, EventRow, NodeRow, Step
from rota.server.store.store import Store
from rota.wire.scaling import AutoscaleView
from rota.worlds.live.wanted_nodes import AUTOSCALE, works

log = logging.getLogger(__name__)
TOLD = "autoscale told"
"""Name of the fact that records the last message taken by the hook."""
RUNNING = "autoscale.json"
"""File in ROTA_HOME that names the command that runs."""
FIRST_PAUSE_S, MOST_PAUSE_S = 1.0, 60.0
LOOK_S = 5.0
"""Seconds between two looks whether the machines have come."""


@dataclass(frozen=True)
class Wish:
    """The message to the hook: the wanted number of machines, and those that may go."""

    nodes: int
    remove: tuple[str, ...] = ()
    is_so: bool = field(default=True, compare=False)
    """True if the cluster is so already."""
    more: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """What else the message says."""


def wish_of(scaling: Mapping[str, Any], nodes: Sequence[NodeRow], removed: Collection[str] = ()) -> Wish:
    """The wish for a cluster of `nodes`, by `Scaling` as it is stored; `removed` need not be named again.

    A machine that leaves counts until nothing is on it, one that people have drained counts as long as it is
    there, a lost one never.
    """
    there = {node.name: node for node in nodes if node.state not in ("forgotten", "lost")}
    remove = tuple(sorted({*scaling["released"], *scaling["gone"]} - ({*scaling["gone"]} & {*removed})))
    working = [name for name, node in there.items() if works(node.state, node.drained_by)]
    stay = [name for name in there if name not in remove]
    missing = max(0, int(scaling["wanted"]) - len(working))
    more = {
        "wanted": int(scaling["wanted"]),
        "working": sorted(working),
        "leaving": sorted(name for name in stay if there[name].drained_by == AUTOSCALE),
        "lost": sorted(node.name for node in nodes if node.state == "lost" and node.name not in remove),
    }
    return Wish(len(stay) + missing, remove, not missing and not remove, more)


class Scaler:
    """Calls the operator's hook, in a thread of its own."""

    def __init__(
        self,
        autoscale: AutoscaleSetting,
        cluster: str,
        store: Store,
        shown: SchedulerView,
        clock: Clock,
        home: Path,
        news: threading.Event | None = None,
    ) -> None:
        """`shown` has the nodes that the scheduler knows of, once it has looked at them.

        `news` is set when nodes, or their wanted number, change on record.
        """
        self.autoscale = autoscale
        self.trouble = ""
        self._cluster, self._store, self._shown, self._clock = cluster, store, shown, clock
        self._running = home / RUNNING
        self._told: Wish | None = None
        self._told_s = 0.0
        self._removed: set[str] = set()
        """Nodes that the hook was asked to remove, as long as that counts."""
        self._news, self._closing = news or threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="autoscale", daemon=True)

    @property
    def name(self) -> str:
        """The hook, for people."""
        return shown_target(self.autoscale.command, self.autoscale.url)

    def start(self) -> None:
        """Tell from now on."""
        self._thread.start()

    def close(self) -> None:
        """Stop; a command that runs is left alone, and waited for by the next controller."""
        self._closing.set()
        self._news.set()

    # -- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._closing.is_set():
            try:
                self._wait_for_earlier()
                has_worked = self._look()
            except StoreError as error:
                self._fails(f"what is wanted cannot be read: {error}")
                has_worked = False
            except Exception as error:  # scheduling continues without it
                log.exception("autoscale")
                self._fails(f"{type(error).__name__}: {error}")
                has_worked = False
            if has_worked:
                pause_s = FIRST_PAUSE_S
                self._news.wait(LOOK_S)
                self._news.clear()
            else:
                self._closing.wait(pause_s)
                pause_s = min(2 * pause_s, MOST_PAUSE_S)

    def _look(self) -> bool:
        """Tell the hook if there is something to tell; False if it has not taken it."""
        nodes, facts = self._nodes(), self._store.facts()
        scaling = facts.get(AUTOSCALE)
        if scaling is None or nodes is None:
            return True
        if self._told is None and (told := facts.get(TOLD)) is not None:
            self._told, self._told_s = Wish(told["nodes"], tuple(told["remove"])), float(told["at_s"])
            self._removed = set(told["removed"])
        self._removed &= {*scaling["released"], *scaling["gone"]}
        wish, now = wish_of(scaling, nodes, self._removed), self._clock()
        is_old = not wish.is_so and now - self._told_s >= self.autoscale.again_s
        if wish == self._told and not is_old:
            if wish.is_so:
                self.trouble = ""
            return True
        try:
            self._deliver(self._message(wish))
        except NotTaken as error:
            self._fails(f"{self.name} has not taken that {_said(wish)}: {error}")
            return False
        self._take(wish, now, is_again=is_old and wish == self._told)
        return True

    def _nodes(self) -> list[NodeRow] | None:
        """The machines that have joined; None before the scheduler has looked at them."""
        return None if self._shown.policy is None else list(self._shown.nodes.copy().values())

    def _take(self, wish: Wish, now: float, *, is_again: bool) -> None:
        """The hook has been called."""
        self._told, self._told_s = wish, now
        self._removed |= {*wish.remove}
        told = {"nodes": wish.nodes, "remove": list(wish.remove), "at_s": now}
        self._store.set_fact(TOLD, {**told, "removed": sorted(self._removed)})
        self._note(f"{self.name} was told that {_said(wish)}")
        self.trouble = ""
        if is_again:
            after = format_duration(self.autoscale.again_s)
            self.trouble = (
                f"autoscale: {self.name} was told that {_said(wish)}, which is not so after {after}"
            )
            log.warning("%s", self.trouble)

    def _fails(self, why: str) -> None:
        trouble = f"autoscale: {why}"
        if trouble != self.trouble:
            log.error("%s", trouble)
            self._note(why)
        self.trouble = trouble

    def _note(self, text: str) -> None:
        """A line for the audit."""
        try:
            self._store.commit(Step(events=[EventRow(self._clock(), AUTOSCALE, "autoscale", text=text)]))
        except StoreError as error:
            log.warning("not on record (%s): %s", error, text)

    def _message(self, wish: Wish) -> dict[str, Any]:
        limits = self.autoscale.limits
        return {
            "cluster": self._cluster,
            "at_s": self._clock.epoch_unix_s + self._clock(),
            "nodes": wish.nodes,
            "remove": list(wish.remove),
            "min": limits.least,
            "max": limits.most,
            **wish.more,
        }

    # -- one call at a time ----------------------------------------------------------------------

    def _deliver(self, message: Mapping[str, Any]) -> None:
        data, timeout_s = json.dumps(message).encode(), self.autoscale.timeout_s
        if not self.autoscale.command:
            post(self.autoscale.url, data, timeout_s)
            return
        try:
            run_command(self.autoscale.command, data, timeout_s, self._remember)
        finally:
            self._running.unlink(missing_ok=True)

    def _remember(self, pid: int) -> None:
        """Put the running process on record, for the successor of a killed controller."""
        who = ProcessIdentity.of(pid)
        if who is not None:
            said = {"process": who.form(), "until_s": time.time() + self.autoscale.timeout_s}
            with replacing(self._running) as partial:
                partial.write_text(json.dumps(said), encoding="ascii")

    def _wait_for_earlier(self) -> None:
        """Until the command that a killed controller had begun has ended, or its time is over."""
        try:
            said = json.loads(self._running.read_text(encoding="ascii"))
            who, until_s = ProcessIdentity.read(said["process"]), float(said["until_s"])
        except (OSError, ValueError, KeyError, TypeError):
            return
        while who.alive() and not self._closing.is_set():
            if time.time() >= until_s:
                kill_group(who.pid)
            self._closing.wait(0.1)
        if not who.alive():
            self._running.unlink(missing_ok=True)

    # -- said to people --------------------------------------------------------------------------

    def troubles(self) -> list[str]:
        """Sentences for `rota status`."""
        spec = self._store.policies()[REAL].spec
        said = [self.trouble] if self.trouble else []
        if Lever.SCALE not in levers_of(parse_policy(spec).make()):
            said.append(
                f"autoscale: policy {spec} does not decide how many nodes there are; "
                "one that does is pollux:utility=0.35/0.65"
            )
        return said

    def view(self) -> AutoscaleView | None:
        """How many nodes are wanted, and how many there are; None before this is known."""
        scaling, nodes = self._store.facts().get(AUTOSCALE), self._nodes()
        if scaling is None or nodes is None:
            return None
        wish = wish_of(scaling, nodes, scaling["gone"])
        return AutoscaleView(
            wanted=wish.more["wanted"],
            working=len(wish.more["working"]),
            leaving=wish.more["leaving"],
            remove=list(wish.remove),
            least=self.autoscale.limits.least,
            most=self.autoscale.limits.most,
        )


def _said(wish: Wish) -> str:
    """The wish as a clause."""
    remove = f" and {', '.join(wish.remove)} may go" if wish.remove else ""
    return f"{plural(wish.nodes, 'node')} {'is' if wish.nodes == 1 else 'are'} wanted{remove}"
