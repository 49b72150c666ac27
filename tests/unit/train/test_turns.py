"""Threads that take turns: each finds the process as it left it."""

import threading
import time

import pytest
import torch

from reign.kernels import fast_path, fast_path_state
from reign.train.engine.sharing import Stopped, Turns, away, hand_over


def run(turns: Turns, *works: object) -> list[BaseException]:
    errors: list[BaseException] = []

    def begin(work: object) -> None:
        try:
            with turns.joined():
                work()  # type: ignore[operator]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=begin, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    return errors


def test_random_numbers_and_settings_are_each_thread_s_own() -> None:
    found: dict[int, list[float]] = {}

    def work(seed: int) -> None:
        torch.manual_seed(seed)
        torch.set_float32_matmul_precision("high" if seed else "highest")
        with fast_path(seed == 0):
            for _ in range(20):
                found.setdefault(seed, []).append(float(torch.rand(())))
                hand_over()
                time.sleep(0.001)
                assert torch.get_float32_matmul_precision() == ("high" if seed else "highest")
                assert fast_path_state[0]() == (seed == 0)

    before = torch.get_float32_matmul_precision()
    try:
        assert run(Turns(), *(lambda seed=seed: work(seed) for seed in range(3))) == []
    finally:
        torch.set_float32_matmul_precision(before)
    for seed, values in found.items():
        torch.manual_seed(seed)
        assert values == [float(torch.rand(())) for _ in range(20)]


def test_only_one_at_a_time_and_all_get_their_turn() -> None:
    inside, order = [0], list[int]()

    def work(number: int) -> None:
        for _ in range(5):
            inside[0] += 1
            assert inside[0] == 1
            time.sleep(0.002)
            order.append(number)
            inside[0] -= 1
            hand_over()

    assert run(Turns(), *(lambda number=number: work(number) for number in range(3))) == []
    assert order != sorted(order)
    assert sorted(order) == [0] * 5 + [1] * 5 + [2] * 5


def test_a_thread_that_waits_lets_others_go_on() -> None:
    done = threading.Event()

    def waits() -> None:
        with away():
            assert done.wait(10)

    assert run(Turns(), waits, done.set) == []


def test_stopping() -> None:
    turns = Turns()

    def endless() -> None:
        turns.stopping = True
        while True:
            hand_over()

    (error,) = run(turns, endless)
    assert isinstance(error, Stopped)
    with pytest.raises(Stopped):
        raise error


def test_outside_of_turns_nothing_happens() -> None:
    state = torch.get_rng_state()
    hand_over()
    with away():
        torch.rand(())
    assert not torch.equal(state, torch.get_rng_state())  # what was drawn within stays drawn: nothing is put back
