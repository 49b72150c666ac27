"""Batches of a few fixed sizes, and for each of them a CUDA graph of the work on it.

The first batches of a frame run directly. What they need is then compiled and allocated, and the work can be captured; all later batches are replays.
So nothing is computed only to warm up, and a frame that is used once is never captured.
"""

import gc
import math
import warnings
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reign.bags import BagStore, Frame
from reign.data import Ids
from reign.kernels import compile_ahead
from reign.train.formats import number_format
from reign.train.seeds import gpu_generator

SHARES = (0.4, 0.7, 1.0)  # each of the first frames fits this share of all batches, the smallest batches first
MANY = 1000  # number of batches from which several frames pay: they save padding, but a capture takes as long as dozens of steps
ROOM, MORE_ROOM = 1.005, 1.05  # size of a frame relative to the largest batch it was made for: of the first frames, of later ones
SINGLE_ROOM = 1.1  # the same of a single frame for all batches
FIRST_RUNS = 2  # direct runs before the first capture: the optimiser may move the weights in the first, so that kernels find them anew in the second
RUNS = 1  # direct runs before every other capture

_COMPILED: set[Hashable] = set()  # the work whose kernels were compiled in this process


@dataclass(eq=False)
class Played:
    """The work on a frame: run directly at first, then captured, then replayed. On other devices than a GPU it always runs directly."""

    frame: Frame
    frames: "Frames"
    out: Tensor | None = None
    runs: int = 0
    graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, ids: Int[Tensor, "graphs"]) -> None:
        """Do the work for these graphs, one id for each place of the frame. An id that is not a graph leaves its place empty."""
        self.frame.ids.copy_(ids)
        self.frames.player.play(self)

    def work(self) -> None:
        """Do the work now, for the graphs that the frame has."""
        self.frames.work(self)


class Player:
    """Does the work of one model on one device.

    Args:
        device: the device. Nothing is captured unless it is a GPU.
        precision: as in ``TrainingConfig``.
    """

    def __init__(self, device: torch.device, precision: str) -> None:
        self.device, self.precision = device, precision
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # each stream has its own workspace for products
        self.pool = None if self.stream is None else torch.cuda.graph_pool_handle()
        self.runs = FIRST_RUNS

    def play(self, played: Played) -> None:
        """Do some work for the graphs that its frame has."""
        if played.graph is None:
            with number_format(self.device, self.precision), warnings.catch_warnings():
                warnings.filterwarnings("ignore", "The AccumulateGrad node's stream")  # gradients are not accumulated here
                if self.stream is None:
                    played.work()
                elif played.runs < self.runs:
                    self._run(played, self.stream)
                else:
                    played.graph = self._captured(played, self.stream)
                    self.runs = RUNS
        if played.graph is not None:
            played.graph.replay()

    def _run(self, played: Played, stream: torch.cuda.Stream) -> None:
        """Do the work directly, on the stream on which it will be captured. Before that, all its kernels are compiled at once, if they are new."""
        if played.frames.key not in _COMPILED:
            with played.frames.undone(), compile_ahead(self.device):
                played.work()
            _COMPILED.add(played.frames.key)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        try:
            with torch.cuda.stream(stream):
                played.work()
        finally:  # after an error, what is restored must not be changed by work that is still running
            torch.cuda.current_stream(self.device).wait_stream(stream)
        played.runs += 1

    def _captured(self, played: Played, stream: torch.cuda.Stream) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize(self.device)
        torch.cuda.empty_cache()  # a graph has its own memory
        generator = gpu_generator(self.device)
        copy = generator.clone_state()
        with _no_garbage_collection(), torch.cuda.stream(stream):
            graph.capture_begin(pool=self.pool, capture_error_mode="thread_local")  # other threads may wait for the device
            try:
                played.work()
            except BaseException:
                try:
                    graph.capture_end()
                except RuntimeError:  # the first error says more
                    generator.graphsafe_set_state(copy)  # the one before would not leave the capture
                    _end_allocation(self.pool)
                raise
            graph.capture_end()
        return graph


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A graph that is destroyed during a capture would end it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _end_allocation(pool: Any) -> None:
    """After a capture that could not be ended: let the allocator leave the memory of the graph, in versions of torch that do not do it themselves."""
    with suppress(RuntimeError, AttributeError, TypeError):
        torch._C._cuda_endAllocateToPool(torch.cuda.current_device(), pool)


class Frames:
    """The frames of one kind of work.

    Args:
        player: does the work.
        work: the work on a frame.
        undone: a function that returns a context, at the end of which all changes that the work made are undone.
        key: identifies the kernels of the work.
        batch_size: number of graphs in a batch.
        epochs: how often the work is done for about the same number of batches.
    """

    def __init__(
        self,
        player: Player,
        work: Callable[[Played], None],
        undone: Callable[[], AbstractContextManager[Any]],
        key: Hashable,
        batch_size: int,
        epochs: int,
    ) -> None:
        self.player, self.work, self.undone, self.key, self.batch_size, self.epochs = player, work, undone, key, batch_size, epochs
        self._frames: list[Played] = []

    def batches(self, store: BagStore, batches: list[Ids]) -> Iterator[tuple[Played, Int[Tensor, "graphs"]]]:
        """Every batch as the work on a frame that it fits into, and its ids on the device, padded to the number of places of the frame."""
        padded = torch.full((len(batches), self.batch_size), store.num_graphs, dtype=torch.long)
        for b, ids in enumerate(batches):
            padded[b, : ids.numel()] = ids
        totals = store.totals(padded)
        while (missing := ~self._fits(totals).any(1)).any():
            sizes = torch.minimum(self._sizes(totals[missing], len(batches)), store.largest(self.batch_size))
            frame = store.frame(self.batch_size, sizes)
            self._frames.append(Played(frame, self))
            self._frames.sort(key=lambda played: int(played.frame.totals.sum()))
        which = self._fits(totals).int().argmax(1).tolist()
        for number, places in zip(which, padded.to(self.player.device), strict=True):
            yield self._frames[number], places

    def clear(self) -> None:
        """Forget all frames, so that their graphs and their memory are free at once: frames and this object refer to each other."""
        self._frames.clear()

    def _fits(self, totals: Int[Tensor, "batches spaces"]) -> Bool[Tensor, "batches frames"]:
        fits = [played.frame.fits(totals) for played in self._frames]
        return torch.stack(fits, dim=1) if fits else torch.zeros(len(totals), 0, dtype=torch.bool)

    def _sizes(self, totals: Int[Tensor, "batches spaces"], number: int) -> Int[Tensor, "spaces"]:
        """The sizes of a new frame for some of the batches. Of many, the first frames fit the smaller ones; the last frame fits all, with some margin."""
        made, several = len(self._frames), number * self.epochs >= MANY
        if several and made < len(SHARES):
            totals = totals[totals.sum(1).argsort()[: max(1, math.ceil(SHARES[made] * len(totals)))]]
            room = MORE_ROOM if made == len(SHARES) - 1 else ROOM
        else:
            totals = torch.stack([totals.amax(0), *(played.frame.totals for played in self._frames)])
            room = MORE_ROOM if made else SINGLE_ROOM
        return (totals.amax(0).double() * room).long() + 1
