"""`rota.simulate`: three lines, the same answer on any number of processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rota
from play import trace_of
from rota.errors import InputError, PolicyError
from rota.model.jobs import RecordedRun
from rota.model.trace import Trace
from rota.reports.calibration import COMPARED
from rota.reports.metrics import METRICS
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.snapshot import Snapshot
from rota.systems.fifo.system import Fifo
from rota.systems.srtf.system import srtf
from rota.worlds.simulated import many
from tiers import first

JOBS = "A 4x100 B 8x50@10 C 2x30@20 D 1x200@30 E 4x10@40"


def same(one: rota.Results, other: rota.Results) -> bool:
    """Every table of every record is equal."""
    return len(one.records) == len(other.records) and all(
        a.jobs.equals(b.jobs) and a.intervals.equals(b.intervals) and a.decisions == b.decisions
        for a, b in zip(one.records, other.records, strict=True)
    )


@pytest.mark.soak
@pytest.mark.parametrize("workers", first(1, [3, 2]))
def test_any_number_of_workers(workers: int) -> None:
    """Results do not depend on where they were computed."""
    trace = rota.generate(400, seed=3, load=1.0, cluster=32)
    asked: dict[str, Any] = {
        "cluster": "4x8:V100",
        "policies": ["fifo", "srtf", "las", "tiresias"],
        "faults": "mtbf=10d,repair=1h",
        "seeds": 2,
    }
    alone = rota.simulate(trace, workers=1, **asked)
    assert same(alone, rota.simulate(trace, workers=workers, **asked))
    assert [record.policy for record in alone.records[::2]] == asked["policies"]


def test_a_frame_compares_policies() -> None:
    """One row per run, every metric a column, types that do not depend on the values."""
    drawn = {"knowledge": "duration=noisy", "seeds": 2}  # fifo reads no durations
    result = rota.simulate(trace_of(JOBS), cluster="1x8", policies="fifo,srtf", **drawn)
    frame = result.frame()
    assert frame["policy"].to_list() == ["fifo", "srtf", "srtf"]
    assert frame["seed"].to_list() == [0, 0, 1]
    assert set(frame.columns) == {"policy", "observed", "seed", *METRICS}
    assert frame["mean_waiting_s"].to_list() == [summary["mean_waiting_s"] for summary in result.summaries]
    assert frame.schema["finished"] == pl.Int64
    assert frame.schema["deadline_share"] == pl.Float64, "though nobody has a deadline"


NOT_AS_EXPECTED: list[tuple[dict[str, Any], str]] = [
    ({"cluster": 64}, r"cluster.*64 is no cluster; expected a text such as '8x8:V100'"),
    ({"cluster": ["8x8"]}, r"\['8x8'\] is no cluster"),
    ({"policies": [Fifo]}, r"Fifo is a class; expected an instance, Fifo\(\)"),
    ({"policies": Fifo}, r"Fifo is a class; expected an instance, Fifo\(\)"),
    ({"policies": [7]}, r"7 is no policy; expected names such as 'tiresias'"),
    ({"trace": 64}, r"64 is no trace; expected a file, or a Trace"),
    ({"trace": np.zeros(999)}, "an object of type ndarray is no trace"),
]


@pytest.mark.parametrize(("wrong", "says"), NOT_AS_EXPECTED)
def test_what_is_not_as_expected_is_one_sentence(wrong: dict[str, Any], says: str) -> None:
    asked: dict[str, Any] = {"trace": trace_of(JOBS), "cluster": "1x8", "policies": "fifo"}
    with pytest.raises(InputError, match=says):
        rota.simulate(**(asked | wrong))


def test_one_instance_needs_no_list() -> None:
    alone = rota.simulate(trace_of(JOBS), cluster="1x8", policies=Fifo())  # type: ignore[call-arg]
    assert alone.records[0].policy == "Fifo"


@pytest.mark.slow
def test_errors_travel() -> None:
    """What fails in a worker fails here, with its type and its words."""
    trace = trace_of(JOBS)
    asked: dict[str, Any] = {"cluster": "1x8", "policies": "fifo,partition:by=vc"}
    with pytest.raises(InputError) as here:
        rota.simulate(trace, workers=1, **asked)
    with pytest.raises(InputError) as there:
        rota.simulate(trace, workers=2, **asked)
    assert str(here.value) == str(there.value)


def test_columns_stay_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy that writes into a column fails in a worker as it does here."""
    import pickle

    copy: Trace = pickle.loads(pickle.dumps(trace_of(JOBS), 5))
    with pytest.raises(ValueError, match="read-only"):
        copy.jobs.gpus[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        copy.truth.duration_s[0] = 1


@pytest.mark.soak
def test_script_without_guard(tmp_path: Path) -> None:
    """Three lines in a file, no `if __name__` around them, and a policy of one's own: all cores are used."""
    script = tmp_path / "three.py"
    script.write_text(
        "import rota\n"
        "from rota.scheduler.policy import register\n"
        "from rota.systems.fifo.system import Fifo\n"
        "@register('mine', 'Serve in order of submission')\n"
        "class Mine(Fifo):\n"
        "    pass\n"
        "trace = rota.generate(50, seed=1)\n"
        "result = rota.simulate(trace, cluster='4x8', policies=['mine', 'fifo', 'srtf'], workers=2)\n"
        "assert result['mine'].jobs.equals(result['fifo'].jobs)\n"
        "print(result.report('out'))\n"
    )
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "out/report.html\n"), done.stderr
    assert (tmp_path / "out/mine/summary.json").exists()


