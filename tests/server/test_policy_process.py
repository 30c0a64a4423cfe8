"""The policy's own process: what it says reaches the loop, and nothing that it does stops it."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from policy_bench import PATIENT, STRICT, Bench, gone_or_zombie, kill

from rota.errors import InputError, PolicyError
from rota.knowledge.needs import Knowledge, Known, Provenance, Table
from rota.model.columns import Array
from rota.model.grants import Code
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.guard.live_rules import MinimumRun
from rota.scheduler.moments.frozen import load
from rota.scheduler.moments.packing import pack
from rota.scheduler.moments.values import digest
from rota.scheduler.own_modules import MODULES
from rota.scheduler.policy import parse_policy
from rota.scheduler.reasons.waiting import explain
from rota.scheduler.snapshot import Snapshot
from rota.server.policy.messages import check_policy, seal, unseal
from rota.server.policy.process import NOT_ASKED
from rota.server.policy.provider_messages import KnowledgeHeard, KnowledgeTold
from rota.server.policy.remote import Timeouts
from rota.server.refusals import Busy
from tiers import first

JOBS = "A 4x300 B 2x40@5 C 2x400@6 D 1x10@20 E 4x30@25 F 1x500@30 G 2x90@31 H 3x20@60 I 1x70@61"
TIRESIAS = "tiresias:limits=100/400,promote=2"


@pytest.fixture(autouse=True)
def odd_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both processes know the policies of these tests."""
    here = str(Path(__file__).parent)
    monkeypatch.setenv(MODULES, "odd_policies")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")])))


@pytest.fixture
def benches() -> Iterator[Callable[..., Bench]]:
    """Makes benches whose processes are ended with the test."""
    made: list[Bench] = []

    def make(*args: Any, **columns: Any) -> Bench:
        made.append(Bench(*args, **columns))
        return made[-1]

    yield make
    for bench in made:
        if bench.host is not None:
            bench.host.close()


Benches = Callable[..., Bench]


def local_decisions(policy: str, jobs: str = JOBS) -> list[str]:
    """What `policy` decides in this process."""
    bench = Bench(jobs)
    bench.loop(parse_policy(policy).make()).run()
    return bench.decisions


# -- the same decisions ------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["fifo", TIRESIAS, "srtf", "las", "gandiva", "tiresias:order=gittins"])
def test_another_process_decides_alike(policy: str, benches: Benches) -> None:
    bench = benches(JOBS)
    bench.loop(bench.remote(policy)).run()
    assert bench.decisions == local_decisions(policy)
    assert len(bench.decisions) > 10
    assert bench.host
    assert bench.host.real.tally.starts == 1


@pytest.mark.parametrize("policy", first(1, ["gandiva", TIRESIAS]))
def test_a_killed_process_changes_no_decision(policy: str, benches: Benches) -> None:
    """Killed between every few calls: it begins anew with the whole table and its memory."""
    bench = benches(JOBS)
    host = bench.remote(policy)

    def now_and_then(number: int) -> None:
        if number % 7 == 6:
            kill(process_of(bench).pid)

    bench.before = now_and_then
    bench.loop(host).run()
    assert bench.decisions == local_decisions(policy)
    assert host.real.tally.starts == 1 + len(bench.decisions) // 7
    assert host.real.tally.failures == 0


def test_a_new_controller_goes_on_with_the_stored_memory(benches: Benches) -> None:
    """The host is closed after some steps; another one begins with what the loop carried."""
    bench = benches(JOBS)
    first = bench.loop(bench.remote(TIRESIAS))
    for _ in range(12):
        first.step()
    assert bench.host
    bench.host.close()
    sealed = first.memory["sealed"]
    assert unseal(sealed)["levels"], "the test shows nothing unless there is something to remember"
    again = bench.loop(bench.remote(TIRESIAS, memory=sealed), memory=first.memory, wake=first.wake)
    again.run()
    assert bench.decisions == local_decisions(TIRESIAS)


def test_an_older_memory_counts_if_the_loop_says_so(benches: Benches) -> None:
    """A decision whose transaction failed never happened: the loop hands over the memory before it."""
    bench = benches(JOBS)
    host = bench.remote("odd:how=tell_seed,folder=/nowhere")
    snapshot = Snapshot(bench.state)
    first = host.decide(snapshot, {})
    second = host.decide(snapshot, first.memory)
    assert unseal(second.memory["sealed"]) == {"calls": 2}
    assert unseal(host.decide(snapshot, first.memory).memory["sealed"]) == {"calls": 2}
    assert unseal(host.decide(snapshot, {}).memory["sealed"]) == {"calls": 1}


