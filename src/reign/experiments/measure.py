"""Measure the cost of a step on a device: its time, its additional memory, and the time of each kernel."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

Run = Callable[[], object]
WARM_UP = 2  # calls that are not measured: they compile kernels and allocate permanent memory
COPY_BYTES = {"cpu": 2**27, "cuda": 2**30}  # size of each of the two buffers of a copy, much larger than any cache


@dataclass(frozen=True)
class Kernel:
    """A kernel of a step: its name, the number of times it runs in a step, and its total time in a step."""

    name: str
    calls: float
    seconds: float


def seconds_of(runs: Mapping[str, Run], device: torch.device, repeats: int) -> dict[str, float]:
    """The median time of a call of each function, after a warm-up. They take turns, so that other load on the machine affects all equally."""
    for run in runs.values():
        for _ in range(WARM_UP):
            run()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            _wait(device)
            start = time.perf_counter()
            run()
            _wait(device)
            times[name].append(time.perf_counter() - start)
    return {name: median(found) for name, found in times.items()}


def added_bytes(run: Run, device: torch.device) -> int:
    """The peak memory of a call, minus the memory held before it."""
    if device.type == "cuda":
        _wait(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        run()
        _wait(device)
        return torch.cuda.max_memory_allocated(device) - before
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the profiler does not see what other threads allocate
    try:
        with _profiler(ProfilerActivity.CPU, memory=True) as found:
            run()
    finally:
        torch.set_num_threads(threads)
    held = peak = 0
    events = [event for event in found.profiler.kineto_results.events() if event.name() == "[memory]"]
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


def copy_bandwidth(device: torch.device, repeats: int) -> float:
    """Bytes that a large copy reads and writes per second."""
    source = torch.zeros(COPY_BYTES[device.type], dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * source.numel() / seconds_of({"copy": lambda: target.copy_(source)}, device, repeats)["copy"]


class KernelClock:
    """The time of each kernel that runs on a GPU between ``start`` and ``stop``."""

    def __init__(self) -> None:
        self._profile = _profiler(ProfilerActivity.CUDA)

    def start(self) -> None:
        """Start, after the GPU has finished all earlier work."""
        torch.cuda.synchronize()
        self._profile.start()

    def stop(self) -> None:
        """Stop, after the GPU has finished all work."""
        torch.cuda.synchronize()
        self._profile.stop()

    def kernels(self, steps: int) -> list[Kernel]:
        """All kernels, slowest first. ``steps`` is the number of steps that ran."""
        found = [
            Kernel(event.key, event.count / steps, event.self_device_time_total / 1e6 / steps)
            for event in self._profile.key_averages()
            if event.device_type.name == "CUDA" and not event.is_user_annotation
        ]
        return sorted(found, key=lambda kernel: -kernel.seconds)


def _profiler(activity: ProfilerActivity, memory: bool = False) -> Any:
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # otherwise the profiler prints messages when it starts and stops
    return profile(activities=[activity], profile_memory=memory)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
