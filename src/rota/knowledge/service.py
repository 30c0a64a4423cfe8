"""Providers of past jobs' service: a file of samples, or the jobs that have completed so far."""

from __future__ import annotations

import os
from bisect import insort
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from rota.errors import InputError
from rota.knowledge.given import Provides
from rota.knowledge.needs import Knowledge, Provenance, Provider, Table
from rota.knowledge.registry import Setup, Where, provides
from rota.knowledge.side_file import read_text
from rota.model.columns import Floats
from rota.table.state import State


def _sample(gpu_s: Floats) -> Table:
    return Table(shared={"gpu_s": gpu_s})


class ServiceSamples(Provides):
    """GPU-seconds of past jobs, given once and for all."""

    def __init__(self, gpu_s: Any) -> None:
        sample = _sample(np.sort(np.asarray(gpu_s, dtype=np.float64)))
        super().__init__(Knowledge.SERVICE_HISTORY, Provenance.MEASURED, sample)

    @classmethod
    def read(cls, path: str | os.PathLike[str], column: str | None = None) -> ServiceSamples:
        """The samples in a CSV file (it may be compressed): the only column, or the one called `column`."""
        import polars as pl  # here: a controller, which reads no such file, starts the sooner

        try:
            frame = pl.read_csv(read_text(Path(path), expected="CSV").encode())
        except pl.exceptions.PolarsError as error:
            raise InputError.at(f"cannot be read ({str(error).splitlines()[0]})", file=path) from None
        if column is None and frame.width != 1:
            raise InputError.at(f"has {frame.width} columns", file=path, expected="one column of GPU-seconds")
        name = column or frame.columns[0]
        if name not in frame.columns:
            raise InputError.at("is not there", file=path, field=name, expected=", ".join(frame.columns))
        values = frame[name].cast(pl.Float64, strict=False)
        wrong = (values.is_null() | ~values.is_finite() | (values < 0)).fill_null(True).arg_true()
        if len(wrong):
            value = frame[name][wrong[0]]
            raise InputError.at(
                f"{value!r} is no service",
                file=path,
                row=wrong[0] + 2,
                field=name,
                expected="GPU-seconds, 0 or more",
            )
        return cls(values.to_numpy())


@provides(
    Knowledge.SERVICE_HISTORY,
    Provenance.MEASURED,
    "a sample in a CSV file of one column",
    where={Where.SIMULATED},
    argument="FILE",
)
def sampled_service(setup: Setup, file: str) -> Provider | None:
    return ServiceSamples.read(file) if file else None


class CompletedService(Provides):
    """GPU-seconds of the jobs that have completed so far.

    The sample is published again when it has grown by a twentieth, so that keeping it sorted and rebuilding
    what hangs on it stays cheap.
    """

    learns = True

    def __init__(self) -> None:
        super().__init__(Knowledge.SERVICE_HISTORY, Provenance.PREDICTED, _sample(np.empty(0)))
        self._told = 0
        self._gpu_s: list[float] = []
        self._gpus: list[int] = []

    def attach(self, state: State) -> None:
        self._gpus = state.gpus_of

    def begin_with(self, gpu_s: Iterable[float]) -> None:
        """GPU-seconds of jobs that completed before this run."""
        self._gpu_s = sorted([*self._gpu_s, *gpu_s])
        self._tell()

    def ended(self, row: int, ran_s: float) -> None:
        insort(self._gpu_s, ran_s * self._gpus[row])
        if len(self._gpu_s) >= 1.05 * self._told:
            self._tell()

    def _tell(self) -> None:
        self.values, self._told = _sample(np.array(self._gpu_s)), len(self._gpu_s)


@provides(
    Knowledge.SERVICE_HISTORY, Provenance.PREDICTED, "GPU-seconds of the jobs that have completed so far"
)
def completed_service(setup: Setup) -> Provider:
    history = CompletedService()
    history.begin_with(ran_s for _, _, seconds in setup.past for ran_s in seconds)
    return history
