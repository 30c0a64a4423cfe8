"""What each option of sbatch asks for, in Rota's terms: a table from option to reader."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rota.client.fields import Fields
from rota.client.sbatch_names import IGNORED, REFUSED, VALUE_BEHIND_EQUALS, WITHOUT_VALUE, long_name
from rota.client.times import parse_slurm_duration, parse_slurm_moment
from rota.errors import InputError
from rota.model.gpu_types import GPU_TYPE

_MEMORY = re.compile(r"(\d+(?:\.\d+)?)([KMGT]?)B?", re.IGNORECASE)
_TO_GIB = {"K": 1 / 1024**2, "M": 1 / 1024, "": 1 / 1024, "G": 1.0, "T": 1024.0}
_GRES = re.compile(rf"gpu(?::({GPU_TYPE}))??(?::(\d+))?(?:\(.*\))?")
_GPUS = re.compile(rf"(?:({GPU_TYPE}):)?(\d+)")
_SIGNAL = re.compile(r"(?:([BR]{1,2}):)?(\w+)(?:@(\d+))?")
_DEPENDENCY = re.compile(r"(after\w*|singleton|expand):?([\w:+]*)")
_WHEN = {"afterok": "ok", "afterany": "any", "afternotok": "failed"}
_SIGNAL_NUMBERS = {
    "10": "USR1",
    "12": "USR2",
    "1": "HUP",
    "2": "INT",
    "28": "WINCH",
    "23": "URG",
    "18": "CONT",
}
_NOTICES = frozenset(_SIGNAL_NUMBERS.values())
_NODE = re.compile(r"[A-Za-z0-9_.@:+/-]+")
_NICE = 100


@dataclass(frozen=True)
class ScriptLine:
    """The place of an option in a script."""

    row: int
    place: str
    """Beginning of messages about the option."""


@dataclass
class ScriptRequest:
    """What the lines of a script ask for, before totals are computed."""

    decided: Fields = field(default_factory=dict)
    """Fields that a single option sets."""
    warnings: list[str] = field(default_factory=list)
    export: str = ""
    gpu_types: list[str] = field(default_factory=list)
    gpus: int | None = None
    gpus_per_node: int | None = None
    gpus_per_task: int | None = None
    nodes: int = 1
    tasks: int | None = None
    tasks_per_node: int | None = None
    cpus_per_task: int = 1
    cpus_per_gpu: int | None = None
    memory_gib: float = 0.0
    """Host memory for each node."""
    memory_per_cpu_gib: float = 0.0
    memory_per_gpu_gib: float = 0.0

    @property
    def all_tasks(self) -> int:
        """Number of tasks, counted as Slurm does: in total if given, otherwise per node; 1 by default."""
        return self.tasks or (self.tasks_per_node or 1) * self.nodes

    @property
    def all_gpus(self) -> int:
        """Number of GPUs in total; 0 for a script that asks for none, as under Slurm."""
        if self.gpus is not None:
            return self.gpus
        if self.gpus_per_node is not None:
            return self.gpus_per_node * self.nodes
        return (self.gpus_per_task or 0) * self.all_tasks

    @property
    def all_cpus(self) -> int:
        if self.cpus_per_gpu is not None:
            return self.cpus_per_gpu * self.all_gpus
        return self.cpus_per_task * self.all_tasks

    def fields(self) -> Fields:
        """The whole request as fields of a job."""
        memory_gib = (
            self.memory_gib * self.nodes
            or self.memory_per_cpu_gib * self.all_cpus
            or self.memory_per_gpu_gib * self.all_gpus
        )
        counted: Fields = {"gpus": self.all_gpus, "cpus": self.all_cpus, "memory_gib": memory_gib}
        return {**counted, "gpu_types": self.gpu_types, **self.decided}

    def environment(self, name: str, folder: str) -> dict[str, str]:
        """`SLURM_*` variables whose values are known at submission."""
        values = {
            "SLURM_JOB_NAME": name,
            "SLURM_SUBMIT_DIR": folder,
            "SLURM_NTASKS": str(self.all_tasks),
            "SLURM_CPUS_PER_TASK": str(self.cpus_per_task),
        }
        if self.all_gpus:
            values["SLURM_GPUS"] = str(self.all_gpus)
        if self.gpus_per_node is not None:
            values["SLURM_GPUS_ON_NODE"] = str(self.gpus_per_node)
        return values

    def warn(self, line: ScriptLine, option: str, why: str) -> None:
        """Add a warning that an option has no effect."""
        self.warnings.append(f"line {line.row}: {option} is ignored: {why}")


_Reader = Callable[[ScriptRequest, str, ScriptLine], None]


def known_options() -> set[str]:
    """Long names of all sbatch options, whether or not they have an effect."""
    return {*READERS, *FLAGS, *IGNORED, *REFUSED}


def read_option(asked: ScriptRequest, name: str, value: str | None, line: ScriptLine) -> None:
    """Store the option with this long name in `asked`. Raises InputError for a wrong value."""
    if name in REFUSED:
        raise InputError(f"{line.place}{name} cannot be had here: {REFUSED[name]}")
    if name in WITHOUT_VALUE and value is not None:
        raise InputError(f"{line.place}{name} takes no value; got {value!r}")
    if name in IGNORED:
        asked.warn(line, name, IGNORED[name])
    elif name in FLAGS:
        asked.decided |= FLAGS[name]
    elif value is None and name not in VALUE_BEHIND_EQUALS:
        raise InputError(f"{line.place}{name} has no value")
    else:
        READERS[name](asked, value or "", line)


def _set(name: str, parse: Callable[[str, ScriptLine], Any]) -> _Reader:
    def read(asked: ScriptRequest, text: str, line: ScriptLine) -> None:
        asked.decided[name] = parse(text, line)

    return read


def _keep(name: str, parse: Callable[[str, ScriptLine], Any]) -> _Reader:
    return lambda asked, text, line: setattr(asked, name, parse(text, line))


def _text(text: str, line: ScriptLine) -> str:
    return text


def _count(text: str, line: ScriptLine) -> int:
    if not text.isdecimal():
        raise InputError(f"{line.place}{text!r} is no number; expected a whole number")
    return int(text)


def _memory(text: str, line: ScriptLine) -> float:
    """GiB of `16G`, `64000` (MiB), `1.5T`."""
    match = _MEMORY.fullmatch(text)
    if match is None:
        raise InputError(f"{line.place}{text!r} is no amount of memory; expected 16G, 64000M or 64000")
    return float(match[1]) * _TO_GIB[match[2].upper()]


def _moment(text: str, line: ScriptLine) -> float:
    try:
        return parse_slurm_moment(text, "-")
    except InputError as error:
        raise InputError(f"{line.place}{str(error).removeprefix('-: ')}") from None


def _duration(text: str, line: ScriptLine) -> float | None:
    try:
        return parse_slurm_duration(text, "-")
    except InputError as error:
        raise InputError(f"{line.place}{str(error).removeprefix('-: ')}") from None


def _gpus(name: str) -> _Reader:
    """Reader of a number of GPUs: `4`, `a100:4`."""

    def read(asked: ScriptRequest, text: str, line: ScriptLine) -> None:
        total = 0
        for part in text.split(","):
            match = _GPUS.fullmatch(part)
            if match is None:
                raise InputError(f"{line.place}{text!r} is no number of GPUs; expected 4 or a100:4")
            total += int(match[2])
            _add_type(asked, match[1])
        setattr(asked, name, total)

    return read


def _gres(asked: ScriptRequest, text: str, line: ScriptLine) -> None:
    """Read `gpu:a100:4`, `gpu:4`, `gpu`; other resources are ignored."""
    total = 0
    for part in text.split(","):
        match = _GRES.fullmatch(part)
        if match is None and part.partition(":")[0] == "gpu":
            raise InputError.at(f"{line.place}{part!r} names no GPUs", expected="gpu, gpu:4 or gpu:a100:4")
        if match is None:
            asked.warn(line, f"--gres={part}", "Rota hands out GPUs only")
            continue
        total += int(match[2] or 1)
        _add_type(asked, match[1])
    if total:
        asked.gpus_per_node = total


def _add_type(asked: ScriptRequest, type: str | None) -> None:
    if type and type not in asked.gpu_types:
        asked.gpu_types.append(type)


def _nodes(asked: ScriptRequest, text: str, line: ScriptLine) -> None:
    low, dash, _ = text.partition("-")
    asked.nodes = max(_count(low, line), 1)
    if dash:
        asked.warnings.append(
            f"line {line.row}: --nodes={text} is read as {low}: a script is started at one size"
        )
    if asked.nodes > 1:
        asked.warnings.append(
            f"line {line.row}: --nodes={low} only multiplies what is asked by node: "
            "Rota decides over how many nodes the GPUs are spread"
        )


def _nice(asked: ScriptRequest, text: str, line: ScriptLine) -> None:
    sign = -1 if text.startswith("-") else 1
    asked.decided["priority"] = -sign * (_count(text.lstrip("-"), line) if text else _NICE)


def _priority(asked: ScriptRequest, text: str, line: ScriptLine) -> None:
    if text.upper() == "TOP":
        asked.warn(line, "--priority=TOP", "name a number, higher wins")
    else:
        asked.decided["priority"] = _count(text, line)


def _dependency(asked: ScriptRequest, text: str, line: ScriptLine) -> None:
    """Read `afterok:17:18,afterany:19`; other conditions are errors, since the job would start too early."""
    after = []
    for part in text.split(","):
        match = _DEPENDENCY.fullmatch(part)
        if match is None or match[1] not in _WHEN or not match[2]:
            raise InputError(
                f"{line.place}--dependency={part} is nothing Rota can wait for; "
                "expected afterok:JOB, afterany:JOB or afternotok:JOB, joined by commas"
            )
        after += [{"job": job, "when": _WHEN[match[1]]} for job in match[2].split(":") if job]
    asked.decided["after"] = after


def _signal(asked: ScriptRequest, text: str, line: ScriptLine) -> None:
    """Read `[B:]USR1@60`."""
    match = _SIGNAL.fullmatch(text)
    if match is None:
        raise InputError(f"{line.place}{text!r} is no signal; expected USR1@60 or B:USR1@60")
    name = _SIGNAL_NUMBERS.get(match[2], match[2].upper().removeprefix("SIG"))
    ahead_s = float(match[3] or 60)
    if name in ("TERM", "15"):
        asked.decided["grace_s"] = ahead_s
        return
    if name not in _NOTICES:
        expected = f"one of {', '.join(sorted(_NOTICES))}, or TERM"
        raise InputError(f"{line.place}--signal={text}: {match[2]} cannot be a notice; expected {expected}")
    to = "rank" if "B" in (match[1] or "") else "children"
    asked.decided |= {"notice_signal": name, "notice_s": ahead_s, "notice_to": to}


def _input(asked: ScriptRequest, text: str, line: ScriptLine) -> None:
    """Warn that a job always reads /dev/null."""
    if text not in ("/dev/null", "none"):
        remedy = f"write `exec < {text}` into the script"
        raise InputError(f"{line.place}--input={text} cannot be had here: a job reads /dev/null; {remedy}")


def _exclude(asked: ScriptRequest, text: str, line: ScriptLine) -> None:
    """Read `n3,n4`; a list in brackets gets a warning, since only Slurm knows which names it means."""
    names = [name for name in text.split(",") if name]
    if all(_NODE.fullmatch(name) for name in names):
        asked.decided["exclude_nodes"] = names
    else:
        asked.warn(line, f"--exclude={text}", "name the nodes one by one: n3,n4")


READERS: dict[str, _Reader] = {
    "--job-name": _set("name", _text),
    "--account": _set("tenant", _text),
    "--comment": _set("comment", _text),
    "--chdir": _set("workdir", _text),
    "--output": _set("output", _text),
    "--error": _set("error", _text),
    "--array": _set("array", _text),
    "--time": _set("time_s", _duration),
    "--begin": _set("begin_s", _moment),
    "--deadline": _set("deadline_s", _moment),
    "--gres": _gres,
    "--gpus": _gpus("gpus"),
    "--gpus-per-node": _gpus("gpus_per_node"),
    "--gpus-per-task": _gpus("gpus_per_task"),
    "--nodes": _nodes,
    "--ntasks": _keep("tasks", _count),
    "--ntasks-per-node": _keep("tasks_per_node", _count),
    "--cpus-per-task": _keep("cpus_per_task", _count),
    "--cpus-per-gpu": _keep("cpus_per_gpu", _count),
    "--mem": _keep("memory_gib", _memory),
    "--mem-per-cpu": _keep("memory_per_cpu_gib", _memory),
    "--mem-per-gpu": _keep("memory_per_gpu_gib", _memory),
    "--exclude": _exclude,
    "--input": _input,
    "--export": _keep("export", _text),
    "--nice": _nice,
    "--priority": _priority,
    "--dependency": _dependency,
    "--signal": _signal,
}
FLAGS: dict[str, Fields] = {
    "--hold": {"hold": True},
    "--requeue": {"retries": 3},
    "--no-requeue": {"retries": 0},
}
HERE: dict[str, str] = {
    **dict.fromkeys(("--gres", "--gpus-per-node", "--gpus-per-task", "--gpu"), "--gpus, in all"),
    **dict.fromkeys(("--nodes", "--ntasks", "--ntasks-per-node"), "--gpus, on as many nodes as it takes"),
    **dict.fromkeys(("--cpus-per-task", "--cpus-per-gpu", "--cores"), "--cpus, in all"),
    **dict.fromkeys(("--mem-per-cpu", "--mem-per-gpu", "--memory"), "--mem, in all"),
    **dict.fromkeys(("--dependency", "--depends-on"), "--after"),
    **dict.fromkeys(("--walltime", "--timeout"), "--time"),
    **dict.fromkeys(("--requeue", "--no-requeue"), "--retries"),
    "--account": "--tenant",
    "--job-name": "--name",
    "--chdir": "--workdir",
    "--exclude": "--exclude-node",
    "--export": "--env and --env-all",
    "--signal": "--notice",
    "--nice": "--priority",
    "--queue": "--node, which names nodes or their labels",
}
"""Names in `rota submit` for options of sbatch scripts and of other tools."""


def said_of(word: str) -> str:
    """What `rota submit` offers instead of the option `word` of another tool; empty for any other word."""
    try:
        name = word if word in HERE else long_name(word, known_options())
    except InputError:
        return ""
    if name in HERE or (name != word and name in READERS):
        return f"here it is {HERE.get(name, name)}"
    return IGNORED.get(name, "")
