"""`rota doctor`: what it finds on machines of all kinds, and that no machine is too odd for it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_play import STATUS, Answer, Asked, Canned, Reply, refusal
from shell_play import rota

from rota import __version__
from rota.cli.doctor import clocks, command, controller, devices, disk, machine, secrets, software
from rota.cli.doctor.finding import FindingState, MachineFinding, MachinePlaces, looked
from rota.engines.rota.nvml import NvmlError
from rota.wire.sync import PROTOCOL

GIB = 2**30


@pytest.fixture(autouse=True)
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody sets the clock, and nobody has to wait to see that."""
    monkeypatch.setattr(clocks, "_gained_s", lambda during_s: 0.0)


def states(findings: list[MachineFinding]) -> dict[str, str]:
    return {one.subject: one.state.value for one in findings}


def put(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On the machine that runs the tests: every section has something to say, and no file is left."""
    monkeypatch.setenv("ROTA_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ROTA_URL", raising=False)
    said = rota("doctor", "--json")
    found = json.loads(said.out)
    assert said.status == (0 if found["ok"] else 1)
    assert {one["section"] for one in found["findings"]} == set(command.SECTIONS)
    assert list(tmp_path.iterdir()) == []


def test_sections_are_words() -> None:
    """They are headings for people: none is the name of a class."""
    assert list(command.SECTIONS) == [
        "Installation", "Devices", "Machine", "Clocks", "Disk", "Network", "Cluster",
    ]  # fmt: skip


def test_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A section, the state, the subject, what is there; the advice beneath; what is broken comes last."""
    found = {
        "Disk": [
            MachineFinding("folder", FindingState.OK, "here"),
            MachineFinding("space", FindingState.BROKEN, "none free", "free some"),
            MachineFinding("flush", FindingState.ADVICE, "slow"),
        ]
    }
    monkeypatch.setattr(command, "examined", lambda where: found)
    said = rota("doctor")
    assert said.status == 1
    assert said.out.splitlines()[2:] == [
        "Disk",
        "  ok      folder  here",
        "  broken  space   none free",
        "                  → free some",
        "  advice  flush   slow",
        "",
        "Broken: space.",
    ]
    assert command.summary({"Disk": found["Disk"][2:]}) == "Nothing is broken; 1 marked `advice`."


def test_no_machine_is_too_odd(tmp_path: Path) -> None:
    """Without /proc, /dev and /sys, and with a file for a home: all is looked at, and the file is named."""
    odd = MachinePlaces(put(tmp_path / "home"), tmp_path / "proc", tmp_path / "dev", tmp_path / "sys")
    found = states([one for ones in command.examined(odd).values() for one in ones])
    assert found["kernel"] == found["folder"] == "broken"
    assert found["control groups"] == "unknown"
    assert found["shared memory"] == "advice"
    assert found["ports"] == "ok"


@pytest.mark.parametrize(
    ("error", "says", "advice"),
    [
        (
            PermissionError(13, "Permission denied", "/proc/clock"),
            "cannot be told: /proc/clock: Permission denied",
            "what needs it may fail here; ask as the user whose file it is, or as root",
        ),
        (
            OSError(5, "Input/output error", "/proc/clock"),
            "cannot be told: OSError: /proc/clock: Input/output error",
            "what needs it may fail here; please report it",
        ),
        (
            KeyError("x"),
            "cannot be told: KeyError: 'x'",
            "what needs it may fail here; please report it",
        ),
    ],
)
def test_a_look_that_fails_is_a_finding(error: Exception, says: str, advice: str) -> None:
    """A file of somebody else is no mistake of ours."""

    def wall_clock(where: MachinePlaces) -> Iterator[MachineFinding]:
        raise error

    [finding] = looked(wall_clock, MachinePlaces(Path("/")))
    assert (finding.subject, finding.state) == ("wall clock", FindingState.UNKNOWN)
    assert (finding.says, finding.advice) == (says, advice)


def test_kernel_without_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("os.pidfd_open", missing)
    [found] = software.kernel(MachinePlaces(Path("/")))
    assert found.state is FindingState.BROKEN
    assert found.says.endswith("without pidfd_open")


def test_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without those of a server no controller can run; all others are a matter of taste."""
    there = set(software.EXTRAS["nvidia"][0])
    monkeypatch.setattr(software, "find_spec", lambda name: name if name in there else None)
    found = list(software.packages(MachinePlaces(Path("/"))))
    assert found[0].says == "nvidia"
    others = ("postgres", "torch", "figures", "browser")
    assert states(found[1:]) == {"server": "advice", **dict.fromkeys(others, "ok")}


class Gpus:
    """NVML as it shows three GPUs: idle, in use, lost."""

    def count(self) -> int:
        return 4

    def driver(self) -> str:
        return "535.1"

    def describe(self, index: int) -> tuple[str, str, int]:
        if index == 2:
            raise NvmlError("GPU 2: GPU is lost")
        return "NVIDIA H100", f"GPU-{index}", 80 * GIB

    def load(self, index: int) -> tuple[float, int]:
        return 0.0, (20 if index == 1 else 0) * GIB

    def trouble(self, index: int) -> str:
        return "the driver reported XID 79" if index == 3 else ""


def test_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "open_nvml", Gpus)
    found = list(devices.gpus(MachinePlaces(Path("/"))))
    assert [(one.subject, one.state.value, one.says) for one in found] == [
        ("GPU 0", "ok", "NVIDIA H100, 80 GiB"),
        ("GPU 1", "advice", "NVIDIA H100, 80 GiB, 20.0 GiB of it in use now"),
        ("GPU 2", "broken", "GPU 2: GPU is lost"),
        ("GPU 3", "broken", "NVIDIA H100, 80 GiB: the driver reported XID 79"),
        ("driver checkpoint", "advice", "no: driver 535.1: needs 570"),
    ]


@pytest.mark.parametrize(
    ("why", "has_driver", "state", "advice"),
    [
        ("`nvidia-ml-py` is not installed", False, "ok", "`rota up` takes the CPU cores as devices"),
        ("`nvidia-ml-py` is not installed", True, "broken", "pip install '.[nvidia]'"),
        ("NVML does not answer: Driver Not Loaded", True, "broken", "`nvidia-smi` should work first"),
    ],
)
def test_no_nvml(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, why: str, has_driver: bool, state: str, advice: str
) -> None:
    """A machine with a driver whose GPUs cannot be seen is broken; one without either is a CPU machine."""
    if has_driver:
        put(tmp_path / "nvidia0")
    monkeypatch.setattr(devices, "open_nvml", lambda: why)
    first, _ = devices.gpus(MachinePlaces(tmp_path, proc=tmp_path, dev=tmp_path))
    assert (first.state.value, first.advice[: len(advice)]) == (state, advice)


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}, None),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "150000 100000\n"}, 1.5),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/cpu.max": "400000 100000\n",
                "sys/fs/cgroup/a/cpu.max": "200000 100000\n",
            },
            2.0,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/box\n0::/\n",
                "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "50000\n",
                "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            0.5,
        ),
    ],
    ids=["no groups", "no limit", "own limit", "limit of the group above", "version 1"],
)
def test_limit_of_cpu_time(tmp_path: Path, files: dict[str, str], cores: float | None) -> None:
    """The smallest on the way up; slots are advised to stay below it."""
    for name, text in files.items():
        put(tmp_path / name, text)
    where = MachinePlaces(tmp_path, proc=tmp_path / "proc", sys=tmp_path / "sys")
    assert devices.cpu_limit(where) == cores


def test_fewer_slots_than_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)))
    monkeypatch.setattr(devices, "cpu_limit", lambda where: 2.5)
    [found] = devices.cores(MachinePlaces(Path("/")))
    assert found.state is FindingState.ADVICE
    assert found.advice.endswith("`--devices cpu:2`")


@pytest.mark.parametrize(("hard", "state"), [(-1, "ok"), (524288, "ok"), (1024, "advice"), (128, "broken")])
def test_open_files(monkeypatch: pytest.MonkeyPatch, hard: int, state: str) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda which: (hard, hard))
    assert states(list(machine.limits(MachinePlaces(Path("/")))))["open files"] == state


MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:26 / /home rw - nfs4 server:/home rw
31 30 0:27 / /home/ann/fast\\040disk rw master:1 - xfs /dev/vdb rw
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [("/srv/rota", "ext4"), ("/home/ann", "nfs4"), ("/homes", "ext4"), ("/home/ann/fast disk/x", "xfs")],
)
def test_file_system(tmp_path: Path, folder: str, kind: str) -> None:
    """That of the deepest mount above the folder."""
    put(tmp_path / "self/mountinfo", MOUNTS)
    assert disk.file_system(MachinePlaces(tmp_path, proc=tmp_path), Path(folder)) == kind


def test_home_on_a_network(tmp_path: Path) -> None:
    put(tmp_path / "proc/self/mountinfo", f"1 1 0:1 / {tmp_path} rw - nfs4 server:/x rw\n")
    found = states(list(disk.home_folder(MachinePlaces(tmp_path / "rota", proc=tmp_path / "proc"))))
    assert found["file system"] == "advice"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["proc"]


def test_home_that_cannot_be_written() -> None:
    """As root: /proc takes no folders from anybody."""
    [found] = disk.home_folder(MachinePlaces(Path("/proc/rota")))
    assert (found.state, found.says) == (
        FindingState.BROKEN,
        "/proc/rota cannot be written: No such file or directory",
    )


@pytest.mark.parametrize(
    ("asked", "state"), [((0, 0.012), "ok"), ((clocks.UNSYNCHRONISED, 16.0), "advice"), (None, "unknown")]
)
def test_clock(monkeypatch: pytest.MonkeyPatch, asked: tuple[int, float] | None, state: str) -> None:
    monkeypatch.setattr(clocks, "_asked_kernel", lambda: asked)
    assert states(list(clocks.wall_clock(MachinePlaces(Path("/"))))) == {"synchronised": state}
    monkeypatch.setattr(clocks, "_gained_s", lambda during_s: -3.0)
    assert next(iter(clocks.wall_clock(MachinePlaces(Path("/"))))).says.startswith("it was set by -3.000 s")


def test_clock_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the wall clock against the monotonic one, over the time that is watched."""
    monkeypatch.undo()
    now = {"wall": 1000.0, "steady": 5.0}

    def passes(seconds: float) -> None:
        now["wall"] += seconds + 2.0
        now["steady"] += seconds

    monkeypatch.setattr("time.time", lambda: now["wall"])
    monkeypatch.setattr("time.monotonic", lambda: now["steady"])
    monkeypatch.setattr("time.sleep", passes)
    assert clocks._gained_s(0.5) == pytest.approx(2.0)


def health(behind_s: float = 0.0, **said: object) -> Callable[[Asked], Reply]:
    """A controller that says this when it is asked."""
    usual = {"ok": True, "version": __version__, "protocol": PROTOCOL}
    return lambda asked: {**usual, "now_s": time.time() - behind_s, **said}


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (health(), {"controller": "ok", "clock here": "ok"}),
        (health(version="0.0.1"), {"controller": "advice", "clock here": "ok"}),
        (health(protocol=PROTOCOL + 1), {"controller": "broken", "clock here": "ok"}),
        (health(behind_s=3600.0), {"controller": "ok", "clock here": "advice"}),
        (Answer(503, {"ok": False, "error": "it does not work"}), {"controller": "broken"}),
        ({"ok": True, "version": __version__}, {"controller": "ok"}),
    ],
    ids=["well", "other version", "other protocol", "other clock", "unwell", "older"],
)
def test_controller(cluster: Canned, said: Reply | Callable[[Asked], Reply], found: dict[str, str]) -> None:
    from rota.cli.live.connect import home

    cluster.replies = {"GET /health": said, "GET /v1/status": STATUS}
    seen = states(list(controller.controller(MachinePlaces(home()))))
    assert seen == {**found, "cluster": "ok", "trouble": "advice"}


