"""What a rank finds: environment, user, cores, folders."""

from __future__ import annotations

import json
import os
import pwd
import stat
from dataclasses import fields
from pathlib import Path

import pytest

from attempts import gone, part
from rota.engines.rota.folder import AgentFolder
from rota.engines.rota.job_path import job_path
from rota.engines.rota.launching import User, launch_form, make_folders, void_checkpoints
from rota.engines.rota.script import put_script
from rota.engines.rota.supervisor import Supervisor
from rota.errors import WorldError
from rota.server.config import Config, choose
from rota.wire.accounts import NO_ACCOUNT, OWN_ACCOUNT
from rota.wire.sync import Part, PartStatus, Rank, Wanted

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs commands as others")


@pytest.fixture
def home(tmp_path: Path) -> AgentFolder:
    return AgentFolder(tmp_path / "agent", tmp_path / "agent" / "checkpoints")


def gang(**fields: object) -> Part:
    """Node 1 of two: two ranks of four on GPUs 4 and 6."""
    known = {
        "user": OWN_ACCOUNT,
        "row": 16,
        "job": "17",
        "attempt": 3,
        "version": 1,
        "wanted": Wanted.RUN,
        "devices": [4, 6],
        "ranks": [Rank(rank=2, local_rank=0, devices=[4]), Rank(rank=3, local_rank=1, devices=[6])],
        "world_size": 4,
        "node_rank": 1,
        "nodes": ["alpha", "beta"],
        "master": "10.0.0.1",
        "command": ["train"],
        "workdir": "/data",
        "restore": [2, 1],
    }
    return Part.model_validate(known | fields)


def environment(one: Part, home: AgentFolder, index: int = 0, **how: object) -> dict[str, str]:
    """All that a rank sees."""
    settings = {"cores": (), "cuda": ("4", "6"), "port": 29400} | how
    user = User.given(one.user, allow_root=True)
    form = launch_form(one, home, user, **settings)  # type: ignore[arg-type]
    found: dict[str, str] = {**form["env"], **form["ranks"][index]["env"]}
    return found


def test_a_rank_of_a_gang_sees_what_torchrun_would_say(home: AgentFolder) -> None:
    """And what Rota says."""
    folder = home.path / "attempts/16/3"
    wanted = {
        "RANK": "3",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "4",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "1",
        "ROLE_RANK": "3",
        "ROLE_WORLD_SIZE": "4",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "29400",
        "TORCHELASTIC_RESTART_COUNT": "2",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_RUN_ID": "17",
        "CUDA_VISIBLE_DEVICES": "6",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "OMP_NUM_THREADS": "1",
        "ROTA_JOB_ID": "17",
        "ROTA_ATTEMPT": "3",
        "ROTA_ATTEMPT_DIR": str(folder),
        "ROTA_NODE_RANK": "1",
        "ROTA_NODES": "alpha\nbeta",
        "ROTA_GPUS": "4",
        "ROTA_GPUS_PER_NODE": "2",
        "ROTA_RESTARTS": "2",
        "ROTA_LOCAL_DEVICES": "6",
        "ROTA_CHECKPOINT_DIR": str(home.path / "checkpoints/16/3"),
        "ROTA_RESTORE_DIRS": f"{home.path}/checkpoints/16/2:{home.path}/checkpoints/16/1",
        "ROTA_NOTICE_FILE": str(folder / "notice.json"),
        "ROTA_TRAINING_DIR": str(folder / "training"),
        "PYTHONPATH": str(job_path(home.python)),
    }
    found = environment(gang(), home, 1)
    assert {name: found.get(name) for name in wanted} == wanted


def test_nothing_that_a_rank_sees_is_a_setting(home: AgentFolder) -> None:
    """A cluster that is started from within a job is not configured by that job's environment."""
    with_array = gang(env={"ROTA_ARRAY_INDEX": "1", "ROTA_ARRAY_JOB_ID": "17"})
    settings = {f"ROTA_{one.name.upper()}" for one in fields(Config)}
    assert settings.isdisjoint(environment(with_array, home))
    chosen = choose(home.path, {}, environment(with_array, home))
    assert set(chosen.source.values()) == {"default"}