def process_of(bench: Bench) -> Any:
    assert bench.host
    return bench.host.real._child


# -- policies that misbehave -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("hang", "did not decide within 3 s"),
        ("swell", "did not decide within 3 s"),
        (
            "fail",
            r"failed: Odd.decide raised ZeroDivisionError: nobody can .* \(odd_policies.py, line \d+\), at",
        ),
        ("die", "broke off: the other side is gone"),
        ("babble", "broke off: what came is no message"),
        ("inject", r"broke off: what came is no message \((os|posix).mkdir is no plain value\)"),
        ("unstorable", r"failed: memory\['seen'\] holds a set, which cannot be stored"),
        ("nothing", "failed: Odd.decide returned None, not a Decision"),
        ("leave", r"failed: Odd.decide raised SystemExit: 3 \(odd_policies.py, line \d+\), at 5 s"),
        (
            "misform",
            r"failed: Odd.decide gave wake=5; expected a Wake, such as Wake\(at_s=snapshot.now \+ 60.0\)",
        ),
        ("spoil", "failed: Odd.decide has changed snapshot.occupancy at 5 s"),
        (
            "gorge",
            r"broke off: it wanted more than 0.75 GiB of memory, .* policy_memory_gib leaves it \(Po.*Memory",
        ),
    ],
)
def test_whatever_it_does_everything_keeps_what_it_has(
    how: str, sentence: str, benches: Benches, tmp_path: Path
) -> None:
    policy = f"odd:how={how},folder={tmp_path}"
    bench = benches("A 2x100 B 2x100@5 C 2x50@10")
    limits = replace(STRICT if how in ("hang", "swell") else PATIENT, memory_gib=0.75)
    host = bench.remote(policy, logs=tmp_path, limits=limits)
    loop = bench.loop(host)
    loop.step()
    running, memory, process = dict(bench.state.grants), loop.memory, process_of(bench)
    assert list(running) == [0]
    loop.step()
    assert bench.state.grants == running
    assert loop.memory is memory
    assert bench.said[-1].is_cut
    assert pytest.approx(bench.state.now, abs=1) == 5.0
    assert re.fullmatch(
        rf"policy {re.escape(policy)} {sentence}.*; everything keeps what it has", host.trouble
    )
    assert not (tmp_path / "pwned").exists()
    if how == "gorge":
        gone_or_zombie(process.pid)
    if how == "hang":
        gone_or_zombie(int((tmp_path / "helper").read_text()))
    if how == "babble":
        assert "to standard output" in (tmp_path / "policy.log").read_text()
    (tmp_path / "well").touch()
    host.real._rest_until = 0.0  # its pause is real time, and simulated time does not wait for it
    loop.run()
    assert host.trouble == ""
    assert (bench.state.phase[:3] == 4).all(), "all jobs are completed in the end"
    assert unseal(loop.memory["sealed"])["calls"] < 1000, "what a failed call left in the memory is gone"


def test_pauses_double_and_no_event_shortens_them(benches: Benches, tmp_path: Path) -> None:
    bench = benches("A 2x100")
    host = bench.remote(f"odd:how=fail,folder={tmp_path}", limits=Timeouts(retry_s=100.0))
    bench.state.submit(0)
    memory = host.decide(Snapshot(bench.state), {}).memory
    failed = host.decide(Snapshot(bench.state), memory)
    assert (failed.wake.at_s, int(failed.wake.on)) == (100.0, 0)
    calls = host.real.tally.failures
    (tmp_path / "well").touch()
    again = host.decide(Snapshot(bench.state), memory)
    assert again.is_cut
    assert again.wake.at_s == pytest.approx(100.0, abs=60.0)
    assert host.real.tally.failures == calls, "it was not even asked"
    (tmp_path / "well").unlink()
    host.real._rest_until = 0.0
    assert host.decide(Snapshot(bench.state), memory).wake.at_s == 200.0


