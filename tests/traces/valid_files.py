"""Random valid files of the published formats, and what they say; written from their descriptions alone.

Nothing here is shared with the readers.  A writer gives the text and a dictionary for each job, in the order
of the file: what its row says, by the names of Rota's columns, and `at` where it has a stamp instead of
`submit_s`.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random
from typing import Any

Job = dict[str, Any]
Cells = dict[str, str]
NONE = math.nan
NAMES = ("resnet50", "vgg 16", "a,b", 'say "hi"', "日本", "LM (batch size 10)", "none", "0", "#x", "it's")
STATES = {"COMPLETED": 0, "CANCELLED": 2, "FAILED": 1, "TIMEOUT": 1, "NODE_FAIL": 1}


def spelt(rng: Random, value: float) -> str:
    """A number in one of its spellings."""
    spellings = [repr(float(value))]
    if float(value).is_integer():
        spellings += [str(int(value)), f"{int(value)}.000000"]
    return rng.choice(spellings)


def seconds(rng: Random) -> float:
    return rng.choice([0.0, float(rng.randrange(10**6)), round(rng.uniform(0, 1e7), 3), rng.uniform(0, 1e9)])


def stamp(rng: Random) -> datetime:
    return datetime(2017, 1, 1) + timedelta(seconds=rng.randrange(86400 * 900))


def ids(rng: Random, jobs: int) -> list[str]:
    """Numbers in any order, or what looks like a hash."""
    numbers = [str(number) for number in range(jobs)]
    rng.shuffle(numbers)
    return rng.choice([numbers, [f"{rng.getrandbits(128):032x}" for _ in range(jobs)]])


def csv_of(rng: Random, rows: list[Cells], *, alone: bool = False) -> str:
    """Rows as CSV: columns in any order, quoted or not, beside others unless these are `alone`."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    if rng.random() < 0.5:
        rng.shuffle(columns)
    if not alone and rng.random() < 0.4:
        columns.insert(rng.randrange(len(columns) + 1), "remark")
    text = io.StringIO()
    quoting = rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    table = csv.DictWriter(text, columns, quoting=quoting, lineterminator=rng.choice(["\n", "\r\n"]))
    table.writeheader()
    table.writerows(rows)
    return text.getvalue()


def wrapped(rng: Random, text: str) -> bytes:
    """The text as files come: with or without a last line end, a byte order mark, packed."""
    text = rng.choice([text, text.rstrip("\r\n"), text + "\n\n"])
    data = rng.choice([b"", b"", b"\xef\xbb\xbf"]) + text.encode()
    return gzip.compress(data) if rng.random() < 0.3 else data


def _tabbed(rng: Random, jobs: int, form: str) -> tuple[str, list[Job]]:
    """Gavel's lines without header, seven fields or ten; Shockwave's twelve."""
    lines, said = [], []
    for number in range(jobs):
        kind = rng.choice(["ResNet-18 (batch size 16)", "A3C", "vgg 16"])
        steps, scale, weight = rng.randrange(1, 10**6), rng.choice([1, 2, 4, 8, 64]), rng.choice([1, 2.5])
        slo, arrival_s, duration_s = rng.choice([-1, 0.5, 1.2, 10]), seconds(rng), seconds(rng)
        mode = rng.choice(["static", "accordion", "gns"])
        command = rng.choice(["cd x && run", 'python3 main.py --"open', "python3 main.py --dir %s/x"])
        job: Job = {
            "id": str(number), "submit_s": arrival_s, "gpus": scale, "iterations": steps, "workload": kind,
            "weight": 1.0 if form == "old" else weight, "duration_s": NONE, "deadline_s": NONE,
        }  # fmt: skip
        end = ["-1.000000" if slo == -1 else spelt(rng, slo)]
        if form == "old":
            line = [kind, command, "-s", "0", spelt(rng, steps), spelt(rng, arrival_s), str(scale)]
        else:
            line = [kind, command, "wd", "-s", "1", spelt(rng, steps), str(scale)]
            line += [mode] * (form == "shockwave") + [spelt(rng, weight), *end]
            line += [spelt(rng, duration_s)] * (form == "shockwave") + [spelt(rng, arrival_s)]
            job["slo"] = None if slo == -1 else slo
        if form == "shockwave":
            due_s = NONE if slo == -1 else arrival_s + slo * duration_s
            job |= {"duration_s": duration_s, "mode": mode, "deadline_s": due_s}
            del job["slo"]
        lines.append("\t".join(line))
        said.append(job)
    return "\n".join(lines) + "\n", said


