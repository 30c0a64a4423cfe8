"""A moment stored in a file is decided elsewhere as it was here, and holds no more than a policy may see."""

from __future__ import annotations

import json
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from play import trace_of
from rota.errors import InputError
from rota.model.cluster import parse_cluster
from rota.model.grants import Grant
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.loop import Loop
from rota.scheduler.moments.frozen import Frozen, dump, freeze, load, packed_decision, save
from rota.scheduler.moments.packing import pack
from rota.scheduler.moments.values import copied, digest
from rota.scheduler.policy import Policy, parse_policy, systems
from rota.scheduler.reasons.waiting import explain
from rota.scheduler.snapshot import Snapshot
from rota.testing import make_scene, subject_of
from rota.worlds.simulated.run import Setting, prepare
from tiers import first


def print_of(decision: Decision) -> str:
    return digest(packed_decision(decision))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(systems()))
@pytest.mark.parametrize("seed", first(1, range(4)))
def test_a_stored_moment_is_decided_alike(name: str, seed: int, tmp_path: Path) -> None:
    """Every few decisions of a random run are stored, loaded and decided again by a fresh instance."""
    asked: list[float] = []

    def store(policy: Policy, snapshot: Snapshot, memory: Memory) -> Decision:
        asked.append(snapshot.now)
        if len(asked) % 3 != seed % 3:
            return policy.decide(snapshot, memory)
        path = save(freeze(snapshot, memory, name), tmp_path / "moment.rota")
        decision = policy.decide(snapshot, memory)
        again = load(path)
        assert print_of(again.decide()) == print_of(decision), f"at {snapshot.now:g} s"
        assert print_of(again.decide()) == print_of(decision), "asked twice"
        return decision

    for _ in subject_of(name).play(make_scene(seed), store):
        pass
    assert len(asked) > 3


def paused(
    policy: str, jobs: str = "A 2x10 B 4x20 C 2x10@3 D 1x30@500", steps: int = 2, **columns: Any
) -> Loop:
    """A loop that has seen its first moments."""
    loop, _ = prepare(parse_policy(policy).make(), trace_of(jobs, **columns), parse_cluster("2x2"), Setting())
    for _ in range(steps):
        loop.step()
    return loop


def test_what_is_loaded_equals_what_was_seen(tmp_path: Path) -> None:
    loop = paused("srtf", tenant_names=("a/b",), type_names=("GPU",), after={2: (0,)}, priority=[3, 2, 1, 0])
    frozen = load(dump(loop, tmp_path / "moment.rota", "srtf"))
    assert frozen.policy == "srtf"
    assert digest(frozen.packed) == digest(pack(loop.snapshot()))
    assert digest(pack(frozen.snapshot())) == digest(frozen.packed), (
        "packing what was unpacked changes nothing"
    )
    seen, there = frozen.snapshot(), loop.snapshot()
    assert repr(seen.grants) == repr(there.grants), "NaN equals itself only as the same object"
    assert seen.waiting.tolist() == there.waiting.tolist()
    assert repr(seen.jobs.table.job(1)) == repr(there.jobs.table.job(1))
    assert seen.jobs.work_done(0) == there.jobs.work_done(0)
    assert seen.occupancy.free.count == there.occupancy.free.count
    assert seen.plain == there.plain
    assert seen.held == {2: "dependency"}


def test_the_future_is_not_in_the_file(tmp_path: Path) -> None:
    """D arrives at 500 s and lasts 30; nothing of it is stored, not even by name."""
    path = dump(paused("fifo", jobs="A 2x10 B 4x20 C 2x10@3 Dora 1x30@500"), tmp_path / "moment.rota", "fifo")
    with zipfile.ZipFile(path) as archive:
        text = archive.read("snapshot.json").decode()
        with archive.open("arrays.npz") as stream, np.load(stream) as arrays:
            numbers = [arrays[name] for name in arrays.files]
    assert "Dora" not in text
    assert not any((array == 500).any() for array in numbers if array.dtype.kind == "f")
    assert len(load(path).snapshot().jobs) == 3


@pytest.mark.parametrize(
    ("policy", "knows"), [("fifo", False), ("las", False), ("srtf", True), ("sjf", True)]
)
def test_only_declared_knowledge_is_in_the_file(policy: str, knows: bool, tmp_path: Path) -> None:
    """Durations (37 s, 41 s) are stored for those who declare them, and for nobody else."""
    loop = paused(policy, jobs="A 2x37 B 4x41 C 2x43@3")
    path = dump(loop, tmp_path / "moment.rota", policy)
    packed = load(path).packed
    assert set(packed["knowledge"]) == ({"duration"} if knows else set())
    packed["knowledge"] = {}
    text = json.dumps(packed, default=lambda array: array.tolist())
    assert "37.0" not in text
    assert "41.0" not in text


