"""`rota show`, with the curves of a job, and `rota why`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.live.connect import JobArgument, live
from rota.cli.live.job_rows import gpus
from rota.cli.live.submit import estimate
from rota.cli.live.tables import ended_by, moment, now_s, pairs_text, table_text, wrapped
from rota.cli.shell import JsonFlag, print_json
from rota.client.saying import abilities, asked, spare
from rota.model.units import plural
from rota.model.words import ahead, count, duration, gib, share

if TYPE_CHECKING:
    from rota.client import Client
    from rota.wire.curves import CurvesView
    from rota.wire.views import AttemptView, JobDetail, JobView, PlanView, SizeView, Why

EVENTS = 10
BARS = "▁▂▃▄▅▆▇█"
PICTURE = 32
"""Characters of the picture of a curve."""
MOST_SLOTS = 8
"""Parts of a plan that are listed."""


@live
def show(
    client: Client,
    job: JobArgument,
    curves: Annotated[
        bool, typer.Option("--curves", help="What it has said over time: loss, step time, use of devices.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Show all that is known of a job.

    \b
    Examples:
      rota show 17
      rota show 17 --curves
      rota show 17 --json | jq .attempts

    What it asked for, what it has now, each attempt with its end, what its program can do, how fast it is on
    how many GPUs (measured where it ran, predicted elsewhere), and what happened to it last.
    """
    from rota.client import route
    from rota.wire.curves import CurvesView
    from rota.wire.views import JobDetail

    asked_for = route("v1", "jobs", job, *(["curves"] if curves else []))
    answer = client.call("GET", asked_for, query=None if curves else {"reason": True})
    if as_json:
        print_json(answer)
    elif curves:
        typer.echo(curves_text(CurvesView.model_validate(answer)), nl=False)
    else:
        typer.echo(detail_text(JobDetail.model_validate(answer)), nl=False)


@live
def why(client: Client, job: JobArgument, as_json: JsonFlag = False) -> None:
    """Say why a job waits, what would change that, and when it may start.

    \b
    Examples:
      rota why 17
      rota why 17 --json | jq '.reasons[0].code'

    All binding reasons of the last decision, the dominant one first.
    """
    from rota.client import route
    from rota.wire.views import Why

    answer = client.call("GET", route("v1", "jobs", job, "why"))
    if as_json:
        print_json(answer)
    else:
        typer.echo(why_text(Why.model_validate(answer)), nl=False)


def why_text(why: Why) -> str:
    """State, reasons with their remedies, estimate."""
    under = f" under {why.policy}" if why.policy else ""
    lines = [f"job {why.job} is {why.state.lower()}{under}"]
    for number, reason in enumerate(why.reasons, start=1):
        first, next_ = f"{number}. ", " " * len(f"{number}. ")
        lines.append(wrapped(reason.sentence, first, next_))
        if reason.detail and reason.detail not in reason.sentence:
            lines.append(wrapped(reason.detail, next_, next_))
        if reason.remedy:
            lines.append(wrapped(f"To change that: {reason.remedy}", next_, next_))
    if why.start_s is not None or why.basis:
        lines.append(wrapped(estimate(why.start_s, why.start_from_s, why.start_to_s, why.basis)))
    if why.plan is not None:
        lines += plan_lines(why.plan)
    return "".join(line + "\n" for line in lines)


def plan_lines(plan: PlanView) -> list[str]:
    """The deadline with its slack, and a line for each stretch of the plan."""
    now = now_s()
    due = f"deadline {moment(plan.due_s)} ({ahead(plan.due_s, now)})"
    if plan.slack_s is None:
        return [f"{due}: no plan keeps it"]
    spare = (
        f"{duration(plan.slack_s)} to spare" if plan.slack_s >= 0 else f"{duration(-plan.slack_s)} too late"
    )
    lines = [f"{due}, planned to be kept with {spare}:" if plan.slack_s >= 0 else f"{due}, planned {spare}:"]
    for slot in plan.slots[:MOST_SLOTS]:
        length = duration(slot.to_s - slot.from_s)
        lines.append(
            f"  {moment(slot.from_s)} to {moment(slot.to_s)}  {plural(slot.gpus, 'GPU')} for {length}"
        )
    if len(plan.slots) > MOST_SLOTS:
        more = len(plan.slots) - MOST_SLOTS
        lines.append(f"  and {more} more, the last until {moment(plan.slots[-1].to_s)}")
    return lines


