"""Settings of a live cluster, from one place each: flag, then environment, then file, then default.

The file is `$ROTA_HOME/config.yaml`, or that of `--config`, with the keys of `Config`; or ROTA_MIN_RUN=30s.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from rota.errors import InputError
from rota.knowledge.registry import Where, parse_sources
from rota.model.cluster import parse_cluster
from rota.model.jobs import JobTable
from rota.model.once import refuse_twice
from rota.model.tenants import Tenants
from rota.model.units import format_duration, parse_duration
from rota.reports.usage.prices import prices_of
from rota.server.caps import caps_of
from rota.server.hooks.autoscale_setting import autoscale_of
from rota.server.hooks.notices import targets_of
from rota.server.retention import Keep
from rota.server.store.addresses import without_passwords
from rota.server.tenants.layout import check_levels, layout_of
from rota.server.tenants.settings import parse_tenants, yes_or_no
from rota.worlds.live.endings import BackOff, rules_of
from rota.worlds.live.settings import live_providers

DAY_S = 86400.0
LEAST_MEMORY_GIB = 0.25
"""The least that the setting `policy_memory_gib` may be."""


@dataclass(frozen=True)
class Config:
    """What an operator may set.  Durations are seconds here, and carry a unit wherever people write them."""

    name: str = "rota"
    """Name of the cluster."""
    policy: str = "fifo:skip=yes"
    """Policy at the first `up`; afterwards `rota policy set` changes it."""
    host: str = "127.0.0.1"
    """Address to listen on; loopback unless told otherwise."""
    port: int = 0
    """Port to listen on; 0 takes a free one."""
    database_url: str = ""
    """Where the state is; SQLite in ROTA_HOME if empty, or postgresql+psycopg://…"""
    devices: str = "auto"
    """Devices of this machine's agent: auto, cpu:4, nvidia, none."""
    node: str = ""
    """Name of this machine's node; its host name if empty."""
    checkpoints: str = ""
    """Folder for checkpoints that all machines see; each agent's own if empty."""
    knowledge: str = ""
    """Sources of knowledge, as docs/knowledge.md lists them: duration=predicted."""
    deadline: float = 10.0
    """Time a policy may take for a decision."""
    policy_memory_gib: float = 0.0
    """Memory that the process of a policy may take; half of this machine's if 0."""
    min_run: float = 60.0
    """Time that every job may run before it is preempted."""
    lost_after: float = 60.0
    """Silence of an agent after which its jobs are started elsewhere."""
    back_off: float = 10.0
    """Pause before the first retry; it doubles."""
    back_off_most: float = 600.0
    """Longest pause before a retry."""
    retries_alike: int = 3
    """A job that failed of the same thing so often in a row is given up; 0 is never for that."""
    retries_others: int = 0
    """A job is given up after a failure that trying again did not cure for so many other jobs of its user, or
    other users; 0 is never for that."""
    trial: float = 60.0
    """Length of the trial run of jobs that want one."""
    idle_after: float = 0.0
    """A job that has held devices and done nothing for so long is told so; 0 is never."""
    idle_action: str = "tell"
    """What becomes of it: tell, or suspend after as long again."""
    suspend_memory_gib: float = 0.0
    """Host memory that suspended jobs may hold on this machine; half of it if 0."""
    keep_files: float = 30 * DAY_S
    """How long logs and folders of ended jobs stay on the machines that ran them; 0 is for ever."""
    keep_checkpoints: float = 7 * DAY_S
    """How long the checkpoints of ended jobs stay; 0 is for ever."""
    keep_history: float = 365 * DAY_S
    """How long ended jobs stay on record, with attempts and usage; 0 is for ever."""
    keep_events: float = 90 * DAY_S
    """How long the record of who did what goes back; 0 is for ever."""
    keep_keys: float = DAY_S
    """How long a submission is known by its key, so that it may be sent again; 0 is for ever."""
    metrics_open: bool = False
    """Let anybody read /metrics."""
    log_level: str = "info"
    """debug, info, warning or error."""
    tenants: Any = field(default_factory=dict)
    """Quotas and weights by path: {vision: {quota: 32, hard: true, weight: 2}}; only in the file."""
    layout: Any = field(default_factory=list)
    """Where machines stand, for cells: [{nodes: gpu-*, levels: {rack: r0}, device_levels: {socket: 4}}]; only
    in the file."""
    caps: Any = field(default_factory=dict)
    """What users may ask for: {priority: 1000, jobs: 100000, log_mib: 0, …}, tenants; only in the file."""
    notify: Any = field(default_factory=list)
    """Who is told of ends, failures and preemptions: [{url: …}, {command: […]}]; only in the file."""
    autoscale: Any = field(default_factory=dict)
    """Who brings nodes and takes them away: {command: […], min: 1, max: 16}; only in the file."""
    prices: Any = field(default_factory=dict)
    """Of a GPU-hour by type: {V100: 1.2, A100: {on_demand: 3, spot: 1}}; only in the file."""
    failures: Any = field(default_factory=list)
    """Rules of the failure classifier that come before the built-in ones; only in the file."""