def test_another_policy_may_be_asked_if_it_needs_no_more(tmp_path: Path) -> None:
    frozen = load(dump(paused("srtf"), tmp_path / "moment.rota", "srtf"))
    assert isinstance(frozen.decide("fifo"), Decision)
    frozen = load(dump(paused("fifo"), tmp_path / "moment.rota", "fifo"))
    with pytest.raises(InputError, match="the snapshot holds no duration, which srtf needs"):
        frozen.decide("srtf")


def test_a_policy_without_a_name_must_be_given(tmp_path: Path) -> None:
    frozen = load(dump(paused("fifo"), tmp_path / "moment.rota"))
    with pytest.raises(InputError, match="does not name its policy"):
        frozen.decide()
    assert isinstance(frozen.decide(parse_policy("fifo").make()), Decision)


def test_a_stored_job_can_be_explained(tmp_path: Path) -> None:
    frozen = load(dump(paused("fifo"), tmp_path / "moment.rota", "fifo"))
    (reason, ahead) = (
        explain(frozen.snapshot(), frozen.decide(), 1),
        explain(frozen.snapshot(), frozen.decide(), 2),
    )
    assert [one.sentence() for one in reason] == ["needs 4 GPUs; 2 are free"]
    assert [one.sentence() for one in ahead] == ["stands behind 1 job submitted earlier (B)"]


def test_deciding_leaves_the_stored_moment_alone() -> None:
    loop = paused("las")
    frozen = freeze(loop.snapshot(), loop.memory, "las")
    before = digest(frozen.packed), digest(frozen.memory)
    frozen.decide()
    assert (digest(frozen.packed), digest(frozen.memory)) == before


def test_a_moment_is_independent_of_what_happens_next() -> None:
    loop = paused("srtf")
    frozen = freeze(loop.snapshot(), loop.memory, "srtf")
    before = digest(frozen.packed)
    loop.run()
    assert digest(frozen.packed) == before


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"not a zip", "is not a whole snapshot"),
        (None, "there is no such file"),
    ],
)
def test_what_is_no_snapshot_is_refused(content: bytes | None, words: str, tmp_path: Path) -> None:
    path = tmp_path / "moment.rota"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        load(path)


def test_a_damaged_byte_is_refused_or_harmless(tmp_path: Path) -> None:
    """Wherever it is: in what unpacks the parts, in their lengths, in the text."""
    path = dump(paused("fifo"), tmp_path / "moment.rota", "fifo")
    whole = path.read_bytes()
    places = range(0, len(whole), 11)
    taken = 0
    for place in places:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xA5]) + whole[place + 1 :])
        with suppress(InputError):  # anything else would be a traceback
            load(path)
            taken += 1
    assert taken < len(places) / 2, "most of it is under a checksum"


def test_a_truncated_or_foreign_file_is_refused(tmp_path: Path) -> None:
    path = dump(paused("fifo"), tmp_path / "moment.rota", "fifo")
    with zipfile.ZipFile(path) as archive:
        text, arrays = archive.read("snapshot.json"), archive.read("arrays.npz")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("snapshot.json", text)
    with pytest.raises(InputError, match="is not a whole snapshot"):
        load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("snapshot.json", text.replace(b'"format":1', b'"format":7'))
        archive.writestr("arrays.npz", arrays)
    with pytest.raises(InputError, match="is a snapshot of format 7; expected format 1"):
        load(path)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = dump(paused("fifo"), tmp_path / "moment.rota", "fifo")
    before = path.read_bytes()
    frozen = load(path)
    with pytest.raises(Exception, match="cannot be stored"):
        save(Frozen("fifo", {"who": {1, 2}}, frozen.packed), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_values_come_back_as_they_went() -> None:
    value = {
        "none": None, "yes": True, "int": 2**80, "float": 0.1 + 0.2, "infinite": float("inf"), "text": "ü",
        "list": [1, [2.5]], "rows": {3: {"level": 1}, 1: []}, "empty": {},
        "array": np.arange(6, dtype=np.int8).reshape(2, 3),
    }  # fmt: skip
    again = copied(value)
    assert digest(again) == digest(value)
    assert list(again["rows"]) == [3, 1]
    assert again["array"].dtype == np.int8
    assert again["float"] == value["float"]
    state = np.random.default_rng(3).bit_generator.state
    assert copied({"rng": state}) == {"rng": state}, "a random state is a memory like any other"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"seen": {1}}, r"memory\['seen'\] holds a set"),
        ({"grant": Grant(0, (1,))}, r"memory\['grant'\] holds a Grant"),
        ({"deep": [{"x": (1, 2)}]}, r"memory\['deep'\]\[0\]\['x'\] holds a tuple"),
        ({"mixed": {1: 2, "a": 3}}, "has the key"),
        ({"$array": 1}, r"has the key '\$array'"),
        ({"objects": np.array([None])}, "holds a ndarray"),
    ],
)
def test_what_cannot_be_stored_is_named(value: Any, words: str) -> None:
    with pytest.raises(Exception, match=words):
        copied(value)
