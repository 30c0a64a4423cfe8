"""From where on a study calls something a fault; each can be set: `idle_utilisation=0.1,idle_gpu_hours=8`."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches

from rota.errors import InputError


@dataclass(frozen=True)
class Thresholds:
    """Chosen so that a clean history names no user; `docs/analyze.md` says what each is weighed against."""

    idle_utilisation: float = 0.05
    """A job is idle if its GPUs are busy for at most this part of the time."""
    idle_cpu_cores: float = 0.05
    """A job that keeps no more CPU cores busy for each GPU is idle, where GPUs were not measured."""
    idle_run_h: float = 0.5
    """Shorter jobs are never called idle: they load, and end."""
    idle_gpu_hours: float = 8.0
    """A user is named from this number of idle GPU-hours on ..."""
    idle_part_of_user: float = 0.5
    """... if they are this part of the user's measured GPU-hours, or ..."""
    idle_part_of_all: float = 0.05
    """... this part of the measured GPU-hours of all users."""
    array_tasks: float = 5.0
    """An array, or a user's jobs of one name, is named if this number of it died ..."""
    array_part: float = 0.8
    """... which is this part of all that ended, and this part of them died in one way ..."""
    array_chance: float = 0.001
    """... and chance would do that to any of the groups, at the failure rate of all others, no likelier."""
    wrong_wait_min: float = 15.0
    """A job may have been sent to the wrong partition if it waited for this time ..."""
    wrong_part: float = 0.8
    """... and for this part of that time its partition had no room and the other one had ..."""
    wrong_full: float = 0.6
    """... full being this part of the most that was ever held there ..."""
    wrong_free: float = 0.5
    """... and room being this part of the other one's GPUs."""
    wrong_jobs: float = 3.0
    """A user is named from this number of such jobs on ..."""
    wrong_apart_min: float = 10.0
    """... on that number of occasions this far apart, since jobs that come together are one choice, ..."""
    wrong_hours: float = 2.0
    """... that waited for these hours together ..."""
    wrong_part_of_user: float = 0.2
    """... and are this part of the user's jobs in that partition, or ..."""
    wrong_hours_alone: float = 48.0
    """... waited for these hours together, however many other jobs there are."""
    wrong_own_part: float = 0.5
    """With less than this part of their jobs there, half of a partition's users together are a crowd."""
    limit_used: float = 0.1
    """A user over-asks if nearly all (95 %) of the jobs use no larger part of their time limits ..."""
    limit_jobs: float = 10.0
    """... of at least this number of jobs ..."""
    limit_factor: float = 4.0
    """... and the median job of the others uses this many times more, so that the user stands out."""
    prerun_s: float = 180.0
    """How long a pre-run on one GPU would take: failures up to then would be caught by it."""

    @classmethod
    def parse(cls, text: str | None) -> Thresholds:
        """The defaults with what `text` sets: `name=value,name=value`."""
        given: dict[str, float] = {}
        names = [one.name for one in fields(cls)]
        for part in (text or "").split(","):
            if not part.strip():
                continue
            name, equals, value = (word.strip() for word in part.partition("="))
            if name not in names:
                near = get_close_matches(name, names, 1)
                hint = f"did you mean {near[0]}?" if near else "one of " + ", ".join(names)
                raise InputError.at(f"{name!r} is no threshold", field="--threshold", expected=hint)
            if name in given:
                raise InputError.at(
                    f"sets {name!r} twice", field="--threshold", expected="each threshold once"
                )
            given[name] = _amount(value) if equals else math.nan
            if not given[name] >= 0.0 or math.isinf(given[name]):
                problem = f"{part.strip()!r} sets no number"
                raise InputError.at(problem, field="--threshold", expected=f"such as {name}={_usual(name):g}")
        if text is not None and not given:
            expected = f"such as {names[0]}={_usual(names[0]):g}"
            raise InputError.at("sets no threshold", field="--threshold", expected=expected)
        return replace(cls(), **given)


def _amount(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _usual(name: str) -> float:
    return float(getattr(Thresholds(), name))