def detail_text(detail: JobDetail) -> str:
    """Blocks: the job, its request, its attempts, its program, its last events."""
    job = detail.job
    head = [
        ("job", f"{job.id}  {job.name}".rstrip()),
        ("user", job.user),
        ("tenant", job.tenant),
        ("state", job.state + (f" ({job.reason})" if job.reason not in ("", job.state) else "")),
        ("because", job.cause),
        ("devices", ",".join(job.devices)),
        ("idle", _idle(job)),
        ("submitted", moment(job.submit_s)),
        ("first start", "" if job.start_s is None else moment(job.start_s)),
        ("ended", "" if job.end_s is None else moment(job.end_s)),
        ("ran, waited", f"{_brief(job.run_s)}, {duration(job.waiting_s)}"),
        ("exit", "" if job.end_s is None else ended_by(job.exit_code, job.signal)),
        ("promised", spare(job, moment)),
        ("offered", _offered(job)),
        ("stopped", _stops(job.preemptions, job.failures)),
        ("lost", _lost(detail.attempts)),
    ]
    parts = [pairs_text(head, sentences=("because",)), pairs_text(asked(detail.spec, gpus(job), moment))]
    if detail.attempts:
        parts.append(_attempts(detail.attempts, said=job.cause))
    if detail.capability is not None:
        parts.append(pairs_text(abilities(detail.capability, detail.attempts)))
    if detail.sizes:
        parts.append(_sizes(detail.sizes))
    if detail.events:
        rows = [(moment(e.at_s), e.who, e.kind, e.text) for e in detail.events[-EVENTS:]]
        parts.append(table_text("TIME ~BY EVENT ~WHAT", rows))
    if detail.gone:
        parts.append(wrapped(detail.gone) + "\n")
    return "\n".join(parts)


def _idle(job: JobView) -> str:
    """How long it has not used its devices, if that is too long."""
    if job.idle_since_s is None:
        return ""
    return f"for {duration(now_s() - job.idle_since_s)}: it holds devices and does nothing"


def _offered(job: JobView) -> str:
    if job.offered_s is None or job.offered_until_s is None:
        return ""
    return f"{moment(job.offered_s)}, if accepted by {moment(job.offered_until_s)}: rota accept {job.id}"


def _brief(seconds: float) -> str:
    """A duration; a very short one in milliseconds."""
    return f"{max(1, round(1000 * seconds))} ms" if 0 < seconds < 0.05 else duration(seconds)


def _stops(preemptions: int, failures: int) -> str:
    counted = [
        plural(number, noun)
        for number, noun in ((preemptions, "preemption"), (failures, "failure"))
        if number
    ]
    return ", ".join(counted)


def _lost(attempts: Sequence[AttemptView]) -> str:
    """`8m 20s of work by preemption`; nothing if little work was lost."""
    lost_s = sum(one.lost_s for one in attempts)
    return f"{duration(lost_s)} of work by preemption" if lost_s >= 1.0 else ""


def _attempts(attempts: list[AttemptView], said: str) -> str:
    """One line for each, and below why it ended, except causes that were `said` of the job."""
    rows = [
        (
            str(one.number),
            one.state,
            ",".join(one.nodes),
            count(len(one.devices) * one.share),
            moment(one.start_s),
            _lasted(one),
            one.end or "-",
            ended_by(one.exit_code, one.signal),
            _progress(one),
        )
        for one in attempts
    ]
    text = table_text(">ATTEMPT ~STATE ~NODES >GPUS START >LASTED HOW >EXIT ~PROGRESS", rows)
    causes = [
        wrapped(f"attempt {one.number}: {one.cause}", "", "  ")
        for one in attempts
        if one.cause not in ("", said)
    ]
    return text + "".join(cause + "\n" for cause in causes)