def gavel(rng: Random, jobs: int) -> tuple[str, list[Job]]:
    return _tabbed(rng, jobs, rng.choice(["old", "new"]))


def shockwave(rng: Random, jobs: int) -> tuple[str, list[Job]]:
    return _tabbed(rng, jobs, "shockwave")


def synergy(rng: Random, jobs: int) -> tuple[str, list[Job]]:
    rows, said = [], []
    for id in ids(rng, jobs):
        arrival_s, steps, step_s = seconds(rng), rng.randrange(10**7), rng.uniform(1e-4, 50)
        gpus, model = rng.choice([1, 2, 16]), rng.choice(NAMES)
        rows.append({
            "job_id": id, "model": model, "arrival_s": spelt(rng, arrival_s), "gpus": spelt(rng, gpus),
            "total_iterations": spelt(rng, steps), "iteration_time_s": repr(step_s),
        })  # fmt: skip
        said.append({
            "id": id, "submit_s": arrival_s, "gpus": gpus, "duration_s": steps * step_s, "iterations": steps,
            "workload": model, "tenant": "default",
        })  # fmt: skip
    return csv_of(rng, rows), said


def lucid(rng: Random, jobs: int) -> tuple[str, list[Job]]:
    """With a measured profile or without, and perhaps the row that only marks the start of the period."""
    rows: list[Cells] = []
    said: list[Job] = []
    with_profile = rng.random() < 0.6
    for id in ids(rng, jobs):
        at, duration_s, state = stamp(rng), float(rng.randrange(10**6)), rng.choice(list(STATES))
        user, vc, name = rng.choice(["u1", "a b"]), rng.choice(["vc1", "vcEwI"]), rng.choice(NAMES)
        gpus, cpus = rng.choice([0, 1, 8]), rng.randrange(1, 200)
        row = {
            "job_id": id, "user": user, "vc": vc, "jobname": name, "gpu_num": spelt(rng, gpus),
            "cpu_num": spelt(rng, cpus), "state": state, "submit_time": str(at),
            "duration": spelt(rng, duration_s),
        }  # fmt: skip
        job = {
            "id": id, "at": at, "gpus": gpus, "cpus": cpus, "duration_s": duration_s,
            "tenant": f"{vc}/{user}",
            "group": name, "outcome": STATES[state], "workload": "",
        }  # fmt: skip
        if with_profile:
            model, batch, mib = (
                rng.choice(["ResNet18", "BERT"]),
                rng.choice([32, 64]),
                rng.choice([2048.0, 99.5]),
            )
            row |= {
                "model": model,
                "dataset": "CIFAR-10",
                "batchsize": str(batch),
                "amp": "1",
                "gmem": str(mib),
            }
            job |= {
                "workload": f"{model}/CIFAR-10/{batch}/1", "batch_size": batch, "gpu_memory_gib": mib / 1024
            }  # fmt: skip
        rows.append(row)
        said.append(job)
    if rng.random() < 0.5:
        rows.insert(0, {**rows[0], "job_id": "mark", "jobname": "warm", "submit_time": "2016-01-01 00:00:00"})
    return csv_of(rng, rows), said


def helios(rng: Random, jobs: int) -> tuple[str, list[Job]]:
    rows, said = [], []
    for id in ids(rng, jobs):
        at, state, wait_s = stamp(rng), rng.choice(list(STATES)), rng.randrange(10**5)
        duration_s, gpus = rng.randrange(10**6), rng.choice([0, 1, 8])
        start = at + timedelta(seconds=wait_s)
        waits = state == "CANCELLED" and rng.random() < 0.5
        rows.append({
            "job_id": id, "user": "u1", "vc": "vc2", "gpu_num": str(gpus), "cpu_num": "64", "node_num": "1",
            "state": state, "submit_time": str(at), "start_time": "None" if waits else str(start),
            "end_time": str(start + timedelta(seconds=duration_s)), "queue": str(wait_s),
            "duration": "" if waits else str(duration_s),
        })  # fmt: skip
        said.append({
            "id": id, "at": at, "gpus": gpus, "cpus": 64, "duration_s": 0 if waits else duration_s,
            "tenant": "vc2/u1", "outcome": STATES[state], "started": None if waits else start,
        })  # fmt: skip
    return csv_of(rng, rows), said


