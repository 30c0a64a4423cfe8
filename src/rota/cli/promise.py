"""`rota promise`: the deadline that a job could be promised at a stored moment, by playing many futures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.shell import JsonFlag, check_folder, complete_policy, finite, print_json
from rota.errors import InputError
from rota.model.one_thread import use_one_thread
from rota.model.units import format_duration, parse_duration, plural

if TYPE_CHECKING:
    from rota.forecast.promise import PromiseForecast, PromiseOutlook
    from rota.scheduler.moments.frozen import Frozen

SHOWN = 10
"""Other jobs that the text names; JSON has all."""


def promise(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `rota snapshot` wrote.")],
    size: Annotated[
        str,
        typer.Option(
            metavar="GPUS=TIME,...",
            help="GPUs of the job and how long it runs on them: 4=2h; more to compare: 4=2h,8=70m.",
        ),
    ],
    by: Annotated[str, typer.Option(metavar="TIME,...", help="Deadlines to try, from then on: 3h,4h,6h.")],
    target: Annotated[float, typer.Option(metavar="P", help="Chance that makes a promise.")] = 0.9,
    least: Annotated[float, typer.Option(metavar="P", help="Chance below which to refuse.")] = 0.5,
    full: Annotated[float, typer.Option(metavar="R", help="Reward of being in time.")] = 1.0,
    floor: Annotated[float, typer.Option(metavar="R", help="Reward of being too late; or a penalty.")] = 0.0,
    grace: Annotated[str, typer.Option(metavar="TIME", help="In which the reward falls to --floor.")] = "0s",
    fraction: Annotated[float, typer.Option(metavar="F", help="Part of the work due by then.")] = 1.0,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:key=value,...]",
            help="Under this policy, which takes over with an empty memory.",
            autocompletion=complete_policy,
        ),
    ] = None,
    runs: Annotated[int, typer.Option(metavar="N", min=1, help="Futures of each deadline.")] = 200,
    sigma: Annotated[float, typer.Option(metavar="S", help="Spread of errors of estimates, log.")] = 0.3,
    arrivals: Annotated[bool, typer.Option(help="Others come, as often as before and like them.")] = True,
    faults: Annotated[
        str | None,
        typer.Option(metavar="RATES", help="Nodes are lost and come back: mtbf=30d,repair=4h."),
    ] = None,
    duration: Annotated[
        str,
        typer.Option(metavar="SOURCE", help="Of run times the file does not hold: user, predicted, history."),
    ] = "user",
    cpu: Annotated[str, typer.Option(metavar="TIME", help="CPU time for each size; then fewer runs.")] = "1m",
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Of all that is drawn.")] = 1,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write promise.json and figures.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Find the deadline that could be promised to one more job at a stored moment.

    \b
    Examples:
      rota promise monday.rota --size 4=2h --by 3h,4h,6h,8h
      rota promise monday.rota --size 2=4h,4=2h,8=70m --by 4h,8h --policy elasticflow --out promise

    The moment is played on under its policy, with the job and without it: run times are wrong by a drawn
    factor, other jobs come, nodes are lost with --faults, and each deadline meets the same futures.
    """
    if out is not None:
        check_folder(out)
    sizes, due_s = _sizes(size), [parse_duration(one, "--by") for one in by.split(",")]
    grace_s, cpu_s = parse_duration(grace, "--grace"), parse_duration(cpu, "--cpu")
    for name, value in (("--target", target), ("--least", least)):
        if not 0.0 < value <= 1.0:
            raise InputError.at(f"{value:g} is no chance", field=name, expected="above 0, at most 1")
    if least > target:
        raise InputError.at(
            f"{least:g} is more than the {target:g} that makes a promise", field="--least", expected="no more"
        )
    use_one_thread()
    from rota.forecast.promise import PromiseRequest
    from rota.forecast.promise import promise as ask
    from rota.forecast.sampling import Misjudgement
    from rota.knowledge.reward import ByDeadline
    from rota.scheduler.moments.frozen import load
    from rota.worlds.simulated.faults import parse_breakdowns

    moment = _under(load(file), policy)
    _check_room(moment, sizes)
    now = float(moment.packed["state"]["now"])
    agreements = [ByDeadline(now + ahead_s, full, floor, grace_s, fraction) for ahead_s in due_s]
    outlooks: dict[int, PromiseOutlook] = {}
    for gpus, run_s in sizes.items():
        request = PromiseRequest(
            asked=_asked(moment, run_s, duration),
            runs=runs,
            cpu_s=cpu_s,
            misjudgement=Misjudgement(sigma),
            arrivals=arrivals,
            breakdowns=None if faults is None else parse_breakdowns(faults),
            target=target,
            least=least,
            seed=seed,
        )
        outlooks[gpus] = ask(moment, _job(gpus, run_s), agreements, request)
    facts = {str(gpus): outlook_facts(one) for gpus, one in outlooks.items()}
    if out is not None:
        _write(out, facts, outlooks)
    if as_json:
        print_json(facts)
        return
    for gpus, outlook in outlooks.items():
        typer.echo(outlook_text(outlook, plural(gpus, "GPU")), nl=False)
    if len(outlooks) > 1:
        typer.echo(trade_off_text(outlooks), nl=False)


