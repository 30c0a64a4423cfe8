"""The demo's tables: predictions next to outcomes, and both rounds side by side."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from rota.cli.demo.incidents import WhatIfAnswer
from rota.cli.demo.watch import Round
from rota.cli.live.tables import table_text
from rota.model.words import NONE


def forecast_text(forecast: WhatIfAnswer, played: Round) -> str:
    """Seconds from submission to end of the jobs that were live at the time of the prediction, with means."""
    own, other = _word(played.policy), _word(forecast.policy)
    rows, columns = [], []
    for number, id in enumerate(played.ids):
        if id not in forecast.stayed_s or id not in forecast.swapped_s:
            continue  # it had ended, or its end could not be predicted
        submit_s = played.views[id]["submit_s"]
        cells = forecast.stayed_s[id] - submit_s, played.jct_s(number), forecast.swapped_s[id] - submit_s
        rows.append([played.name(id), *map(_seconds, cells)])
        columns.append(cells)
    if columns:
        rows.append(["mean", *(_seconds(mean(cells)) for cells in zip(*columns, strict=True))])
    heads = f"JOB >{own}:_PREDICTED >{own}:_CAME_OUT >{other}_FROM_THEN_ON:_PREDICTED"
    return table_text(heads, rows)


def rounds_text(rounds: Sequence[Round]) -> str:
    """Each job under each policy: waiting and completion time in seconds, with their means."""
    heads = "JOB >SLOTS >SUBMITTED"
    for played in rounds:
        heads += f" >{_word(played.policy)}:_WAIT >COMPLETION"
    rows = []
    for number, job in enumerate(rounds[0].plan.jobs):
        cells = [job.name, str(job.slots), f"{job.at_s:.1f}"]
        for played in rounds:
            cells += [_seconds(played.wait_s(number)), _completion(played, number)]
        rows.append(cells)
    rows.append(["mean", NONE, NONE, *(_seconds(value) for played in rounds for value in means(played))])
    return table_text(heads, rows)


def means(played: Round) -> tuple[float, float]:
    """Mean waiting and mean completion time, in seconds."""
    numbers = range(len(played.ids))
    return mean(map(played.wait_s, numbers)), mean(map(played.jct_s, numbers))


def _completion(played: Round, number: int) -> str:
    state = played.view(number)["state"]
    return _seconds(played.jct_s(number)) + ("" if state == "COMPLETED" else f" {state}")


def _seconds(value: float) -> str:
    return f"{value:.1f}"


def _word(policy: str) -> str:
    """A policy without its parameters."""
    return policy.partition(":")[0]
