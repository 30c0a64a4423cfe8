"""What a calibration says: how well a replay of the site's own policy fits, and what to try if not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rota.model.units import plural
from rota.reports.likeness import Calibration, Likeness
from rota.reports.wording import factor_words, words

NO_STARTS = "Uncalibrated: no recorded starts to compare with, so how close this is to reality is unknown."
NO_POLICY = "Uncalibrated: nobody named the policy that the site itself ran."
NEVER_ENDED = "Uncalibrated: of no job is recorded both when it started and when it ended."
MOST_GROUPS = 3
"""Groups that a sentence names."""
STATISTICS = {"mean": "mean", "p50": "median", "p90": "p90", "p99": "p99"}


def not_simulated(policy: str) -> str:
    """What is said if no record is of `policy`."""
    return f"Uncalibrated: the site's own policy {policy!r} was not simulated."


def calibration_text(calibration: Calibration) -> str:
    """The verdict, then the numbers, then the groups that are not explained."""
    return " ".join(_sentences(calibration))


def _sentences(calibration: Calibration) -> Iterator[str]:
    whole, unlike = calibration.groups[0], calibration.unexplained()
    yield f"Calibration: {_verdict(calibration, whole)}"
    if not whole.jobs:
        return
    share, share_seen = calibration.utilisation
    numbers = [
        f"mean JCT {_both(whole.jct.mean, whole.jct_seen.mean)}",
        f"waiting {_waits(whole, tuple(STATISTICS))}",
        f"utilisation {words(share, 'share')} against {words(share_seen, 'share')}",
    ]
    yield f"Replayed against observed: {', '.join(numbers)}; {misplaced_words(calibration)}."
    if unlike:
        yield f"Not explained: {unexplained_words(unlike)}."


def _replay(calibration: Calibration) -> str:
    """What was replayed, and why it was taken for the site's own policy."""
    if calibration.fit is None:
        return f"a replay of the site's own policy, {calibration.site_policy!r},"
    tried = f"{len(calibration.fit.misplaced_s)} policies"
    part = f" on {calibration.fit.part}" if calibration.fit.part else ""
    return f"a replay of {calibration.site_policy!r}, which fits best of the {tried} tried{part},"


def misplaced_words(calibration: Calibration) -> str:
    """`43% of the waiting is misplaced`; in seconds a job where the jobs had not waited."""
    whole = calibration.groups[0]
    if calibration.error is not None:
        return f"{part_words(calibration.error)} of the waiting is misplaced"
    off_s = whole.misplaced_s / whole.jobs if whole.jobs else 0.0
    return "no job waited" if not off_s else f"no job waited, {words(off_s, 's')} on average in the replay"


def part_words(error: float) -> str:
    """A part as a per cent that is 0 only if nothing differs."""
    return "below 1%" if 0.0 < error < 0.005 else f"{100 * error:,.0f}%"


def unexplained_words(unlike: Sequence[Likeness]) -> str:
    """`jobs of >8 GPUs (wait 6h against 24h), tenant a/b (...) and 3 other groups`."""
    named = [f"{one.title} ({_worst(one)})" for one in unlike[:MOST_GROUPS]]
    more = len(unlike) - MOST_GROUPS
    return ", ".join(named) + (f" and {plural(more, 'other group')}" if more > 0 else "")


def _worst(group: Likeness) -> str:
    """`wait 6h against 24h` on average, or the statistic that does not agree if the mean does."""
    key = next((key for key in ("mean", "p99", "p90", "p50") if key in group.unlike), "mean")
    name = "" if key == "mean" else f"{STATISTICS[key]} "
    return f"{name}wait {_both(getattr(group.waiting, key), getattr(group.waiting_seen, key))}"


def _waits(group: Likeness, keys: Sequence[str]) -> str:
    """`mean 6h against 24h, p99 17h against 41h`."""
    return ", ".join(
        f"{STATISTICS[key]} {_both(getattr(group.waiting, key), getattr(group.waiting_seen, key))}"
        for key in keys
    )


def _both(ours_s: float, seen_s: float) -> str:
    return f"{words(ours_s, 's')} against {words(seen_s, 's')}"


def _verdict(calibration: Calibration, whole: Likeness) -> str:
    """Whether the replay waits as the site's jobs did, and what to try if it does not."""
    replay = _replay(calibration)
    ours_s, seen_s = whole.waiting.mean, whole.waiting_seen.mean
    if not whole.jobs:
        return f"{replay} finished no job, so nothing can be compared."
    if calibration.agrees:
        return f"{replay} waits about as long as your jobs did: the other rows can be set against observed."
    if "mean" not in whole.unlike:
        return (
            f"{replay} waits about as long as your jobs did on average, but not the same jobs do: of the "
            "other rows only means of all jobs can be set against observed, not tails nor groups."
        )
    if ours_s < seen_s:
        less = factor_words(ours_s / seen_s).replace("shorter", "less")
        return (
            f"{replay} waits {less} than your jobs did, so what is gained over observed is overstated: the "
            "site had fewer GPUs at hand, or held jobs back by rules that are not replayed. Try --cluster "
            f"with the site's real nodes and partitions{_or_another(calibration, 'fifo')}."
        )
    more = f"{factor_words(ours_s / seen_s)} than your jobs did" if seen_s else "where your jobs did not"
    return (
        f"{replay} waits {more}, so what is lost to observed is overstated: this cluster is smaller than the "
        "site's, or its policy lets more jobs pass. Try a larger --cluster"
        f"{_or_another(calibration, 'fifo:skip=yes')}."
    )


def _or_another(calibration: Calibration, other: str) -> str:
    """The advice to replay `other`, unless it is what was replayed, or was tried and fits less."""
    is_tried = calibration.fit is not None or calibration.site_policy == other
    return "" if is_tried else f", or --site-policy {other}"
