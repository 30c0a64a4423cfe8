"""How the batch sizes of the jobs in Shockwave's traces change: Accordion, and scaling by gradient noise.

The tables are those with which the authors simulate (NSDI 2023, uw-mad-dash/shockwave): epochs in which
Accordion finds the gradient in a critical regime, and epochs at which the noise of it has grown enough for
twice the batch size.  The schedule that policies receive is another one: in it Accordion keeps the first 30 %
of a job small and knows more critical epochs of Recommendation, and noise doubles an epoch later where it
does so more than once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from rota.errors import InputError
from rota.knowledge.regimes import Course, Regime
from rota.model.trace import Trace

MODES = ("static", "accordion", "gns")

_SAMPLES: Mapping[str, int] = {
    "ResNet-18": 50_000, "ResNet-50": 100_000, "Transformer": 10_000, "LM": 59_675, "Recommendation": 117_907
}  # fmt: skip
"""Samples of an epoch."""
_MOST: Mapping[str, int] = {"LM": 80, "ResNet-18": 256, "ResNet-50": 128, "Recommendation": 8192}
"""Largest batch size; models that are not listed do not adapt."""
_SMALL_PART = 0.3
"""Part of a job's epochs that the schedule for Accordion keeps small."""

_Doublings = Mapping[int, Mapping[int, tuple[int, ...]]]
_NOISE: Mapping[str, _Doublings] = {
    "ResNet-18": {
        16: {1: (31, 41, 51, 71), 2: (21, 31, 91, 111), 4: (11, 21, 81, 91)},
        32: {1: (21, 31, 51), 2: (11, 21, 41), 4: (21, 31, 61)},
        64: {1: (11, 31), 2: (21, 41), 4: (11, 61)},
        128: {1: (11,), 2: (41,), 4: (11,)},
    },
    "ResNet-50": {32: {2: (101, 111), 4: (131, 221)}, 64: {1: (101,), 2: (81,), 4: (191,)}},
    "LM": {
        5: {1: (31, 41, 61, 71), 2: (31, 51, 61, 71), 4: (11, 31, 71, 91)},
        10: {1: (11, 21, 41), 2: (11, 31, 41), 4: (11, 31, 61)},
        20: {1: (11, 41), 2: (31, 41), 4: (11, 61)},
        40: {1: (11,), 2: (11,), 4: (61,)},
    },
    "Recommendation": {
        512: {1: (21, 41, 71, 91)}, 1024: {1: (21, 51, 91)}, 2048: {1: (21, 41)}, 4096: {1: (41,)}
    },
}  # fmt: skip
"""Epochs at which noise has doubled the batch size once, twice, ..., by model, batch size and GPUs."""


class TrainedProgram(NamedTuple):
    """What a job trains."""

    model: str
    batch: int
    gpus: int


def course_of(program: TrainedProgram, mode: str, steps: float) -> Course:
    """The batch sizes of a job of `steps` steps at its first batch size; ValueError for an unknown model."""
    samples = _SAMPLES.get(program.model)
    if samples is None:
        raise ValueError(f"knows no samples of an epoch of {program.model!r}")
    epochs = math.ceil(steps / math.ceil(samples / program.batch))
    adapts = _MOST.get(program.model, program.batch) != program.batch
    if mode == "accordion" and adapts:
        told, asks = (_accordion(program, epochs, told=told) for told in (True, False))
        return Course(samples, epochs, told, asks)
    if mode == "gns" and adapts:
        doublings = _NOISE.get(program.model, {}).get(program.batch, {}).get(program.gpus, ())
        late = int(sum(first < epochs for first in doublings) > 1)
        told, asks = (_noise(program, doublings, shift) for shift in (late, 0))
        return Course(samples, epochs, told, asks, doubles=True)
    return Course(samples, epochs, (Regime(0, program.batch),))


def _is_critical(program: TrainedProgram, epoch: int, *, told: bool) -> bool:
    """True in an epoch that Accordion trains at its first batch size; `told` asks the policies' schedule."""
    if program.model == "ResNet-18":
        return epoch < (20 if program.batch == 256 else 10) or 150 <= epoch < 160 or 250 <= epoch < 260
    if program.model == "ResNet-50":
        return epoch % 30 < 10
    if program.model == "Recommendation":
        first = {512: 30, 1024: 30, 2048: 40}.get(program.batch, 10)
        return epoch < first or (told and (60 <= epoch < 70 or 80 <= epoch < 90))
    return epoch < 10


def _accordion(program: TrainedProgram, epochs: int, *, told: bool) -> tuple[Regime, ...]:
    """Regimes of the first or of the largest batch size, up to one epoch beyond the last."""
    most, small = _MOST[program.model], math.ceil(_SMALL_PART * epochs) if told else 0
    regimes: list[Regime] = []
    for epoch in sorted({*range(0, epochs + 2, 10), small}):  # no other can begin one
        is_small = epoch < small or _is_critical(program, epoch, told=told)
        batch = program.batch if is_small else most
        if not regimes or regimes[-1].batch != batch:
            regimes.append(Regime(epoch, batch))
    return tuple(regimes)


def _noise(program: TrainedProgram, doublings: tuple[int, ...], late: int) -> tuple[Regime, ...]:
    later = (Regime(first + late, program.batch << times) for times, first in enumerate(doublings, start=1))
    return (Regime(0, program.batch), *later)


_NAMED = re.compile(r"(.+) \(batch size (\d+)\)")


def courses_of(trace: Trace) -> list[Course]:
    """The course of each job of a Shockwave trace; InputError names what is missing in it."""
    modes = trace.facts.get("mode")
    if not isinstance(modes, dict):
        raise InputError.at(
            "does not say how batch sizes change", file=trace.source, expected="a Shockwave trace, with modes"
        )
    return [_course(trace, row, str(modes[job])) for row, job in enumerate(trace.jobs.ids)]


def _course(trace: Trace, row: int, mode: str) -> Course:
    job, workload, gpus = trace.jobs.ids[row], trace.jobs.name_of("workload", row), trace.jobs.gpus.item(row)
    match = _NAMED.fullmatch(workload)
    if match is None:
        raise InputError.at(
            f"job {job} runs {workload!r}, which names no batch size",
            file=trace.source,
            expected="MODEL (batch size N)",
        )
    steps = trace.truth.iterations.item(row)
    try:
        return course_of(TrainedProgram(match[1], int(match[2]), gpus), mode, steps)
    except ValueError as error:
        raise InputError.at(
            f"job {job}: nobody {error}", file=trace.source, expected=f"one of {', '.join(_SAMPLES)}"
        ) from None
