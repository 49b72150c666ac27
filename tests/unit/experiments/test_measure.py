"""Time and memory of a call."""

import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from reign.experiments import measure
from reign.experiments.measure import WARM_UP, Kernel, KernelClock, added_bytes, copy_bandwidth, seconds_of

CPU = torch.device("cpu")
MB = 2**20


def test_time_is_the_median_of_the_calls_after_the_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now, order = [0.0], []
    calls = {
        "a": iter([100.0, 100.0, 1.0, 50.0, 3.0]),
        "b": iter([0.0, 0.0, 8.0, 7.0, 6.0]),
    }  # two to warm up, then three that count
    monkeypatch.setattr(measure, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def run(name: str) -> None:
        now[0] += next(calls[name])
        order.append(name)

    assert WARM_UP == 2
    assert seconds_of({name: partial(run, name) for name in calls}, CPU, 3) == {"a": 3.0, "b": 7.0}
    assert "".join(order) == "aabb" + "ab" * 3


def test_a_real_call_takes_its_time() -> None:
    assert seconds_of({"sleep": lambda: time.sleep(0.01)}, CPU, 3)["sleep"] >= 0.01


def test_memory_is_that_of_the_peak() -> None:
    kept = torch.zeros(8 * MB)  # held before, so it does not count

    def run() -> None:
        first = torch.ones(3 * MB, dtype=torch.uint8)
        del first
        second, third = torch.ones(2 * MB, dtype=torch.uint8), torch.ones(2 * MB, dtype=torch.uint8)
        second.add_(third), kept.zero_()

    assert 4 * MB <= added_bytes(run, CPU) < 4.1 * MB
    assert added_bytes(lambda: kept.zero_(), CPU) < 0.1 * MB


def test_memory_of_a_backward_pass_counts() -> None:
    weight = torch.ones(MB, requires_grad=True)
    assert added_bytes(lambda: weight.exp().sum().backward(), CPU) >= 2 * 4 * MB  # the saved output, and the gradient
    assert weight.grad is not None


def test_a_copy_reads_and_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(measure.COPY_BYTES, "cpu", 1000)
    monkeypatch.setattr(measure, "seconds_of", lambda runs, device, repeats: (runs["copy"](), {"copy": 0.5})[1])
    assert copy_bandwidth(CPU, 1) == 4000.0


def test_kernels_are_sorted_and_counted_for_one_step() -> None:
    def event(key: str, kind: str, count: int, us: float, annotation: bool = False) -> Any:
        fields = {"key": key, "device_type": SimpleNamespace(name=kind), "count": count}
        return SimpleNamespace(**fields, self_device_time_total=us, is_user_annotation=annotation)

    clock = KernelClock()
    events = [event("small", "CUDA", 4, 8.0), event("large", "CUDA", 2, 60.0), event("launch", "CPU", 4, 900.0)]
    events.append(event("Optimizer.step", "CUDA", 2, 500.0, annotation=True))
    clock._profile = SimpleNamespace(key_averages=lambda: events)
    assert clock.kernels(2) == [Kernel("large", 1.0, 30e-6), Kernel("small", 2.0, 4e-6)]
