"""The list of formats, and how a file finds its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rota.errors import InputError
from rota.traces import TraceFormat, formats
from rota.traces.registry import find, trace_format
from rota.traces.source import load

NAMES = (
    *("chronus", "elasticflow", "gavel", "helios", "itp", "lucid", "openb", "pai", "pbs", "philly-json"),
    *("philly-list", "plain", "pollux", "sacct", "shockwave", "swf", "synergy", "tiresias"),
)


def test_the_formats_are_these() -> None:
    assert tuple(format.name for format in formats()) == NAMES


@pytest.mark.parametrize("format", formats(), ids=lambda format: format.name)
def test_every_example_is_recognised_as_its_format_and_no_other(format: TraceFormat, tmp_path: Path) -> None:
    file = tmp_path / "example"
    file.write_text(format.example)
    source = load(file)
    assert [other.name for other in formats() if other.matches(source)] == [format.name]


@pytest.mark.parametrize("format", formats(), ids=lambda format: format.name)
def test_every_example_reads(format: TraceFormat, read_text: Any) -> None:
    """Whatever the format, a trace has jobs from 0 on, a fact about durations, and no oddities here."""
    trace = read_text(format.example, packed=True)
    assert trace.format == format.name
    assert len(trace) >= 1
    assert (trace.jobs.submit_s >= 0).all()
    assert (np.diff(trace.jobs.submit_s) >= 0).all()
    assert trace.odd == ()
    assert format.name == "plain" or isinstance(trace.facts["duration"], str)


def test_a_format_can_be_named(read_text: Any) -> None:
    text = "job_id,num_gpu,submit_time,iterations,model_name,duration,note,ddl\n0,1,0,5,vgg,60,x,99\n"
    assert read_text(text, "tiresias").format == "tiresias"


def test_an_unknown_name_lists_the_known_ones(read_text: Any) -> None:
    with pytest.raises(
        InputError, match=r"argument 'format': 'pickle' is not a trace format; expected one of chr"
    ):
        read_text("x\n", "pickle")


def test_a_name_is_registered_once() -> None:
    with pytest.raises(ValueError, match="two readers register the trace format 'itp'"):
        trace_format("itp", description="", recognised="", matches=lambda source: False, example="")(
            lambda source: ...
        )  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize(
    "opening", ['{\n  "jobs": [\n    {"job_id": 7}', '{"meta": {"Slurm": {"version": {}}}, "jobs": [']
)
def test_the_json_of_sacct_is_told_what_to_print_instead(tmp_path: Path, opening: str) -> None:
    """Newer Slurm offers `--json`; which command gives a table that is read, is in the sentence."""
    (tmp_path / "jobs.json").write_text(opening)
    with pytest.raises(InputError, match=r"is JSON of Slurm, which is not read; expected .* --parsable2"):
        find(load(tmp_path / "jobs.json"), None)