@pytest.mark.parametrize(
    ("fields", "how", "name", "value"),
    [
        ({}, {"cuda": (), "cores": (0, 1)}, "CUDA_VISIBLE_DEVICES", ""),  # CPU slots: no GPU by accident
        (
            {},
            {"cuda": ("GPU-a", "GPU-b")},
            "CUDA_VISIBLE_DEVICES",
            "GPU-a",
        ),  # by place, not by index
        ({"env": {"OMP_NUM_THREADS": "7"}}, {}, "OMP_NUM_THREADS", "7"),  # the user's word
        ({"cpus": 12.0}, {}, "OMP_NUM_THREADS", "6"),  # the rank's part of the CPUs asked for
        ({"env": {"RANK": "9"}}, {}, "RANK", "2"),  # a job submitted from within a job
        ({"env": {"ROTA_JOB_ID": "9"}}, {}, "ROTA_JOB_ID", "17"),
        ({"env": {"ROTA_GPUS": "3"}}, {}, "ROTA_GPUS", "3"),  # the controller knows unequal nodes
        ({"env": {"ROTA_RESTARTS": "1"}}, {}, "ROTA_RESTARTS", "1"),  # not every attempt was a restart
        ({"env": {"PYTHONPATH": "/mine"}}, {}, "PYTHONPATH", "{python}:/mine"),
        ({"env": {"PATH": "/mine"}}, {}, "PATH", "/mine"),
    ],
)
def test_who_has_the_last_word(
    home: AgentFolder, fields: dict[str, object], how: dict[str, object], name: str, value: str
) -> None:
    """The user's environment over the agent's, Rota's over both."""
    assert environment(gang(**fields), home, **how)[name] == value.format(python=job_path(home.python))


