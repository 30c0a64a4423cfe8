"""Reads goodput profiles, one JSON object (perhaps compressed with gzip) by workload:

    {"resnet18": {"fit": {"*": {"alpha_c": 0.05, "beta_c": 0.002, "alpha_n": 0.1, "beta_n": 0.01,
                                "alpha_r": 0.03, "beta_r": 0.002, "gamma": 2}},
                  "batch": [64, 2048], "local_batch": [16, 128], "accumulate": true,
                  "epochs": [{"examples": 50000, "sqr": 1, "var": 4}], "times": 30}}

fit          seconds of a step by GPU type; `*` for all others
batch        M0 and the largest batch;  local_batch: the least and the most of it on one GPU
accumulate   whether gradients may be accumulated; false if not given
epochs       progress and statistics of the gradient of each, in examples at M0; the last goes on for ever
times        how often the last epoch is run before the workload is done; 1 if not given
pipeline     {"stages": {"a100": 2, "*": 8}, "micro_batches": 48}: GPUs of one replica; `fit` is of
             one stage with one micro-batch, whose examples are `local_batch`, least and most being equal
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from rota.errors import InputError
from rota.knowledge.goodput import BatchLimits, GoodputProfile, GoodputTable, Noise, StepFit, TrainingPhase
from rota.knowledge.side_file import json_of, read_text

_FIELDS = ("fit", "batch", "local_batch", "accumulate", "epochs", "times", "pipeline")
_MOST_SAMPLES = 2**53
"""Largest size of a batch: up to here floats are exact."""
_FORM = '{"WORKLOAD": {"fit": ..., "batch": ..., "local_batch": ..., "epochs": ...}}'


def read_goodputs(path: str | Path) -> GoodputTable:
    """The profiles in the file `path`."""
    try:
        stored = json_of(read_text(Path(path)), path)
    except ValueError:
        stored = None
    if not isinstance(stored, dict) or not stored:
        raise InputError.at("holds no goodput profiles", file=path, expected=_FORM)
    return GoodputTable(
        {name: _Reader(path, name).profile(value) for name, value in stored.items()}, str(path)
    )


class _Reader:
    """Reads the profile of one workload; errors name the place in it."""

    def __init__(self, path: str | Path, workload: str) -> None:
        self.path = path
        self.workload = workload

    def profile(self, stored: Any) -> GoodputProfile:
        if not isinstance(stored, dict):
            raise self.wrong("", "is no profile", _FORM)
        if unknown := sorted(stored.keys() - set(_FIELDS)):
            raise self.wrong("", f"has {unknown[0]!r}", "nothing but " + ", ".join(_FIELDS))
        fits = self.mapping(stored, "fit", "parameters by GPU type")
        phases, examples = self.phases(stored)
        profile = GoodputProfile(
            limits=self.limits(stored),
            fits={name.casefold(): self.fit(name, fits[name]) for name in fits},
            phases=phases,
            examples=examples,
        )
        return profile if "pipeline" not in stored else self.pipeline(stored, profile)

    def pipeline(self, stored: Mapping[str, Any], profile: GoodputProfile) -> GoodputProfile:
        """The profile of replicas, from that of one stage with one micro-batch (Sia, section 3.4).

        A replica of P stages takes 3 (P - 1 + micro-batches) times as long as a stage going forward.
        """
        value = stored["pipeline"]
        if not isinstance(value, dict) or set(value) != {"stages", "micro_batches"}:
            raise self.wrong("pipeline", "is no pipeline", "stages by GPU type, and micro_batches")
        named = self.mapping(value, "stages", "whole numbers by GPU type")
        stages = {name.casefold(): self.count(named, name, f"pipeline.stages.{name}") for name in named}
        passes = self.count(value, "micro_batches", "pipeline.micro_batches")
        limits = profile.limits
        examples = limits.local_most * passes
        if limits.local_least != limits.local_most:
            raise self.wrong("local_batch", "is a range", "one size twice, that of a micro-batch")
        if not limits.initial <= examples <= limits.most:
            raise self.wrong("batch", f"leaves out {examples}, what one replica does", "a range around it")
        fits = {}
        for name, fit in profile.fits.items():
            each = stages.get(name, stages.get("*"))
            if each is None:
                raise self.wrong("pipeline.stages", f"has none for {name}", "stages for each fit, or *")
            seconds = 3.0 * (each - 1 + passes) * fit.gradient_s(limits.local_most)
            fits[name] = fit._replace(alpha_c=seconds, beta_c=0.0)
        replica = replace(limits, local_least=examples, local_most=examples, accumulates=False)
        return replace(profile, limits=replica, fits=fits, stages=stages)

    def count(self, stored: Mapping[str, Any], name: str, where: str) -> int:
        value = stored.get(name)
        if type(value) is not int or value < 1:
            raise self.wrong(where, f"is {value!r}", "a whole number, 1 or more")
        return value

    def fit(self, gpu_type: str, stored: Any) -> StepFit:
        where = f"fit.{gpu_type}"
        if not isinstance(stored, dict):
            raise self.wrong(where, "is no fit", ", ".join(StepFit._fields))
        fit = StepFit(*(self.number(stored, f"{where}.{name}", 0.0) for name in StepFit._fields))
        if fit.gamma < 1.0 or fit.gradient_s(1.0) <= 0.0:
            raise self.wrong(where, "gives no step times", "gamma of 1 or more, alpha_c or beta_c above 0")
        return fit

    def limits(self, stored: Mapping[str, Any]) -> BatchLimits:
        (least, most), (local_least, local_most) = (
            self.range(stored, name) for name in ("batch", "local_batch")
        )
        accumulates = stored.get("accumulate", False)
        if not isinstance(accumulates, bool):
            raise self.wrong("accumulate", f"is {accumulates!r}", "true or false")
        return BatchLimits(least, most, local_least, local_most, accumulates)

    def phases(self, stored: Mapping[str, Any]) -> tuple[tuple[TrainingPhase, ...], float]:
        """The phases, and the progress after the last."""
        epochs = stored.get("epochs")
        if not isinstance(epochs, list) or not epochs or not all(isinstance(one, dict) for one in epochs):
            raise self.wrong("epochs", "is no list of epochs", '[{"examples": 50000, "sqr": 1, "var": 4}]')
        noises = [
            Noise(*(self.number(one, f"epochs.{number}.{name}", 0.0) for name in ("sqr", "var")))
            for number, one in enumerate(epochs)
        ]
        lengths = [self.number(one, f"epochs.{number}.examples", 1.0) for number, one in enumerate(epochs)]
        times = self.number(stored, "times", 1.0) if "times" in stored else 1.0
        ends = list(accumulate(lengths))
        whole = ends[-1] + (times - 1.0) * lengths[-1]
        untils = [*ends[:-1], math.inf]
        if any(sum(noise) <= 0.0 for noise in noises):
            raise self.wrong("epochs", "has an epoch without a gradient", "sqr or var above 0")
        return tuple(TrainingPhase(until, noise) for until, noise in zip(untils, noises, strict=True)), whole

    # -- values ------------------------------------------------------------------------------------

    def mapping(self, stored: Mapping[str, Any], name: str, what: str) -> Mapping[str, Any]:
        value = stored.get(name)
        if not isinstance(value, dict) or not value:
            raise self.wrong(name, "is missing or empty", what)
        return value

    def number(self, stored: Mapping[str, Any], field: str, least: float) -> float:
        value: Any = stored.get(field.rpartition(".")[2])
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not least <= value < math.inf:
            raise self.wrong(field, f"is {value!r}", f"a number, {least:g} or more")
        return float(value)

    def range(self, stored: Mapping[str, Any], name: str) -> tuple[int, int]:
        value: Any = stored.get(name)
        is_pair = isinstance(value, list) and len(value) == 2 and all(type(size) is int for size in value)
        if not is_pair or not 1 <= value[0] <= value[1] <= _MOST_SAMPLES:
            raise self.wrong(name, f"is {value!r}", "two whole numbers, the least and the most")
        return value[0], value[1]

    def wrong(self, field: str, problem: str, expected: str) -> InputError:
        where = ".".join(filter(None, (self.workload, field)))
        return InputError.at(f"{where} {problem}", file=self.path, expected=expected)