KEPT = frozenset({"keep_files", "keep_checkpoints", "keep_history", "keep_events", "keep_keys"})
"""Durations of which 0 is for ever."""
DURATIONS = KEPT | {"idle_after", "deadline", "min_run", "lost_after", "back_off", "back_off_most", "trial"}
FOREVER, NEVER = "forever", "never"
ONLY_IN_FILE = frozenset({"tenants", "layout", "caps", "notify", "autoscale", "prices", "failures"})
_FIELDS = {one.name: one for one in fields(Config)}


@dataclass(frozen=True)
class Chosen:
    """A configuration, and where each of its values comes from."""

    config: Config
    source: Mapping[str, str]
    """flag, environment ROTA_X, the file's path, or default."""

    def lines(self) -> list[tuple[str, str, str]]:
        """Name, value and source of each setting, as text to write as one; what has entries comes last."""
        lines = [(name, shown(name, getattr(self.config, name)), self.source[name]) for name in _FIELDS]
        return sorted(lines, key=lambda line: line[0] in ONLY_IN_FILE and bool(line[1]))

    def plain(self) -> dict[str, dict[str, Any]]:
        """The same for machines: what only the file has is a mapping or a list there."""
        return {
            name: {"value": getattr(self.config, name) if name in ONLY_IN_FILE else value, "from": source}
            for name, value, source in self.lines()
        }


MEANS = {(f"{what}_memory_gib", "0.0"): "half of the machine" for what in ("policy", "suspend")}
"""Values whose text, which can be written as a setting, does not say to people what they stand for."""


