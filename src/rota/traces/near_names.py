"""Which known column a similar name stands for: `id` is job_id, `user` is tenant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from rota.errors import brief

MEANT = {
    "job_id": ("id", "job", "jobid", "job_name", "name"),
    "submit_s": ("submit", "submitted", "submission", "arrival", "arrived", "arrive", "release", "time"),
    "gpus": ("gpu", "num_gpu", "num_gpus", "n_gpus", "ngpus", "gpu_count", "gpu_num", "size", "devices"),
    "duration_s": (
        "duration",
        "runtime",
        "run_time",
        "run",
        "elapsed",
        "length",
        "service_time",
        "hours",
        "minutes",
    ),
    "tenant": ("user", "account", "project", "team", "owner", "vc"),
    "workload": ("model", "application", "app", "job_type"),
    "deadline_s": ("deadline", "due"),
    "limit_s": ("limit", "timelimit", "walltime", "time_limit"),
    "cpus": ("cpu", "cores", "num_cpu", "num_cpus", "ncpus"),
    "memory_gib": ("memory", "mem", "ram"),
    "start_s": ("start", "started"),
    "end_s": ("end", "ended", "finish", "finished"),
    "outcome": ("state", "status"),
    "gpu_types": ("type", "gpu_kind"),
}
"""Other names for columns of the plain format; units and `_time` at the end of a name are ignored."""
_UNITS = ("_seconds", "_secs", "_sec", "_time", "_gb", "_gib", "_s")
_ALIKE = 0.75
_FEW = 4


def near_name(name: str, known: Iterable[str]) -> str | None:
    """The name in `known` that `name` most likely stands for; None if none is similar."""
    columns = list(known)
    bare, meant = _bare(name), next((column for column, words in MEANT.items() if _is_meant(name, words)), "")
    if meant in columns:
        return meant
    called = next((column for column in columns if _is_meant(column, MEANT.get(name, ()))), None)
    if called:
        return called
    alike = next((column for column in columns if _bare(column) == bare), None)
    return alike or next(iter(get_close_matches(name.lower(), columns, n=1, cutoff=_ALIKE)), None)


def near_names(names: Iterable[str], known: Iterable[str]) -> dict[str, str]:
    """For each name the one in `known` that it most likely stands for, each used once; without the others."""
    free, near = sorted(known), dict[str, str]()
    for name in names:
        meant = near_name(name, free)
        if meant:
            near[name] = meant
            free.remove(meant)
    return near


def quoted(names: Iterable[str]) -> str:
    """The first few names, quoted: `'id', 'name'`."""
    listed = [brief(name) for name in names]
    more = f" and {len(listed) - _FEW} more" if len(listed) > _FEW else ""
    return ", ".join(listed[:_FEW]) + more


def _is_meant(name: str, words: tuple[str, ...]) -> bool:
    return name.strip().lower() in words or _bare(name) in words


def _bare(name: str) -> str:
    """`name` in lower case, without blanks and without a unit at the end."""
    plain = name.strip().lower().replace(" ", "_").replace("-", "_")
    return next((plain.removesuffix(unit) for unit in _UNITS if plain.endswith(unit)), plain)
