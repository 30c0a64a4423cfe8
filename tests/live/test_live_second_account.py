"""A root agent and a user with an account of their own, who puts links wherever that account may write."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from live_cluster import LiveCluster
from shared import FAST, log_of

from rota.client import Client

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root runs commands as others"),
    pytest.mark.skipif(shutil.which("useradd") is None, reason="there is no useradd to make an account with"),
]
SECRET = "what only root may read"
PYTHON = "/usr/bin/python3"
"""One that every account may run; this one may lie in root's home."""
LINKS = """
import glob, os, sys, time
precious, work = sys.argv[1:]
made = refused = 0

def link(target, path):
    global made, refused
    try:
        if os.path.lexists(path): os.rename(path, path + ".was")
        os.symlink(target, path)
        made += 1
    except OSError:
        refused += 1

key = os.path.join(precious, "key")
checkpoint, training = os.environ["ROTA_CHECKPOINT_DIR"], os.environ["ROTA_TRAINING_DIR"]
attempt = os.path.dirname(training)
for name in ("VOID", "job.json", "void", "meta.json", "newest", "step-1"):
    link(key, os.path.join(checkpoint, name))
    link(os.path.join(precious, "new-" + name), os.path.join(checkpoint, "new-" + name))
link(precious, os.path.join(checkpoint, "deep"))
for path in glob.glob(training + "/*") + [training + "/" + name for name in (
    "progress.json", "ready.json", "notice.json", "events.jsonl", "curves.jsonl", "state.json", "contact")]:
    link(key, path)
for path in glob.glob(attempt + "/*") + glob.glob(attempt + "/logs/*"):
    link(precious if os.path.isdir(path) else key, path)
row = os.path.dirname(checkpoint)
for number in ("2", "3", "4"):  # of attempts to come
    link(precious, os.path.join(row, number))
    link(precious, os.path.join(os.path.dirname(attempt), number))
for path in (checkpoint, training, row, attempt, os.path.dirname(attempt)):
    link(precious, path)
link(os.path.join(precious, "out"), os.path.join(work, "out-2.txt"))
link(precious, os.path.join(work, "out"))
print(made, "links", refused, "refused", flush=True)
open(os.path.join(work, "done-" + os.environ["ROTA_ATTEMPT"]), "w").close()
while os.environ["ROTA_ATTEMPT"] == "1": time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def account() -> Iterator[str]:
    """Of nobody else; removed afterwards."""
    name = f"rota-t{os.getpid()}"
    made = subprocess.run(
        ["useradd", "--system", "--no-create-home", "--shell", "/bin/sh", name],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode:
        pytest.skip(f"useradd makes no account here: {made.stderr.strip()}")
    yield name
    subprocess.run(["userdel", "--force", name], check=True, capture_output=True)


@pytest.fixture
def folder() -> Iterator[Path]:
    """That other accounts may enter."""
    with tempfile.TemporaryDirectory(prefix="rota-live-", ignore_cleanup_errors=True) as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture
def precious(folder: Path) -> Path:
    """Of root alone: a key, and a folder."""
    (made := folder / "precious").mkdir(mode=0o700)
    (made / "key").write_text(SECRET)
    (made / "key").chmod(0o600)
    (made / "below").mkdir(mode=0o700)
    return made


class Sharing(LiveCluster):
    """A cluster that keeps what has ended for seconds, with checkpoints where it is told."""

    def __init__(self, folder: Path, checkpoints: Path | None) -> None:
        super().__init__(folder, devices="cpu:2", keep_checkpoints=1.0, keep_files=2.0, **FAST)
        self._more = [] if checkpoints is None else ["--checkpoints", str(checkpoints)]

    def _spawn(
        self, name: str, arguments: list[str], environment: Mapping[str, str] | None
    ) -> subprocess.Popen[bytes]:
        more = self._more if name.startswith("agent-") else []
        return super()._spawn(name, [*arguments, *more], environment)


def state_of(folder: Path) -> dict[str, tuple[object, ...]]:
    """Names, owners, rights and contents of all that lies there, the folder itself included."""
    told: dict[str, tuple[object, ...]] = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        stat = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        told[str(path)] = stat.st_uid, stat.st_gid, stat.st_mode, content
    return told


@pytest.mark.parametrize("shared", [False, True], ids=["its own checkpoints", "checkpoints all may write"])
def test_no_link_leads_root_anywhere(folder: Path, precious: Path, account: str, shared: bool) -> None:
    """While attempts run, are stopped, lost, begun anew, read, ended and removed: root writes, reads, chowns
    and deletes nothing but what is the job's."""
    before = state_of(precious)
    (work := folder / "work").mkdir()
    shutil.chown(work, account)
    (everybody := folder / "everybody").mkdir()
    everybody.chmod(0o1777)
    with Sharing(folder / "cluster", everybody if shared else None) as live:
        token = live.client.call("POST", "/v1/users", {"name": "mallory", "account": account})["token"]
        url = json.loads((live.home / "controller.json").read_text())["url"]
        with Client(url, token) as mallory:
            spec = {
                "command": [PYTHON, "-c", LINKS, str(precious), str(work)],
                "workdir": str(work), "output": "out-{attempt}.txt", "grace_s": 0.5,
            }  # fmt: skip
            id = str(mallory.call("POST", "/v1/jobs", {"spec": spec})["jobs"][0]["id"])
            live.until((work / "done-1").exists, "links in all places")
            assert SECRET not in log_of(live, id)
            live.kill_agent()
            live.start_agent()
            for verb, state in (("suspend", "SUSPENDED"), ("resume", "RUNNING")):
                mallory.call("POST", f"/v1/jobs/{id}/{verb}", {})
                live.reaches(id, state)
            mallory.call("POST", f"/v1/jobs/{id}/requeue", {})
            ended = live.wait(id)
            assert ended["attempt"] > 1, ended
            said = mallory.call("GET", f"/v1/jobs/{id}/logs")
            assert SECRET not in json.dumps(said)
            row = str(int(id) - 1)
            live.until(
                lambda: not (live.agent_home() / "attempts" / row).exists(), "that its files are removed"
            )
            honest = live.submit("true")
            assert live.wait(honest)["state"] == "COMPLETED"
        assert state_of(precious) == before
    assert state_of(precious) == before
