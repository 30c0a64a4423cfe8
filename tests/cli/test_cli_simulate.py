"""`rota simulate`: what it prints, what it writes, what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest
from shell_play import check_golden, cpu_seconds, cpu_seconds_of_libraries, rota, rota_process

from rota.errors import GuardError

TWO = ("simulate", "jobs.csv", "--cluster", "1x8", "--policy", "fifo,srtf")


def test_table(folder: Path) -> None:
    """Trace, table, baseline and calibration, as a person sees them."""
    done = rota(*TWO)
    assert done.status == 0, done.err
    check_golden("simulate.txt", done.out)


def test_observed(folder: Path) -> None:
    """A trace with starts gets a row of what happened, the site's policy, and the calibration."""
    done = rota("simulate", "seen.csv", "--cluster", "1x8", "--policy", "srtf")
    assert done.status == 0, done.err
    check_golden("simulate_observed.txt", done.out)


def test_observed_on_another_cluster(folder: Path) -> None:
    """A cluster smaller than what the trace held at once is remarked upon."""
    done = rota("simulate", "seen.csv", "--cluster", "1x4", "--policy", "srtf")
    assert "held up to 8 GPUs at once, this cluster has 4" in " ".join(done.out.split())


def test_auto_says_why_all_policies_look_the_same(folder: Path) -> None:
    """The default cluster holds the peak; where nothing waits there is nothing to compare."""
    assert (
        "No job ever waited for a GPU: auto has room"
        in rota("simulate", "jobs.csv", "--policy", "fifo,srtf").out
    )
    on_ours = rota("simulate", "jobs.csv", "--policy", "fifo,srtf", "--cluster", "9x8").out
    assert "No job ever waited for a GPU: this cluster has room for all" in on_ours
    assert "ever waited" not in rota("simulate", "jobs.csv").out
    assert "ever waited" not in rota("simulate", "jobs.csv", "--policy", "fifo,srtf", "--cluster", "1x8").out


def test_without_observed(folder: Path) -> None:
    done = rota("simulate", "seen.csv", "--cluster", "1x8", "--policy", "srtf", "--no-observed")
    assert "observed" not in done.out.split("Uncalibrated")[0]
    assert "Uncalibrated" in done.out


def test_files(folder: Path) -> None:
    """--out holds tables, summaries and one report; --csv adds CSV."""
    done = rota(*TWO, "--out", "out", "--csv")
    assert done.status == 0, done.err
    found = sorted(str(path.relative_to(folder / "out")) for path in (folder / "out").rglob("*.*"))
    tables = ["intervals.csv", "intervals.parquet", "jobs.csv", "jobs.parquet", "summary.json"]
    fifo, srtf = ([f"{policy}/{name}" for name in tables] for policy in ("fifo", "srtf"))
    assert found == [*fifo, "report.html", *srtf]
    finish = dict(pl.read_parquet("out/fifo/jobs.parquet").select("job_id", "finish_s").iter_rows())
    # b waits for all 8 GPUs, and under strict FIFO everyone behind it.
    assert finish == {"a": 100.0, "b": 150.0, "c": 180.0, "d": 350.0, "e": 160.0}
    summary = json.loads((folder / "out/fifo/summary.json").read_text())
    assert summary["mean_jct_s"] == pytest.approx((100 + 140 + 160 + 320 + 120) / 5)
    assert {"p50_jct_s", "p90_jct_s", "p99_jct_s", "makespan_s", "utilisation", "jobs"} <= set(summary)
    assert {"unfinished", "failed", "rejected", "engine_seconds", "provenance"} <= set(summary)


def test_json(folder: Path) -> None:
    """--json prints one document and nothing else."""
    done = rota(*TWO, "--json", "--baseline", "srtf")
    document = json.loads(done.out)
    assert [run["policy"] for run in document["runs"]] == ["fifo", "srtf"]
    assert document["baseline"] == "srtf"
    assert document["calibration"]["calibrated"] is False


def test_quiet(folder: Path) -> None:
    done = rota(*TWO, "--quiet", "--out", "out")
    assert (done.status, done.out, done.err) == (0, "", "")
    assert (folder / "out/report.html").exists()


@pytest.mark.parametrize(
    ("policy", "names"),
    [
        (["fifo,srtf"], ["fifo", "srtf"]),
        (["fifo", "--policy", "srtf"], ["fifo", "srtf"]),
        (["fifo:skip=yes,srtf"], ["fifo:skip=yes", "srtf"]),
        (["srtf,fifo:skip=yes,placement=spread,las"], ["srtf", "fifo:skip=yes,placement=spread", "las"]),
    ],
)
def test_policy_lists(policy: list[str], names: list[str], folder: Path) -> None:
    """A part with `=` belongs to the policy before it."""
    done = rota("simulate", "jobs.csv", "--cluster", "1x8", "--json", "--policy", *policy)
    assert [run["policy"] for run in json.loads(done.out)["runs"]] == names


