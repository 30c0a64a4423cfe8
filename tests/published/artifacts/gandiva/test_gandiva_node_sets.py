"""Node sets: nodes divided among job sizes, as simulators simplify Gandiva."""

from __future__ import annotations

import random
from copy import deepcopy

from rota.published.artifacts.gandiva.node_sets import EqualNodeSets
from rota.published.artifacts.gandiva.set_turns import STEP_S, _quiet_step, _quiet_steps


def sets_on(nodes: int, sizes: list[int], node_gpus: int = 4) -> EqualNodeSets:
    return EqualNodeSets({}, list(range(nodes)), node_gpus, sizes, order=(1, 2, 4, 8))


def test_a_set_takes_one_job_fewer_than_it_can_run_before_another_opens() -> None:
    """Four jobs of one GPU: three on the first node, the fourth opens the second."""
    sets = sets_on(2, [1] * 6)
    assert all(sets.place(row) for row in range(4))
    assert [one["jobs"] for one in sets.sets[1]] == [[3], [0, 1, 2]]
    assert not sets.free


def test_without_free_nodes_jobs_crowd_into_their_size_and_take_turns() -> None:
    sets = sets_on(1, [4, 4, 2])
    assert sets.place(0)
    assert sets.place(1)
    assert not sets.place(2), "no node is left for another size"
    assert sets.is_crowded()
    assert sets.heads(4, sets.sets[4][0]) == [0]
    sets.pass_turns(True, set())
    assert sets.heads(4, sets.sets[4][0]) == [1]


def test_ended_jobs_leave_and_empty_sets_give_up_their_nodes() -> None:
    sets = sets_on(2, [8, 8])
    assert sets.place(0)
    assert sets.place(1)
    sets.pass_turns(False, {0})
    assert [one["jobs"] for one in sets.sets[8]] == [[1]]
    sets.pass_turns(False, {1})
    assert (sets.sets, sets.free) == ({}, [0, 1])


def test_sizes_get_nodes_in_proportion_to_demand() -> None:
    """Of 16 GPUs, sizes that ask for 8 and 24 get 4 and 12."""
    sizes = [4] * 2 + [8] * 3
    sets = sets_on(4, sizes)
    for row in (0, 1, 2, 3, 4):
        sets.place(row)
    assert [len(sets.sets[size]) for size in (4, 8)] == [2, 1]
    sets.resize(16)
    assert {size: len(some) for size, some in sets.sets.items()} == {4: 1, 8: 1}
    assert len(sets.free) == 1, "a node is left that jobs of 8 GPUs cannot use alone"


def test_steps_that_only_pass_nodes_on_are_made_at_once() -> None:
    """Forty steps after some jobs have come and gone: every set is where it is one by one."""
    calls = 0
    for seed in range(40):
        rng = random.Random(seed)
        sizes = [rng.choice([1, 1, 2, 4, 8, 8, 16, 24, 32]) for _ in range(30)]
        one, queue = sets_on(16, sizes, node_gpus=8), list[int]()
        queue += [row for row in range(rng.randrange(8, 30)) if not one.place(row)]
        one.pass_turns(False, set(rng.sample(range(30), 8)))
        many = EqualNodeSets(deepcopy(one.sets), one.free.copy(), one.node_gpus, one.gpus_of, one.order)
        same_queue, now, left = queue.copy(), 10.0, 40
        for step in range(left):
            _quiet_step(one, queue, now + step * STEP_S, 128)
        while left:
            steps, _ = _quiet_steps(many, same_queue, now, 128, left)
            now, left, calls = now + steps * STEP_S, left - steps, calls + 1
        assert (many.sets, many.free, same_queue) == (one.sets, one.free, queue)
    assert calls < 40 * 40, "in some of these clusters unused nodes are passed on"
