"""One run of a comparison, which a prompt shows in a line and a notebook as the comparison is shown."""

from __future__ import annotations

from dataclasses import dataclass, fields

from rota.model.record import Record
from rota.model.units import plural
from rota.reports.compare import compare
from rota.reports.report import brief
from rota.reports.summary import summarise
from rota.reports.window import Window


@dataclass(frozen=True, repr=False)
class SingleRun(Record):
    """A record that knows over which part of the run it is measured."""

    window: Window | None = None

    @classmethod
    def of(cls, record: Record, window: Window | None) -> SingleRun:
        return cls(**{field.name: getattr(record, field.name) for field in fields(Record)}, window=window)

    def __repr__(self) -> str:
        """One line, whatever the number of jobs."""
        return f"<Run of {self.policy}: {plural(len(self.jobs), 'job')} on {self.cluster['describe']}>"

    def _repr_html_(self) -> str:
        """Its numbers alone, with nothing to compare them to."""
        return brief(compare([summarise(self, self.window)]))
