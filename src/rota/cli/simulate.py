"""`rota simulate`: replay a trace under several policies and compare them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.progress import progress_bars
from rota.cli.shell import (
    KNOWLEDGE_HELP,
    JsonFlag,
    check_folder,
    complete_format,
    complete_policy,
    complete_semantics,
    console,
    print_json,
)
from rota.errors import InputError, shown
from rota.model.one_thread import use_one_thread
from rota.model.units import plural

if TYPE_CHECKING:
    from rota.api import Results

Text = str | None


def simulate(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="A file in any known format.")],
    cluster: Annotated[
        str,
        typer.Option(metavar="SPEC", help="80x8:V100 (nodes x GPUs), several by commas; auto; or FILE.yaml."),
    ] = "auto",
    policy: Annotated[
        list[str],
        typer.Option(
            metavar="NAME[:key=value,...]",
            help="Policies, joined by commas or given again; see `rota systems`.",
            autocompletion=complete_policy,
        ),
    ] = ["fifo"],  # noqa: B006 (typer copies it)
    knowledge: Annotated[Text, typer.Option(metavar="KIND=SOURCE", help=KNOWLEDGE_HELP)] = None,
    semantics: Annotated[
        str,
        typer.Option(
            metavar="PRESET", help="Timing rules of a published simulator.", autocompletion=complete_semantics
        ),
    ] = "exact",
    costs: Annotated[
        Text,
        typer.Option(
            metavar="COSTS",
            help="start=20s,restore=30s+1s/gpu; also checkpoint, migrate, checkpoint_every, resize=coddl, "
            "scatter=0.8/1/1.7; or measured[:HOME|:URL] by a running cluster.",
        ),
    ] = None,
    ideal: Annotated[
        bool,
        typer.Option(
            "--ideal",
            help="A site's own history (recorded starts) with true durations and free stops, in place of "
            "predicted durations and checkpoint=10s,restore=60s.",
        ),
    ] = False,
    throughput: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Iterations per second by workload, GPU type and GPUs (JSON, CSV)."
        ),
    ] = None,
    scaling: Annotated[
        Text,
        typer.Option(
            metavar="FILE[:TYPE]",
            help="Iterations per second by workload and number of GPUs, a table as for --throughput.",
        ),
    ] = None,
    goodput: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Step times and gradient noise by workload (JSON)."),
    ] = None,
    regimes: Annotated[
        Text,
        typer.Option(
            metavar="FILE|shockwave",
            help="Batch sizes that jobs go through, by epoch (CSV), or the modes of a Shockwave trace; needs "
            "--throughput.",
        ),
    ] = None,
    step_times: Annotated[
        Text,
        typer.Option(
            metavar="FILE[,WORKLOAD=BATCH...]",
            help="Seconds of a step as measured, by how the GPUs lie (CSV), and the largest batch of one GPU "
            "of some workloads; needs --epochs.",
        ),
    ] = None,
    epochs: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Progress and gradient noise by epoch and batch size (CSV)."),
    ] = None,
    slowdowns: Annotated[
        Text,
        typer.Option(
            metavar="RATES",
            help="When spread or packed: spread=0.8,spread.vgg19=0.5,colocation=0.9; also level.rack=0.6, "
            "utilisation=0.6, sharing=tgs|antman, hosts=FILE, servers=FILE.",
        ),
    ] = None,
    can: Annotated[
        Text,
        typer.Option(
            metavar="WORDS",
            help="What jobs bear without losing their work: suspend, checkpoint, resize, batch, all or "
            "nothing, as in checkpoint+resize,vgg19=suspend; with late, said only once a job has started. "
            "All if not given.",
        ),
    ] = None,
    observation_noise: Annotated[
        float,
        typer.Option(metavar="PART", help="Seeded relative error of what is seen of running jobs: 0.1."),
    ] = 0.0,
    pairs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Rates of workloads beside each other, and how busy each keeps a GPU (CSV)."
        ),
    ] = None,
    service_history: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="GPU-seconds of past jobs, one column: what order=gittins begins with (CSV)."
        ),
    ] = None,
    faults: Annotated[
        Text, typer.Option(metavar="FAULTS", help="Seeded loss of nodes: mtbf=30d,repair=4h (per node).")
    ] = None,
    autoscale: Annotated[
        Text,
        typer.Option(
            metavar="MIN:MAX[,delay=TIME]",
            help="Nodes come and go as the policy asks: 2:16,delay=5m,start=4. For pollux:utility=0.35/0.65.",
        ),
    ] = None,
    deadlines: Annotated[
        Text,
        typer.Option(
            metavar="LEAST:MOST", help="Draw deadlines: 0.5 to 1.5 times the duration, 0.5:1.5:30% for some."
        ),
    ] = None,
    accept: Annotated[
        Text,
        typer.Option(
            metavar="FACTOR[:AFTER]",
            help="Users take a later deadline offered, up to FACTOR times as long, AFTER a while.",
        ),
    ] = None,
    elastic: Annotated[
        Text,
        typer.Option(
            metavar="MIN:MAX[:pow2]", help="Let jobs of one size run on fewer or more GPUs: 1:64, 1:64:pow2."
        ),
    ] = None,
    failures: Annotated[
        bool, typer.Option("--failures/--no-failures", help="Replay the failing attempts of the trace.")
    ] = True,
    retries: Annotated[
        Text,
        typer.Option(
            metavar="N|adaptive",
            help="Retry a failing job at most N times, or as what it fails of asks for: adaptive, "
            "adaptive:user=0,unknown=1,infrastructure=5,pause=60s,alike=3,others=3; as often as the trace "
            "did if not given.",
        ),
    ] = None,
    limits: Annotated[
        str,
        typer.Option(
            metavar="ignore|enforce",
            help="End jobs that have run for as long as they stated at submission, if that is more than "
            "their own record.",
        ),
    ] = "ignore",
    measure: Annotated[
        Text, typer.Option(metavar="START:END", help="Count jobs submitted in 10%:90% or 1d:5d only.")
    ] = None,
    baseline: Annotated[
        Text,
        typer.Option(
            metavar="POLICY",
            help="What changes are against; the site's policy if starts are recorded, or the first.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of everything random.")] = 0,
    seeds: Annotated[int, typer.Option(metavar="N", help="Run with N seeds whatever draws.")] = 1,
    confidence: Annotated[
        bool,
        typer.Option(
            "--confidence", help="Intervals beside the numbers, from mixtures of blocks of the same weeks."
        ),
    ] = False,
    site_policy: Annotated[
        Text,
        typer.Option(
            metavar="POLICY",
            help="What the site itself ran, to calibrate with; what fits recorded starts best if not given.",
        ),
    ] = None,
    observed: Annotated[
        bool,
        typer.Option("--observed/--no-observed", help="Show what the trace recorded, and calibrate with it."),
    ] = True,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write tables, summaries and report.html here.")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Write the tables as CSV too.")] = False,
    format: Annotated[
        Text,
        typer.Option(
            metavar="FORMAT",
            help="Format of the trace; detected if not given.",
            autocompletion=complete_format,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", "-j", metavar="N", help="Processes; as many as cores if not given."),
    ] = None,
    as_json: JsonFlag = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Replay TRACE under several policies and compare them.

    \b
    Examples:
      rota simulate jobs.csv --cluster 80x8:V100 --policy tiresias,srtf,fifo --out out/
      rota simulate jobs.csv --policy fifo:skip=yes,srtf --measure 10%:90% --baseline srtf
      rota simulate sacct.txt --cluster site.yaml --knowledge duration=user --costs restore=30s
      rota history --csv jobs.csv && rota simulate jobs.csv --cluster 2x8 --costs measured

    A part with = belongs to the policy before it: a:x=1,y=2,b is a with x and y, and b.
    """
    if out is not None:
        check_folder(out)
    elif csv:
        raise InputError.at("there is no folder to write to", field="--csv", expected="--out DIR with it")
    use_one_thread()
    from rota.api import simulate as run
    from rota.cli.measured_costs import costs_of

    with progress_bars(wanted=not quiet) as progress:
        results = run(
            trace,
            cluster=cluster,
            policies=policy,
            format=format,
            knowledge=knowledge,
            semantics=semantics,
            costs=costs_of(costs),
            ideal=ideal,
            throughput=throughput,
            scaling=scaling,
            goodput=goodput,
            regimes=regimes,
            step_times=step_times,
            epochs=epochs,
            slowdowns=slowdowns,
            can=can,
            observation_noise=observation_noise,
            pairs=pairs,
            service_history=service_history,
            faults=faults or (),
            elastic=elastic,
            autoscale=autoscale,
            deadlines=deadlines,
            accept=accept,
            failures=failures,
            retries=retries,
            limits=limits,
            measure=measure,
            baseline=baseline,
            seed=seed,
            seeds=seeds,
            confidence=confidence,
            observed=observed,
            site_policy=site_policy,
            workers=workers,
            progress=progress,
        )
    if out is not None:
        results.write(out, csv=csv)
    if as_json:
        print_json(results.to_dict() | {"out": None if out is None else str(out)})
    elif not quiet:
        _show(results, out)


def _show(results: Results, out: Path | None) -> None:
    """Table, calibration, what was odd, and where the rest lies."""
    from rota.reports.comparison_table import print_comparison

    screen = console()
    trace = results.trace
    head = (
        f"{shown(trace.source)} ({trace.format}, {plural(len(trace), 'job')}) on {results.cluster.describe()}"
    )
    screen.print(head, style="bold", markup=False, soft_wrap=True)
    screen.print()
    print_comparison(results.comparison, screen, results.calibration)
    for remark in results.remarks:
        screen.print(remark, style="yellow", markup=False)
    kept = [f"{odd.count:,} {odd.what} ({odd.done})" for odd in trace.odd if not odd.is_left_out]
    if kept:
        screen.print(f"Odd rows: {'; '.join(kept)}.", markup=False)
    where = (
        f"Report: {shown(out / 'report.html')}"
        if out
        else "Nothing was written; --out DIR keeps tables and a report."
    )
    screen.print(where, markup=False, soft_wrap=True)