def test_controller_that_does_not_know_us(cluster: Canned) -> None:
    from rota.cli.live.connect import home

    cluster.replies = {"GET /health": health(), "GET /v1/status": refusal(401, "the token is not known")}
    found = list(controller.controller(MachinePlaces(home())))
    assert (found[-1].subject, found[-1].says) == ("access", "the token is not known")


def test_controller_that_has_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was started here, and its socket is all that is left."""
    monkeypatch.delenv("ROTA_URL", raising=False)
    monkeypatch.setenv("ROTA_HOME", str(tmp_path))
    assert states(list(controller.controller(MachinePlaces(tmp_path)))) == {"controller": "ok"}
    put(tmp_path / "controller.json", '{"pid": 1, "url": "http://127.0.0.1:9"}')
    assert states(list(controller.controller(MachinePlaces(tmp_path)))) == {"controller": "broken"}


def test_settings_that_cannot_be(tmp_path: Path) -> None:
    put(tmp_path / "config.yaml", "polcy: fifo\n")
    [found] = controller.settings(MachinePlaces(tmp_path))
    assert found.state is FindingState.BROKEN
    assert "did you mean 'policy'?" in found.says


def test_node_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from rota.cli.doctor import network

    monkeypatch.setattr("socket.gethostname", lambda: "ann's laptop")
    [found] = network.node_name(MachinePlaces(Path("/")))
    assert found.state is FindingState.BROKEN


def test_inner_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy that is slower because its C was not built is named."""
    monkeypatch.setattr("rota.native.functions", lambda path: {"plan": path})
    monkeypatch.setattr("rota.native.library", lambda path: None if path.stem == "climb" else path)
    [found] = [one for one in software.engine(MachinePlaces(Path("/"))) if one.subject == "solvers"]
    assert found.state is FindingState.ADVICE
    assert found.says.endswith(": elasticflow")
    monkeypatch.setattr("rota.native.library", lambda path: path)
    assert states(list(software.engine(MachinePlaces(Path("/")))))["solvers"] == "ok"