# -- the question ----------------------------------------------------------------------------------


def _sizes(text: str) -> dict[int, float]:
    """`4=2h,8=70m` as GPUs with seconds."""
    sizes: dict[int, float] = {}
    for part in text.split(","):
        gpus, _, run = (word.strip() for word in part.partition("="))
        run_s = parse_duration(run, "--size") if gpus.isdecimal() and run else 0.0
        if not (run_s > 0.0 and int(gpus) > 0):
            raise InputError.at(f"{part!r} is no size", field="--size", expected="GPUS=TIME such as 4=2h")
        if int(gpus) in sizes:
            raise InputError.at(f"names {gpus} GPUs twice", field="--size", expected="each size once")
        sizes[int(gpus)] = run_s
    return sizes


def _under(moment: Frozen, policy: str | None) -> Frozen:
    """The moment, under another policy if one is named."""
    from dataclasses import replace

    from rota.scheduler.policy import parse_policy

    if policy is None or str(parse_policy(policy)) == moment.policy:
        return moment
    return replace(moment, policy=str(parse_policy(policy)), memory={})


def _table(gpus: int, run_s: float) -> Any:
    from rota.model.jobs import JobTable

    return JobTable.build(["new"], submit_s=[0.0], gpus=[gpus], limit_s=[run_s])


def _job(gpus: int, run_s: float) -> Any:
    return _table(gpus, run_s).job(0)


def _check_room(moment: Frozen, sizes: dict[int, float]) -> None:
    """Raise InputError for a job that the cluster could never hold: no deadline would be late enough."""
    from rota.model.feasible import refusals
    from rota.scheduler.moments.packing import unpack_cluster

    cluster = unpack_cluster(moment.packed["cluster"])
    for gpus, run_s in sizes.items():
        for why in refusals(_table(gpus, run_s), cluster, [0]).values():
            raise InputError.at(f"a job of {gpus} GPUs can never run: it {why}", field="--size")


def _asked(moment: Frozen, run_s: float, source: str) -> Any:
    """Run times as the moment knows them, else by `source`; that of the new job as stated."""
    from rota.forecast.futures import ForecastRequest
    from rota.forecast.remaining import Durations, Past, parse_source
    from rota.knowledge.needs import Knowledge
    from rota.scheduler.snapshot import table_of

    known = moment.packed["knowledge"].get(Knowledge.DURATION.value, {}).get("values", ())
    given = {row: seconds for row, seconds in enumerate(map(float, known)) if seconds == seconds}
    given[len(moment.packed["jobs"]["ids"])] = run_s
    past = Past.of(table_of(moment.snapshot(frozenset())))
    return ForecastRequest(Durations(parse_source(source), past, given))


# -- the answer ------------------------------------------------------------------------------------


def outlook_facts(outlook: PromiseOutlook) -> dict[str, Any]:
    """The answer as plain values; times count from the stored moment."""
    now = outlook.now_s

    def facts(one: PromiseForecast) -> dict[str, Any]:
        return {
            "deadline_s": one.agreement.deadline_s - now,
            "chance": one.chance.share,
            "low": one.chance.low,
            "high": one.chance.high,
            "is_accepted": one in outlook.accepted,
            "is_refused": one.chance.share < outlook.least,
            "offer_s": outlook.offer_s(one) - now,
            "done_s": {f"p{share}": one.reached_by(share / 100.0) - now for share in (50, 90, 99)},
            "reward": one.reward,
            "gpu_hours": one.gpu_hours,
            "externality": one.externality,
            "delay_s": one.delay_s,
            "others": [
                {**other._asdict(), **{key: getattr(other, key) - now for key in _MOMENTS}}
                for other in one.others
            ],
            "ends_s": (one.reached_s - now).tolist(),
        }

    return {
        "policy": outlook.policy,
        "runs": outlook.runs,
        "arrivals_per_h": 3600.0 * outlook.arrivals_per_s,
        "target": outlook.target,
        "pick_s": outlook.pick.agreement.deadline_s - now,
        "is_picked_in_time": outlook.is_picked_in_time,
        "promises": [facts(one) for one in outlook.promises],
    }


_MOMENTS = ("due_s", "before_s", "after_s")


