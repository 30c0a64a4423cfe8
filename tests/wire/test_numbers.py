"""Numbers from outside are finite and in range before they are on record."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from rota.engines.rota.relay import Relay
from rota.wire.keeping import Kept
from rota.wire.sync import DeviceInfo, NodeInfo, Report, SyncRequest

NODE = {"name": "n", "address": "a", "cpus": 8, "memory_gib": 64, "boot_id": "b", "kind": "cpu"}
REPORT = {"row": 0, "attempt": 1, "status": "running", "since_s": 1.0}
ASKED = {"incarnation": "a", "seen": 0, "controller": ""}
NAN, INF = math.nan, math.inf


def node(**other: Any) -> dict[str, Any]:
    return {**NODE, "devices": [], **other}


def devices(*indexes: int, **other: Any) -> list[dict[str, Any]]:
    return [{"index": index, "type": "cpu", **other} for index in indexes]


BAD: list[tuple[type[BaseModel], dict[str, Any]]] = [
    *((NodeInfo, node(memory_gib=value)) for value in (NAN, INF, -1.0, 1e300)),
    *((NodeInfo, node(cpus=value)) for value in (NAN, INF, -1.0, 1e300)),
    (NodeInfo, node(devices=devices(0, memory_gib=NAN))),
    (NodeInfo, node(devices=devices(1))),
    (NodeInfo, node(devices=devices(0, 0))),
    (NodeInfo, node(devices=devices(0, 2))),
    (NodeInfo, node(devices=devices(-1))),
    (NodeInfo, node(devices=devices(70_000))),
    (NodeInfo, node(devices=devices(*range(1025)))),
    *((Report, {**REPORT, "started_s": value}) for value in (NAN, INF, 1e300, -1.0)),
    *((Report, {**REPORT, "since_s": value}) for value in (NAN, 1e300)),
    *((Report, {**REPORT, "row": value}) for value in (-1, 10**30)),
    (Report, {**REPORT, "attempt": 10**30}),
    (Report, {**REPORT, "port": 70_000}),
    (Report, {**REPORT, "suspended_gib": INF}),
    (Report, {**REPORT, "end": {"ended_s": 1e300}}),
    (Report, {**REPORT, "end": {"ended_s": 1.0, "code": 10**20}}),
    *((Report, {**REPORT, "progress": {"samples": value}}) for value in (NAN, -1.0, 1e300)),
    (Report, {**REPORT, "progress": {"steps": 10**30}}),
    (Report, {**REPORT, "usage": {"at_s": 1.0, "cpu_cores": NAN}}),
    (Report, {**REPORT, "costs": [{"kind": "start", "seconds": INF}]}),
    (SyncRequest, {**ASKED, "sent_s": 1e300}),
    (SyncRequest, {**ASKED, "seen": 10**30}),
    (Kept, {"disk": {}, "rows": [10**30]}),
    (Kept, {"disk": {}, "submit_s": {"1": INF}}),
]


@pytest.mark.parametrize(("form", "said"), BAD, ids=[f"{form.__name__} {said}"[:90] for form, said in BAD])
def test_what_no_record_can_hold_is_refused(form: type[BaseModel], said: dict[str, Any]) -> None:
    """As it comes, in JSON, which Python writes with NaN and Infinity."""
    with pytest.raises(ValidationError):
        form.model_validate_json(json.dumps(said))


@given(st.floats(), st.floats(), st.integers(), st.floats())
def test_what_is_taken_can_be_read_again(cpus: float, gib: float, index: int, device_gib: float) -> None:
    """Whatever a machine says is refused, or the same once it has been on record."""
    said = node(cpus=cpus, memory_gib=gib, devices=devices(index, memory_gib=device_gib))
    try:
        info = NodeInfo.model_validate_json(json.dumps(said))
    except ValidationError:
        return
    assert NodeInfo.model_validate_json(info.model_dump_json()) == info
    assert info.devices == [DeviceInfo(index=0, type="cpu", memory_gib=device_gib)]


SAID = (
    "step", "samples", "total_steps", "loss", "step_s", "batch_size", "checkpoint_step", "gradient_noise",
    "gradient_s", "local_most", "at_s", "sequence",
)  # fmt: skip
numbers = st.one_of(st.floats(), st.integers(), st.none(), st.booleans(), st.text(max_size=3))


@given(
    st.fixed_dictionaries(
        dict.fromkeys(SAID, numbers)
    ),
    st.dictionaries(st.sampled_from(["ready", "suspend", "mine"]), st.lists(numbers, min_size=2, max_size=2)),
)  # fmt: skip
def test_whatever_a_program_says_its_agent_can_tell(
    tmp_path_factory: pytest.TempPathFactory, said: dict[str, Any], costs: dict[str, Any]
) -> None:
    """A job's own file must not keep its machine's agent from being heard."""
    folder = tmp_path_factory.mktemp("training")
    (folder / "rank-0.json").write_text(json.dumps({**said, "state": "running", "costs": costs}))
    relay = Relay(folder, (0,))
    relay.look()
    told = [progress.model_dump() for progress in [relay.progress()] if progress is not None]
    report = Report.model_validate(
        {
            **REPORT,
            "progress": told[0] if told else None,
            "costs": [one.model_dump() for one in relay.costs()],
        }
    )
    assert Report.model_validate_json(report.model_dump_json()) == report
    assert {cost.kind for cost in report.costs} <= {"ready", "suspend"}