def test_killed_while_it_decides(benches: Benches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLEEPY_FOLDER", str(tmp_path))
    bench = benches("A 2x100")
    host = bench.remote("sleepy", limits=PATIENT)
    bench.state.submit(0)
    found: list[Decision] = []
    host.warm()
    asking = threading.Thread(target=lambda: found.append(host.decide(Snapshot(bench.state), {})))
    asking.start()
    wait_for(tmp_path / "asked")
    with pytest.raises(Busy, match="is computing a decision"):
        host.explain([0], timeout_s=0.05)
    kill(process_of(bench).pid)
    asking.join(timeout=60.0)
    assert found[0].is_cut
    assert not found[0].grants
    assert "broke off: the other side is gone" in host.trouble
    (tmp_path / "go").touch()
    host.real._rest_until = 0.0
    assert [grant.job for grant in host.decide(Snapshot(bench.state), found[0].memory).grants] == [0]
    assert host.trouble == ""


def wait_for(path: Path) -> None:
    """Until another process has made `path`."""
    pause = threading.Event()
    for _ in range(6000):
        if path.exists():
            return
        pause.wait(0.01)
    raise AssertionError(f"{path.name} never came")


def test_the_child_dies_with_its_parent(tmp_path: Path) -> None:
    """The parent is killed while its policy hangs."""
    script = tmp_path / "parent.py"
    script.write_text(
        "import sys\n"
        "from pathlib import Path\n"
        "from policy_bench import Bench\n"
        "from rota.scheduler.snapshot import Snapshot\n"
        "from rota.server.policy.remote import Timeouts\n"
        "bench = Bench('A 2x100')\n"
        f"host = bench.remote('odd:how=hang,folder={tmp_path}', limits=Timeouts(deadline_s=60.0))\n"
        "bench.state.submit(0)\n"
        "memory = host.decide(Snapshot(bench.state), {}).memory\n"
        "print(host.real._child.pid, flush=True)\n"
        "host.decide(Snapshot(bench.state), memory)\n"
    )
    tests = str(Path(__file__).parents[1])
    env = os.environ | {"PYTHONPATH": os.pathsep.join([tests, os.environ["PYTHONPATH"]])}
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, env=env, text=True
    ) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        wait_for(tmp_path / "helper")
        helper = psutil.Process(int((tmp_path / "helper").read_text()))
        parent.kill()
    gone_or_zombie(child)
    helper.kill()  # a helper of a hanging policy may outlive it when the controller is killed, too


def test_a_closed_host_leaves_no_process(benches: Benches) -> None:
    bench = benches("A 2x100")
    host = bench.remote("fifo")
    host.warm()
    pid = process_of(bench).pid
    host.set_shadow("srtf")
    bench.host = None
    host.close()
    gone_or_zombie(pid)
    assert not host._feed.followers


