"""Makes `launch.json` from an order of the controller: command, user, cores and environment of every rank."""

from __future__ import annotations

import logging
import os
import pwd
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rota.crash import VARIABLE, crash_point
from rota.engines.rota import native
from rota.engines.rota.below import entered, mark, opened
from rota.engines.rota.cgroups import MEMBERS, remove
from rota.engines.rota.folder import CONTACT, EXIT, LAUNCH, SHIM_LOG, AgentFolder, Folder
from rota.engines.rota.identity import boot_id
from rota.engines.rota.job_path import job_path, make_job_path
from rota.engines.rota.script import command_of, slurm_environment
from rota.errors import WorldError
from rota.training.protocol import VOID
from rota.wire.accounts import NO_ACCOUNT, OWN_ACCOUNT
from rota.wire.file_names import filled
from rota.wire.sync import Part, Rank

LOG = logging.getLogger("rota.engines.rota")
PRIVATE = (
    "ROTA_", "TORCHELASTIC_", "NOTIFY_SOCKET", "INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_", "PGPASSWORD"
)  # fmt: skip
"""Variables of the agent's own environment that jobs do not get: `rota up` passes its own environment on,
including the password of the controller's database."""
SHIM_KNOWS = ("PATH", "LD_LIBRARY_PATH", VARIABLE)
"""Variables of the agent that its shims get: what the interpreter needs, and one for tests."""
SHIM_PROGRAM = Path(__file__).with_name("shim.py")
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Child(Protocol):
    """A process started by the agent."""

    def poll(self) -> int | None:
        """Exit code; None while it runs."""
        ...

    def kill(self) -> None:
        """Send SIGKILL, unless the process has ended."""
        ...


@dataclass(frozen=True)
class User:
    """The account that a command runs as."""

    name: str
    uid: int
    gid: int
    groups: list[int]
    home: str
    shell: str

    @classmethod
    def of(cls, name: str) -> User:
        """The user of this name on this machine; raises WorldError if there is none."""
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            raise WorldError(
                f"node {socket.gethostname()} has no user {name!r}; create the account, or drain the node"
            ) from None
        groups = os.getgrouplist(name, entry.pw_gid)
        return cls(name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir, entry.pw_shell)

    @classmethod
    def given(cls, name: str, *, allow_root: bool) -> User | None:
        """The user to switch to for `Part.user`; None if the command runs as the agent's own user.

        `allow_root` lets OWN_ACCOUNT mean root, if the agent is root. Raises WorldError if no account is
        given, if this machine lacks it, and for root if that is not allowed.
        """
        if name == NO_ACCOUNT:
            raise WorldError("the controller has no account on record that it may run as")
        if not name:
            raise WorldError(
                "its order names no account, as an older controller's do; upgrade Rota on the controller"
            )
        if os.geteuid() != 0:
            return None
        if name == OWN_ACCOUNT:
            if allow_root:
                return None
            raise WorldError(
                f"its user has no account on the machines, and the agent of node {socket.gethostname()} is "
                "root; submit as a user that was added with --account, or start that agent with --allow-root"
            )
        user = cls.of(name)
        return None if user.uid == os.geteuid() else user

    def may_enter(self, path: Path) -> bool:
        """Whether the permission bits let this user enter the folder."""
        status = path.stat()
        if status.st_uid == self.uid:
            return bool(status.st_mode & stat.S_IXUSR)
        if status.st_gid in self.groups:
            return bool(status.st_mode & stat.S_IXGRP)
        return bool(status.st_mode & stat.S_IXOTH)