def test_the_agents_own_secrets_stay_with_it(home: AgentFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ROTA_ variables are not the job's business; the rest of a shared login is."""
    monkeypatch.setenv("ROTA_TOKEN", "secret")
    monkeypatch.setenv("FLAVOUR", "mint")
    found = environment(gang(), home)
    assert "ROTA_TOKEN" not in found
    assert found["FLAVOUR"] == "mint"


@needs_root
def test_another_user_gets_a_login(home: AgentFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of root's environment but path, language and time zone."""
    monkeypatch.setenv("FLAVOUR", "mint")
    monkeypatch.setenv("LANG", "C.UTF-8")
    found = environment(gang(user="nobody"), home)
    assert "FLAVOUR" not in found
    assert (found["USER"], found["HOME"], found["LANG"]) == (
        "nobody",
        pwd.getpwnam("nobody").pw_dir,
        "C.UTF-8",
    )


def test_each_rank_is_pinned_to_the_cores_of_its_devices(home: AgentFolder) -> None:
    """With one process for the node, to all of them; and that many threads."""
    form = launch_form(gang(), home, None, cores=(10, 20), cuda=(), port=None)
    assert [rank["cores"] for rank in form["ranks"]] == [[10], [20]]
    one = gang(ranks=[Rank(rank=1, local_rank=0, devices=[4, 6])])
    form = launch_form(one, home, None, cores=(10, 20), cuda=(), port=None)
    assert [rank["cores"] for rank in form["ranks"]] == [[10, 20]]
    assert form["ranks"][0]["env"]["OMP_NUM_THREADS"] == "2"
    assert form["ranks"][0]["env"]["ROTA_LOCAL_DEVICES"] == "4,6"


def test_a_part_without_devices_has_one_rank(home: AgentFolder) -> None:
    """A job of 0 GPUs runs once, and sees none."""
    one = gang(devices=[], ranks=[], world_size=1, nodes=[])
    form = launch_form(one, home, None, cores=(), cuda=(), port=None)
    assert [rank["rank"] for rank in form["ranks"]] == [0]
    found = environment(one, home, cuda=())
    assert (found["CUDA_VISIBLE_DEVICES"], found["ROTA_GPUS"]) == ("", "0")
    assert "MASTER_PORT" not in environment(one, home, cuda=(), port=None)


def test_only_the_owner_reads_the_environment(tmp_path: Path) -> None:
    """launch.json holds what the user's environment holds."""
    supervisor = Supervisor(tmp_path / "agent")
    live = gone(supervisor, supervisor.start(part(0, "true", env={"API_KEY": "secret"})))
    assert live.status is PartStatus.ENDED
    path = live.folder.launch
    assert json.loads(path.read_text())["env"]["API_KEY"] == "secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    supervisor.close()


@needs_root
def test_a_job_of_another_user_owns_its_own_folders_only(tmp_path: Path) -> None:
    """Logs, training and checkpoints are theirs to write; orders and records not even to read."""
    for path in (tmp_path, *tmp_path.parents[:-1]):
        path.chmod(path.stat().st_mode | 0o011)
    old = os.umask(0o077)  # a careful root
    try:
        supervisor = Supervisor(tmp_path / "agent")
        (tmp_path / "agent").mkdir()
        (tmp_path / "agent").chmod(0o711)
        script = """
            id -un
            cd $ROTA_ATTEMPT_DIR
            echo x > logs/mine; echo x > training/mine; echo x > $ROTA_CHECKPOINT_DIR/mine
            for name in launch.json exit.json notice.json; do
                (echo x > $name) 2> /dev/null && echo wrote $name
            done
            cat launch.json 2> /dev/null
            mv logs elsewhere 2> /dev/null && echo moved
            ls .. 2> /dev/null
            exit 0
        """
        live = gone(supervisor, supervisor.start(part(0, "/bin/sh", "-c", script, user="nobody")))
    finally:
        os.umask(old)
    assert live.end is not None
    assert (live.end.tail, live.end.code) == ("nobody\n", 0)
    assert (live.folder.logs / "mine").exists()
    assert (live.folder.training / "mine").exists()
    assert (live.folder.checkpoint / "mine").exists()
    supervisor.close()


ALONE = "its user has no account on the machines, and the agent of node .* is root; submit as a user that was"
OLDER = "its order names no account, as an older controller's do; upgrade Rota on the controller"
NONE = "the controller has no account on record that it may run as"
GONE = "has no user 'no-such-account'; create the account, or drain the node"


@pytest.mark.parametrize(
    ("uid", "name", "allow_root", "runs_as"),
    [
        (0,    OWN_ACCOUNT, False, ALONE),
        (0,    OWN_ACCOUNT, True,  None),
        (1000, OWN_ACCOUNT, False, None),
        (0,    "root",      False, None),      # named: what root submits to its own controller
        (0,    "nobody",    False, "nobody"),
        (1000, "nobody",    False, None),      # it cannot become another one
        (0,    "no-such-account", True, GONE),
        (0,    "",          True,  OLDER),
        (1000, "",          True,  OLDER),
        (0,    NO_ACCOUNT,  True,  NONE),
        (1000, NO_ACCOUNT,  True,  NONE),
    ],
)  # fmt: skip
def test_an_account_is_given_or_nothing_starts(
    monkeypatch: pytest.MonkeyPatch, uid: int, name: str, allow_root: bool, runs_as: str | None
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    if runs_as is None or runs_as == name:
        user = User.given(name, allow_root=allow_root)
        assert (None if user is None else user.name) == runs_as
        return
    with pytest.raises(WorldError, match=runs_as):
        User.given(name, allow_root=allow_root)


def test_a_part_without_an_account_is_lost_and_says_why(tmp_path: Path) -> None:
    """As an older controller sends it, which meant the agent's own."""
    supervisor = Supervisor(tmp_path / "agent")
    live = supervisor.start(part(0, "true", user=""))
    assert (live.status, live.why) == (PartStatus.LOST, f"it could not be started on this machine: {OLDER}")
    supervisor.close()


@needs_root
def test_a_home_that_the_user_cannot_enter_is_named(tmp_path: Path) -> None:
    """In one sentence with the way out."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    for path in tmp_path, *tmp_path.parents[:-1]:
        path.chmod(path.stat().st_mode | 0o011)
    home = AgentFolder(closed / "agent", closed / "agent" / "checkpoints")
    with pytest.raises(WorldError, match=f"user 'nobody' may not enter {closed}, which holds"):
        make_folders(home.of(0, 1), home, User.of("nobody"))


def test_void_attempts_are_marked(home: AgentFolder) -> None:
    """Those whose folder is on this machine; the others have nothing to publish here."""
    home.checkpoint(16, 1).mkdir(parents=True)
    void_checkpoints(home, gang(void=[1, 2]))
    assert (home.checkpoint(16, 1) / "VOID").exists()
    assert not home.checkpoint(16, 2).exists()


def test_a_workdir_is_found(home: AgentFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job's; otherwise its user's home."""
    monkeypatch.setenv("HOME", "/home/me")
    assert launch_form(gang(), home, None, cores=(), cuda=(), port=None)["workdir"] == "/data"
    assert launch_form(gang(workdir=""), home, None, cores=(), cuda=(), port=None)["workdir"] == "/home/me"


SCRIPT = '#!/usr/bin/env -S bash -e\necho "$0"\n'


def test_a_script_runs_as_a_file_by_its_own_interpreter(home: AgentFolder) -> None:
    """With its arguments; the text is nowhere but in that file."""
    one = gang(command=["go.sh", "a b"], script=SCRIPT)
    form = launch_form(one, home, None, cores=(), cuda=(), port=None)
    assert form["command"] == ["/usr/bin/env", "-S bash -e", str(home.path / "attempts/16/3/script"), "a b"]
    assert "echo" not in json.dumps(form)


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({}, {"SLURM_RESTART_COUNT": "2"}),
        (
            {"ROTA_ARRAY_INDEX": "7", "ROTA_ARRAY_JOB_ID": "10", "ROTA_RESTARTS": "1"},
            {"SLURM_ARRAY_TASK_ID": "7", "SLURM_ARRAY_JOB_ID": "10", "SLURM_RESTART_COUNT": "1"},
        ),
    ],
    ids=["one job", "of an array"],
)
def test_a_script_finds_what_slurm_would_say(
    home: AgentFolder, env: dict[str, str], said: dict[str, str]
) -> None:
    always = {
        "SLURM_JOB_ID": "17",
        "SLURM_JOBID": "17",
        "SLURM_NODEID": "1",
        "SLURM_PROCID": "3",
        "SLURM_LOCALID": "1",
    }
    found = environment(gang(script=SCRIPT, env=env), home, 1)
    assert {name: text for name, text in found.items() if name.startswith("SLURM_")} == always | said
    assert not any(name.startswith("SLURM_") for name in environment(gang(env=env), home, 1))


@pytest.mark.parametrize("other", [False, pytest.param(True, marks=needs_root)], ids=["own", "another user"])
def test_the_script_is_its_users_alone(home: AgentFolder, other: bool) -> None:
    """Also where an earlier try has left a file, or a link, in its place."""
    folder, owner = home.of(16, 3), (65534, 65534) if other else None
    make_folders(folder, home, None)
    victim = home.path / "victim"
    victim.write_text("kept")
    folder.script.symlink_to(victim)
    for _ in range(2):
        put_script(folder, SCRIPT, owner)
        status = folder.script.lstat()
        assert stat.S_IMODE(status.st_mode) == 0o700
        assert status.st_uid == (65534 if other else os.geteuid())
        assert folder.script.read_text() == SCRIPT
    assert victim.read_text() == "kept"