def outlook_text(outlook: PromiseOutlook, size: str) -> str:
    """A line for each deadline, the one to choose, and the jobs that it would delay."""
    from rota.cli.live.tables import table_text
    from rota.model.words import NONE

    now, pick = outlook.now_s, outlook.pick
    rows = []
    for one in outlook.promises:
        done = " / ".join(_ahead(one.reached_by(share), now) for share in (0.5, 0.9, 0.99))
        verdict = "promise" if one in outlook.accepted else NONE
        if one.chance.share < outlook.least:
            verdict = f"refuse; offer {_ahead(outlook.offer_s(one), now)}"
        rows.append(
            [
                _ahead(one.agreement.deadline_s, now),
                f"{one.chance.share:.0%}",
                f"{one.chance.low:.0%}-{one.chance.high:.0%}",
                done,
                f"{one.reward:.2f}",
                f"{one.externality:+.2f}",
                f"{one.gpu_hours:.1f}",
                verdict,
            ]
        )
    hourly = f"{3600.0 * outlook.arrivals_per_s:.1f} jobs an hour come"
    head = f"{size} under {outlook.policy}, {plural(outlook.runs, 'future')} each, {hourly}\n"
    table = table_text(
        "DEADLINE >CHANCE >95%_OF_IT >DONE_BY_50/90/99% >REWARD >OTHERS' >GPU_HOURS VERDICT", rows
    )
    return head + table + _choice(outlook) + _others(pick, now)


def _choice(outlook: PromiseOutlook) -> str:
    pick = outlook.pick
    due, chance = _ahead(pick.agreement.deadline_s, outlook.now_s), pick.chance
    between = f"{chance.share:.0%}, between {chance.low:.0%} and {chance.high:.0%}"
    if outlook.is_picked_in_time:
        return f"the earliest with a chance of {outlook.target:.0%}: {due} ({between})\n"
    return f"none has a chance of {outlook.target:.0%}; the best: {due} ({between})\n"


def _others(pick: PromiseForecast, now: float) -> str:
    """The jobs that end at another time because of the new one."""
    from rota.cli.live.tables import table_text
    from rota.model.words import NONE

    if not pick.others:
        return "it delays no job that is there now\n"
    rows = [
        [
            other.id,
            _ahead(other.due_s, now) if other.due_s == other.due_s else NONE,
            _ahead(other.before_s, now),
            _ahead(other.after_s, now),
            NONE if other.due_s != other.due_s else f"{other.chance_before:.0%} -> {other.chance_after:.0%}",
        ]
        for other in pick.others[:SHOWN]
    ]
    more = len(pick.others) - len(rows)
    text = table_text("~OTHER >DEADLINE >DONE >WITH_IT CHANCE", rows)
    return text + (f"... and {plural(more, 'more job')}; --json names them\n" if more else "")


def trade_off_text(outlooks: dict[int, PromiseOutlook]) -> str:
    """The chance of each deadline with each number of GPUs."""
    from rota.cli.live.tables import table_text

    first = next(iter(outlooks.values()))
    heads = ["DEADLINE", *(f">{gpus}_GPUS" for gpus in outlooks)]
    rows = [
        [
            _ahead(one.agreement.deadline_s, first.now_s),
            *(f"{outlook.promises[place].chance.share:.0%}" for outlook in outlooks.values()),
        ]
        for place, one in enumerate(first.promises)
    ]
    return table_text(" ".join(heads), rows)


def _ahead(moment_s: float, now: float) -> str:
    """`+3h20m`; `-5m` for a past moment; `never` for an infinite one."""
    if moment_s == float("inf"):
        return "never"
    sign = "+" if moment_s >= now else ""
    return sign + format_duration(moment_s - now).replace(" ", "")


def _write(folder: Path, facts: dict[str, Any], outlooks: dict[int, PromiseOutlook]) -> None:
    """`promise.json`, and for each size the reward, the ends and the chances as figures."""
    import numpy as np

    from rota.reports.promise import chances_chart, ends_chart, reward_chart
    from rota.reports.svg import draw

    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(finite(facts), indent=2, ensure_ascii=False)
    _write_file(folder / "promise.json", text + "\n")
    horizon_s, chances = 0.0, []
    for gpus, outlook in outlooks.items():
        now, pick = outlook.now_s, outlook.pick
        dues = np.array([one.agreement.deadline_s - now for one in outlook.promises])
        horizon_s = 2.0 * float(dues.max())
        order = np.argsort(dues)
        chances.append(
            (
                plural(gpus, "GPU"),
                dues[order],
                np.array([one.chance.share for one in outlook.promises])[order],
            )
        )
        points = [(at_s - now, value) for at_s, value in pick.agreement.reward.points]
        ends = [
            (_ahead(one.agreement.deadline_s, now), one.agreement.deadline_s - now, one.reached_s - now)
            for one in outlook.promises
        ]
        reward = draw(reward_chart(points, pick.reached_s - now, horizon_s))
        _write_file(folder / f"reward-{gpus}.svg", reward)
        _write_file(folder / f"ends-{gpus}.svg", draw(ends_chart(ends, horizon_s)))
    _write_file(folder / "chances.svg", draw(chances_chart(chances, horizon_s)))


def _write_file(path: Path, text: str) -> None:
    from rota.model.atomic import replacing

    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")