PASSWORD = "database_url: postgresql+psycopg://rota:hush@db/rota\n"
HOOK = 'notify:\n  - {url: "https://chat.example/hooks/42", on: [failure]}\n'
KEY = "-----BEGIN PRIVATE KEY-----\nMII\n"


@pytest.mark.parametrize(
    ("name", "text", "mode", "said"),
    [
        ("config.yaml", PASSWORD, 0o644, "holds a password, and every account of this machine may read it"),
        ("config.yaml", PASSWORD, 0o600, "1 file that other accounts may not read"),
        ("config.yaml", PASSWORD, 0o660, "holds a password, and others may write it"),
        ("config.yaml", HOOK, 0o644, "holds the address of a webhook, and every account"),
        ("config.yaml", "policy: fifo\n", 0o644, ""),
        ("config.yaml", "database_url: postgresql+psycopg://rota@db/rota\n", 0o644, ""),
        ("tokens/ann", "id.secret\n", 0o644, "holds a token, and every account"),
        ("agent/token", "id.secret\n", 0o644, "holds the token of this node, and every account"),
        ("rota.db", "x", 0o644, "holds commands and environments of all jobs, and every account"),
        ("head.key", KEY, 0o644, "holds a private key, and every account"),
        ("head.pem", "-----BEGIN CERTIFICATE-----\nMII\n", 0o644, ""),
    ],
)
def test_secrets_that_others_may_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, mode: int, said: str
) -> None:
    monkeypatch.setattr(secrets, "_may_enter", lambda folder: True)  # pytest's own folder is closed
    path = put(tmp_path / name, text)
    path.chmod(mode)
    found = list(secrets.secret_files(MachinePlaces(tmp_path)))
    assert ["secrets"] * bool(said) == [one.subject for one in found]
    for one in found:
        assert said in one.says
        assert "hush" not in one.says
        if one.state is FindingState.ADVICE:
            assert one.advice == f"chmod go-rwx {path}"
            assert one.says.startswith(str(path))


def test_a_closed_folder_keeps_secrets(tmp_path: Path) -> None:
    """The mode of what nobody can reach is no matter."""
    home = tmp_path / "home"
    put(home / "config.yaml", PASSWORD).chmod(0o644)
    home.chmod(0o700)
    [found] = secrets.secret_files(MachinePlaces(home))
    assert found.state is FindingState.OK
