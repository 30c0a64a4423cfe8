"""Scripts as people submit them to sbatch: what they find, whom a notice reaches, what a limit ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_cluster import LiveCluster
from shared import FAST, attempts, emptied, log_of

from rota.client.fields import make_spec
from rota.client.sbatch import parse_sbatch

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    with LiveCluster(tmp_path_factory.mktemp("sbatch"), devices="cpu:2", **FAST) as live:
        yield live


@pytest.fixture
def live(cluster: LiveCluster) -> Iterator[LiveCluster]:
    yield from emptied(cluster)


def sbatch(live: LiveCluster, text: str, *arguments: str, **fields: Any) -> str:
    """Submit the script `go.sh` with this text; its id."""
    script = parse_sbatch(text, Path("/x/go.sh"), arguments, "/tmp")
    env = {"PATH": os.environ["PATH"], **script.fields["env"]}
    spec = make_spec({"workdir": "/tmp", **script.fields, "env": env, **fields})
    (job,) = live.client.call("POST", "/v1/jobs", {"spec": spec.model_dump()})["jobs"]
    return str(job["id"])


GUARD = """\
#!/bin/bash
#SBATCH -t 1
set -euo pipefail
trap 'echo "line $LINENO of ${BASH_SOURCE[0]##*/}"' ERR
main() { echo "trains with $*, job $SLURM_JOB_ID"; }
if [[ "${BASH_SOURCE[0]}" == "${0}" ]]; then main "$@"; fi
cd "$(dirname "$0")"
[ -n "${AGAIN:-}" ] || AGAIN=1 exec "$0" again
false
"""


def test_a_script_knows_its_own_file(live: LiveCluster) -> None:
    """As under sbatch: `BASH_SOURCE`, `$0`, its folder, traps, `exec "$0"`; a copy that its user alone reads,
    and that goes with the job."""
    id = sbatch(live, GUARD, "data/", "b c")
    assert live.wait(id)["exit_code"] == 1
    assert log_of(live, id) == (
        f"trains with data/ b c, job {id}\ntrains with again, job {id}\nline 9 of script\n"
    )
    folder = live.agent_home() / "attempts" / str(int(id) - 1) / "1"
    live.until(lambda: not (folder / "launch.json").exists(), "a job that is forgotten")
    assert not (folder / "script").exists()


def test_another_interpreter_and_each_attempt_have_the_file(live: LiveCluster) -> None:
    """Also after the job was run again: its variables say so."""
    text = (
        "#!/usr/bin/env -S python3 -u\nimport os, stat, sys\n"
        "mode = oct(stat.S_IMODE(os.stat(__file__).st_mode))\n"
        "print(sys.argv[1:], mode, os.environ['SLURM_RESTART_COUNT'])\n"
        "sys.exit(85 if os.environ['ROTA_ATTEMPT'] == '1' else 0)\n"
    )
    id = sbatch(live, text, "x")
    assert live.wait(id)["state"] == "COMPLETED"
    assert [log_of(live, id, attempt=k) for k in (1, 2)] == [f"['x'] 0o700 {k}\n" for k in (0, 1)]


CHILD = """\
#!/bin/bash
#SBATCH -t 0:03 --signal={to}USR1@{ahead} -n 1
{trap}
python3 -u -c "
import signal, sys, time
{handler}
print('ready')
end = time.time() + 20
while time.time() < end: time.sleep(.05)" {wait}
echo "the shell goes on"
exit {code}
"""
HANDLER = "signal.signal(signal.SIGUSR1, lambda n, f: (print('python got SIGUSR1'), sys.exit(0)))"


def child(
    to: str = "", ahead: int = 2, trap: str = "", handler: str = HANDLER, wait: str = "", code: int = 0
) -> str:
    return CHILD.format(to=to, ahead=ahead, trap=trap, handler=handler, wait=wait, code=code)


HEARD = ["python got SIGUSR1", "the shell goes on"]
NOTICES: dict[str, tuple[str, list[str], str]] = {
    "the child": (child(), HEARD, "COMPLETED"),
    "a notice longer than the limit": (child(ahead=8), HEARD, "COMPLETED"),
    "with B: the shell": (
        child("B:", trap="trap 'echo shell got it; kill $!; exit 3' USR1", wait="& wait"),
        ["shell got it"],
        "TIMEOUT",
    ),
    "that asks to be run again": (child(code=85), HEARD, "TIMEOUT"),
    "nothing that would die of it": (child(handler=""), [], "TIMEOUT"),
}


def test_a_notice_comes_before_the_limit(live: LiveCluster) -> None:
    """To the children of the script, or with `B:` to it; leaving then with another code than 0 is TIMEOUT."""
    ids = {name: sbatch(live, text, grace_s=1) for name, (text, _, _) in NOTICES.items()}
    for name, (_, said, state) in NOTICES.items():
        job = live.wait(ids[name])
        assert (name, log_of(live, ids[name]).splitlines()) == (name, ["ready", *said])
        assert (name, job["state"]) == (name, state)
        assert job["run_s"] < 2.9 or not said, name
        assert state != "TIMEOUT" or "its time limit of 3s" in job["cause"], name
        assert len(attempts(live, ids[name])) == 1, name