def launch_form(
    part: Part,
    home: AgentFolder,
    user: User | None,
    *,
    cores: Sequence[int],
    cuda: Sequence[str],
    port: int | None,
    cgroup: Path | None = None,
) -> dict[str, Any]:
    """Contents of `launch.json` (see the shim) for a part that runs as `user`, or as the agent's if None."""
    folder = home.of(part.row, part.attempt)
    ranks = ranks_of(part)
    common = {**base_environment(user), **part.env, **attempt_environment(part, home, folder, port)}
    common["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(job_path(home.python)), part.env.get("PYTHONPATH", "")])
    )
    workdir = part.workdir or common.get("HOME", "/")
    return {
        "version": 1,
        "boot": boot_id(),
        "part": part.model_dump(mode="json", exclude={"env", "script"}),
        "devices": list(part.devices),
        "cores": list(cores),
        "port": port,
        "command": command_of(part, folder),
        "workdir": workdir,
        "output_limit": part.output_limit,
        "log_limit": part.log_limit,
        "terminal": part.terminal and part.node_rank == 0,
        "env": common,
        "ranks": [
            {
                "rank": rank.rank,
                "cores": [cores[i] for i in places(part, rank)] if cores else [],
                "env": rank_environment(part, rank, len(ranks), cuda) | slurm_environment(part, rank),
                "output": file_of(part, rank, part.output, workdir),
                "error": file_of(part, rank, part.error, workdir),
            }
            for rank in ranks
        ],
        "user": {"uid": user.uid, "gid": user.gid, "groups": user.groups} if user else None,
        "grace_s": part.grace_s,
        "cgroups": [str(cgroup / MEMBERS)] if cgroup else [],
        "contact": str(home.path / CONTACT) if part.self_fence else "",
    }


def ranks_of(part: Part) -> list[Rank]:
    """The processes of a part; if it lists none, one process that sees all devices."""
    return part.ranks or [Rank(rank=0, local_rank=0, devices=part.devices)]


def file_of(part: Part, rank: Rank, pattern: str, workdir: str) -> str:
    """File that the user chose for a rank's output; empty if none."""
    node = part.nodes[part.node_rank] if part.node_rank < len(part.nodes) else socket.gethostname()
    values = {"t": str(rank.rank), "N": node, "n": str(part.node_rank), "s": "batch"}
    named = filled(pattern, values, last=True)
    return os.path.join(workdir, named) if named not in ("", os.devnull) else ""


def places(part: Part, rank: Rank) -> list[int]:
    """Places of the rank's devices in the part's list."""
    return [part.devices.index(device) for device in rank.devices]


def base_environment(user: User | None) -> dict[str, str]:
    """Another user's login environment; for the agent's own user the agent's environment."""
    if user is None:
        return {name: value for name, value in os.environ.items() if not name.startswith(PRIVATE)}
    login = {"HOME": user.home, "USER": user.name, "LOGNAME": user.name, "SHELL": user.shell or "/bin/sh"}
    language = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TZ") if name in os.environ}
    return {"PATH": os.environ.get("PATH", DEFAULT_PATH), **language, **login}


def attempt_environment(part: Part, home: AgentFolder, folder: Folder, port: int | None) -> dict[str, str]:
    """Variables that all ranks of the attempt on this node share.

    The controller's ROTA_GPUS and ROTA_RESTARTS in `part.env` take precedence: it knows other nodes and
    attempts.
    """
    nodes = part.nodes or [socket.gethostname()]
    said = part.env
    return {
        "WORLD_SIZE": str(part.world_size),
        "LOCAL_WORLD_SIZE": str(max(1, len(part.ranks))),
        "GROUP_RANK": str(part.node_rank),
        "GROUP_WORLD_SIZE": str(len(nodes)),
        "ROLE_WORLD_SIZE": str(part.world_size),
        "MASTER_ADDR": part.master,
        **({"MASTER_PORT": str(port)} if port is not None else {}),
        "TORCHELASTIC_RESTART_COUNT": said.get("TORCHELASTIC_RESTART_COUNT", str(part.attempt - 1)),
        "TORCHELASTIC_MAX_RESTARTS": said.get("TORCHELASTIC_MAX_RESTARTS", "0"),
        "TORCHELASTIC_RUN_ID": part.job,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "ROTA_JOB_ID": part.job,
        "ROTA_ATTEMPT": str(part.attempt),
        "ROTA_ATTEMPT_DIR": str(folder.path),
        "ROTA_NODE_RANK": str(part.node_rank),
        "ROTA_NODES": "\n".join(nodes),
        "ROTA_GPUS": said.get("ROTA_GPUS", str(len(part.devices) * len(nodes))),
        "ROTA_GPUS_PER_NODE": str(len(part.devices)),
        "ROTA_RESTARTS": said.get("ROTA_RESTARTS", str(part.attempt - 1)),
        "ROTA_CHECKPOINT_DIR": str(folder.checkpoint),
        "ROTA_RESTORE_DIRS": os.pathsep.join(str(home.checkpoint(part.row, k)) for k in part.restore),
        "ROTA_NOTICE_FILE": str(folder.notice),
        "ROTA_TRAINING_DIR": str(folder.training),
    }


