"""The daemon against a controller in memory, with real processes on two CPU slots."""

from __future__ import annotations

import errno
import time
from pathlib import Path

import psutil
import pytest
from agent_play import OVER, agent_at, python, until_there

from rota.engines.rota.supervisor import Supervisor
from rota.testing.engine_controller import StandInController, part
from rota.wire.sync import Fetch, Mechanism, Notice, PartStatus, Report, Wanted

SLEEP = ["sleep", "600"]


def test_a_job_starts_at_once_ends_and_is_forgotten(
    home: Path, controller: StandInController, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step wakes the next: nothing waits until the agent looks around."""
    monkeypatch.setattr("rota.engines.rota.daemon.LOOK_S", 600.0)
    with agent_at(home, controller, usage_s=600.0):
        controller.until(lambda: controller.requests)
        controller.order(part(0, run=python("print('hello')")))
        report = controller.status((0, 1), PartStatus.ENDED)
        assert report.end is not None
        assert (report.end.code, report.end.signal) == (0, None)
        assert report.started_s is not None
        assert {cost.kind for cost in report.costs} >= {"start"}
        piece = controller.fetch(Fetch(id="a", row=0, attempt=1, rank=0, offset=0, limit=100))
        assert (piece.text, piece.size, piece.error) == ("hello\n", 6, "")
        controller.change((0, 1), Wanted.FORGET)
        launch = home / "attempts" / "0" / "1" / "launch.json"
        controller.until(lambda: not launch.exists())


def test_an_end_is_repeated_until_it_is_acknowledged(
    home: Path, controller: StandInController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.engines.shared.board.REPEAT_END_S", 0.1)
    with agent_at(home, controller):
        controller.order(part(0, run=["true"]))

        def ends() -> list[Report]:
            return [report for _, report in controller.history if report.status is PartStatus.ENDED]

        controller.until(lambda: len(ends()) >= 3)
        controller.change((0, 1), Wanted.FORGET)
        controller.until(lambda: not (home / "attempts" / "0" / "1" / "launch.json").exists())
        count = 0
        for row in (1, 2):  # what was on its way has come when the first of them has ended
            controller.order(part(row, run=["true"]))
            controller.status((row, 1), PartStatus.ENDED)
            before, count = count, len([r for r in ends() if r.row == 0])
        assert count == before


def test_stop_gives_notice_and_ends(home: Path, controller: StandInController) -> None:
    with agent_at(home, controller):
        controller.order(part(0, run=SLEEP))
        controller.status((0, 1), PartStatus.RUNNING)
        controller.change((0, 1), Wanted.STOP, notice=Notice(reason="cancelled", text="by its user"))
        report = controller.status((0, 1), PartStatus.ENDED)
        assert report.end is not None
        assert report.end.signal == 15
        assert "stop" in {cost.kind for cost in report.costs}


def test_suspended_by_signal_and_resumed_on_another_slot(home: Path, controller: StandInController) -> None:
    with agent_at(home, controller):
        controller.order(part(0, run=SLEEP))
        pid = controller.status((0, 1), PartStatus.RUNNING).pids[0]
        controller.change((0, 1), Wanted.SUSPEND)
        report = controller.status((0, 1), PartStatus.SUSPENDED)
        controller.until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
        assert report.suspended_gib > 0
        assert report.capability is not None
        assert report.capability.suspend is Mechanism.SIGNAL
        controller.order(part(1, run=SLEEP))  # its slot is free
        controller.status((1, 1), PartStatus.RUNNING)
        controller.order(part(0, devices=(1,), run=SLEEP))
        controller.status((0, 1), PartStatus.RUNNING)
        assert psutil.Process(pid).status() != psutil.STATUS_STOPPED
        assert {"suspend", "resume"} <= {cost.kind for cost in controller.reports[0, 1].costs}


def test_suspension_without_room_stops_instead(home: Path, controller: StandInController) -> None:
    with agent_at(home, controller, suspend_memory_gib=0.0):
        controller.order(part(0, run=SLEEP))
        controller.status((0, 1), PartStatus.RUNNING)
        controller.change((0, 1), Wanted.SUSPEND)
        assert controller.status((0, 1), PartStatus.ENDED).end is not None


def test_a_job_moves_to_another_slot_by_one_order(home: Path, controller: StandInController) -> None:
    with agent_at(home, controller):
        controller.order(part(0, run=SLEEP))
        pid = controller.status((0, 1), PartStatus.RUNNING).pids[0]
        controller.order(part(0, devices=(1,), run=SLEEP))
        controller.until(lambda: "resume" in {c.kind for c in controller.reports[0, 1].costs})
        assert controller.reports[0, 1].pids == [pid]
        controller.order(part(1, run=SLEEP))
        controller.status((1, 1), PartStatus.RUNNING)


def test_two_halves_share_a_slot_and_a_third_waits(home: Path, controller: StandInController) -> None:
    with agent_at(home, controller):
        for row in (0, 1, 2):
            controller.order(part(row, run=SLEEP, share=0.5))
        controller.status((0, 1), PartStatus.RUNNING)
        controller.status((1, 1), PartStatus.RUNNING)
        waiting = controller.status((2, 1), PartStatus.WAITING)
        assert waiting.why == "cpu 0 is still held by job 1, 2"
        controller.change((1, 1), Wanted.KILL)
        controller.status((2, 1), PartStatus.RUNNING)


def test_a_successor_waits_until_its_predecessor_has_gone(
    home: Path, tmp_path: Path, controller: StandInController
) -> None:
    stubborn = [
        "sh",
        "-c",
        f"trap 'until [ -e {tmp_path / 'go'} ]; do sleep 0.02; done; exit 85' TERM\n"
        "echo ready; while :; do sleep 0.02; done",
    ]
    with agent_at(home, controller):
        controller.order(part(0, run=stubborn, grace_s=600.0))
        controller.status((0, 1), PartStatus.RUNNING)
        log = home / "attempts" / "0" / "1" / "logs" / "rank-0.log"
        controller.until(lambda: log.exists() and "ready" in log.read_text())
        with controller.changed:
            controller.change((0, 1), Wanted.LEAVE)
            controller.order(part(1, run=SLEEP))
        controller.status((1, 1), PartStatus.WAITING)
        (tmp_path / "go").touch()
        first, second = controller.status((0, 1), *OVER), controller.status((1, 1), PartStatus.RUNNING)
        assert first.end is not None
        assert second.started_s is not None
        assert first.end.code == 85
        assert second.started_s >= first.end.ended_s


def test_what_was_withdrawn_before_it_began_ends(home: Path, controller: StandInController) -> None:
    with agent_at(home, controller):
        controller.order(part(0, run=SLEEP))
        controller.status((0, 1), PartStatus.RUNNING)
        controller.order(part(1, run=SLEEP))
        controller.status((1, 1), PartStatus.WAITING)
        controller.change((1, 1), Wanted.STOP)
        report = controller.status((1, 1), PartStatus.ENDED)
        assert report.started_s is None
        assert report.why == "withdrawn before it began"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"devices": (7,)}, "there is no cpu 7 on this machine; it has 0, 1"),
        ({"workdir": "/proc/nowhere"}, "/proc/nowhere"),
    ],
)
def test_what_cannot_start_says_why(
    home: Path, controller: StandInController, changes: dict[str, object], why: str
) -> None:
    with agent_at(home, controller):
        controller.order(part(0, run=SLEEP, **changes))  # type: ignore[arg-type]
        report = controller.status((0, 1), *OVER)
        assert report.end is not None
        assert why in report.why + report.end.error


def test_a_folder_that_cannot_be_written_is_said(home: Path, controller: StandInController) -> None:
    with agent_at(home, controller):
        controller.until(lambda: controller.requests)
        (home / "attempts" / "0").mkdir(parents=True)
        (home / "attempts" / "0" / "1").write_text("in the way, also of root")
        controller.order(part(0, run=SLEEP))
        report = controller.status((0, 1), PartStatus.LOST)
        (home / "attempts" / "0" / "1").unlink()
        assert "Not a directory" in report.why
        assert report.end is not None
        assert report.end.infrastructure


def test_a_higher_attempt_voids_the_lower_one(home: Path, controller: StandInController) -> None:
    with agent_at(home, controller):
        controller.order(part(0, run=SLEEP))
        first = controller.status((0, 1), PartStatus.RUNNING)
        controller.order(part(0, 2, devices=(1,), run=SLEEP, void=[1]))
        second = controller.status((0, 2), PartStatus.RUNNING)
        assert second.started_s is not None
        assert not psutil.pid_exists(first.pids[0])
        end = controller.status((0, 1), PartStatus.ENDED).end
        assert end is not None
        assert end.signal == 9
        assert end.ended_s <= second.started_s
        assert (home / "checkpoints" / "0" / "1" / "VOID").exists()


def test_a_job_begins_when_the_one_that_had_its_number_has_gone(
    home: Path, controller: StandInController
) -> None:
    """The store was restored from a backup, and what it forgot still runs."""
    with agent_at(home, controller):
        controller.order(part(0, run=SLEEP, submit_s=1000.0))
        pid = controller.status((0, 1), PartStatus.RUNNING).pids[0]
        controller.leave()
        controller.parts.clear()
        controller.order(part(0, run=SLEEP, submit_s=2000.0))
        controller.come_back("restored")
        controller.until(
            lambda: (
                (said := controller.reports.get((0, 1))) is not None
                and (said.status, said.submit_s) == (PartStatus.RUNNING, 2000.0)
            )
        )
        assert controller.reports[0, 1].pids != [pid]
        assert not psutil.pid_exists(pid)


def test_what_nobody_wants_is_killed(home: Path, controller: StandInController) -> None:
    with agent_at(home, controller):
        controller.order(part(0, run=SLEEP))
        pid = controller.status((0, 1), PartStatus.RUNNING).pids[0]
        controller.leave()
        with controller.changed:
            del controller.parts[0, 1]
            controller.come_back("two")
        controller.until(lambda: not psutil.pid_exists(pid))
        controller.until(lambda: not (home / "attempts" / "0" / "1" / "launch.json").exists())


def test_a_controller_that_has_lost_its_memory_for_a_while_harms_no_job(
    home: Path, controller: StandInController
) -> None:
    with agent_at(home, controller):
        controller.order(part(0, run=SLEEP))
        pid = controller.status((0, 1), PartStatus.RUNNING).pids[0]
        controller.leave()
        with controller.changed:
            parts, controller.parts, controller.whole = controller.parts, {}, False
            controller.come_back("two")
        assert controller.status((0, 1), PartStatus.RUNNING).pids == [pid]
        controller.order(parts[0, 1])  # it has read its store
        controller.order(part(1, devices=(1,), run=["true"]))
        controller.status((1, 1), PartStatus.ENDED)
        assert psutil.pid_exists(pid)
        controller.change((0, 1), Wanted.KILL)
        controller.status((0, 1), PartStatus.ENDED)


def test_jobs_run_on_while_the_controller_is_away(
    home: Path, tmp_path: Path, controller: StandInController
) -> None:
    with agent_at(home, controller):
        controller.order(part(0, run=until_there(tmp_path / "go")))
        controller.order(part(1, devices=(1,), run=SLEEP))
        for row in (0, 1):
            controller.status((row, 1), PartStatus.RUNNING)
        controller.leave()
        (tmp_path / "go").touch()
        controller.until((home / "attempts" / "0" / "1" / "exit.json").exists)
        controller.until(lambda: controller.in_vain > 5)
        controller.come_back("two")
        controller.status((0, 1), PartStatus.ENDED)
        assert controller.requests[0].complete or controller.requests[0].controller == "one"
        first = next(request for request in controller.requests if request.complete)
        assert {report.row for report in first.reports} == {0, 1}
        assert first.seen == 0
        assert controller.reports[1, 1].status is PartStatus.RUNNING


def test_an_end_is_told_when_the_same_controller_is_back(
    home: Path, tmp_path: Path, controller: StandInController
) -> None:
    with agent_at(home, controller):
        controller.order(part(0, run=until_there(tmp_path / "go")))
        controller.status((0, 1), PartStatus.RUNNING)
        controller.leave()
        (tmp_path / "go").touch()
        controller.until((home / "attempts" / "0" / "1" / "exit.json").exists)
        controller.come_back()
        controller.status((0, 1), PartStatus.ENDED)


@pytest.mark.parametrize("wanted", [Wanted.STOP, Wanted.KILL])
def test_a_full_disk_keeps_no_job_alive(
    home: Path, controller: StandInController, monkeypatch: pytest.MonkeyPatch, wanted: Wanted
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "stop.json")

    with agent_at(home, controller):
        controller.order(part(0, run=SLEEP))
        controller.status((0, 1), PartStatus.RUNNING)
        monkeypatch.setattr(Supervisor, "stop", full)
        monkeypatch.setattr(Supervisor, "kill", full)
        controller.change((0, 1), wanted)
        report = controller.status((0, 1), PartStatus.ENDED)
        monkeypatch.undo()
        assert report.end is not None
        assert report.end.signal == (15 if wanted is Wanted.STOP else 9)
        assert f"cannot {wanted} it: " in report.why
        assert "No space left on device" in report.why


def test_a_part_that_fences_itself_is_gone_before_the_controller_gives_up(
    home: Path, controller: StandInController, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told to go after two seconds of silence and killed after three, long before its node is lost."""
    for name, share in {
        "WAIT_SHARE": 0.005,
        "FENCING_AT": 0.05,
        "FENCED_AT": 0.075,
        "LATEST_S": 37.0,
    }.items():
        monkeypatch.setattr(f"rota.engines.shared.silence.{name}", share)
    controller.lost_after_s = 40.0
    deaf = python("import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)")
    with agent_at(home, controller):
        controller.order(part(0, run=deaf, self_fence=True, grace_s=60.0))
        controller.order(part(1, devices=(1,), run=SLEEP))
        fenced = controller.status((0, 1), PartStatus.RUNNING).pids[0]
        other = controller.status((1, 1), PartStatus.RUNNING).pids[0]
        controller.leave()
        silent_s = time.time()
        while psutil.pid_exists(fenced):
            assert time.time() - silent_s < controller.lost_after_s
            time.sleep(0.02)
        assert psutil.pid_exists(other)
        controller.come_back()
        end = controller.status((0, 1), PartStatus.ENDED).end
        assert end is not None
        assert end.ended_s < silent_s + controller.lost_after_s


def test_usage_is_sampled(home: Path, controller: StandInController) -> None:
    with agent_at(home, controller):
        controller.order(part(0, run=python("while True: pass")))
        controller.until(
            lambda: (r := controller.reports.get((0, 1))) and r.usage and r.usage.cpu_cores > 0.01
        )
        usage = controller.reports[0, 1].usage
        assert usage is not None
        assert usage.memory_gib > 0.001
        controller.change((0, 1), Wanted.KILL)
        controller.status((0, 1), *OVER)


def test_the_first_node_chooses_the_port_and_others_wait_for_it(
    home: Path, controller: StandInController
) -> None:
    show = python("import os; print(os.environ['MASTER_PORT'])")
    with agent_at(home, controller):
        controller.order(part(0, run=SLEEP, nodes=["here", "there"], world_size=2))
        port = controller.status((0, 1), PartStatus.RUNNING).port
        assert port
        controller.order(part(1, devices=(1,), run=show, nodes=["there", "here"], node_rank=1, world_size=2))
        assert "port" in controller.status((1, 1), PartStatus.WAITING).why
        controller.change((1, 1), Wanted.RUN, port=port)
        controller.status((1, 1), PartStatus.ENDED)
        assert (home / "attempts" / "1" / "1" / "logs" / "rank-0.log").read_text() == f"{port}\n"


def test_the_controller_can_end_the_agent_and_its_jobs_go_on(
    home: Path, controller: StandInController
) -> None:
    with agent_at(home, controller):
        controller.order(part(0, run=SLEEP))
        pid = controller.status((0, 1), PartStatus.RUNNING).pids[0]
        with controller.changed:
            controller.stop = True
            controller.changed.notify_all()
    assert psutil.pid_exists(pid)
