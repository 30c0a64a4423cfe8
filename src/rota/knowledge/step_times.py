"""Observed step times of jobs, and the fits that explain them, by type of GPU.

Every configuration that a job has run on is a sample.  A sample is news if the job's fit is off by more than
5 %, or if the same configuration has changed by more.  All jobs with news are fitted again together, when
fits are next needed.  A fit depends on the samples alone, never on the order in which they came or on earlier
fits.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

import numpy as np

from rota.knowledge.seen import FRESH, NEWS
from rota.knowledge.step_fit import PARAMETERS, StepSample, fit_steps, pad, predict
from rota.model.columns import Floats

MOST_SAMPLES = 48
"""Samples kept of one job on one type; the ones that were seen longest ago are dropped."""

Key = TypeVar("Key", bound=Hashable)
"""What steps belong to: a job, or a job and a type of GPU."""
_Where = tuple[int, int, float, int]


class StepTimes(Generic[Key]):
    """What was seen of many jobs, and a fit for each."""

    def __init__(self, news: float = NEWS) -> None:
        """`news` is the relative error above which a fit is repeated; 0 means at every new sample."""
        self.news = news
        self._samples: dict[Key, dict[_Where, StepSample]] = {}
        self._fits: dict[Key, Floats] = {}
        self._fitted: dict[Key, dict[_Where, StepSample]] = {}
        """Samples that the fits were made of, or that they explain."""
        self._dirty: dict[Key, None] = {}

    def add(self, key: Key, sample: StepSample) -> bool:
        """Add a sample; True if it is news: the fit of `key` will change."""
        if not (sample.step_s > 0.0 and sample.local > 0.0 and sample.gpus > 0):
            return False
        own = self._samples.setdefault(key, {})
        where = sample.nodes, sample.gpus, float(sample.local), sample.passes
        old = own.pop(where, None)
        own[where] = sample if old is None else _merged(old, sample)
        while len(own) > MOST_SAMPLES:
            del own[next(iter(own))]
        if key not in self._dirty and self._is_news(key, where, own[where]):
            self._dirty[key] = None
        return key in self._dirty

    def _is_news(self, key: Key, where: _Where, sample: StepSample) -> bool:
        fit = self._fits.get(key)
        if fit is None:
            return True
        told = self._fitted[key].get(where)
        if told is not None:
            return bool(abs(sample.step_s / told.step_s - 1.0) > self.news)
        expected = float(predict(fit, sample.nodes, sample.gpus, sample.local))
        expected += sample.passes * float(fit[0] + fit[1] * sample.local)
        if abs(sample.step_s / expected - 1.0) > self.news or not self.news:
            return True
        self._fitted[key][where] = sample
        return False

    def refit(self) -> list[Key]:
        """Fit all keys that have news; returns these keys."""
        dirty, self._dirty = list(self._dirty), {}
        if dirty:
            fits = fit_steps(pad([list(self._samples[key].values()) for key in dirty]))
            for key, fit in zip(dirty, fits, strict=True):
                self._fits[key] = fit
                self._fitted[key] = dict(self._samples[key])
        return dirty

    def fit(self, key: Key) -> Floats | None:
        """The parameters [7] of `key`; None if nothing was seen of it."""
        if self._dirty:
            self.refit()
        return self._fits.get(key)

    def fits(self, keys: Iterable[Key]) -> Floats:
        """The parameters of several keys, [key, 7]; NaN where nothing was seen."""
        unknown = np.full(PARAMETERS, np.nan)
        fits = [self.fit(key) for key in keys]
        return np.array([unknown if fit is None else fit for fit in fits]).reshape(-1, PARAMETERS)

    def most_gpus(self, key: Key) -> int:
        """The most GPUs it was seen on; 0 if on none."""
        return max((gpus for _, gpus, _, _ in self._samples.get(key, ())), default=0)

    def samples(self, key: Key) -> list[StepSample]:
        return list(self._samples.get(key, {}).values())

    def forget(self, key: Key) -> None:
        """It has ended."""
        for kept in (self._samples, self._fits, self._fitted, self._dirty):
            kept.pop(key, None)


def _merged(old: StepSample, new: StepSample) -> StepSample:
    """The weighted mean of both: `FRESH` is the weight of the newest sample."""
    step_s = old.step_s + FRESH * (new.step_s - old.step_s)
    gradient_s = old.gradient_s + FRESH * (new.gradient_s - old.gradient_s)
    if gradient_s != gradient_s:
        gradient_s = old.gradient_s if new.gradient_s != new.gradient_s else new.gradient_s
    return new._replace(step_s=step_s, gradient_s=gradient_s)
