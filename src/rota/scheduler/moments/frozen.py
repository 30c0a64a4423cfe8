"""A moment in a file: what a policy saw and remembered, to be decided again elsewhere.

The file is a zip archive with two members:

`snapshot.json`  `format` (1), `rota` (version), `policy` (as on the command line), `memory`, and `snapshot`
                 with `cause`, `seed`, `cluster`, `jobs` (those submitted), `state`, `occupancy`, `knowledge`;
                 `{"$array": "a7"}` stands for an array, `{"$rows": [[3, ...]]}` for a dictionary by row
`arrays.npz`     the arrays by name

Knowledge is what the policy declared, with its provenance; other truth is not in the file.
"""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from rota import __version__
from rota.errors import InputError
from rota.knowledge.needs import Knowledge
from rota.model.atomic import replacing
from rota.scheduler.asking import asked
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.loop import Loop
from rota.scheduler.moments.packing import Packed, pack, pack_grant, pack_reservation, unpack
from rota.scheduler.moments.values import copied, decode, encode
from rota.scheduler.policy import Policy, PolicySpec, parse_policy
from rota.scheduler.snapshot import Snapshot

FORMAT = 1


@dataclass(frozen=True)
class Frozen:
    """A stored moment."""

    policy: str
    """The policy that decided, with its parameters; empty if it has no name."""
    memory: Memory
    packed: Packed
    rota: str = __version__
    """Version that wrote it."""

    def snapshot(self, needs: frozenset[Knowledge] | None = None) -> Snapshot:
        """The moment as a policy with these `needs` sees it; by default with all that was stored."""
        stored = frozenset(Knowledge(kind) for kind in self.packed["knowledge"])
        return unpack(self.packed, stored if needs is None else needs)

    def decide(self, policy: str | PolicySpec | Policy | None = None) -> Decision:
        """The decision of `policy`, by default of the stored one.

        Another policy than the stored one begins with an empty memory.
        """
        same = policy is None or str(policy) == self.policy
        instance = _instance(self.policy if policy is None else policy)
        for kind in sorted(instance.needs):
            if kind.value not in self.packed["knowledge"]:
                raise InputError(
                    f"the snapshot holds no {kind.value}, which {type(instance).__name__} needs; "
                    "take it under a policy that declares this need"
                )
        memory = copied(self.memory) if same else {}
        return asked(instance, self.snapshot(frozenset(instance.needs)), memory)


def freeze(snapshot: Snapshot, memory: Memory, policy: str | PolicySpec = "") -> Frozen:
    """The moment, independent of whatever happens next."""
    packed = copied(pack(snapshot), "the snapshot")
    return Frozen(str(policy), copied(memory), packed)


def dump(loop: Loop, path: str | Path, policy: str | PolicySpec = "") -> Path:
    """Write what the policy of `loop`, whose public name is `policy`, would see if it were called now."""
    return save(freeze(loop.snapshot(), loop.memory, policy), path)


def save(frozen: Frozen, path: str | Path) -> Path:
    """Write `frozen`; the file is there whole or not at all."""
    content = to_bytes(frozen)
    target = Path(path)
    with replacing(target) as partial:
        partial.write_bytes(content)
    return target


def to_bytes(frozen: Frozen) -> bytes:
    """The content of the file that `save` writes."""
    content = {"policy": frozen.policy, "memory": frozen.memory, "snapshot": frozen.packed}
    text, arrays = encode({"format": FORMAT, "rota": frozen.rota, **content}, "the snapshot")
    columns, whole = BytesIO(), BytesIO()
    np.savez(columns, **arrays)  # type: ignore[arg-type]
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("snapshot.json", text)
        archive.writestr("arrays.npz", columns.getvalue())
    return whole.getvalue()


def load(path: str | Path | BytesIO) -> Frozen:
    """The moment stored at `path`, or in the bytes of a stream."""
    content = _read(path if isinstance(path, BytesIO) else Path(path))
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        stored_format = content.get("format") if isinstance(content, dict) else None
        raise InputError.at(
            f"is a snapshot of format {stored_format}", file=path, expected=f"format {FORMAT}; take it again"
        )
    return Frozen(content["policy"], content["memory"], content["snapshot"], content["rota"])


_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, struct.error),
    *(RuntimeError, KeyError, ValueError, TypeError, AttributeError),
)
"""What unpacking a damaged file may raise: a way to pack that is not known, a password, a length."""


def _read(path: Path | BytesIO) -> Any:
    try:
        with zipfile.ZipFile(path) as archive:
            text = archive.read("snapshot.json").decode()
            with np.load(BytesIO(archive.read("arrays.npz")), allow_pickle=False) as arrays:
                return decode(text, arrays)
    except FileNotFoundError:
        raise InputError.at("there is no such file", file=path, expected="a snapshot") from None
    except OSError as error:
        raise InputError.at(f"cannot be read ({error.strerror})", file=path, expected="a snapshot") from None
    except _DAMAGED as error:
        raise InputError.at(
            f"is not a whole snapshot ({error})", file=path, expected="a file that `rota snapshot` wrote"
        ) from None


def _instance(policy: str | PolicySpec | Policy) -> Policy:
    if policy == "":
        raise InputError("the snapshot does not name its policy; say which one shall decide")
    spec = parse_policy(policy) if isinstance(policy, str) else policy
    return spec.make() if isinstance(spec, PolicySpec) else spec


def packed_decision(decision: Decision) -> Packed:
    """A decision as a storable value: two decisions are the same if their digests are."""
    reservations = decision.reservations
    wake = decision.wake
    return {
        "memory": decision.memory,
        "grants": [pack_grant(grant) for grant in decision.grants],
        "preempt": [int(row) for row in decision.preempt],
        "leave": decision.leave.value,
        "reject": {int(row): why for row, why in decision.reject.items()},
        "offers": {
            int(row): [float(offer.deadline_s), float(offer.until_s), offer.why]
            for row, offer in decision.offers.items()
        },
        "promises": {
            int(row): [float(promise.due_s), float(promise.expected_s)]
            for row, promise in decision.promises.items()
        },
        "cancel": {int(row): why for row, why in decision.cancel.items()},
        "reservations": None if reservations is None else [pack_reservation(r) for r in reservations],
        "wake": [float(wake.at_s), int(wake.on), bool(wake.if_waiting)],
        "reasons": {
            int(row): [c.code.value, float(c.requested), float(c.provided), c.detail]
            for row, c in decision.reasons.items()
        },
        "is_cut": bool(decision.is_cut),
        "wanted_nodes": None if decision.wanted_nodes is None else int(decision.wanted_nodes),
    }
