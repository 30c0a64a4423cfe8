"""The results of a comparison, and the ways to look at them: tables, figures, files, a notebook."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from os import PathLike
from pathlib import Path

import polars as pl

from rota.arguments import FLAG, TEXT, WHOLE, Argument, is_file, takes
from rota.errors import InputError, shown
from rota.errors import brief as brief_of
from rota.model.cluster import Cluster
from rota.model.record import Record
from rota.model.trace import Trace
from rota.model.units import plural
from rota.reports.calibration import calibration
from rota.reports.compare import Comparison, compare
from rota.reports.comparison_table import comparison_text
from rota.reports.comparison_words import terms
from rota.reports.files import write_results
from rota.reports.likeness import Calibration, PolicyFit
from rota.reports.metrics import METRICS
from rota.reports.report import Notes, brief
from rota.reports.shown import Figure, figure
from rota.reports.summary import Summary, summarise, summarise_all
from rota.reports.window import Window

FOLDER = Argument("folder", is_file, "the name of a folder")


@dataclass(frozen=True, repr=False)
class SingleRun(Record):
    """A record with the part of the run that is measured; a notebook shows it as it shows a comparison."""

    window: Window | None = None

    @classmethod
    def of(cls, record: Record, window: Window | None) -> SingleRun:
        return cls(**{field.name: getattr(record, field.name) for field in fields(Record)}, window=window)

    def __repr__(self) -> str:
        """One line for a prompt."""
        return f"<Run of {self.policy}: {plural(len(self.jobs), 'job')} on {self.cluster['describe']}>"

    def _repr_html_(self) -> str:
        """Its numbers alone."""
        return brief(compare([summarise(self, self.window)]))


@dataclass(frozen=True, repr=False)
class Results:
    """The results of `simulate`: one record per policy and seed, and their comparison."""

    records: tuple[Record, ...]
    """In the order of the policies; the trace's observations come last, if there are any."""
    trace: Trace
    cluster: Cluster
    window: Window | None = None
    """The measured part; None is the whole run."""
    named_baseline: str | None = None
    site_policy: str | None = None
    fit: PolicyFit | None = None
    """How `site_policy` was found; None if the caller named it, or nothing is recorded."""
    remarks: tuple[str, ...] = ()
    """Sentences to read before relying on the numbers."""
    unread: tuple[str, ...] = ()
    """Remarks about options that none of its policies reads; other policies may."""
    confidence: bool = False
    """True if numbers have intervals."""

    @cached_property
    def summaries(self) -> tuple[Summary, ...]:
        """All metrics of each record."""
        return summarise_all(self.records, self.window, confidence=self.confidence)

    @cached_property
    def comparison(self) -> Comparison:
        """One line per policy, with changes against the baseline."""
        return compare(self.summaries, self.named_baseline, self.site_policy)

    @cached_property
    def terms(self) -> tuple[str, ...]:
        """The terms of each policy: its knowledge, the cost of its stops, the knowledge it lacked."""
        return tuple(terms(self.comparison))

    @cached_property
    def calibration(self) -> Calibration:
        """The difference between the site's own policy, simulated, and the recorded trace."""
        return calibration(self.records, self.site_policy, self.window, self.trace, self.fit)

    def calibration_of(self, policy: str) -> Calibration:
        """The difference between `policy`, one of those that ran, and the recorded trace."""
        return calibration(self.records, policy, self.window, self.trace)

    def __getitem__(self, policy: str) -> SingleRun:
        """The record of `policy` (of the first seed)."""
        for record in self.records:
            if record.policy == policy:
                return SingleRun.of(record, self.window)
        names = dict.fromkeys(record.policy for record in self.records)
        raise KeyError(f"there is no run of {brief_of(policy)}; there are those of {', '.join(names)}")

    def __repr__(self) -> str:
        """One line, which a prompt shows for the value of `simulate`."""
        names = ", ".join(dict.fromkeys(record.policy for record in self.records))
        return f"<Results of {names}: {self.trace!r} on {self.cluster.describe()}>"

    def __str__(self) -> str:
        return self.table()

    @takes(width=WHOLE)
    def table(self, width: int = 100) -> str:
        """The comparison as text of at most `width` characters a line."""
        return comparison_text(self.comparison, width, self.calibration)

    def frame(self) -> pl.DataFrame:
        """One row per run: policy, seed, and every metric by its key (`docs/metrics.md`), null where none.

        `frame().to_pandas()` gives it as a pandas frame.
        """
        rows = [
            {"policy": record.policy, "observed": record.observed, "seed": record.provenance.get("seed")}
            | dict(summary.values)
            for record, summary in zip(self.records, self.summaries, strict=True)
        ]
        types: dict[str, type[pl.DataType]]
        types = {"policy": pl.String, "observed": pl.Boolean, "seed": pl.Int64}
        types |= {key: pl.Int64 if of.unit == "count" else pl.Float64 for key, of in METRICS.items()}
        return pl.DataFrame(rows, schema=types)

    @takes(name=TEXT)
    def figure(self, name: str = "completion") -> Figure:
        """One chart of the first run of each policy, which a notebook shows and `.write("FILE.pdf")` keeps.

        `name` is completion (of jobs; also jct), waiting, hours (waiting by hour of submission), slack
        (time to spare before promised deadlines), utilisation, queue, work (goodput, where jobs changed
        their size), kept (promised deadlines, over time) or nodes (paid for, where they came and went).
        InputError if there is none of that name, or if these runs have nothing to draw in it.
        """
        return figure(name, self.records, self.window)

    def _repr_html_(self) -> str:
        """HTML for a notebook: the headline, the comparison and the remarks."""
        return brief(self.comparison, self.calibration, self.remarks)

    def to_dict(self) -> dict[str, object]:
        """Everything printed, as plain values for JSON."""
        return {
            "trace": {"source": self.trace.source, "format": self.trace.format, "jobs": len(self.trace)},
            "cluster": self.cluster.describe(),
            "baseline": self.comparison.baseline,
            "runs": [
                {"seed": record.provenance.get("seed"), **summary.to_dict()}
                for record, summary in zip(self.records, self.summaries, strict=True)
            ],
            "calibration": self.calibration.to_dict(),
            "odd": [vars(odd) for odd in self.trace.odd],
            "terms": list(self.terms),
            "remarks": list(self.remarks),
        }

    @takes(folder=FOLDER, csv=FLAG)
    def write(self, folder: str | PathLike[str], *, csv: bool = False) -> list[Path]:
        """Write `FOLDER/POLICY/{jobs,intervals}.parquet` and `summary.json` per run, and `report.html`.

        `csv` adds both tables as CSV.  Gives the folders of the runs.
        """
        target = Path(folder)
        standing = next((place for place in (target, *target.parents) if place.exists()), target)
        if standing.exists() and not standing.is_dir():
            raise InputError.at(f"{shown(standing)} is a file", argument="folder", expected="a folder")
        notes = Notes(
            title=f"{Path(self.trace.source).name} on {self.cluster.describe()}",
            odd=self.trace.odd,
            calibration=self.calibration,
            remarks=self.remarks,
            site_policy=self.site_policy,
        )
        return write_results(
            self.records,
            target,
            baseline=self.named_baseline,
            window=self.window,
            notes=notes,
            csv=csv,
            summaries=self.summaries,
        )

    @takes(folder=FOLDER)
    def report(self, folder: str | PathLike[str]) -> Path:
        """Write everything into `folder`; gives the path of the HTML report."""
        self.write(folder)
        return Path(folder) / "report.html"