def elasticflow(rng: Random, jobs: int) -> tuple[str, list[Job]]:
    """In either of its spellings, and with jobs whose deadline does not count."""
    submit, steps_of, due = rng.choice([
        ("submission_time", "num_iteration", "deadline"), ("submit_time", "iteration", "ddl")
    ])  # fmt: skip
    has_best, rows, said = rng.random() < 0.5, [], []
    for id in ids(rng, jobs):
        submit_s, duration_s, steps, gpus = (
            seconds(rng),
            seconds(rng),
            rng.randrange(10**6),
            rng.choice([1, 4]),
        )
        due_s, batch, is_best = submit_s + duration_s * rng.uniform(0.5, 1.5), rng.choice([32, 256]), False
        row = {
            "job_id": id, submit: spelt(rng, submit_s), steps_of: spelt(rng, steps), "model_name": "bert",
            due: repr(due_s), "batch_size": spelt(rng, batch), "num_gpu": spelt(rng, gpus),
            "duration": spelt(rng, duration_s),
        }  # fmt: skip
        if has_best:
            is_best = rng.random() < 0.5
            row |= {"best_effort": "1", due: rng.choice(["", "-1"])} if is_best else {"best_effort": "0"}
        rows.append(row)
        said.append({
            "id": id, "submit_s": submit_s, "gpus": gpus, "duration_s": duration_s, "iterations": steps,
            "workload": "bert", "batch_size": batch, "deadline_s": NONE if is_best else due_s,
        })  # fmt: skip
    return csv_of(rng, rows), said


def pollux(rng: Random, jobs: int) -> tuple[str, list[Job]]:
    """Sia's workloads too: the same columns in another order."""
    rows, said = [], []
    for number in range(jobs):
        name, at_s, replicas, batch = (
            rng.choice(NAMES),
            seconds(rng),
            rng.choice([1, 4, 48]),
            rng.choice([128, 512]),
        )
        rows.append({
            "name": f"{name}-{number}", "time": spelt(rng, at_s), "application": name,
            "num_replicas": spelt(rng, replicas), "batch_size": spelt(rng, batch),
        })  # fmt: skip
        said.append({
            "id": f"{name}-{number}", "submit_s": at_s, "gpus": replicas, "duration_s": NONE,
            "workload": name,
            "batch_size": batch,
        })  # fmt: skip
    return csv_of(rng, rows), said


def chronus(rng: Random, jobs: int) -> tuple[str, list[Job]]:
    """In minutes; of soft jobs four moments, and what each is worth."""
    rows, said = [], []
    for id in ids(rng, jobs):
        submit, minutes, kind = (
            rng.randrange(20000),
            rng.uniform(0, 5000),
            rng.choice(["strict", "soft", "best"]),
        )
        steps = sorted(round(minutes * rng.uniform(1, 5), 3) for _ in range(4 if kind == "soft" else 1))
        worth = [10, 8, 5, 2][: len(steps)]
        rows.append({
            "job_id": id, "user": "vc_a", "num_gpu": "8", "submit_time": spelt(rng, submit),
            "iterations": "900",
            "model_name": "vgg16", "duration": repr(minutes), "interval": "1",
            "expect_time_list": "-".join(map(repr, steps)), "expect_value_list": "-".join(map(str, worth)),
            "best_effort": str(int(kind == "best")), "job_type": kind,
        })  # fmt: skip
        due_s = [60.0 * (submit + step) for step in steps]
        worth_by = [number for pair in zip(due_s, worth, strict=True) for number in pair]
        said.append({
            "id": id, "submit_s": 60.0 * submit, "gpus": 8, "duration_s": 60.0 * minutes, "iterations": 900,
            "tenant": "vc_a", "workload": "vgg16", "deadline_s": NONE if kind == "best" else due_s[0],
            "deadlines": worth_by if kind == "soft" else [],
        })  # fmt: skip
    return csv_of(rng, rows), said


