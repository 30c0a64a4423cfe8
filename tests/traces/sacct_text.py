"""Small accounting dumps, as Slurm 22.05 with slurmdbd prints them."""

from __future__ import annotations

from rota.traces.sacct_rows import FIELDS

DAY = "2024-03-01T"
USUAL = {
    "JobID": "", "JobName": "train", "User": "ann", "Account": "vision", "Partition": "a100", "QOS": "normal",
    "Priority": "1000", "Submit": "09:00:00", "Eligible": "", "Start": "09:00:00", "End": "10:00:00",
    "ElapsedRaw": "", "TotalCPU": "", "TimelimitRaw": "120", "State": "COMPLETED", "ExitCode": "0:0",
    "NodeList": "gpu01",
    "ReqTRES": "billing=4,cpu=4,gres/gpu=1,mem=16G,node=1",
    "AllocTRES": "billing=4,cpu=4,gres/gpu:a100=1,gres/gpu=1,node=1",
}  # fmt: skip
WAITING = {
    "Start": "Unknown", "End": "Unknown", "ElapsedRaw": "0", "State": "PENDING", "NodeList": "None assigned",
    "AllocTRES": "",
}  # fmt: skip


def gpus(count: int, kind: str = "") -> str:
    """A TRES text with so many GPUs, of a type if it is named."""
    typed = f"gres/gpu:{kind}={count}," if kind else ""
    return f"billing=1,cpu=1,{typed}gres/gpu={count},node=1"


def row(id: str, **said: str) -> str:
    """One line; stamps without a day are of `DAY`, and what is not said is as usual."""
    cells = {**USUAL, "JobIDRaw": id, **said}
    cells["JobID"] = cells["JobID"] or id
    cells["Eligible"] = cells["Eligible"] or cells["Submit"]
    if not cells["ElapsedRaw"]:
        cells["ElapsedRaw"] = str(_seconds(cells["End"]) - _seconds(cells["Start"]))
    for name in ("Submit", "Eligible", "Start", "End"):
        if cells[name][:2].isdigit() and "T" not in cells[name]:
            cells[name] = DAY + cells[name]
    return "|".join(cells[name] for name in FIELDS)


def dump(*rows: str) -> str:
    """The rows below their header."""
    return "\n".join(["|".join(FIELDS), *rows, ""])


def _seconds(clock: str) -> int:
    hours, minutes, seconds = clock.split(":")
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds)
