"""The policies of a cluster: the real one, which decides, and perhaps a shadow, which watches.

For the loop a host is a policy.  A controller that swaps the policy renews the host with an empty memory, and
makes a loop over the same state with the rules `Gentle` for its first decision
(`rota.scheduler.guard.live_rules`).
"""

from __future__ import annotations

from pathlib import Path

from rota.knowledge.needs import Knowledge
from rota.model.growing import GrowingTable
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.moments.replica import TracedState
from rota.scheduler.policy import Lever
from rota.scheduler.reasons.order import Precedence
from rota.scheduler.snapshot import Snapshot
from rota.server.policy.child import PolicyProcess
from rota.server.policy.messages import WhyAnswer
from rota.server.policy.remote import Costs, RemotePolicy, TableFeed, Timeouts
from rota.server.policy.shadow import Shadow, ShadowMoment


class PolicyHost:
    """Owns the processes.  `explain`, `freeze` and what only reads may be called from any thread, the rest
    from the scheduler's."""

    def __init__(
        self,
        state: TracedState,
        table: GrowingTable,
        policy: str,
        *,
        memory: bytes | None = None,
        seed: int = 0,
        limits: Timeouts | None = None,
        costs: Costs | None = None,
        log_folder: Path | None = None,
    ) -> None:
        self._limits, self._costs, self._logs = limits, costs, log_folder
        self.shadow: Shadow | None = None
        self._begin(state, table, policy, memory, seed, None)

    def _begin(
        self,
        state: TracedState,
        table: GrowingTable,
        policy: str,
        memory: bytes | None,
        seed: int,
        process: PolicyProcess | None,
    ) -> None:
        self._feed, self._seed = TableFeed(state, table), seed
        self.real = RemotePolicy(
            policy,
            self._feed,
            memory=memory,
            seed=seed,
            limits=self._limits,
            costs=self._costs,
            log=self._log("policy"),
            process=process,
        )

    def renew(
        self, state: TracedState, table: GrowingTable, policy: str, memory: bytes | None, seed: int
    ) -> None:
        """Begin again with another table and perhaps another policy, without a shadow.

        The process is kept if it is well: a new one would take half a second until it can decide.
        """
        self.set_shadow(None)
        process = self.real.release()
        try:
            self._begin(state, table, policy, memory, seed, process)
        except BaseException:
            if process is not None:
                process.kill()
            raise

    def _log(self, name: str) -> Path | None:
        return self._logs / f"{name}.log" if self._logs else None

    @property
    def needs(self) -> frozenset[Knowledge]:
        """Knowledge that both policies need; it changes with the shadow, and the loop reads it only once."""
        return self.real.needs | (self.shadow.needs if self.shadow else frozenset())

    @property
    def levers(self) -> frozenset[Lever]:
        """Acts that the real policy may use."""
        return self.real.levers

    @property
    def name(self) -> str:
        """The real policy, as on the command line."""
        return self.real.name

    @property
    def trouble(self) -> str:
        """One sentence if the last decision failed; then every job keeps its devices."""
        return self.real.trouble

    @property
    def failures(self) -> int:
        """Decisions of the real policy that came to nothing, since it has had this process."""
        return self.real.tally.failures

    @property
    def rests_s(self) -> float:
        """Seconds until the real policy may be asked again after a failure."""
        return self.real.rests_s

    def rest(self, why: str, failed_in_a_row: int) -> None:
        """Let the real policy pause; see `RemotePolicy.rest`."""
        self.real.rest(why, failed_in_a_row)

    def warm(self) -> None:
        """Start the process of the real policy now."""
        self.real.warm()

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        """The decision of the real policy; afterwards the shadow decides about the same moment."""
        decision = self.real.decide(snapshot, memory)
        if self.shadow is not None and not self.real.trouble:
            self.shadow.moment(snapshot, decision)
        return decision

    def note(self) -> None:
        """A step of the loop is committed: explanations show it from now on."""
        self.real.note()

    @property
    def is_away(self) -> bool:
        """True if the process of the real policy has died or is behind; see `RemotePolicy.is_away`."""
        return self.real.is_away

    def explain(self, rows: list[int], timeout_s: float = 2.0) -> dict[int, WhyAnswer]:
        """Why `rows` wait; see `RemotePolicy.explain`."""
        return self.real.explain(rows, timeout_s)

    def order(self, timeout_s: float = 2.0) -> Precedence:
        """How jobs stand with the policy; see `RemotePolicy.order`."""
        return self.real.order(timeout_s)

    def standing(self) -> frozenset[int] | None:
        """The jobs that run with a guarantee; see `RemotePolicy.standing`."""
        return self.real.standing()

    def freeze(self, timeout_s: float = 10.0) -> bytes:
        """The present moment as a file's content; see `RemotePolicy.freeze`."""
        return self.real.freeze(timeout_s)

    def weigh(self, costs: Costs) -> None:
        """From now on, of jobs with equal rank, the one with the cheapest preemption is preempted."""
        self._costs = self.real.costs = costs

    def set_shadow(self, policy: str | None) -> None:
        """Let `policy` watch from the next moment on; None ends that."""
        if self.shadow is not None:
            self.shadow.close()
            self.shadow = None
        if policy is not None:
            log = self._log("shadow")
            self.shadow = Shadow(policy, self._feed, seed=self._seed, limits=self._limits, log=log)

    def shadow_moments(self) -> list[ShadowMoment]:
        """Differences of the shadow's decisions, oldest first."""
        shadow = self.shadow
        return list(shadow.moments) if shadow else []

    def close(self) -> None:
        """End all processes."""
        self.set_shadow(None)
        self.real.close()