def tiresias(rng: Random, jobs: int) -> tuple[str, list[Job]]:
    rows, said = [], []
    for id in ids(rng, jobs):
        submit_s, duration_s, gpus, model = seconds(rng), seconds(rng), rng.choice([0, 4]), rng.choice(NAMES)
        rows.append({
            "job_id": id, "num_gpu": spelt(rng, gpus), "submit_time": spelt(rng, submit_s),
            "iterations": "100",
            "model_name": model, "duration": spelt(rng, duration_s), "interval": "0",
        })  # fmt: skip
        said.append({
            "id": id, "submit_s": submit_s, "gpus": gpus, "duration_s": duration_s, "iterations": 100,
            "workload": model,
        })  # fmt: skip
    return csv_of(rng, rows), said


def itp(rng: Random, jobs: int) -> tuple[str, list[Job]]:
    rows, said = [], []
    for id in ids(rng, jobs):
        submit_s, duration_s, gpus = seconds(rng), seconds(rng), rng.choice([1, 64])
        rows.append({
            "job_id": id, "submission_time": spelt(rng, submit_s), "duration": spelt(rng, duration_s),
            "num_gpu": spelt(rng, gpus),
        })  # fmt: skip
        said.append({"id": id, "submit_s": submit_s, "gpus": gpus, "duration_s": duration_s})
    return csv_of(rng, rows, alone=True), said


def pai(rng: Random, jobs: int) -> tuple[str, list[Job]]:
    """Instances with a part of a GPU each, or with several."""
    with_estimate, rows, said = rng.random() < 0.5, [], []
    for id in ids(rng, jobs):
        submit_s, duration_s = seconds(rng), seconds(rng)
        each, instances, cpus = (
            rng.choice([0, 0.05, 0.5, 1, 8, 1.5]),
            rng.choice([1, 30]),
            rng.choice([6, 0.5]),
        )
        row = {
            "job_id": id, "user": "u1", "group": "g1", "submit_time": spelt(rng, submit_s),
            "num_cpu": str(cpus),
            "duration": spelt(rng, duration_s), "num_gpu": str(each), "num_inst": str(instances),
        }  # fmt: skip
        rows.append(row | ({"user_dur": "5", "group_gpu_dur": "7"} if with_estimate else {}))
        said.append({
            "id": id, "submit_s": submit_s, "gpus": math.ceil(each) * instances, "duration_s": duration_s,
            "gpu_share": each if 0 < each < 1 else 1, "cpus": cpus * instances, "tenant": "u1", "group": "g1",
            "limit_s": 7 if with_estimate else NONE,
        })  # fmt: skip
    return csv_of(rng, rows), said


def openb(rng: Random, jobs: int) -> tuple[str, list[Job]]:
    rows, said = [], []
    for number in range(jobs):
        created_s, wait_s, run_s = (float(rng.randrange(10**6)) for _ in range(3))
        gpus, types = rng.choice([0, 1, 8]), rng.choice(["", "T4", "P100|T4"])
        milli = rng.choice([250, 1000]) if gpus == 1 else 1000
        phase = rng.choice(["Running", "Succeeded", "Failed", "Pending"])
        is_pending = phase == "Pending"
        rows.append({
            "name": f"pod-{number}", "cpu_milli": "4500", "memory_mib": "8192", "num_gpu": str(gpus),
            "gpu_milli": str(milli if gpus else 0), "gpu_spec": types, "qos": "BE", "pod_phase": phase,
            "creation_time": spelt(rng, created_s), "deletion_time": spelt(rng, created_s + wait_s + run_s),
            "scheduled_time": "" if is_pending else spelt(rng, created_s + wait_s),
        })  # fmt: skip
        said.append({
            "id": f"pod-{number}", "submit_s": created_s, "gpus": gpus, "gpu_share": milli / 1000,
            "cpus": 4.5,
            "memory_gib": 8, "types": types, "group": "BE",
            "duration_s": 0 if is_pending else run_s, "start_s": NONE if is_pending else created_s + wait_s,
            "outcome": {"Failed": 1, "Pending": 2}.get(phase, 0),
        })  # fmt: skip
    return csv_of(rng, rows), said