def choose(
    home: Path,
    flags: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Chosen:
    """The settings in force; `flags` are those given (None is not given).  InputError names what is wrong."""
    environment = os.environ if environment is None else environment
    path = file or home / "config.yaml"
    written = read_file(path, must_exist=file is not None)
    values: dict[str, Any] = {}
    source: dict[str, str] = {}
    said: dict[str, str] = {}
    for name in _FIELDS:
        variable = f"ROTA_{name.upper()}"
        if flags.get(name) is not None:
            said[name], source[name], value = f"--{name.replace('_', '-')}", "flag", flags[name]
        elif variable in environment and name not in ONLY_IN_FILE:
            said[name], source[name], value = variable, variable, environment[variable]
        elif name in written:
            said[name], source[name], value = f"{path}: {name}", str(path), written[name]
        else:
            source[name] = "default"
            continue
        values[name] = parsed(name, value, said[name])
    config = Config(**values)
    _check(config, path, said.__getitem__)
    return Chosen(config, source)


def read_file(path: Path, *, must_exist: bool) -> dict[str, Any]:
    """The settings in a YAML file; none if it is not there and need not be."""
    content = read_yaml(path, must_exist=must_exist)
    for name in content:
        if name not in _FIELDS:
            close = get_close_matches(str(name), _FIELDS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(_FIELDS)}"
            raise InputError(f"{path}: there is no setting {str(name)!r}; {hint}")
    return content


def read_yaml(path: Path, *, must_exist: bool) -> dict[str, Any]:
    """The mapping in a YAML file; an empty one if it is not there and need not be."""
    try:
        text = path.read_text(encoding="utf-8")
        content = yaml.safe_load(text)
        refuse_twice(yaml.compose(text, Loader=yaml.SafeLoader), path)
    except FileNotFoundError:
        if must_exist:
            raise InputError.at("there is no such file", file=path, expected="a YAML file") from None
        return {}
    except OSError as error:
        raise InputError.at(f"cannot be read ({error.strerror})", file=path) from None
    except UnicodeDecodeError:
        raise InputError.at("cannot be read (it is no text in UTF-8)", file=path) from None
    except yaml.YAMLError as error:
        first = str(error).splitlines()[0]
        raise InputError.at(
            f"is not YAML ({first})", file=path, expected="lines such as `policy: fifo`"
        ) from None
    except RecursionError:
        raise InputError.at(
            "is nested too deep", file=path, expected="lines such as `policy: fifo`"
        ) from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise InputError.at("is not a list of settings", file=path, expected="lines such as `policy: fifo`")
    return dict(_with_names(content))


def _with_names(content: Any) -> Any:
    """The same, with the name `on`, which YAML takes for a truth, as the text that it is."""
    if isinstance(content, dict):
        return {"on" if key is True else key: _with_names(value) for key, value in content.items()}
    return [_with_names(value) for value in content] if isinstance(content, list) else content


def parsed(name: str, value: Any, where: str) -> Any:
    """`value`, text or what YAML made of it, as the setting `name` has it."""
    if name in ONLY_IN_FILE:
        return value
    if name in KEPT and str(value).strip() in ("0", FOREVER):
        return 0.0
    if name == "idle_after" and str(value).strip() in ("0", NEVER):
        return 0.0
    if name in DURATIONS:
        return _duration(value, where)
    kind: Any = type(_FIELDS[name].default)
    if kind is bool:
        return yes_or_no(value, where)
    made = _made(kind, value)
    if made is None:
        expected = {int: "a whole number", float: "a number, 0 or more", str: "text"}[kind]
        raise InputError(f"{where}: {value!r} is wrong; expected {expected}")
    return made


def _duration(value: Any, where: str) -> float:
    """Seconds, from text with a unit; a float is what `rota up` has read already."""
    if isinstance(value, float) and math.isfinite(value) and value >= 0:
        return value
    try:
        return parse_duration(str(value), "-")
    except InputError as error:
        raise InputError(f"{where}: {str(error).removeprefix('-: ')}") from None


def _made(kind: Any, value: Any) -> Any:
    """`value` as `kind`; None if it is something else, such as a list, or a fraction for a whole number."""
    if isinstance(value, bool | list | dict) or value is None:
        return None
    try:
        made = kind(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if kind is float and not (math.isfinite(made) and made >= 0):
        return None
    return None if kind is int and isinstance(value, float) and made != value else made


def _check(config: Config, file: Path, given_by: Callable[[str], str]) -> None:
    """Raises InputError for what cannot be; `given_by` tells where a setting stands, by name."""
    for name, is_sound, problem, expected in _rules(config):
        if not is_sound:
            raise InputError(f"{given_by(name)}: {problem}; expected {expected}")
    keep_of(config)
    layout = layout_of(config.layout, f"{file}: layout")
    check_levels(layout, tenants_of(config, f"{file}: tenants"), f"{file}: tenants")
    try:
        caps_of(config.caps)
        targets_of(config.notify)
        autoscale_of(config.autoscale)
        prices_of(config.prices)
        rules_of(config.failures)
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    _check_files_of(knowledge_of(config))


def _rules(config: Config) -> Iterator[tuple[str, bool, str, str]]:
    """Setting, whether it is sound, what is wrong with it otherwise, and what was expected."""
    port, alike, others = config.port, config.retries_alike, config.retries_others
    levels = ("debug", "info", "warning", "error")
    yield "port", 0 <= port <= 65535, f"{port} is no port", "0 to 65535"
    yield "deadline", config.deadline > 0.0, "leaves no time to decide", "a duration such as 10s"
    memory, enough = config.policy_memory_gib, config.policy_memory_gib >= LEAST_MEMORY_GIB
    problem = f"{memory:g} is less than a policy's process takes without its policy"
    yield "policy_memory_gib", not memory or enough, problem, f"{LEAST_MEMORY_GIB:g} or more, or 0"
    yield "lost_after", config.lost_after >= 1.0, "is too short", "1s or more"
    problem = f"{alike} is no number of same failures"
    yield "retries_alike", alike >= 0 and alike != 1, problem, "2 or more, or 0 for never"
    yield "retries_others", others >= 0, f"{others} is no number of others", "0 or more"
    idle = config.idle_action
    yield "idle_action", idle in ("tell", "suspend"), f"{idle!r} is nothing to do", "tell or suspend"
    problem = f"{config.log_level!r} is no level"
    yield "log_level", config.log_level in levels, problem, "debug, info, warning or error"


def without_password(value: Any) -> Any:
    """A setting without the passwords that an address may hold."""
    return without_passwords(value) if isinstance(value, str) else value


def shown(name: str, value: Any) -> str:
    """A value as people write it; the database's password stays out of sight."""
    if name in KEPT and not value:
        return FOREVER
    if name == "idle_after" and not value:
        return NEVER
    if name in DURATIONS:
        return format_duration(value).replace(" ", "")
    if name == "database_url":
        return str(without_password(value)) if "://" in value else "…" * bool(value)  # no address
    if name in ONLY_IN_FILE:
        return "\n".join(_entries(value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _entries(value: Any) -> list[str]:
    """A mapping or a list as the lines of a YAML file, one for each entry."""
    if isinstance(value, dict):
        return [f"{_flow(key)}: {_flow(entry)}" for key, entry in value.items()]
    return [f"- {_flow(entry)}" for entry in value]


def _flow(value: Any) -> str:
    """`value` as YAML on one line."""
    text: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=math.inf)
    return text.removesuffix("\n").removesuffix("\n...")


def tenants_of(config: Config, where: str = "tenants") -> Tenants:
    """The tenants that are configured."""
    return parse_tenants(config.tenants, where)


def _check_files_of(chosen: Mapping[str, str]) -> None:
    """Read the files that sources name: a controller would find out when it decides for the first time."""
    if any(":" in source for source in chosen.values()):
        live_providers(chosen, JobTable.build((), submit_s=(), gpus=()), parse_cluster("1x1"), ())


def knowledge_of(config: Config) -> dict[str, str]:
    """Sources of knowledge by kind."""
    return parse_sources(config.knowledge, Where.LIVE)


def keep_of(config: Config) -> Keep:
    """How long what has ended is kept; InputError if files were to outlive the record of their job."""
    kept = {name: getattr(config, name) or math.inf for name in KEPT}
    for name in ("keep_files", "keep_checkpoints"):
        if kept[name] > kept["keep_history"]:
            raise InputError.at(
                f"{shown('keep_history', config.keep_history)} is shorter than {name} "
                f"({shown(name, getattr(config, name))}), and files need a record to be found by",
                field="--keep-history",
                expected=f"as long as {name}, or longer",
            )
    return Keep(**{f"{name.removeprefix('keep_')}_s": seconds for name, seconds in kept.items()})


def back_off_of(config: Config) -> BackOff:
    """Pauses before retries."""
    return BackOff(config.back_off, config.back_off_most)