def test_an_unwritable_log_folder_stops_nobody(benches: Benches, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    bench = benches("A 2x100")
    host = bench.remote("fifo", logs=tmp_path / "file" / "logs")
    bench.loop(host).run()
    assert bench.state.phase[0] == 4
    assert host.trouble == ""


def test_a_process_that_cannot_be_started_is_a_trouble(
    benches: Benches, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = benches("A 2x100")
    host = bench.remote("fifo")
    bench.state.submit(0)
    with monkeypatch.context() as broken:
        broken.setattr(sys, "executable", "/nowhere/python")
        assert host.decide(Snapshot(bench.state), {}).is_cut
        assert "its process cannot be started (No such file or directory)" in host.trouble
        host.real._rest_until = 0.0
        host.note()
        assert "cannot begin" in host.trouble or "cannot be started" in host.trouble
    host.real._rest_until = 0.0
    assert host.decide(Snapshot(bench.state), {}).grants
    assert host.trouble == ""


# -- why, and for a file -----------------------------------------------------------------------------


def test_explanations_are_those_of_the_loop_s_own_process(benches: Benches) -> None:
    """After each step, every waiting job: the same constraints in the same order."""
    local, bench = Bench(JOBS), benches(JOBS)
    here, there = local.loop(parse_policy(TIRESIAS).make()), bench.loop(bench.remote(TIRESIAS))
    host, asked = bench.host, 0
    assert host
    while here.step() and there.step():
        bench.state.paced |= set(range(bench.state.submitted))
        host.note()
        rows = local.state.waiting.sorted().tolist()
        last = local.said[-1]
        ranking = Decision({}, wake=last.wake, reasons=last.reasons, ranking=last.ranking)
        why = host.explain(rows, timeout_s=60.0) if rows else {}
        for row in rows:
            expected = explain(here.snapshot(), ranking, row)
            found = [one for one in why[row].constraints if one.code is not Code.PREEMPTED]
            assert found == list(expected) or repr(found) == repr(list(expected))
            ahead = last.ranking.ahead(here.snapshot(), row) if last.ranking else []
            assert (why[row].position, why[row].ahead) == (len(ahead) + 1, list(ahead)[:3])
            asked += 1
    assert asked > 10


def test_a_displaced_job_knows_for_whom(benches: Benches) -> None:
    bench = benches("A 4x100 B 4x10@5")
    loop = bench.loop(bench.remote("srtf"))
    loop.step()
    loop.step()
    assert bench.host
    bench.host.note()
    why = bench.host.explain([0, 1], timeout_s=60.0)
    assert [(one.code, one.requested, one.detail) for one in why[0].constraints] == [
        (Code.PREEMPTED, 4, "B"),
        (Code.RESOURCES, 4, ""),
    ]
    assert why[0].position == 1
    assert why[1].constraints == (), "it runs"


def revived(bench: Bench) -> Any:
    """The host of a bench whose process was killed, and has been begun anew by a note."""
    assert bench.host
    kill(process_of(bench).pid)
    with pytest.raises(Busy, match=r"is being started|has died"):
        bench.host.explain([1])
    bench.host.note()
    return bench.host


def test_a_note_brings_a_dead_process_back(benches: Benches) -> None:
    bench = benches("A 4x100 B 4x10@5")
    loop = bench.loop(bench.remote("fifo"))
    loop.step()
    loop.step()
    host = revived(bench)
    assert host.explain([1], timeout_s=60.0)[1].constraints


def test_before_its_first_decision_a_new_process_says_that_there_was_none(benches: Benches) -> None:
    """B comes within a round of `gavel`, and could start."""
    bench = benches("A 1x1000 B 1x10@5")
    loop = bench.loop(bench.remote("gavel:objective=isolated"))
    loop.step()
    loop.step()
    host = revived(bench)
    why = host.explain([1], timeout_s=60.0)[1]
    assert [one.detail for one in why.constraints] == [NOT_ASKED.detail]


def test_what_an_explanation_breaks_is_said(benches: Benches) -> None:
    bench = benches("A 4x100 B 4x100")
    bench.loop(bench.remote("inexplicable")).step()
    assert bench.host
    with pytest.raises(PolicyError, match="IndexError"):
        bench.host.explain([1], timeout_s=60.0)


def test_an_order_that_names_a_job_that_does_not_exist_is_refused(benches: Benches) -> None:
    bench = benches("A 4x100 B 4x100")
    bench.loop(bench.remote("off_by_one")).step()
    assert bench.host
    expected = "expected a row from 0 on and below 2, the jobs submitted so far"
    with pytest.raises(PolicyError, match=f"^off_by_one: ranking.ahead gave rows=2; {expected}$"):
        bench.host.explain([1], timeout_s=60.0)
    with pytest.raises(PolicyError, match=f"^off_by_one: ranking.in_turn gave rows=-1; {expected}$"):
        bench.host.order(timeout_s=60.0)


def test_that_a_process_cannot_begin_is_said_no_longer_than_that_is_so(
    benches: Benches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a quiet cluster, where the policy is not asked: nothing else would say that it works again."""
    bench = benches("A 2x100")
    host = bench.remote("fifo")
    bench.state.submit(0)
    host.decide(Snapshot(bench.state), {})
    kill(process_of(bench).pid)
    with monkeypatch.context() as broken:
        broken.setattr(sys, "executable", "/nowhere/python")
        host.note()
        assert "cannot be started" in host.trouble
        assert host.rests_s > 0.0
    host.real._rest_until = 0.0
    host.note()
    assert host.trouble == ""


def test_a_frozen_moment_is_the_present_one(benches: Benches) -> None:
    bench = benches(JOBS)
    loop = bench.loop(bench.remote(TIRESIAS))
    for _ in range(9):
        loop.step()
    assert bench.host
    bench.state.paced |= set(range(bench.state.submitted))
    bench.host.note()
    frozen = load(BytesIO(bench.host.freeze(timeout_s=60.0)))
    assert digest(frozen.packed["state"]) == digest(pack(Snapshot(bench.state))["state"])
    assert frozen.policy == TIRESIAS
    assert digest(frozen.memory) == digest(unseal(loop.memory["sealed"]))


def test_many_threads_ask_while_it_decides(benches: Benches) -> None:
    bench = benches(JOBS)
    loop = bench.loop(bench.remote(TIRESIAS))
    loop.step()
    host, over, answers = bench.host, threading.Event(), []
    assert host

    def ask() -> None:
        while True:
            answers.append(host.explain([0], timeout_s=60.0))
            if over.is_set():
                return

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    loop.run()
    over.set()
    for thread in threads:
        thread.join()
    assert bench.decisions == local_decisions(TIRESIAS)
    assert len(answers) >= len(threads)


# -- the shadow --------------------------------------------------------------------------------------


def test_a_shadow_says_what_it_would_do(benches: Benches) -> None:
    """FIFO runs A; SRTF would have put B in its place, and then C."""
    bench = benches("A 4x100 B 2x10@5 C 2x20@7")
    host = bench.remote("fifo")
    host.set_shadow("srtf")
    bench.loop(host).run()
    assert host.shadow
    assert host.shadow.settle(60.0)
    assert host.shadow.trouble == ""
    moments = {moment.now: moment.would for moment in host.shadow_moments()}
    assert moments[0.0] == []
    assert moments[5.0] == ["would start B on n0:0,1", "would preempt A"]
    assert moments[7.0] == ["would start B on n0:0,1", "would start C on n0:2,3", "would preempt A"]
    assert bench.decisions == local_decisions("fifo", "A 4x100 B 2x10@5 C 2x20@7")


def test_a_slow_shadow_delays_nobody(
    benches: Benches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLEEPY_FOLDER", str(tmp_path))
    bench = benches(JOBS)
    host = bench.remote("fifo", limits=PATIENT)
    host.set_shadow("sleepy")
    loop = bench.loop(host)
    loop.step()
    wait_for(tmp_path / "asked")
    loop.run()  # to the end, while the shadow thinks about the first moment
    assert bench.decisions == local_decisions("fifo")
    assert not host.shadow_moments()
    (tmp_path / "go").touch()
    assert host.shadow
    assert host.shadow.settle(60.0)
    assert [moment.now for moment in host.shadow_moments()] == [0.0, bench.moments[-1]]
    assert host.shadow.skipped == len(bench.decisions) - 2


def test_a_shadow_that_fails_is_mentioned_and_begins_anew(benches: Benches, tmp_path: Path) -> None:
    bench = benches(JOBS)
    host = bench.remote("fifo")
    host.set_shadow(f"odd:how=die,folder={tmp_path}")
    assert host.shadow
    loop = bench.loop(host)
    troubles = []
    for number in range(8):
        if number == 5:
            (tmp_path / "well").touch()
        loop.step()
        assert host.shadow.settle(60.0)
        troubles.append(host.shadow.trouble)
    assert "the other side is gone" in troubles[4]
    assert troubles[-1] == ""
    assert host.trouble == ""
    host.set_shadow(None)
    assert host.shadow_moments() == []


def test_a_shadow_is_told_what_it_needs(benches: Benches) -> None:
    bench = benches(JOBS)
    host = bench.remote("fifo")
    host.set_shadow("srtf")
    assert host.needs == {Knowledge.DURATION}


# -- costs and rules ---------------------------------------------------------------------------------


def test_among_equals_the_cheapest_gives_way(benches: Benches) -> None:
    """Two jobs of one rank run; a third of a higher one takes the place of the one that loses least."""
    jobs, priority = "A 2x100 B 2x100@1 C 2x100@5", [0, 0, 1]
    kept = {}
    for name, costs in (("A", {0: 5.0, 1: 50.0}), ("B", {0: 50.0, 1: 5.0}), ("none", None)):
        bench = benches(jobs, priority=priority)
        host = bench.remote("levelled", costs=None if costs is None else lambda costs=costs: costs)
        loop = bench.loop(host)
        for _ in range(3):
            loop.step()
        kept[name] = list(bench.said[-1].preempt)
        gone = kept[name][0]
        assert bench.state.grants[2].devices == ((0, 1) if gone == 0 else (2, 3))
        before = bench.state.starts.tolist()
        loop.run(until_s=50.0)
        assert bench.state.starts.tolist() == before, "and stays where it is: equals do not displace equals"
    assert kept == {"A": [0], "B": [1], "none": [1]}


def test_a_refused_preemption_is_asked_for_again_when_it_is_allowed(benches: Benches) -> None:
    """SRTF wants B in the place of A, which has run for 5 of its 60 seconds."""
    bench = benches("A 4x500 B 4x10@5")
    loop = bench.loop(bench.remote("srtf"), rules=MinimumRun(60.0))
    loop.step()
    loop.step()
    assert list(bench.state.grants) == [0]
    assert "has run for 5s of its minimum of 1m" in bench.state.refused[0]
    assert loop.wake.at_s == 60.0
    loop.step()
    assert (bench.state.now, list(bench.state.grants)) == (60.0, [1])


# -- what is told, and to whom -----------------------------------------------------------------------


def test_only_changed_rows_are_told() -> None:
    told, column = KnowledgeTold(), np.array([1.0, np.nan, 3.0, 0.0])
    known = {Knowledge.DURATION: Known(column, Provenance.USER)}
    needs = {Knowledge.DURATION, Knowledge.SKEW}
    (first,) = told.news(known, needs, 3)
    assert first.rows is None
    assert told.news(known, needs, 3) == []
    column[[0, 3]] = [7.0, 9.0]
    (second,) = told.news(known, needs, 3)
    assert second.rows is not None
    assert (second.rows.tolist(), second.values.tolist()) == ([0], [7.0])
    (third,) = told.news(known, needs, 4)
    assert third.rows is not None
    assert third.rows.tolist() == [3]


def test_of_a_table_only_changed_rows_and_new_arrays_are_told() -> None:
    """The other side puts together what this side has."""
    told, heard, needs = KnowledgeTold(), KnowledgeHeard(), {Knowledge.SCALING}
    curve, rates = np.array([0, 0, 1]), np.array([[0.0, 1.0]])

    def news(rates: Array) -> list[tuple[list[str], list[int] | None, list[str]]]:
        known = {Knowledge.SCALING: Known(Table({"curve": curve}, {"rates": rates}), Provenance.MEASURED)}
        said = told.news(known, needs, 2)
        heard.learn(pickle.loads(pickle.dumps(said)))
        there = heard.known[Knowledge.SCALING].upto(2)
        assert there.by_row["curve"].tolist() == curve[:2].tolist()
        assert there.shared["rates"].tolist() == rates.tolist()
        values: Any = [rows.values for rows in said]
        which = [None if rows.rows is None else rows.rows.tolist() for rows in said]
        return [(list(v.by_row), w, list(v.shared)) for v, w in zip(values, which, strict=True)]

    assert news(rates) == [(["curve"], None, ["rates"])]
    assert news(rates) == news(rates.copy()) == []
    curve[[1, 2]] = 1, 2
    assert news(rates) == [(["curve"], [1], [])]
    assert news(np.array([[0.0, 1.0], [0.0, 2.0]])) == [(["curve"], [], ["rates"])]


def test_memories_survive_the_seal() -> None:
    memory: Memory = {"levels": {3: 1}, "rates": np.arange(4.0), "text": "ü", "none": None}
    again = unseal(seal(memory))
    assert digest(again) == digest(memory)
    assert unseal(seal({})) == unseal(None) == {}


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("nonesuch", "there is no policy 'nonesuch'"),
        ("tiresias:limits=9/3", "do not rise"),
        ("srtf", "policy 'srtf' needs duration, which this cluster does not provide"),
        (
            "afs",
            "needs duration, scaling, which this cluster does not provide; .* no more than service history",
        ),
    ],
)
def test_a_policy_that_cannot_run_is_refused(policy: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        check_policy(policy, {Knowledge.SERVICE_HISTORY})


def test_a_policy_of_a_user_is_found_by_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(check_policy("odd:how=fail", frozenset())) == "odd:how=fail"
    monkeypatch.setenv(MODULES, "odd_policies, no_such_module")
    with pytest.raises(InputError, match="module 'no_such_module' cannot be imported"):
        check_policy("fifo", frozenset())
