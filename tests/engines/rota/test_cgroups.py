"""Control groups are used where they can be had, and never needed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from attempts import gone, lines, part, running, see, shell
from rota.engines.rota.cgroups import Cgroups, kill_members, members, memberships, mounts, remove
from rota.engines.rota.identity import Stat
from rota.engines.rota.supervisor import Supervisor
from rota.wire.sync import PartStatus

possible = pytest.mark.skipif(Cgroups.probe().base is None, reason="no writable cgroup hierarchy here")


@pytest.mark.parametrize(
    ("cgroup", "mounted", "base", "why"),
    [
        ("0::/user", "cgroup2 {t} cgroup2 rw 0 0", "user", ""),
        ("3:freezer:/a\n0::/b", "c {t} cgroup rw,freezer 0 0", "a", ""),
        (
            "3:freezer:/a\n0::/b",
            "c {t} cgroup rw,freezer 0 0\nd {t} cgroup2 rw 0 0",
            "b",
            "",
        ),  # the better one
        ("0::/gone", "cgroup2 {t} cgroup2 rw 0 0", None, "{t}/gone: No such file or directory"),
        ("0::/", "c {t} cgroup rw,memory 0 0", None, "no cgroup hierarchy is mounted"),
        ("", "", None, "no cgroup hierarchy is mounted"),
    ],
)
def test_a_machine_is_probed(tmp_path: Path, cgroup: str, mounted: str, base: str | None, why: str) -> None:
    """Our own group in the best hierarchy, if we may make one below it."""
    tree, proc = tmp_path / "tree", tmp_path / "proc"
    for path in (proc, tree / "user", tree / "a", tree / "b"):
        path.mkdir(parents=True)
    (proc / "cgroup").write_text(cgroup)
    (proc / "mounts").write_text(mounted.format(t=tree))
    found = Cgroups.probe(proc)
    assert found == Cgroups(tree / base if base else None, why.format(t=tree))
    assert (found.make("x") is None) == (base is None)


def test_a_mount_whose_name_is_no_text_is_in_nobodys_way(tmp_path: Path) -> None:
    """A disk was named by a system with another encoding: an agent used to die of it."""
    (tmp_path / "user").mkdir()
    (tmp_path / "cgroup").write_text("0::/user")
    named = os.fsencode(tmp_path)
    (tmp_path / "mounts").write_bytes(
        b"/dev/sdb1 /media/Gr\xf6\xdfe vfat rw 0 0\ncgroup2 " + named + b" cgroup2 rw 0 0"
    )
    assert Cgroups.probe(tmp_path) == Cgroups(tmp_path / "user")


def test_forms_of_the_kernel() -> None:
    """Several controllers share a hierarchy, and a path may hold colons."""
    assert memberships("5:cpu,cpuacct:/a:b\n0::/") == {"cpu": "/a:b", "cpuacct": "/a:b", "": "/"}
    assert mounts("x /s tmpfs rw 0 0\nx /f cgroup rw,cpu 0 0") == []


def test_no_group_is_no_trouble(tmp_path: Path) -> None:
    """None, or one that is gone."""
    for group in (None, tmp_path / "gone"):
        assert members(group) == kill_members(group) == []
        remove(group)


@possible
def test_nothing_hides_from_its_group(tmp_path: Path) -> None:
    """Own session, empty environment, shim killed: it dies all the same, and the group is removed."""
    supervisor = Supervisor(tmp_path / "agent")
    script = "env -i setsid sh -c 'echo $$ > '$ROTA_ATTEMPT_DIR'/hidden; exec sleep 60' & wait"
    live = running(supervisor, supervisor.start(shell(0, script)))
    hidden = int(see(lambda: " ".join(lines(live.folder.path / "hidden")), "the hidden one"))
    assert live.shim is not None
    assert live.cgroup is not None
    assert hidden in members(live.cgroup)
    os.kill(live.shim.pid, signal.SIGKILL)
    gone(supervisor, live)
    assert live.status is PartStatus.LOST
    stat = Stat.of(hidden)
    assert stat is None or stat.dead
    supervisor.forget(live)
    assert not live.cgroup.exists()
    supervisor.close()


def test_without_groups_all_is_well(tmp_path: Path) -> None:
    """A group that cannot be joined does not keep a rank from running."""
    supervisor = Supervisor(tmp_path / "agent")
    supervisor.cgroups = Cgroups(tmp_path / "nowhere")
    live = gone(supervisor, supervisor.start(part(0, "true")))
    assert live.cgroup is None
    assert live.status is PartStatus.ENDED
    (tmp_path / "flat").mkdir()
    supervisor.cgroups = Cgroups(tmp_path / "flat")  # no cgroup.procs that means anything
    assert gone(supervisor, supervisor.start(part(1, "true"))).status is PartStatus.ENDED
    supervisor.close()
