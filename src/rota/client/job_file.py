"""A job file (YAML or JSON) as fields of a `JobSpec`.

Keys are the options of `rota submit` (`gpus`, `gpus_range`, `gpu_type`, `time`, ...). The program is in one
of `command` (a list, or a line that is split as a shell would) and `run` (lines for /bin/sh). Spellings of
other tools are accepted as well: `commands` (a list of shell lines), `resources` with `gpu: H100:1..2`,
`cpus` and `memory`, `max_duration`, `working_dir`, and `envs`.

Every value is read as text and then parsed: YAML itself would make 64 of `1:4` and seconds of `12:00:00`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from rota.client.fields import PARSERS, Fields, environment, merge, read_fields, unknown_name
from rota.client.text_file import read_text
from rota.errors import InputError
from rota.model.gpu_types import GPU_TYPE
from rota.model.once import refuse_twice

LARGEST_BYTES = 1 << 20
SHELL = ("/bin/sh", "-c")
_GPU = re.compile(rf"(?:({GPU_TYPE}(?:,{GPU_TYPE})*):)?(\d+)(?:(?:\.\.|:|-)(\d+))?")
_TWO = re.compile(r"(\d+):(\d+)")
_COUNT = re.compile(r"\d+(?:\.\d+)?")
ALIASES = {
    "memory": "mem",
    "gpu_types": "gpu_type",
    "max_duration": "time",
    "working_dir": "workdir",
    "account": "tenant",
}
_Reader = Callable[[Any, str], Fields]


def is_job_file(word: str) -> bool:
    """Whether `rota submit WORD` names a job file rather than a program."""
    return word.endswith((".yaml", ".yml", ".json"))


def read_job_file(path: str | Path, caller: Mapping[str, str]) -> Fields:
    """Fields of the job in the file; `env: [NAME]` copies a variable from `caller`, an environment."""
    file = Path(path)
    return parse_job(read_text(file, LARGEST_BYTES, "a job file"), file, caller)


def parse_job(text: str, file: object, caller: Mapping[str, str]) -> Fields:
    """Fields of the job written in `text`; messages name `file`."""
    try:
        top = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        row = error.problem_mark.line + 1 if error.problem_mark else None
        raise InputError.at(f"is no YAML: {error.problem}", file=file, row=row) from None
    except yaml.YAMLError as error:
        raise InputError.at(f"is no YAML: {error}", file=file) from None
    except RecursionError:
        raise InputError.at("is nested too deep", file=file, expected="a job") from None
    for _, value in top.value if isinstance(top, yaml.MappingNode) else ():
        refuse_twice(value, file)  # repeated keys of the job itself get a more precise message below
    if not isinstance(top, yaml.MappingNode):
        raise InputError.at("is no job", file=file, expected="lines such as `gpus: 2` and `command: ...`")
    readers = _readers(caller)
    layers: list[Fields] = []
    seen: dict[str, str] = {}
    for key_node, value_node in top.value:
        key, row = str(key_node.value), key_node.start_mark.line + 1
        name = key.replace("-", "_")
        name = ALIASES.get(name, name)
        if name in seen:
            problem = f"{key!r} says again what {seen[name]!r} says" if seen[name] != key else "stands twice"
            raise InputError.at(problem, file=file, row=row, field=key)
        seen[name] = key
        try:
            layers.append(_read(name, key, _plain(value_node, key), readers))
        except InputError as error:
            raise InputError(f"{file}, row {row}, {error}") from None
    if len({"command", "run", "commands"} & seen.keys()) > 1:
        raise InputError.at("says twice what to run", file=file, expected="one of command, run, commands")
    return _merged(layers)


def _merged(layers: list[Fields]) -> Fields:
    """Merge fields of equal rank: a range does not give way to a count that is written after it."""
    return merge(*sorted(layers, key=lambda layer: "gpus_min" in layer))


def _read(name: str, key: str, value: Any, readers: Mapping[str, _Reader]) -> Fields:
    if name in readers:
        return readers[name](value, key)
    if name not in PARSERS:
        raise unknown_name("is nothing a job has", name, key, {*PARSERS, *readers})
    if isinstance(value, list) and name in ("gpu_type", "after", "deadlines"):
        value = ",".join(_scalar(item, key) for item in value)
    text = _scalar(value, key)
    return read_fields(name, text, key) if text else {}


def _readers(caller: Mapping[str, str]) -> dict[str, _Reader]:
    def env(value: Any, key: str) -> Fields:
        if isinstance(value, dict):
            return {"env": {name: _scalar(text, key) for name, text in value.items()}}
        return {"env": dict(environment(line, key, caller) for line in _lines(value, key))}

    return {
        "command": _command,
        "run": lambda value, key: {"command": [*SHELL, _scalar(value, key)]},
        "commands": lambda value, key: {"command": [*SHELL, "set -e\n" + "\n".join(_lines(value, key))]},
        "env": env,
        "envs": env,
        "resources": _resources,
    }


def _command(value: Any, key: str) -> Fields:
    if isinstance(value, list):
        return {"command": [_scalar(word, key) for word in value]}
    try:
        return {"command": shlex.split(_scalar(value, key))}
    except ValueError as error:
        expected = "a line with closed quotes, or a list of words"
        raise InputError.at(str(error).lower(), field=key, expected=expected) from None


def _resources(value: Any, key: str) -> Fields:
    """Read `gpu: H100:1..2` (or `accelerators`), `cpus: 8+`, `memory: 32GB..`."""
    if not isinstance(value, dict):
        raise InputError.at("is no mapping", field=key, expected="gpu, cpus, memory")
    layers: list[Fields] = []
    for name, given in value.items():
        field, text = f"{key}.{name}", _scalar(given, f"{key}.{name}")
        if name in ("gpu", "gpus"):
            layers.append(_gpu(text, field))
        elif name == "accelerators":
            layers.append(_accelerators(text, field))
        elif name in ("cpu", "cpus"):
            layers.append(read_fields("cpus", text.removesuffix("+").removesuffix(".."), field))
        elif name in ("memory", "mem"):
            amount = text.removesuffix("+").removesuffix("..")
            amount = f"{amount}GB" if _COUNT.fullmatch(amount) else amount
            layers.append(read_fields("mem", amount, field))
        else:
            raise InputError.at("is nothing a job asks for", field=field, expected="gpu, cpus, memory")
    return merge(*layers)


def _accelerators(text: str, field: str) -> Fields:
    """Read GPUs that begin with a type, as other tools write them; a number alone would be ambiguous."""
    if text.isdecimal():
        expected = f"{text}:1 for one device of the type {text}, or `gpu: {text}` for a number of devices"
        raise InputError.at(f"{text!r} may be a type or a number", field=field, expected=expected)
    return _gpu(text, field)


def _gpu(text: str, field: str) -> Fields:
    """Read `2`, `1:4`, `H100`, `H100:8`, `3090:1..2`; of two numbers the first, if larger, is a type."""
    if (numbers := _TWO.fullmatch(text)) and (len(numbers[1]) < 3 or int(numbers[1]) <= int(numbers[2])):
        return read_fields("gpus", text, field)
    match = _GPU.fullmatch(text) or _GPU.fullmatch(f"{text}:1")
    if match is None:
        raise InputError.at(f"{text!r} names no GPUs", field=field, expected="2, H100:8 or H100:1..2")
    types, low, high = match.groups()
    fields: Fields = {"gpus": int(low)}
    if high is not None:
        fields |= read_fields("gpus_range", f"{low}:{high}", field)
    return {**fields, "gpu_types": types.split(",")} if types else fields


def _plain(node: yaml.Node, key: str) -> Any:
    """The node as mappings, lists and texts."""
    if isinstance(node, yaml.MappingNode):
        return {str(inner.value): _plain(value, key) for inner, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, key) for item in node.value]
    return "" if node.value in ("null", "~") else str(node.value)


def _scalar(value: Any, key: str) -> str:
    if not isinstance(value, str):
        raise InputError.at("holds more than one value", field=key, expected="one value")
    return value


def _lines(value: Any, key: str) -> list[str]:
    return [_scalar(item, key) for item in value] if isinstance(value, list) else [_scalar(value, key)]