def rank_environment(part: Part, rank: Rank, count: int, cuda: Sequence[str]) -> dict[str, str]:
    """Variables of one rank."""
    own = {
        "RANK": str(rank.rank),
        "LOCAL_RANK": str(rank.local_rank),
        "ROLE_RANK": str(rank.rank),
        "ROTA_LOCAL_DEVICES": ",".join(map(str, rank.devices)),
        "CUDA_VISIBLE_DEVICES": ",".join(cuda[i] for i in places(part, rank)) if cuda else "",
    }
    if "OMP_NUM_THREADS" not in part.env:
        own["OMP_NUM_THREADS"] = str(omp_threads(part, rank, count, bool(cuda)))
    return own


def omp_threads(part: Part, rank: Rank, count: int, gpus: bool) -> int:
    """One thread for each CPU slot; with GPUs the rank's part of the requested CPUs, or 1, as in
    `torchrun`."""
    if gpus:
        return max(1, int(part.cpus / count))
    return max(1, len(rank.devices))


def make_folders(folder: Folder, home: AgentFolder, user: User | None) -> None:
    """Make the attempt's folders, and the one on its PYTHONPATH.

    The attempt's folder belongs to the agent, so that the job cannot change orders and records; its logs,
    training files and checkpoints belong to the job's user. Raises WorldError if that user cannot reach them,
    and OSError if a link or another user's folder is in the way.
    """
    above = (home.attempts, home.checkpoints)
    missing = [path for path in above if not path.exists()]
    for path in missing:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    make_job_path(home.python)
    _make_own(folder, home, user)
    _make_checkpoint(folder, home, user)
    if user is None:
        return
    ours = {path for path in above if path.is_relative_to(home.path)}
    for path in {*ours, *missing}:
        path.chmod(0o711)  # a folder that held only the agent's own jobs needs this as well
    for path in (*reversed(folder.path.parents), *reversed(folder.checkpoint.parents)):
        if not user.may_enter(path):
            raise WorldError(
                f"user {user.name!r} may not enter {path}, which holds the attempt's folders; "
                "`chmod o+x` it, or set ROTA_HOME to a folder such as /var/lib/rota"
            )


def _make_own(folder: Folder, home: AgentFolder, user: User | None) -> None:
    """Make the attempt's folder, with those for logs and training files."""
    own = {os.geteuid()}
    with (
        opened(home.attempts) as top,
        _row(top, folder.path.parent, user) as row,
        entered(row, folder.path.name, own, mode=0o700, where=str(folder.path)) as attempt,
    ):
        for path in (folder.training, folder.logs):
            _hand_over(attempt, path, user)
        if user is not None:
            os.fchown(attempt, -1, user.gid)
            os.fchmod(attempt, 0o710)


