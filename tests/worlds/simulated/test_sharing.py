"""Shared devices in closed form: the figures of TGS' and AntMan's pages, and what a run makes of them."""

from __future__ import annotations

import numpy as np
import pytest

from play import finishes, play, trace_of
from rota.model.cluster import parse_cluster
from rota.model.grants import Grant, Role
from rota.worlds.simulated.interference import Interference
from rota.worlds.simulated.pace import At
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.sharing import SHARINGS, AntMan, DeviceSharing, Neighbour, Tgs
from rota.worlds.simulated.slowdowns import Slowdowns
from rota.worlds.simulated.speed import FixedDuration
from scripted import Scripted

P, O = Role.GUARANTEED, Role.OPPORTUNISTIC  # noqa: E741 (production and opportunistic)
LATER = 1000.0


# company since 0; a neighbour is its role and the part of the device that it keeps busy
@pytest.mark.parametrize(
    ("sharing", "role", "beside", "now", "rate", "until_s", "why"),
    [
        (Tgs(), P, [], LATER, 1.0, np.inf, "alone"),
        (Tgs(), O, [], LATER, 1.0, np.inf, "alone: nobody to be kept from"),
        (Tgs(), O, [(O, 0.9)], LATER, 0.5, np.inf, "equal parts"),
        (Tgs(), O, [(P, 0.6)], 0.0, 0.0, 25.0, "five samples of profile"),
        (Tgs(), O, [(P, 0.6)], 25.0, 0.12, 75.0, "slow start"),
        (Tgs(), O, [(P, 0.6)], 75.0, 0.4, np.inf, "what is left: 0.41 in the card's simulation"),
        (Tgs(), O, [(P, 0.3)], LATER, 0.7, np.inf, "0.71"),
        (Tgs(), O, [(P, 0.95)], LATER, 0.05, np.inf, "0.08"),
        (Tgs(), P, [(O, 1.0)], LATER, 0.99, np.inf, "0.99"),
        (AntMan(), P, [], LATER, 1.0, np.inf, "alone"),
        (AntMan(), P, [(O, 1.0)], 0.0, 0.85, 10.0, "it feels a newcomer"),
        (AntMan(), P, [(O, 1.0)], 10.0, 0.98, np.inf, "0.02 each"),
        (AntMan(), P, [(O, 1.0)] * 4, LATER, 0.95, np.inf, "0.05 at most"),
        (AntMan(), O, [(P, 0.6)], LATER, 0.5, np.inf, "0.4 left and 0.1 of overlap"),
        (AntMan(), O, [(P, 1.0), (O, 1.0)], LATER, 0.05, np.inf, "the overlap, for two"),
        (AntMan(), O, [(O, 1.0)], LATER, 0.5, np.inf, "nobody with a claim: equal parts"),
    ],
)
def test_rates(
    sharing: DeviceSharing,
    role: Role,
    beside: list[tuple[Role, float]],
    now: float,
    rate: float,
    until_s: float,
    why: str,
) -> None:
    pace = sharing.pace(role, [Neighbour(*other) for other in beside], At(0.0, now, 0.0))
    assert (pace.rate, pace.until_s) == (pytest.approx(rate), until_s), why


def under(sharing: DeviceSharing | None, *grants: Grant, jobs: str, cluster: str = "1x1") -> dict[str, float]:
    """Finishes where production keeps 0.6 of a device busy."""
    trace = trace_of(jobs, workload=0, workload_names=("w",))
    slowdowns = Slowdowns(company=Interference(utilisation={"w": 0.6}), sharing=sharing)
    speed = FixedDuration(trace.jobs, parse_cluster(cluster), slowdowns)
    return finishes(play(Scripted({"grants": list(grants)}), trace, cluster, Setting(speed=speed)))


BESIDE = (Grant(0, (0,), 1.0, P), Grant(1, (0,), 1.0, O))


def test_an_opportunistic_job_under_tgs() -> None:
    """Nothing until 25 s, 0.12 until 75 s, then 0.4: the last 34 of its 40 s of work end at 160."""
    found = under(SHARINGS["tgs"], *BESIDE, jobs="P 1x990 O 1x40")
    assert found == {"P": pytest.approx(160 + 990 - 0.99 * 160), "O": pytest.approx(160)}


def test_an_opportunistic_job_goes_on_alone() -> None:
    """P, at 0.85 for 10 s and 0.98 from there, is done at 100; O has half the device until then."""
    found = under(SHARINGS["antman"], *BESIDE, jobs="P 1x96.7 O 1x80")
    assert found == {"P": pytest.approx(100), "O": pytest.approx(130)}


@pytest.mark.parametrize(("sharing", "expected"), [(None, 10 / 0.5), (AntMan(), 10 / 0.5)])
def test_a_gang_is_as_fast_as_on_its_worst_device(sharing: DeviceSharing | None, expected: float) -> None:
    """Two devices, each half taken (or 0.6 of it used) by another: half is left on each, not nothing."""
    grants = [Grant(0, (0,), 0.5, P), Grant(1, (1,), 0.5, P), Grant(2, (0, 1), 1.0, O)]
    found = under(sharing, *grants, jobs="P 1x99 Q 1x99 O 2x10", cluster="1x2")
    assert found["O"] == pytest.approx(expected)
