"""Goodput: the worked examples of Pollux, and what is refused in a file of profiles."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rota.errors import InputError
from rota.knowledge.goodput import (
    BatchLimits,
    BatchSplit,
    GoodputProfile,
    Noise,
    StepFit,
    TrainingPhase,
    goodput_table,
    profiles_of,
)
from rota.knowledge.goodput_file import read_goodputs

# Pollux, worked examples 1 to 3
FIT = StepFit(alpha_c=0.05, beta_c=0.002, alpha_n=0.10, beta_n=0.01, alpha_r=0.03, beta_r=0.002, gamma=2.0)
NOISE = Noise(sqr=1.0, var=4.0)
LIMITS = BatchLimits(initial=64, most=2048, local_least=16, local_most=128, accumulates=True)
PROFILE = GoodputProfile(LIMITS, {"*": FIT}, (TrainingPhase(float("inf"), NOISE),))


@pytest.mark.parametrize(
    ("nodes", "gpus", "batch", "expected"),
    [
        (1, 1, BatchSplit(64), 359.5506),
        (1, 4, BatchSplit(64), 1412.662),
        (2, 8, BatchSplit(64), 2139.209),
        (2, 8, BatchSplit(64, 1), 2453.630),
    ],
)
def test_throughput(nodes: int, gpus: int, batch: BatchSplit, expected: float) -> None:
    """Examples per second."""
    assert FIT.throughput(nodes, gpus, batch) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("batch", "efficiency", "gain"),
    [(64, 1.0, 1.0), (128, 0.833333, 1.6667), (512, 0.416667, 3.3333), (1024, 0.25, 4.0)],
)
def test_efficiency(batch: int, efficiency: float, gain: float) -> None:
    assert NOISE.efficiency(batch, 64) == pytest.approx(efficiency, abs=1e-6)
    assert NOISE.gain(batch, 64) == pytest.approx(gain, abs=1e-4)


@pytest.mark.parametrize(
    ("nodes", "gpus", "local", "goodput", "speedup"),
    [
        (1, 1, 64, 359.5506, 0.6078),
        (1, 2, 61, 591.537, 1.0),
        (1, 4, 44, 917.283, 1.5507),
        (2, 8, 56, 894.347, 1.5119),
    ],
)
def test_best_batch(nodes: int, gpus: int, local: int, goodput: float, speedup: float) -> None:
    """Eight GPUs on two nodes are worse than four on one; speedups are to a fair share of two."""
    batch, best = PROFILE.best(FIT, NOISE, nodes, gpus) or (None, 0.0)
    assert batch == BatchSplit(local)
    assert best == pytest.approx(goodput, rel=1e-6)
    assert best / 591.537 == pytest.approx(speedup, abs=1e-4)


def test_no_batch_for_so_many_gpus() -> None:
    """200 GPUs of at least 16 examples each are more than the largest batch."""
    assert LIMITS.choices(200) == []
    assert PROFILE.best(FIT, NOISE, 25, 200) is None


def test_without_accumulation_a_lone_gpu_keeps_its_batch() -> None:
    limits = BatchLimits(initial=64, most=2048, local_least=16, local_most=128)
    assert limits.choices(1) == [BatchSplit(64)]
    assert max(batch.total(2) for batch in limits.choices(2)) == 256


# -- files -----------------------------------------------------------------------------------------

STORED: dict[str, Any] = {
    "resnet18": {
        "fit": {"*": FIT._asdict()},
        "batch": [64, 2048],
        "local_batch": [16, 128],
        "accumulate": True,
        "epochs": [{"examples": 50000, "sqr": 2, "var": 1}, {"examples": 50000, "sqr": 1, "var": 4}],
        "times": 30,
    }
}


def test_a_profile_is_read(tmp_path: Path) -> None:
    path = tmp_path / "profiles.json"
    path.write_text(json.dumps(STORED))
    profile = read_goodputs(path).profiles["resnet18"]
    assert profile.fit_on("V100") == FIT
    assert profile.limits == LIMITS
    assert profile.ends == [50000.0, float("inf")]
    assert profile.examples == 31 * 50000.0


PIPELINE: dict[str, Any] = {
    "fit": {"a": {"alpha_c": 0.01, "beta_c": 0.02, "alpha_n": 0.5, "beta_n": 0, "alpha_r": 0.5, "beta_r": 0}},
    "batch": [48, 480],
    "local_batch": [1, 1],
    "epochs": [{"examples": 50000, "sqr": 1, "var": 4}],
    "pipeline": {"stages": {"a": 4, "*": 8}, "micro_batches": 48},
}
PIPELINE["fit"]["a"]["gamma"] = 1


def _pipeline(tmp_path: Path, **changes: Any) -> GoodputProfile:
    path = tmp_path / "profiles.json"
    path.write_text(json.dumps({"gpt": PIPELINE | changes}))
    return read_goodputs(path).profiles["gpt"]


def test_a_pipeline(tmp_path: Path) -> None:
    """Sia's example: 4 stages, 48 micro-batches, 2 replicas that synchronise in 0.5 s: 18.86 examples/s."""
    profile = _pipeline(tmp_path)
    fit = profile.fit_on("a")
    assert fit is not None
    assert fit.step_s(1, 2, BatchSplit(48)) == pytest.approx(5.09)
    assert fit.throughput(1, 2, BatchSplit(48)) == pytest.approx(18.8605, abs=5e-5)
    assert (profile.stages_on("A"), profile.stages_on("rtx")) == (4, 8)
    assert profile.limits.choices(11) == []
    assert [batch.total(2) for batch in profile.limits.choices(2)] == [96]
    other = GoodputProfile(LIMITS, {"*": FIT}, profile.phases)
    told = goodput_table([profile, other], np.array([0, 1]), ["a"])
    assert [one.stages_on("a") for one in profiles_of(told, ["a"])] == [4, 1]


