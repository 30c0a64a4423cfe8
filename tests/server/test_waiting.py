"""Who waits is woken, from whatever thread, and nothing is left behind."""

from __future__ import annotations

import asyncio
import threading

import pytest

from rota.server.api.calling import Waiting
from rota.server.refusals import Busy
from rota.server.waiting import CommandOutcomes, Notifier


def test_a_notice_from_another_thread() -> None:
    notifier = Notifier()

    async def wait() -> bool:
        with notifier.listen("job") as listener:
            threading.Thread(target=notifier.notify, args=(["other", "job"],)).start()
            return await listener.wait(10.0)

    assert asyncio.run(wait())


def test_what_happens_between_two_waits_is_not_missed() -> None:
    notifier = Notifier()

    async def wait() -> list[bool]:
        with notifier.listen("job") as listener:
            notifier.notify(["job"])
            await asyncio.sleep(0)
            return [await listener.wait(0.1), await listener.wait(0.0)]

    assert asyncio.run(wait()) == [True, False]


def test_everybody_who_listens_hears_and_nobody_else() -> None:
    notifier = Notifier()

    async def wait() -> list[bool]:
        with notifier.listen("a") as one, notifier.listen("a") as two, notifier.listen("b") as other:
            notifier.notify(["a"])
            return list(await asyncio.gather(one.wait(1.0), two.wait(1.0), other.wait(0.01)))

    assert asyncio.run(wait()) == [True, True, False]


def test_nothing_is_left_of_those_who_have_gone() -> None:
    notifier = Notifier()

    async def wait() -> None:
        with notifier.listen("a"):
            pass

    asyncio.run(wait())
    assert not notifier._waiting
    notifier.notify(["a"])  # the loop is closed: nobody is there


def test_a_negative_time_is_none() -> None:
    notifier = Notifier()

    async def wait() -> bool:
        with notifier.listen("a") as listener:
            return await listener.wait(-1.0)

    assert asyncio.run(wait()) is False


def test_an_outcome_that_comes_while_somebody_waits() -> None:
    outcomes = CommandOutcomes()
    outcomes.expect(1)
    threading.Timer(0.01, outcomes.tell, (1, {"error": "no"})).start()
    assert outcomes.wait(1, 10.0) == {"error": "no"}


def test_an_outcome_that_came_before_somebody_waited() -> None:
    outcomes = CommandOutcomes()
    outcomes.expect(1)
    outcomes.tell(1, {})
    assert outcomes.wait(1, 0.0) == {}


def test_an_outcome_that_does_not_come_and_one_that_nobody_expects() -> None:
    outcomes = CommandOutcomes()
    outcomes.expect(1)
    outcomes.tell(2, {})
    assert outcomes.wait(1, 0.01) is None
    outcomes.tell(1, {})
    assert not outcomes._waiting


def test_a_call_that_the_end_of_all_ended_may_wait_again() -> None:
    """It was cancelled for that in its own task, which nothing is left of."""

    async def call() -> tuple[bool, int]:
        waiting, own = Waiting(), asyncio.current_task()
        asyncio.get_running_loop().call_soon(waiting.close)
        with pytest.raises(Busy):
            await waiting.until_closed(asyncio.Event().wait())
        assert own is not None
        with Notifier().listen("a") as listener:
            return await listener.wait(0.0), own.cancelling()

    assert asyncio.run(call()) == (False, 0)


def test_a_call_that_is_cancelled_is_not_told_of_the_end_of_all() -> None:
    async def call() -> None:
        task = asyncio.ensure_future(Waiting().until_closed(asyncio.Event().wait()))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(call())