def test_seeds(folder: Path) -> None:
    """Each policy runs once per seed, and node losses differ between seeds."""
    flags = ("--seeds", "3", "--seed", "5", "--faults", "mtbf=100s,repair=20s", "--json")
    document = json.loads(rota(*TWO, *flags).out)
    assert [(run["policy"], run["seed"]) for run in document["runs"]] == [
        (policy, seed) for policy in ("fifo", "srtf") for seed in (5, 6, 7)
    ]
    assert len({run["mean_jct_s"] for run in document["runs"][:3]}) == 3


def test_costs(folder: Path) -> None:
    """A start cost lengthens every job by that much and more where others wait for it."""
    free = json.loads(rota(*TWO, "--json").out)["runs"][0]
    dear = json.loads(rota(*TWO, "--json", "--costs", "start=10s+1s/gpu").out)["runs"][0]
    assert dear["makespan_s"] == pytest.approx(free["makespan_s"] + (10 + 4) + (10 + 8) + (10 + 1))


def test_slowdowns(folder: Path) -> None:
    """Only jobs on more nodes than they need are slowed down."""
    flags = ("simulate", "jobs.csv", "--policy", "fifo:skip=yes", "--json", "--cluster")
    whole = json.loads(rota(*flags, "1x8", "--slowdowns", "spread=0.5").out)["runs"][0]
    spread = json.loads(rota(*flags, "8x1", "--slowdowns", "spread=0.5").out)["runs"][0]
    plain = json.loads(rota(*flags, "1x8").out)["runs"][0]
    assert whole["mean_jct_s"] == plain["mean_jct_s"]
    assert (
        spread["mean_jct_s"] == plain["mean_jct_s"]
    )  # no node holds two GPUs: nobody is spread further than needed
    mixed = json.loads(rota(*flags, "1x4,4x1", "--slowdowns", "spread=0.5").out)["runs"][0]
    assert mixed["mean_jct_s"] > plain["mean_jct_s"]


TABLES = {
    "work.csv": (
        "job_id,submit_s,duration_s,gpus,workload,iterations,cpus\na,0,,1,w,1000,2\nb,0,,1,w,1000,2\n"
    ),
    "seconds.csv": "job_id,submit_s,duration_s,gpus,workload\na,0,100,1,w\n",
    "rates.json": '{"v100": {"(\'w\', 1)": {"null": 10.0, "(\'w\', 1)": [8.0, 8.0]}}}',
    "rates.csv": "workload,gpu_type,gpus,iterations_per_s\nw,V100,1,10\nw,K80,1,2\n",
    "goodput.json": '{"w": {"fit": {"*": {"alpha_c": 0.05, "beta_c": 0.002, "alpha_n": 0.1, "beta_n": 0.01, '
    '"alpha_r": 0.03, "beta_r": 0.002, "gamma": 2}}, "batch": [64, 2048], "local_batch": [16, 128], '
    '"epochs": [{"examples": 50000, "sqr": 1, "var": 4}]}}',
    "hosts.csv": "workload,cpus_per_gpu,gib_per_gpu,speed\nw,2,1,0.5\nw,3,1,1\n",
}
SPEEDS = [
    # arguments                                                              mean completion time, why
    ("work.csv --throughput rates.json", 100.0, "10 iterations a second"),
    ("work.csv --goodput goodput.json", 1000 * 0.178, "0.178 s a step at 64 examples"),
    ("seconds.csv --goodput goodput.json", 100.0, "durations hold at the requested allocation"),
    ("work.csv --throughput rates.json --slowdowns hosts=hosts.csv", 200.0, "2 cores where it likes 3"),
    ("work.csv --scaling rates.csv:V100", 100.0, "10 iterations a second on one type"),
    ("work.csv --scaling rates.json", 100.0, "the only one of the table"),
    ("seconds.csv --slowdowns utilisation.w=0.5,sharing=tgs", 100.0, "nobody beside"),
]


@pytest.mark.parametrize(("arguments", "mean_jct_s", "why"), SPEEDS, ids=[case[2] for case in SPEEDS])
def test_tables_of_speeds(arguments: str, mean_jct_s: float, why: str, folder: Path) -> None:
    """Each table of speeds can be given as a file; see docs/speeds.md."""
    for name, text in TABLES.items():
        (folder / name).write_text(text)
    done = rota("simulate", *arguments.split(), "--cluster", "1x2:V100", "--json")
    assert done.status == 0, done.err
    assert json.loads(done.out)["runs"][0]["mean_jct_s"] == pytest.approx(mean_jct_s), why