def philly_list(rng: Random, jobs: int) -> tuple[str, list[Job]]:
    rows, said = [], []
    for number in range(jobs):
        at, duration_s, gpus = stamp(rng), seconds(rng), rng.choice([1, 128])
        rows.append({
            "timestamp": str(at), "duration": spelt(rng, duration_s), "num_gpus": spelt(rng, gpus),
            "gpu_time": spelt(rng, duration_s * gpus), "cluster": "6c71a0",
        })  # fmt: skip
        said.append({"id": str(number), "at": at, "gpus": gpus, "duration_s": duration_s, "tenant": "6c71a0"})
    return csv_of(rng, rows, alone=True), said


def philly_json(rng: Random, jobs: int) -> tuple[str, list[Job]]:
    """Attempts one after the other, on one machine or two."""
    entries, said = [], []
    for number in range(jobs):
        at, attempts, runs, gpus = stamp(rng), [], [], 0
        now = at
        for _ in range(rng.choice([1, 1, 3])):
            start = now + timedelta(seconds=rng.randrange(10**4))
            now = start + timedelta(seconds=rng.randrange(10**5))
            machines = [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}] * rng.choice([1, 2])
            attempts.append({"start_time": str(start), "end_time": str(now), "detail": machines})
            runs.append((now - start).total_seconds())
            gpus = 2 * len(machines)
        status = rng.choice(["Pass", "Killed", "Failed"])
        fields = list({
            "status": status, "vc": "6c71a0", "jobid": f"application_{number}", "attempts": attempts,
            "submitted_time": str(at), "user": "ü",
        }.items())  # fmt: skip
        rng.shuffle(fields)
        entries.append(dict(fields))
        said.append({
            "id": f"application_{number}", "at": at, "gpus": gpus, "duration_s": runs[-1],
            "tenant": "6c71a0/ü",
            "failures": runs[:-1], "outcome": {"Pass": 0, "Failed": 1, "Killed": 2}[status],
        })  # fmt: skip
    return json.dumps(entries, indent=rng.choice([None, 1]), ensure_ascii=rng.random() < 0.5), said


def swf(rng: Random, jobs: int) -> tuple[str, list[Job]]:
    """Fields between any blanks; the processors that were asked for, else those that were given."""
    lines, said = ["; Version: 2.2", ";Note: a: b"], []
    for number in range(1, jobs + 1):
        submit_s, wait_s, run_s = (rng.randrange(10**6) for _ in range(3))
        given, asked, limit_s = rng.choice([1, 64]), rng.choice([-1, 8]), rng.choice([-1, 3600])
        status, user, group, program = rng.choice([0, 1, 5, -1]), rng.choice([-1, 3]), rng.choice([-1, 7]), 12
        fields = [number, spelt(rng, submit_s), wait_s, run_s, given, -1, -1, asked, limit_s, 1048576, status]
        fields += [user, group, program, 1, 1, -1, -1]
        lines.append(rng.choice(["", "  "]) + rng.choice([" ", "   ", "\t"]).join(map(str, fields)))
        gpus = asked if asked > 0 else given
        said.append({
            "id": str(number), "submit_s": submit_s, "gpus": gpus, "start_s": submit_s + wait_s,
            "duration_s": run_s, "limit_s": NONE if limit_s < 0 else limit_s, "memory_gib": gpus,
            "tenant": "/".join(["g7"] * (group > 0) + ["u3"] * (user > 0)) or "default",
            "group": "executable 12", "outcome": {0: 1, 5: 2}.get(status, 0),
        })  # fmt: skip
    return "\n".join(lines) + "\n", said


WRITERS: dict[str, Callable[[Random, int], tuple[str, list[Job]]]] = {
    "chronus": chronus, "elasticflow": elasticflow, "gavel": gavel, "helios": helios, "itp": itp,
    "lucid": lucid,
    "openb": openb, "pai": pai, "philly-json": philly_json, "philly-list": philly_list, "pollux": pollux,
    "shockwave": shockwave, "swf": swf, "synergy": synergy, "tiresias": tiresias,
}  # fmt: skip
