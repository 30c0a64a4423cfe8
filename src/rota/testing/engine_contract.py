"""The contract every engine keeps, for your own engine too.

An engine brings jobs to life on nodes: our own agents do, and Ray, Slurm or Kubernetes may.  It speaks
`rota.wire.sync`: parts come in, reports go out.  To hold yours to the sentences below, tell how to begin one
node of it with two devices, and

    from rota.testing.engine_contract import engine_contract
    test_mine = engine_contract(MyNode)            # a pytest test, one case per sentence

`MyNode(folder)` is a `NodeUnderTest`.  A sentence that your engine cannot keep yet is named in `but`, with
the reason: its case is expected to fail, and says so once it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from rota.testing.engine_controller import Key, StandInController, part
from rota.wire.sync import Part, PartStatus, Report, Wanted

OVER = (PartStatus.ENDED, PartStatus.LOST)
SHARE_SLACK = 1e-6


class Program(StrEnum):
    """What the command of a part does."""

    STAYS = "stays"  # until it is made to go
    ENDS = "ends"  # soon, with exit code 0
    FAILS = "fails"  # soon, with another exit code


class NodeUnderTest(Protocol):
    """One node of an engine, with devices 0 and 1, and nothing else to do."""

    def begin(self, controller: StandInController) -> None:
        """The engine starts, or restarts; from now on it calls `controller` (`sync`, or `call`)."""
        ...

    def kill(self) -> None:
        """The engine dies without notice; what it has started on the node runs on."""
        ...

    def command(self, program: Program) -> list[str]:
        """A command that does what `program` says on this node."""
        ...

    def working(self) -> set[Key]:
        """The parts with a working process, as the node itself shows it; suspended ones have none."""
        ...

    def until(self, holds: Callable[[], bool]) -> None:
        """Let time pass until `holds`; AssertionError if it never does."""
        ...

    def close(self) -> None:
        """Remove everything that is left of the node."""
        ...


class Case:
    """A node and its controller, with what must hold at every moment."""

    def __init__(self, node: NodeUnderTest) -> None:
        self.node = node
        self.controller = StandInController()
        node.begin(self.controller)

    def want(self, row: int, program: Program = Program.STAYS, attempt: int = 1, **more: Any) -> Part:
        """Order a part to run, on device 0 by default."""
        return self.controller.order(part(row, attempt, run=self.node.command(program), **more))

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait; meanwhile no device is shared and no job runs twice."""
        self.node.until(lambda: self._is_sound() and holds())

    def _is_sound(self) -> bool:
        working = self.node.working()
        rows = [row for row, _ in working]
        assert len(rows) == len(set(rows)), f"two attempts of one job work at once: {sorted(working)}"
        for device in (0, 1):
            shares = {key: self.controller.parts[key].share for key in working if self._is_on(key, device)}
            assert sum(shares.values()) <= 1.0 + SHARE_SLACK, f"device {device} is oversubscribed: {shares}"
        return True

    def _is_on(self, key: Key, device: int) -> bool:
        return key in self.controller.parts and device in self.controller.parts[key].devices

    def report(self, key: Key, *status: PartStatus) -> Report:
        """The report of a part, once it is in one of these states."""
        self.until(lambda: key in self.controller.reports and self.controller.reports[key].status in status)
        return self.controller.reports[key]

    def runs(self, key: Key) -> Report:
        """The report of a part once it works, and is reported to."""
        report = self.report(key, PartStatus.RUNNING)
        self.until(lambda: key in self.node.working())
        return report

    def heard_anew(self) -> dict[Key, Report]:
        """The first reports to a controller that knows nothing."""
        self.controller.come_back(self.controller.incarnation + "'")
        self.until(lambda: any(request.complete for request in self.controller.requests))
        whole = next(request for request in self.controller.requests if request.complete)
        return {(report.row, report.attempt): report for report in whole.reports}