WRONG = [
    # arguments after `simulate`                              what the one sentence says
    ("nope.csv", "nope.csv: no such file"),
    ("jobs.csv --format pickle", "--format: 'pickle' is not a trace format"),
    ("jobs.csv --policy firo", "there is no policy 'firo'; did you mean 'fifo'?"),
    ("jobs.csv --policy fifo:skip=perhaps", "skip=perhaps is not yes or no"),
    ("jobs.csv --policy fifo:skp=yes", "no parameter 'skp'; did you mean 'skip'?"),
    ("jobs.csv --policy fifo,fifo", "--policy: 'fifo' is named twice"),
    ("jobs.csv --policy ,", "names no policy"),
    ("jobs.csv --cluster 8y8", "--cluster: '8y8' does not describe nodes"),
    ("jobs.csv --cluster nope.yaml", "nope.yaml"),
    ("jobs.csv --costs start=20", "--costs start: '20' is not a duration"),
    ("jobs.csv --costs stop=20s", "--costs has no setting 'stop'; it has start"),
    ("jobs.csv --costs start=1s,start=2s", "--costs sets 'start' twice"),
    ("jobs.csv --costs start=1s+2s", "start=1s+2s has too many terms"),
    ("jobs.csv --slowdowns spread=2", "--slowdowns: spread=2 is no rate; expected above 0 and up to 1"),
    ("jobs.csv --slowdowns spread=fast", "spread=fast is no rate"),
    ("jobs.csv --slowdowns haste=0.5", "--slowdowns: 'haste=0.5' slows nothing down"),
    ("jobs.csv --slowdowns level.rack=0.5", "--slowdowns: 'rack' is no level of the cluster; expected node"),
    ("jobs.csv --slowdowns level.rack=2", "--slowdowns: level.rack=2 is no rate"),
    ("jobs.csv --slowdowns utilisation.vgg91=0.5", "--slowdowns: utilisation.vgg91 is for a workload"),
    ("jobs.csv --slowdowns sharing=mps", "--slowdowns: sharing=mps is unknown; expected tgs or antman"),
    ("jobs.csv --slowdowns hosts=nope.csv", "nope.csv: cannot be read"),
    ("jobs.csv --throughput nope.json", "nope.json"),
    ("jobs.csv --goodput nope.json", "nope.json: cannot be read"),
    ("jobs.csv --goodput jobs.csv", "jobs.csv: holds no goodput profiles"),
    ("jobs.csv --goodput a.json --throughput b.json", "--goodput: says how fast jobs are, as --throughput"),
    ("jobs.csv --scaling a.json --throughput b.json", "--scaling: says how fast jobs are, as --throughput"),
    ("jobs.csv --scaling nope.csv", "nope.csv: cannot be read"),
    ("jobs.csv --can fly", "--can: 'fly' is nothing that a job can do; expected all, nothing"),
    ("jobs.csv --can vgg91=all", "--can: vgg91 is a workload that no job runs"),
    ("jobs.csv --observation-noise 2", "--observation-noise: 2 is no relative error"),
    ("jobs.csv --faults repair=2h", "--faults: 'repair=2h' has no mtbf"),
    ("jobs.csv --faults mtbf=0s", "--faults: mtbf is 0"),
    ("jobs.csv --knowledge duration=magic", "'magic' is no source"),
    ("jobs.csv --knowledge duration=noisy:nan", "duration=noisy:nan has no spread; expected 0 or more"),
    ("jobs.csv --service-history nope.csv", "nope.csv: cannot be read"),
    ("jobs.csv --knowledge length=user", "nobody provides 'length' in a simulated world"),
    ("jobs.csv --policy srtf --knowledge duration=user", "no job states a time limit"),
    ("jobs.csv --semantics clockwork", "--semantics: 'clockwork' is no preset"),
    ("jobs.csv --measure 90%:10%", "--measure: '90%:10%' ends before it starts"),
    ("jobs.csv --measure 10%", "--measure: '10%' is not a window"),
    ("jobs.csv --baseline srtf", "--baseline: 'srtf' is not among the policies"),
    ("jobs.csv --out jobs.csv", "--out: jobs.csv is a file"),
    ("jobs.csv --out jobs.csv/deeper", "--out: jobs.csv is a file"),
    ("jobs.csv --workers 0", "--workers: 0 workers"),
    ("jobs.csv --seeds 0", "--seeds: 0 seeds"),
    ("jobs.csv --retries -1", "--retries: -1 is below 0"),
    ("seen.csv --site-policy fofo", "there is no policy 'fofo'"),
    ("jobs.csv --policy FIFO", "there is no policy 'FIFO'; did you mean 'fifo'?"),
    ("jobs.csv --policy fifo:skip=yes,skip=no", "sets 'skip' twice"),
    ("jobs.csv --cluster 8x0", "--cluster: '8x0' has no GPU"),
    ("jobs.csv --cluster 99999999x8", "a cluster of 799,999,992 GPUs is too large"),
    ("jobs.csv --cluster jobs.csv", "jobs.csv, row 1: is no list of nodes"),
    ("jobs.csv --cluster nope.csv", "nope.csv: no such file"),
    ("jobs.csv --measure 5d:6d", "--measure: no job was submitted in '5d:6d'; expected a part of the 40s"),
    ("jobs.csv --measure 50%:1s", "--measure: no job was submitted in '50%:1s'"),
    ("jobs.csv --slowdowns spread.vgg91=0.5", "--slowdowns: spread.vgg91 is for a workload that no job runs"),
    ("jobs.csv --slowdowns spread.=0.5", "--slowdowns: spread. is for a workload that no job runs"),
    ("jobs.csv --seed -1", "--seed: -1 is no seed"),
    ("bare.csv", "job a has no duration (the cell is empty); expected a duration for each job, or,"),
    ("circle.csv", "circle.csv, row 2, column 'after': waiting for 'b' never ends"),
    ("far.csv", "far.csv, row 2, column 'submit_s': '1e300' is too large"),
]