def _make_checkpoint(folder: Folder, home: AgentFolder, user: User | None) -> None:
    """Make the attempt's checkpoint folder, which may lie where every user may write."""
    with opened(home.checkpoints) as top, _row(top, folder.checkpoint.parent, user) as row:
        _hand_over(row, folder.checkpoint, user)


@contextmanager
def _row(top: int, path: Path, user: User | None) -> Iterator[int]:
    """The folder of a job, which belongs to the agent and which the job's user may enter."""
    with entered(top, path.name, {os.geteuid()}, mode=0o700, where=str(path)) as row:
        if user is not None:
            os.fchmod(row, 0o711)
        yield row


def _hand_over(parent: int, path: Path, user: User | None) -> None:
    """Make a folder that belongs to the job's user."""
    owners = {os.geteuid()} if user is None else {os.geteuid(), user.uid}
    with entered(parent, path.name, owners, mode=0o700, where=str(path)) as fd:
        if user is not None:
            os.fchown(fd, user.uid, user.gid)


def void_checkpoints(home: AgentFolder, part: Part) -> None:
    """Mark checkpoints of earlier attempts that lost their node as void, so that they publish none."""
    owners = {os.geteuid()}
    with suppress(KeyError):  # the account may have been removed
        owners.add(pwd.getpwnam(part.user).pw_uid)
    for number in part.void:
        path = home.checkpoint(part.row, number)
        try:
            with (
                opened(home.checkpoints) as top,
                entered(top, str(part.row), {os.geteuid()}, where=str(path.parent)) as row,
                entered(row, str(number), owners, where=str(path)) as checkpoint,
            ):
                mark(checkpoint, VOID)
        except FileNotFoundError:
            continue  # the attempt left no checkpoint
        except PermissionError as error:
            LOG.warning("checkpoints of attempt %d of job %s stay valid: %s", number, part.job, error)


def withdraw_unspawned(folder: Folder) -> bool:
    """Remove `launch.json` if the agent that wrote it died before it tried to start the shim.

    The shim's log is made first: without it no shim was started, and the attempt never began. A power cut may
    have lost the log, so this is valid within one boot only. Raises OSError.
    """
    if (folder.path / SHIM_LOG).exists() or (folder.path / EXIT).exists():
        return False
    try:
        form = folder.read(LAUNCH) or {}
    except ValueError:  # the file was edited: the code that attaches reports it
        return False
    if form.get("boot") != boot_id():
        return False
    folder.launch.unlink()
    for path in form["cgroups"]:
        remove(Path(path).parent)
    return True


def spawn(part: Part, folder: Path, form: Mapping[str, Any]) -> tuple[Child, int]:
    """Start the shim of an attempt; raises OSError if this machine cannot.

    `form` is the contents of its `launch.json`. Returns the process, which ends as soon as the shim has the
    lock (or with an exit code that says why not), and the read end of a pipe on which the shim reports its
    progress; the caller closes both.
    """
    environment = {name: os.environ[name] for name in SHIM_KNOWS if name in os.environ}
    environment |= {
        "ROTA_JOB_ID": part.job,
        "ROTA_ATTEMPT": str(part.attempt),
        "ROTA_ATTEMPT_DIR": str(folder),
    }
    log = os.open(folder / SHIM_LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    crash_point("shim log made")
    mine, theirs = os.pipe2(os.O_CLOEXEC)
    compiled = native.program()
    try:
        if compiled is not None:
            child: Child = native.start(compiled, folder, form, environment, log, theirs)
        else:
            child = _interpreted(folder, environment, log, theirs)
    except OSError:
        os.close(mine)
        raise
    finally:
        os.close(theirs)
        os.close(log)
    return child, mine


def _interpreted(folder: Path, environment: Mapping[str, str], log: int, pipe: int) -> Child:
    """Start the shim in an interpreter of its own."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(SHIM_PROGRAM), str(folder), str(pipe)],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd="/",
        env=environment,
        pass_fds=(pipe,),
    )