def a_part_that_is_wanted_runs(case: Case) -> None:
    """A report names the job of the part, and since when it runs."""
    wanted = case.want(0, submit_s=1_700_000_000.0)
    report = case.runs((0, 1))
    assert report.submit_s == wanted.submit_s
    assert report.started_s is not None


def an_end_is_reported_as_it_was(case: Case) -> None:
    """The report of an end has the exit code of the command."""
    case.want(0, Program.ENDS)
    case.want(1, Program.FAILS, devices=(1,))
    well, badly = [case.report((row, 1), PartStatus.ENDED).end for row in (0, 1)]
    assert well is not None
    assert badly is not None
    assert well.code == 0
    assert badly.code


def an_end_is_said_again_until_it_is_forgotten(case: Case) -> None:
    """An end is reported from disk if need be: neither a new controller nor a new engine misses it."""
    case.want(0, Program.ENDS)
    case.report((0, 1), PartStatus.ENDED)
    case.node.kill()
    case.node.begin(case.controller)
    assert case.heard_anew()[0, 1].status is PartStatus.ENDED
    case.controller.change((0, 1), Wanted.FORGET)
    case.until(lambda: (0, 1) not in case.heard_anew())


def what_is_stopped_is_gone(case: Case) -> None:
    """A stopped part is gone, and reported as ended."""
    case.want(0)
    case.runs((0, 1))
    case.controller.change((0, 1), Wanted.STOP)
    case.report((0, 1), *OVER)
    assert case.node.working() == set()


def what_is_killed_is_gone(case: Case) -> None:
    """A killed part is gone without any grace."""
    case.want(0)
    case.runs((0, 1))
    case.controller.change((0, 1), Wanted.KILL)
    case.report((0, 1), *OVER)
    assert case.node.working() == set()


def what_never_began_can_be_stopped(case: Case) -> None:
    """A part that is stopped before it began is over, and on record as such."""
    case.controller.order(
        part(0, run=case.node.command(Program.STAYS)).model_copy(update={"wanted": Wanted.STOP})
    )
    case.report((0, 1), *OVER)
    assert case.node.working() == set()


def devices_are_released_before_they_are_acquired(case: Case) -> None:
    """Whatever the controller wants, a part waits until the one before it has left its devices."""
    case.want(0)
    case.runs((0, 1))
    case.want(1)
    case.want(2, devices=(1,))
    case.runs((2, 1))
    assert case.node.working() == {(0, 1), (2, 1)}
    case.controller.change((0, 1), Wanted.STOP)
    case.runs((1, 1))


def shares_of_a_device_run_side_by_side(case: Case) -> None:
    """Parts share a device up to the whole of it."""
    for row in range(3):
        case.want(row, share=0.5)
    case.until(lambda: len(case.node.working()) == 2)


def a_higher_attempt_follows_a_lower_one(case: Case) -> None:
    """The lower attempt is void, and gone first."""
    case.want(0)
    case.runs((0, 1))
    case.want(0, attempt=2, devices=(1,))
    case.controller.change((0, 1), Wanted.KILL)
    case.runs((0, 2))
    assert case.node.working() == {(0, 2)}


def what_is_suspended_gives_its_devices_back(case: Case) -> None:
    """A suspended part releases its devices, and goes on once it is wanted to run and they are free."""
    case.want(0)
    case.runs((0, 1))
    case.controller.change((0, 1), Wanted.SUSPEND)
    case.report((0, 1), PartStatus.SUSPENDED)
    case.want(1)
    case.runs((1, 1))
    case.controller.change((0, 1), Wanted.RUN)
    case.controller.change((1, 1), Wanted.STOP)
    case.report((1, 1), *OVER)
    case.runs((0, 1))


