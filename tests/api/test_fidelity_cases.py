"""Fidelity cases: a toy case by hand, every way to get a case wrong, and the authors' own results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from rota.api.fidelity import replay_case, run_case
from rota.cli.app import app
from rota.errors import InputError
from shared_data import needs_shared, reference

FOLDER = Path(__file__).parents[2] / "benchmarks" / "fidelity"
LONG = {
    "gavel-cs300-fifo",
    "gavel-cs300-fifo-pairs",
    "gavel-cs300-fifo-perf",
    "gavel-cs300-finish-time",
    "gavel-cs300-finish-time-pairs",
    "gavel-cs300-finish-time-perf",
    "gavel-cs300-gandiva",
    "gavel-cs300-isolated",
    "gavel-cs300-max-min",
    "gavel-cs300-max-min-perf",
    "gavel-cs300-throughput-perf",
    "gavel-cs300-hierarchy-perf",
    "gavel-cs300-makespan-perf",
    "gavel-cs300-max-min-pairs",
    "tiresias-gandiva-itp06",
    "helios-itp1day-sjf",
    "helios-itp1day-srtf",
    "lucid-itp1day-sjf",
    "lucid-itp1day-srtf",
    "pollux-w6f40-optimus",
    "pollux-w6f40-tiresias",
    "lucid-itp1day-fifo",
    *(path.stem for path in FOLDER.glob("tiresias-itp06-*.yaml")),
    *(path.stem for path in FOLDER.glob("elasticflow-[ip]*.yaml")),
    "gavel-phys-las-fifo",
    "gavel-phys-las-finish-time",
    "gavel-phys-las-hierarchy",
    "gavel-phys-las-makespan",
    "gavel-phys-las-max-min",
    "gavel-phys-las-pt-fifo",
    "gavel-phys-las-pt-finish-time-perf",
    "gavel-phys-las-pt-max-min",
    "gavel-cs300-allox",
    *(path.stem for path in FOLDER.glob("pollux-*.yaml") if not path.stem.startswith("pollux-w6f40-")),
}
"""Shorter cases in the same simulator remain; these are replayed with the soak tests."""
LONGEST = {f"pollux-{load}{seed}-pollux" for load in ("", "15", "20") for seed in ("w1", "w3", "w6")}
"""Minutes each; `pollux-05w6-pollux` is of the same kind, and so are those that look less often."""


def _marks(case: str) -> list[pytest.MarkDecorator]:
    if case in LONGEST:
        return [pytest.mark.deep]
    return [pytest.mark.soak] if case in LONG else []


CASES = [
    pytest.param(path, id=path.stem, marks=_marks(path.stem))
    for family in ("tiresias", "elasticflow", "gavel", "helios", "lucid", "pai", "pollux")
    for path in sorted(FOLDER.glob(f"{family}-*.yaml"))
]

TRACE = """job_id,num_gpu,submit_time,iterations,model_name,duration,interval
7,2,0,1,vgg16,10,0
8,4,0,1,vgg16,10,0
9,2,0,1,vgg16,10,0
"""
TIMES = "id,sub,end\n7,0,10\n8,0,20\n9,0,12\n"
CASE = {
    "name": "toy",
    "reference": "by hand",
    "trace": "jobs.csv",
    "format": "tiresias",
    "cluster": "1x4",
    "policy": "fifo:skip=yes",
    "semantics": "tiresias",
    "results": {"file": "times.csv", "job": "id", "submit": "sub", "finish": "end"},
    "tolerance": {"equal_share": 0.6, "mean_within": 0.05},
}


def write(folder: Path, case: object, times: str = TIMES) -> Path:
    """A data directory with a trace and results, and a case beside it."""
    (folder / "data").mkdir()
    (folder / "data" / "jobs.csv").write_text(TRACE)
    (folder / "data" / "times.csv").write_text(times)
    path = folder / "case.yaml"
    path.write_text(case if isinstance(case, str) else yaml.safe_dump(case))
    return path


def test_a_case_is_replayed_and_compared(tmp_path: Path) -> None:
    """FIFO that skips ends the jobs at 10, 20 and 10; the results say 12 for the last."""
    found = run_case(write(tmp_path, CASE), tmp_path / "data")
    assert (found.jobs, found.equal, found.worst_job, found.worst_s) == (3, 2, "9", -2.0)
    assert (found.ours_s, found.theirs_s) == (pytest.approx(40 / 3), 14.0)
    assert found.holds
    assert found.engine_seconds > 0


@pytest.mark.parametrize(
    ("vary", "exit_code", "says"),
    [
        ("skip=yes/no", 0, "toy, skip=no"),
        ("skip=no", 1, "1 of 1 case differs by more than promised"),
        ("skip=perhaps", 2, "skip=perhaps is not yes or no"),
        ("skip", 2, "expected a parameter with values"),
    ],
)
def test_the_band_that_a_parameter_spans(tmp_path: Path, vary: str, exit_code: int, says: str) -> None:
    """Without skipping the second of three waits, and the third behind it: one of two values is enough."""
    path = write(tmp_path, CASE | {"policy": "fifo"})
    asked = ["fidelity", str(path), "--data", str(tmp_path / "data"), "--vary", vary]
    outcome = CliRunner().invoke(app, asked)
    assert outcome.exit_code == exit_code, outcome.output
    assert says in " ".join(outcome.output.split())


def test_several_runs_and_some_of_the_results(tmp_path: Path) -> None:
    """Of a policy without chance three runs are as one; other results of the file do not count."""
    times = "kind,id,sub,end\nlas,7,0,99\nfifo,7,0,10\nfifo,8,0,20\nfifo,9,0,12\n"
    results = CASE["results"] | {"where": {"kind": "fifo"}}  # type: ignore[operator]
    found = run_case(write(tmp_path, CASE | {"seeds": 3, "results": results}, times), tmp_path / "data")
    assert (found.jobs, found.equal, found.worst_s) == (3, 2, -2.0)
    assert found.ours_s == pytest.approx(40 / 3)


def test_times_in_minutes(tmp_path: Path) -> None:
    """`unit_s` converts the columns of the results."""
    results = {"file": "times.csv", "job": "id", "jct": "minutes", "unit_s": 60.0}
    times = "id,minutes\n7,0.16666667\n8,0.33333333\n9,0.16666667\n"
    assert run_case(write(tmp_path, CASE | {"results": results}, times), tmp_path / "data").verdict == "exact"


PLAIN = "job_id,submit_s,gpus,duration_s,limit_s\n7,0,4,10,100\n8,1,4,9,50\n9,1,4,8,60\n"


@pytest.mark.parametrize(
    ("knowledge", "ends"), [({"duration": "user"}, (10, 19, 27)), ({}, (10, 27, 18)), (None, (10, 27, 18))]
)
def test_a_case_states_what_policies_are_told(
    knowledge: dict[str, str] | None, ends: tuple[int, ...], tmp_path: Path
) -> None:
    """By what users say 8 is shorter than 9; in truth it is the other way round."""
    times = "id,sub,end\n" + "".join(f"{7 + i},{min(i, 1)},{end}\n" for i, end in enumerate(ends))
    case = CASE | {"policy": "sjf", "format": "plain"}
    path = write(tmp_path, case if knowledge is None else case | {"knowledge": knowledge}, times)
    (tmp_path / "data" / "jobs.csv").write_text(PLAIN)
    assert run_case(path, tmp_path / "data").verdict == "exact"


def test_service_history_is_handed_to_the_policy(tmp_path: Path) -> None:
    """A policy that needs past services gets those of the file."""
    case = CASE | {"policy": "tiresias:order=gittins", "service_history": {"file": "past.csv"}}
    path = write(tmp_path, case)
    with pytest.raises(
        InputError, match=r"past\.csv: cannot be read \(No such file or directory\); expected CSV$"
    ):
        run_case(path, tmp_path / "data")
    (tmp_path / "data" / "past.csv").write_text("gpu_s\n20\n40\n")
    assert run_case(path, tmp_path / "data").jobs == 3


def test_a_case_takes_some_rows_and_makes_them_elastic(tmp_path: Path) -> None:
    """Of two workloads in one table the one that is named, whose jobs may have more than they ask for."""
    rows = "job_id,submit_s,gpus,duration_s,group\n7,0,2,10,a\n8,0,2,10,b\n"
    case = CASE | {"policy": "afs", "format": "plain", "where": {"group": "a"}, "elastic": "1:4"}
    path = write(tmp_path, case, "id,sub,end\n7,0,5\n")
    (tmp_path / "data" / "jobs.csv").write_text(rows)
    assert run_case(path, tmp_path / "data").verdict == "exact"


@pytest.mark.parametrize(
    ("where", "problem"),
    [({"lst": "a"}, "column 'lst': is not there"), ({"model_name": "x"}, "no row has 'x'")],
)
def test_rows_that_are_not_there(where: dict[str, str], problem: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=problem):
        run_case(write(tmp_path, CASE | {"where": where}), tmp_path / "data")


@pytest.mark.soak
@needs_shared
@pytest.mark.shared
@pytest.mark.parametrize("policy", ["tiresias", "optimus"])
def test_eighteen_jobs_of_pollux_on_eight_nodes(policy: str, tmp_path: Path) -> None:
    """Of this run only sums are kept: the mean and the largest completion time, and all restarts."""
    runs = json.loads(reference("gavel-pollux-sia/results.json").read_text())["runs"]
    theirs = next(run for run in runs if run["id"] == f"adaptdl/{policy}-w6f18")
    case = yaml.safe_load((FOLDER / f"pollux-w6f40-{policy}.yaml").read_text())
    (tmp_path / "case.yaml").write_text(yaml.safe_dump(case | {"cluster": "8x4", "first": 18}))
    record = replay_case(tmp_path / "case.yaml", reference(""))
    jct = record.jobs["finish_s"] - record.jobs["submit_s"]
    assert (round(jct.mean(), 3), jct.max()) == (theirs["avg_jct_s"], theirs["max_jct_s"])
    assert record.intervals.height - 18 == theirs["restarts_total"]


RESULTS = CASE["results"]
assert isinstance(RESULTS, dict)


@pytest.mark.parametrize(
    ("case", "problem"),
    [
        (CASE | {"polcy": "fifo"}, "polcy is not a field of a fidelity case; did you mean policy?"),
        (CASE | {"results": RESULTS | {"jtc": "x"}}, "results.jtc is not a field .* did you mean jct?"),
        ({k: v for k, v in CASE.items() if k != "trace"}, "case.yaml: trace is missing"),
        (CASE | {"cluster": 4}, "cluster is 4; it should be a valid string"),
        (CASE | {"cluster": "four nodes"}, "case.yaml: .*'four nodes' does not describe nodes"),
        (CASE | {"virtual_clusters": "vcs.csv"}, "case.yaml: names two clusters"),
        (CASE | {"costs": "start=9"}, "case.yaml"),
        (CASE | {"arrivals": {"jobs": 0, "every_s": 60.0}}, "case.yaml: arrivals.jobs is 0"),
        (CASE | {"policy": "fifi"}, "case.yaml: there is no policy 'fifi'; did you mean 'fifo'?"),
        (CASE | {"knowledge": {"duration": "usr"}}, "case.yaml: .*duration=usr"),
        (CASE | {"semantics": "tirsias"}, "case.yaml: .*'tirsias' is no preset"),
        (CASE | {"format": "tirsias"}, "'tirsias' is not a trace format"),
        (CASE | {"trace": "none.csv"}, "none.csv: no such file"),
        (
            CASE | {"results": RESULTS | {"file": "none.csv"}},
            r"none.csv: cannot be read \(No such file or directory\); expected CSV",
        ),
        (CASE | {"results": RESULTS | {"job": "name"}}, "times.csv, row 1, column 'name': is not there"),
        (CASE | {"results": {"file": "times.csv"}}, "results names no completion times"),
        (CASE | {"results": RESULTS | {"jct": "end"}}, "results names no completion times"),
        (CASE | {"results": RESULTS | {"unit_s": 0.0}}, "results.unit_s is 0.0; it should be greater than 0"),
        (CASE | {"tolerance": {"equal_share": 1.5}}, "tolerance.equal_share is 1.5; it should be less than"),
        ("- 1\n", "this describes no case"),
        ("name: [", "this is not YAML"),
    ],
)
def test_wrong_cases_are_refused_in_one_sentence(tmp_path: Path, case: object, problem: str) -> None:
    with pytest.raises(InputError, match=problem.replace("?", r"\?")) as error:
        run_case(write(tmp_path, case), tmp_path / "data")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("times", "problem"),
    [
        ("id,sub,end\n7,0,10\n8,0,soon\n", "times.csv, row 3, column 'end': 'soon' is no number"),
        ("id,sub,end\n", "times.csv: holds no jobs"),
        ("id,sub,end\n70,0,10\n", "times.csv: job 70 is not in the trace"),
    ],
)
def test_wrong_results_are_refused_in_one_sentence(tmp_path: Path, times: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        run_case(write(tmp_path, CASE, times), tmp_path / "data")


@pytest.mark.slow
@needs_shared
@pytest.mark.shared
@pytest.mark.parametrize("case", CASES)
def test_the_authors_simulators_are_reproduced(case: Path) -> None:
    """Every case keeps its promise; nearly all agree in every job, to the second."""
    found = run_case(case, reference(""))
    assert found.holds, found
    assert found.verdict == "exact" or found.note
