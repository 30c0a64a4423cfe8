"""From what the controller wants to `launch.json`: command, user, cores and environment of every rank."""

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
"""Variables of the agent's own environment that are none of a job's business: `rota up` hands on its own, and
with it the password of the controller's database."""
SHIM_KNOWS = ("PATH", "LD_LIBRARY_PATH", VARIABLE)
"""Variables of the agent that its shims get: what the interpreter needs, and tests."""
SHIM_PROGRAM = Path(__file__).with_name("shim.py")
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Child(Protocol):
    """A process that we have started."""

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        ...

    def kill(self) -> None:
        """SIGKILL, unless it has ended."""
        ...


@dataclass(frozen=True)
class User:
    """Whom a command runs as."""

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
        """The user to switch to, by what `Part.user` says; None if the command runs as the agent's own.

        `allow_root` lets OWN_ACCOUNT mean root, if that is what the agent is.  Raises WorldError if no
        account is given or this machine lacks it, and for root if that is not allowed.
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
        """Whether the permission bits let this user search the folder."""
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
    """The content of `launch.json` (see the shim) of a part that runs as `user`; None is the agent's own."""
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
    """The processes of a part; one that sees all devices if it names none."""
    return part.ranks or [Rank(rank=0, local_rank=0, devices=part.devices)]


def file_of(part: Part, rank: Rank, pattern: str, workdir: str) -> str:
    """The file of the user's choice that a rank's output goes to; empty for none."""
    node = part.nodes[part.node_rank] if part.node_rank < len(part.nodes) else socket.gethostname()
    values = {"t": str(rank.rank), "N": node, "n": str(part.node_rank), "s": "batch"}
    named = filled(pattern, values, last=True)
    return os.path.join(workdir, named) if named not in ("", os.devnull) else ""


def places(part: Part, rank: Rank) -> list[int]:
    """Where the rank's devices stand in the part's list."""
    return [part.devices.index(device) for device in rank.devices]


def base_environment(user: User | None) -> dict[str, str]:
    """What a login would give another user; for the agent's own user what the agent itself has."""
    if user is None:
        return {name: value for name, value in os.environ.items() if not name.startswith(PRIVATE)}
    login = {"HOME": user.home, "USER": user.name, "LOGNAME": user.name, "SHELL": user.shell or "/bin/sh"}
    language = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TZ") if name in os.environ}
    return {"PATH": os.environ.get("PATH", DEFAULT_PATH), **language, **login}


def attempt_environment(part: Part, home: AgentFolder, folder: Folder, port: int | None) -> dict[str, str]:
    """What all ranks of the attempt on this node share.  ROTA_GPUS and ROTA_RESTARTS are the controller's if
    it says them in `part.env`: it knows other nodes and other attempts."""
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
    """What is this rank's own."""
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
    """One for each CPU slot; beside GPUs the rank's part of the CPUs asked for, or 1, as `torchrun` does."""
    if gpus:
        return max(1, int(part.cpus / count))
    return max(1, len(rank.devices))


def make_folders(folder: Folder, home: AgentFolder, user: User | None) -> None:
    """Make the attempt's folders, and the one on its PYTHONPATH.

    The folder itself stays the agent's, so that the job cannot touch orders and records; logs, training and
    checkpoints are the job's user's.  Raises WorldError if that user cannot come so far, OSError for a link
    or somebody else's folder in the way.
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
        path.chmod(0o711)  # also those that held the agent's own jobs only
    for path in (*reversed(folder.path.parents), *reversed(folder.checkpoint.parents)):
        if not user.may_enter(path):
            raise WorldError(
                f"user {user.name!r} may not enter {path}, which holds the attempt's folders; "
                "`chmod o+x` it, or set ROTA_HOME to a folder such as /var/lib/rota"
            )


def _make_own(folder: Folder, home: AgentFolder, user: User | None) -> None:
    """The attempt's folder, and those of logs and training in it."""
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
    """The attempt's checkpoint folder, which may lie where every user may write."""
    with opened(home.checkpoints) as top, _row(top, folder.checkpoint.parent, user) as row:
        _hand_over(row, folder.checkpoint, user)


@contextmanager
def _row(top: int, path: Path, user: User | None) -> Iterator[int]:
    """The folder of a job, ours, through which its user may go."""
    with entered(top, path.name, {os.geteuid()}, mode=0o700, where=str(path)) as row:
        if user is not None:
            os.fchmod(row, 0o711)
        yield row


def _hand_over(parent: int, path: Path, user: User | None) -> None:
    """Make a folder that is the job's user's own."""
    owners = {os.geteuid()} if user is None else {os.geteuid(), user.uid}
    with entered(parent, path.name, owners, mode=0o700, where=str(path)) as fd:
        if user is not None:
            os.fchown(fd, user.uid, user.gid)


def void_checkpoints(home: AgentFolder, part: Part) -> None:
    """Earlier attempts that lost their node must not publish: `rota.training` looks for VOID."""
    owners = {os.geteuid()}
    with suppress(KeyError):  # the account may be gone
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
            continue  # it has left none
        except PermissionError as error:
            LOG.warning("checkpoints of attempt %d of job %s stay valid: %s", number, part.job, error)


def withdraw_unspawned(folder: Folder) -> bool:
    """Take `launch.json` back if the agent that wrote it died before it tried to start the shim.

    The shim's log is made first: without it no shim is on its way, and the attempt is one that never began.
    After a power cut the log may be what was lost, so this holds for the same boot only.  Raises OSError.
    """
    if (folder.path / SHIM_LOG).exists() or (folder.path / EXIT).exists():
        return False
    try:
        form = folder.read(LAUNCH) or {}
    except ValueError:  # somebody has edited it: whoever attaches says so
        return False
    if form.get("boot") != boot_id():
        return False
    folder.launch.unlink()
    for path in form["cgroups"]:
        remove(Path(path).parent)
    return True


def spawn(part: Part, folder: Path, form: Mapping[str, Any]) -> tuple[Child, int]:
    """Start the shim of an attempt; raises OSError if this machine cannot.

    `form` is what its `launch.json` holds.  Returns the process that ends as soon as the shim has the lock
    (or cannot: its exit code says why), and the end of a pipe on which the shim tells how far it is; both are
    the caller's to close.
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
    """The shim in an interpreter of its own."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(SHIM_PROGRAM), str(folder), str(pipe)],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd="/",
        env=environment,
        pass_fds=(pipe,),
    )
