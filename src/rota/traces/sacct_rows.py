"""The rows of a Slurm accounting dump: the command for it, how rows are split, and what steps record."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import polars as pl

from rota.errors import InputError
from rota.model.trace import OddRows
from rota.traces.build import Oddities
from rota.traces.source import TraceSource
from rota.traces.table import TextTable, read_table
from rota.traces.tres import cpu_time_s, usage_in

ID = ("JobIDRaw", "JobID")
NEEDED = ("Submit", "Start", "End", "State")
FIELDS = (
    "JobIDRaw", "JobID", "JobName", "User", "Account", "Partition", "QOS", "Priority", "Submit", "Eligible",
    "Start", "End", "ElapsedRaw", "TotalCPU", "TimelimitRaw", "State", "ExitCode", "NodeList", "ReqTRES",
    "AllocTRES",
)  # fmt: skip
"""Fields that every Slurm since 20.11 has."""
COMMAND = (
    "sacct --allusers --allocations --duplicates --parsable2 --starttime=now-30days "
    f"--format={','.join(FIELDS)} > sacct.txt"
)
USAGE = ("TRESUsageInTot", "TRESUsageInMax", "TRESUsageInAve")
SEPARATORS = ("|", "\t", ";")
FREE = (
    "JobName",
    "Comment",
    "WorkDir",
    "SubmitLine",
    "Constraints",
    "Reason",
    "AdminComment",
    "SystemComment",
)
"""Fields of free text, which may contain a bar; sacct prints it unchanged."""

_STAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:Z|[+-]\d\d:?\d\d)?|\d{9,11}")


def read_rows(source: TraceSource) -> TextTable:
    """The rows, without the nameless last column of `--parsable`.

    If required columns are missing, InputError names the command to type.
    """
    separator = next((one for one in SEPARATORS if set(ID) & set(source.header(one))), None)
    if separator is None:
        padded = len(source.opening) > 1 and set(source.opening[1]) <= set("- ")
        how = (
            "padded with blanks, which cuts long cells" if padded else "joined by commas, which TRES hold too"
        )
        raise InputError.at(
            f"the cells are {how}", file=source.file, row=1, expected=f"cells joined by |, as in `{COMMAND}`"
        )
    header = source.header(separator)
    missing = [name for name in NEEDED if name not in header]
    if len(missing) > 1 or "Submit" in missing:
        raise InputError.at(
            f"these columns of sacct do not say when jobs ran ({', '.join(missing)} missing)",
            file=source.file,
            row=1,
            expected=f"those of `{COMMAND}`",
        )
    table = read_table(_mended(source, header, separator), separator=separator, quoted=False)
    table = TextTable(table.file, table.frame.drop(""), table.row) if table.has("") else table
    table.require(table.first_of(*ID), *NEEDED)
    return _by_cluster(table)


def clusters_of(table: TextTable) -> list[str]:
    """`NAME:` of each row's cluster if the dump covers several, which may share names and numbers."""
    names = table.text("Cluster").str.strip_chars().to_list() if table.has("Cluster") else []
    return [f"{name}:" if name else "" for name in names] if len(set(names) - {""}) > 1 else [""] * len(table)


def _by_cluster(table: TextTable) -> TextTable:
    """`table` with the cluster before job numbers and partition names, if there are several clusters."""
    clusters = clusters_of(table)
    if not any(clusters):
        return table
    frame = table.frame
    for column in (name for name in (*ID, "Partition") if table.has(name)):
        cells = [
            ",".join(cluster + part.strip() for part in cell.split(",")) if cell.strip() else cell
            for cluster, cell in zip(clusters, table.text(column), strict=True)
        ]
        frame = frame.with_columns(pl.Series(column, cells, dtype=pl.String))
    return TextTable(table.file, frame, table.row)


def _mended(source: TraceSource, header: tuple[str, ...], separator: str) -> TraceSource:
    """`source` with `_` for separators inside a name, where it is clear which those are."""
    if "State" not in header:  # needed to detect them; its absence is reported elsewhere
        return source
    lines = source.data.decode().split("\n")
    free = [header.index(name) for name in FREE if name in header]
    mended = [_mended_line(line, header, separator, free) for line in lines]
    return source if mended == lines else replace(source, data="\n".join(mended).encode())


def _mended_line(line: str, header: tuple[str, ...], separator: str, free: list[int]) -> str:
    cells = line.split(separator)
    surplus = len(cells) - len(header)
    if surplus <= 0:
        return line
    state, submit = header.index("State"), header.index("Submit")
    for at in free:
        joined = [*cells[:at], "_".join(cells[at : at + surplus + 1]), *cells[at + surplus + 1 :]]
        if _STAMP.fullmatch(joined[submit].strip()) and re.fullmatch(r"[A-Z_]+( by \S+|\+)?", joined[state]):
            return separator.join(joined)
    return line


def jobs_of(table: TextTable) -> tuple[TextTable, list[OddRows], dict[str, dict[str, float]]]:
    """The table without job steps (`11.batch`, `11.0`), the oddity that counts them, and what jobs used.

    A job's use is the maximum over its steps and its own row.
    """
    ids = table.text(table.first_of(*ID))
    step = ids.str.contains(".", literal=True).to_numpy()
    jobs = table.take(~step)
    if not len(jobs):
        raise InputError.at("there are only job steps", file=table.file, expected="sacct --allocations")
    usage = _usage(table)
    said = any(_usage(table.take(step)).values())
    done = "their usage is that of their job, which has" if said else "dropped: its job has"
    odd = Oddities(table.take(step), ids.filter(step).to_list(), repeats=True) if step.any() else None
    if odd is not None:
        odd.note("job step", f"{done} a line of its own", np.ones(int(step.sum()), dtype=np.bool_))
    return jobs, odd.noted if odd else [], usage


def _usage(rows: TextTable) -> dict[str, dict[str, float]]:
    """Maximum use over the rows of each job: memory of host and GPUs, utilisation, energy, CPU time."""
    used: dict[str, dict[str, float]] = {}
    names = [name for name in USAGE if rows.has(name)]
    for id, *texts in rows.frame.select(rows.first_of(*ID), *names).iter_rows() if names else ():
        job = used.setdefault(id.split(".")[0].strip(), {})
        for key, amount in next((said for text in texts if (said := usage_in(text))), {}).items():
            job[key] = max(job.get(key, 0.0), amount)
    if rows.has("TotalCPU"):
        ids = rows.text(rows.first_of(*ID))
        for id, cell in zip(ids, rows.text("TotalCPU"), strict=True):
            if (took_s := cpu_time_s(cell)) is not None:
                job = used.setdefault(id.split(".")[0].strip(), {})
                job["cpu_s"] = max(job.get("cpu_s", 0.0), took_s)
    return {id: said for id, said in used.items() if said}