class Counting:
    """SRTF that counts in an attribute, as a cache might."""

    needs = srtf().needs

    def __init__(self) -> None:
        self.inner = srtf()
        self.calls = 0

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        self.calls += 1
        return self.inner.decide(snapshot, memory)


def test_instances() -> None:
    """An instance is copied for each run, so that no run sees the caches of another."""
    policy = Counting()
    results = rota.simulate(trace_of(JOBS), cluster="1x8", policies=[policy, "srtf"], seeds=2)
    assert policy.calls == 0
    assert results["Counting"].jobs.equals(results["srtf"].jobs)


class Rigid(Counting):
    """One that cannot be copied, as those with compiled parts."""

    def __deepcopy__(self, memo: object) -> Rigid:
        raise TypeError("cannot pickle")


def test_what_cannot_be_copied_runs_alone() -> None:
    policy = Rigid()
    assert rota.simulate(trace_of(JOBS), cluster="1x8", policies=policy).records[0].policy == "Rigid"
    assert policy.calls > 0
    with pytest.raises(PolicyError, match="Rigid has compiled parts"):
        rota.simulate(trace_of(JOBS), cluster="1x8", policies=Rigid(), seeds=2)


@pytest.mark.slow
def test_progress() -> None:
    """Each run tells its end; numbers never exceed the jobs there are."""
    told: list[tuple[str, int, int]] = []
    trace = rota.generate(3000, seed=1, load=0.8, cluster=64)
    rota.simulate(
        trace, cluster="8x8", policies="fifo,srtf", workers=2, progress=lambda *news: told.append(news)
    )
    assert {("fifo", 3000, 3000), ("srtf", 3000, 3000)} <= set(told)
    assert all(0 <= done <= total == 3000 for _, done, total in told)
    assert len(told) > 4


def seen(shift_s: float = 0.0) -> Trace:
    """A trace whose recorded starts are those of FIFO on 8 GPUs that passes by what does not fit."""
    trace = trace_of(JOBS)
    start_s = np.array([0.0, 230.0, 20.0, 30.0, 100.0]) + shift_s
    return Trace(
        trace.jobs, trace.truth, "test", "test", RecordedRun(start_s, start_s + trace.truth.duration_s)
    )


def test_calibration_is_exact_where_the_site_did_the_same() -> None:
    results = rota.simulate(seen(), cluster="1x8", policies="srtf")
    assert [record.policy for record in results.records] == ["srtf", "fifo:skip=yes", "observed"]
    assert results.calibration.errors == pytest.approx(dict.fromkeys(COMPARED, 0), abs=1e-9)
    assert (results.calibration.error, results.calibration.agrees) == (0, True)


def test_calibration_sees_a_difference() -> None:
    """Starts 50 s later than FIFO's: JCT and delay are 50 s longer than in the replay."""
    results = rota.simulate(seen(50.0), cluster="1x8", policies="fifo:skip=yes")
    assert results.calibration.errors is not None
    ours = results["fifo:skip=yes"].jobs
    mean_jct_s = (ours["finish_s"] - ours["submit_s"]).mean()
    assert results.calibration.errors["mean_jct_s"] == pytest.approx(-50 / (mean_jct_s + 50))