def _sizes(sizes: Sequence[SizeView]) -> str:
    """Its speed by size: measured, or as a policy predicts it for sizes without a run."""
    unit = "SAMPLES" if any(one.batch_size for one in sizes) else "STEPS"
    rows = [
        (
            str(one.gpus),
            str(one.nodes or "-"),
            one.gpu_type or "-",
            count(one.batch_size) if one.batch_size else "-",
            f"{one.speed:.3g}" if one.speed < 100 else f"{one.speed:,.0f}",
            "-"
            if one.goodput is None
            else f"{one.goodput:.3g}"
            if one.goodput < 100
            else f"{one.goodput:,.0f}",
            one.provenance,
        )
        for one in sizes
    ]
    return table_text(f">GPUS >NODES ~TYPE >BATCH >{unit}/S >GOODPUT SOURCE", rows)


def _lasted(attempt: AttemptView) -> str:
    """From start to end, suspensions included."""
    if attempt.start_s is None:
        return duration(None)
    return _brief((now_s() if attempt.end_s is None else attempt.end_s) - attempt.start_s)


def _progress(attempt: AttemptView) -> str:
    """`1200/5000 steps, gpu 93%`; of an attempt that has ended its use in all."""
    parts = []
    if (progress := attempt.progress) is not None:
        done, total = progress.steps, progress.total_steps
        parts.append(f"{done}/{total} steps" if total else plural(done, "step"))
    usage = attempt.usage
    if usage is not None and usage.gpu_utilisation is not None:
        parts.append(f"gpu {share(usage.gpu_utilisation)}")
    elif usage is not None and attempt.cpu_s is None:
        parts.append(f"{usage.cpu_cores:.1f} cores")
    if attempt.cpu_s is not None:
        parts.append(f"{_brief(attempt.cpu_s)} of CPU")
    if attempt.peak_gib is not None:
        parts.append(
            f"{gib(attempt.peak_gib)} GiB" if attempt.peak_gib >= 1 else f"{1024 * attempt.peak_gib:.0f} MiB"
        )
    return ", ".join(parts)


# -- curves ---------------------------------------------------------------------------------------


def curves_text(view: CurvesView) -> str:
    """A table with a small picture of each curve, over a common time."""
    if not view.curves:
        return (
            f"nothing has been reported of job {view.job} so far; programs that use rota.training report "
            "their loss, and agents what the devices do\n"
        )
    rows = []
    for name, curve in view.curves.items():
        said = [value for value in curve.mean if value is not None]
        low, high = (_known(part) for part in (curve.low, curve.high))
        picture = spark(view.until_s, curve.mean)
        rows.append(
            (name, curve.unit, *(_short(one) for one in (said[0], said[-1], min(low), max(high))), picture)
        )
    first, last = moment(view.at_s[0]), moment(view.until_s[-1])
    text = table_text("CURVE UNIT >FIRST >LAST >LEAST >MOST ~PICTURE", rows)
    return f"{text}{plural(len(view.at_s), 'point')} from {first} to {last}\n"


def spark(at_s: Sequence[float], values: Sequence[float | None], width: int = PICTURE) -> str:
    """The last value within each part of the time, as a bar from least to most; a blank where is none."""
    known, width = _known(values), min(width, len(values))
    least, most, begin_s, span_s = min(known), max(known), at_s[0], at_s[-1] - at_s[0]
    cells: list[float | None] = [None] * width
    for moment_s, value in zip(at_s, values, strict=True):
        if value is not None:
            cells[min(int(width * (moment_s - begin_s) / span_s), width - 1) if span_s > 0 else 0] = value
    return "".join(" " if value is None else BARS[_bar(value, least, most)] for value in cells)


def _bar(value: float, least: float, most: float) -> int:
    half = most / 2 - least / 2  # halves never overflow
    return min(int(len(BARS) * (value / 2 - least / 2) / half), len(BARS) - 1) if half > 0 else 0


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _short(value: float) -> str:
    return f"{value:.4g}"
