"""Ctrl-C and a terminal that is closed are remembered, also where what they raise does not arrive."""

from __future__ import annotations

import contextlib
import signal

import pytest

from rota.cli.live.job_output import Interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_that_got_lost_is_told_later(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Interrupts(signal.SIGHUP) as interrupts:
        interrupts.check()
        with contextlib.suppress(KeyboardInterrupt):  # as an object does that is being destroyed
            signal.raise_signal(number)
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
        interrupts.clear()
        interrupts.check()
    assert signal.getsignal(number) is before