BAD = {
    "bare.csv": "job_id,submit_s,gpus,duration_s\na,0,1,\n",
    "circle.csv": "job_id,submit_s,gpus,duration_s,after\na,0,1,9,b\nb,0,1,9,a\n",
    "far.csv": "job_id,submit_s,gpus,duration_s\na,1e300,1,9\n",
}


@pytest.mark.parametrize(("arguments", "says"), WRONG, ids=[arguments for arguments, _ in WRONG])
def test_wrong_input(arguments: str, says: str, folder: Path) -> None:
    """Bad input: one sentence on standard error, exit code 2, nothing on standard output or on disk."""
    for name, text in BAD.items():
        (folder / name).write_text(text)
    before = sorted(folder.iterdir())
    done = rota("simulate", *arguments.split())
    assert done.status == 2
    assert says in done.err
    assert re.fullmatch(r"rota: [^\n]+\n", done.err), done.err
    assert done.out == ""
    assert sorted(folder.iterdir()) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["simulate"], 2, "missing argument 'TRACE'; `rota simulate -h` says more"),
        (["simulate", "nope.csv"], 2, "nope.csv: no such file"),
        (["simulate", "jobs.csv", "--seed", "x"], 2, "--seed"),
        (["frobnicate"], 2, "no such command 'frobnicate'"),
        (["simulate", "jobs.csv", "--policy", "partition:by=vc"], 2, "no level 'vc'"),
        (["--version"], 0, ""),
    ],
)
def test_exit_codes(arguments: list[str], status: int, says: str, folder: Path) -> None:
    """The codes a shell sees: 0 done, 1 failed, 2 bad input; never a traceback."""
    done = rota_process(*arguments)
    assert done.status == status, done.err
    assert says in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        (GuardError("gang", "job 7 is split"), 1, "rota: job 7 is split\n"),
        (OSError(28, "No space left on device", "out"), 1, "rota: out: No space left on device\n"),
        (KeyboardInterrupt(), 130, "rota: interrupted\n"),
    ],
)
def test_failures(
    error: BaseException, status: int, says: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fails in the middle ends with one line too."""

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("rota.api.simulation.simulate", fail)
    done = rota(*TWO)
    assert (done.status, done.out, done.err) == (status, "", says)


@pytest.mark.soak
def test_hundred_jobs_cost_little_more_than_their_start(hundred: Path, tmp_path: Path) -> None:
    """A small simulation, report included, takes less CPU than loading its libraries three times."""
    out = tmp_path / "out"
    command = ("simulate", hundred, "--cluster", "4x8:V100", "--policy", "fifo,srtf", "--out", out)
    alone_s = min(cpu_seconds_of_libraries() for _ in range(2))
    assert any(cpu_seconds(*command) < 3 * alone_s for _ in range(2))


def test_a_name_moves_no_cursor(folder: Path) -> None:
    """Of a trace, and of a folder, that somebody named so."""
    (folder / "jobs.csv").rename(folder / "j\x1b[2J.csv")
    done = rota("simulate", "j\x1b[2J.csv", "--cluster", "1x8", "--out", "o\x1b[2J")
    assert done.status == 0, done.err
    assert "\x1b" not in done.out
    assert "j\\x1b[2J.csv" in done.out