WRONG_PIPELINES = [
    # what stands where                                               the sentence
    ({"pipeline": 3}, "gpt.pipeline is no pipeline"),
    ({"pipeline": {"stages": {}, "micro_batches": 4}}, "gpt.stages is missing or empty"),
    ({"pipeline": {"stages": {"a": 0}, "micro_batches": 48}}, "gpt.pipeline.stages.a is 0"),
    ({"pipeline": {"stages": {"a": 4}, "micro_batches": 1.5}}, "gpt.pipeline.micro_batches is 1.5"),
    ({"pipeline": {"stages": {"b": 4}, "micro_batches": 48}}, "gpt.pipeline.stages has none for a"),
    ({"local_batch": [1, 2]}, "gpt.local_batch is a range"),
    ({"batch": [64, 480]}, "gpt.batch leaves out 48"),
]


@pytest.mark.parametrize(("change", "message"), WRONG_PIPELINES, ids=[one for _, one in WRONG_PIPELINES])
def test_a_wrong_pipeline_is_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        _pipeline(tmp_path, **change)


WRONG = [
    # what stands where                   the sentence names the field
    (("fit", {}), "resnet18.fit is missing or empty"),
    (("fit", {"V100": 3}), "resnet18.fit.V100 is no fit"),
    (("fit", {"V100": FIT._asdict() | {"beta_n": "a"}}), "resnet18.fit.V100.beta_n is 'a'"),
    (("fit", {"V100": FIT._asdict() | {"gamma": 0.5}}), "resnet18.fit.V100 gives no step times"),
    (("batch", [64]), r"resnet18.batch is \[64\]"),
    (("batch", [64, 32]), "resnet18.batch is"),
    (("local_batch", None), "resnet18.local_batch is None"),
    (("accumulate", "yes"), "resnet18.accumulate is 'yes'"),
    (("epochs", []), "resnet18.epochs is no list"),
    (("epochs", [{"examples": 0, "sqr": 1, "var": 1}]), "resnet18.epochs.0.examples is 0"),
    (("epochs", [{"examples": 9, "sqr": 0, "var": 0}]), "an epoch without a gradient"),
    (("times", 0), "resnet18.times is 0"),
    (("tims", 30), "resnet18 has 'tims'; expected nothing but fit, batch, local_batch, accumulate, epochs"),
    (("batch", [64, 10**20]), r"resnet18.batch is \[64, 100000000000000000000\]"),
]


@pytest.mark.parametrize(("change", "message"), WRONG, ids=[message for _, message in WRONG])
def test_a_wrong_profile_is_refused(change: tuple[str, Any], message: str, tmp_path: Path) -> None:
    stored = copy.deepcopy(STORED)
    stored["resnet18"][change[0]] = change[1]
    path = tmp_path / "profiles.json"
    path.write_text(json.dumps(stored))
    with pytest.raises(InputError, match=message):
        read_goodputs(path)


@pytest.mark.parametrize("text", ["[]", "{}", "{", '{"a": 3}'])
def test_what_is_no_file_of_profiles(text: str, tmp_path: Path) -> None:
    path = tmp_path / "profiles.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"profiles.json: .*expected"):
        read_goodputs(path)