def test_the_sites_policy_is_the_one_that_fits_unless_it_is_named() -> None:
    """Nobody states limits: no site could backfill, and the batch log is not of one that did."""
    trace = seen()
    log = Trace(trace.jobs, trace.truth, "log", "sacct", trace.observed)
    found = rota.simulate(log, cluster="1x8", policies="fifo")
    assert found.site_policy == "fifo:skip=yes"
    assert found.fit is not None
    assert list(found.fit.misplaced_s) == ["fifo:skip=yes", "fifo"]
    assert "which fits best of the 2 policies tried" in found.calibration.text
    named = rota.simulate(log, cluster="1x8", policies="srtf", site_policy="fifo:backfill=easy")
    assert (named.site_policy, named.fit) == ("fifo:backfill=easy", None)


def test_failing_attempts_can_be_left_out() -> None:
    """Without its failing attempt, a job ends that much earlier."""
    from rota.model.jobs import Truth

    trace = trace_of("A 1x100")
    failing = Trace(trace.jobs, Truth.build([100.0], failures={0: (40.0,)}), "test", "test")
    both = rota.simulate(failing, cluster="1x1", policies="fifo")
    last = rota.simulate(failing, cluster="1x1", policies="fifo", failures=False)
    assert (both["fifo"].jobs["finish_s"][0], last["fifo"].jobs["finish_s"][0]) == (140.0, 100.0)


def test_bounds_stand_beside_policies() -> None:
    results = rota.simulate(trace_of(JOBS), cluster="1x8", policies="fifo,bound:all_at_once")
    bound = results["bound:all_at_once"].jobs
    assert (bound["start_s"] - bound["submit_s"]).to_list() == [0.0] * 5
    with pytest.raises(InputError, match="did you mean 'bound:all_at_once'"):
        rota.simulate(trace_of(JOBS), cluster="1x8", policies="bound:all_at_one")


@pytest.mark.slow
def test_processes_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker outlives the call, also when a policy fails."""
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def start(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(real(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(many.subprocess, "Popen", start)
    with pytest.raises(InputError):
        rota.simulate(trace_of(JOBS), cluster="1x8", policies="fifo,partition:by=vc", workers=2)
    assert len(started) == 2
    assert all(process.poll() is not None for process in started)


def test_unknown_result() -> None:
    with pytest.raises(KeyError):
        rota.simulate(trace_of(JOBS), cluster="1x8")["srtf"]


def test_guard_errors_keep_their_rule() -> None:
    """Pickled, as between processes, an error still knows which rule was broken."""
    import pickle

    from rota.errors import GuardError

    copy = pickle.loads(pickle.dumps(GuardError("gang", "job 7 is split")))
    assert (copy.rule, str(copy)) == ("gang", "job 7 is split")


def test_at_a_prompt_results_and_traces_are_one_line(tmp_path: Path) -> None:
    """Every column of every job stood there, thousands of lines for what a person types first."""
    (tmp_path / "jobs.csv").write_text("submit_s,gpus,duration_s\n0,1,60\n0,1,30\n")
    results = rota.simulate(tmp_path / "jobs.csv", cluster="1x1", policies="fifo,srtf", seeds=2)
    trace = f"<Trace of 2 jobs: {tmp_path}/jobs.csv (plain)>"
    assert repr(results.trace) == trace
    assert repr(results) == f"<Results of fifo, srtf: {trace} on 1x1 (1 GPU in 1 node)>"
    assert str(results) == results.table()
    with pytest.raises(KeyError, match="there is no run of 'tiresias'; there are those of fifo, srtf"):
        results["tiresias"]


def test_a_run_is_repeated_from_its_record(tmp_path: Path) -> None:
    """Faults, slow-downs, noise and others were in no record, though it said to be enough for that."""
    trace = rota.generate(60, seed=2, load=1.2, cluster=16)
    file = tmp_path / "jobs.csv"
    rota.write(trace, file)
    options: dict[str, Any] = {
        "knowledge": "duration=noisy:0.5",
        "costs": "start=20s,restore=30s",
        "faults": "mtbf=6h,repair=1h",
        "deadlines": "0.5:2",
        "failures": False,
        "retries": 0,
        "slowdowns": "spread=0.6",
        "can": "checkpoint",
        "observation_noise": 0.1,
    }
    ran = rota.simulate(file, cluster="2x8", policies="srtf", seed=5, **options)["srtf"]
    assert ran.provenance["options"] == options
    said = dict(ran.provenance)
    again = rota.simulate(file, cluster="2x8", policies=str(said["policy"]), seed=5, **said["options"])[
        "srtf"
    ]  # type: ignore[arg-type]
    assert again.jobs.equals(ran.jobs)
    plain = rota.simulate(file, cluster="2x8", policies="srtf", seed=5)["srtf"]
    assert not plain.jobs.equals(ran.jobs)
    assert "options" not in plain.provenance