def what_is_suspended_before_it_began_is_held(case: Case) -> None:
    """No process of it exists, and the report says so; it begins once it is wanted to run."""
    wanted = part(0, run=case.node.command(Program.STAYS)).model_copy(update={"wanted": Wanted.SUSPEND})
    case.controller.order(wanted)
    case.report((0, 1), PartStatus.HELD)
    case.controller.change((0, 1), Wanted.RUN)
    case.runs((0, 1))


def what_runs_outlives_the_engine(case: Case) -> None:
    """A running part is neither ended nor begun twice when the engine starts again."""
    case.want(0)
    began_s = case.runs((0, 1)).started_s
    case.node.kill()
    assert case.node.working() == {(0, 1)}
    case.node.begin(case.controller)
    assert case.heard_anew()[0, 1].started_s == began_s
    assert case.node.working() == {(0, 1)}


def a_new_controller_is_told_everything_first(case: Case) -> None:
    """Meanwhile, running parts run on."""
    case.want(0)
    case.want(1, devices=(1,))
    case.runs((0, 1))
    case.runs((1, 1))
    assert case.heard_anew().keys() == {(0, 1), (1, 1)}
    assert case.node.working() == {(0, 1), (1, 1)}


def absence_kills_only_when_it_is_whole(case: Case) -> None:
    """A part that the controller does not name is void if it has named all, and lives if it has not."""
    case.want(0)
    case.runs((0, 1))
    del case.controller.parts[0, 1]
    case.controller.whole = False
    assert (0, 1) in case.heard_anew()
    case.want(1, devices=(1,))
    case.runs((1, 1))
    assert (0, 1) in case.node.working()
    case.controller.whole = True
    case.heard_anew()
    case.until(lambda: case.node.working() == {(1, 1)})


def what_fences_itself_is_gone_when_the_controller_is_silent(case: Case) -> None:
    """It ends before the controller gives its job to another node; a part without a fence works on."""
    case.controller.lost_after_s = 3.0
    case.want(0, self_fence=True)
    case.want(1, devices=(1,))
    case.runs((0, 1))
    case.runs((1, 1))
    case.controller.leave()
    case.until(lambda: case.node.working() == {(1, 1)})


SENTENCES: dict[str, Callable[[Case], None]] = {
    sentence.__name__: sentence
    for sentence in (
        a_part_that_is_wanted_runs,
        an_end_is_reported_as_it_was,
        an_end_is_said_again_until_it_is_forgotten,
        what_is_stopped_is_gone,
        what_is_killed_is_gone,
        what_never_began_can_be_stopped,
        devices_are_released_before_they_are_acquired,
        shares_of_a_device_run_side_by_side,
        a_higher_attempt_follows_a_lower_one,
        what_is_suspended_gives_its_devices_back,
        what_is_suspended_before_it_began_is_held,
        what_runs_outlives_the_engine,
        a_new_controller_is_told_everything_first,
        absence_kills_only_when_it_is_whole,
        what_fences_itself_is_gone_when_the_controller_is_silent,
    )
}
"""The sentences that every engine keeps, by name."""


def check_engine(node: NodeUnderTest, sentence: str) -> None:
    """Hold one node, which has not begun yet, to one sentence; AssertionError if it does not keep it."""
    with closing(node):
        SENTENCES[sentence](Case(node))


def engine_contract(
    make: Callable[[Path], NodeUnderTest], *, but: Mapping[str, str] | None = None
) -> Callable[..., None]:
    """A pytest test that holds the nodes that `make` makes to every sentence; `but` names exceptions."""
    import pytest

    known = but or {}
    assert known.keys() <= SENTENCES.keys(), f"no sentences: {', '.join(known.keys() - SENTENCES.keys())}"
    cases = [
        pytest.param(
            name, marks=[pytest.mark.xfail(reason=known[name], strict=True)] if name in known else []
        )
        for name in SENTENCES
    ]

    @pytest.mark.parametrize("sentence", cases)
    def test_engine(tmp_path: Path, sentence: str) -> None:
        check_engine(make(tmp_path), sentence)

    return test_engine
