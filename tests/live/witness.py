"""Jobs that leave evidence: python witness.py FOLDER plain|cooperative STEPS STEP_S

With 0 steps it goes on until there is a file FOLDER/go.

Each job has one file, FOLDER/JOB.txt, to which its attempts append one line at a time: `START attempt pid`,
`END attempt`; `TWICE attempt` if another attempt of the same job runs beside this one, which a lock tells for
certain; and `AGAIN attempt` if an earlier attempt had come to its end and nobody knew.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from pathlib import Path


def main() -> None:
    folder, kind, steps, step_s = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    job, attempt = os.environ["ROTA_JOB_ID"], os.environ["ROTA_ATTEMPT"]
    evidence = os.open(folder / f"{job}.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)

    def say(word: str, more: str = "") -> None:
        os.write(evidence, f"{word} {attempt}{more}\n".encode())

    lock = os.open(folder / f"{job}.lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("TWICE")
        sys.exit(3)
    say("START", f" {os.getpid()}")
    if kind == "plain":
        done = 0
        while goes_on(folder, steps, done):
            time.sleep(step_s)
            done += 1
    else:
        train(folder, steps, step_s)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # who has said that it has ended does end, but for kill -9
    ended = any(line.startswith("END") for line in (folder / f"{job}.txt").read_text().splitlines())
    say("AGAIN" if ended else "END")


def goes_on(folder: Path, steps: int, done: int) -> bool:
    return done < steps if steps else not (folder / "go").exists()


def train(folder: Path, steps: int, step_s: float) -> None:
    """A loop that can be suspended, sent away and restored."""
    import rota.training as rota

    job = rota.attach(state={"loss": 1.0}, batch_size=4, checkpoint_every_s=0.5)
    for done in job.steps(steps or 10**9):
        if not goes_on(folder, steps, done):
            job.finish()
            break
        time.sleep(step_s)
        job.step(loss=1.0, samples=4)


if __name__ == "__main__":
    main()
