"""Batches of a few fixed sizes, and for each of them a CUDA graph of the work on it.

The first batches of a frame run directly. What they need is then compiled and allocated, and the work can be captured; all later batches are replays.
So nothing is computed only to warm up, and a frame that is used once is never captured.
"""

import gc
import math
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reign.bags import BagStore, Frame
from reign.data import Ids
from reign.kernels import compile_ahead
from reign.train.formats import number_format
from reign.train.seeds import gpu_generator

SHARES = (0.4, 0.7, 1.0)  # each frame fits this share of the batches that fit into no smaller one, the smallest batches first
FEW = 4  # number of batches in an epoch from which several frames pay: they save padding, but a capture takes as long as dozens of steps
DRAWN = 256  # number of random batches from which the sizes of frames are found
ROOM, MORE_ROOM = 1.005, 1.05  # size of a frame relative to the largest batch it was made for: of the first frames, of the last one
SINGLE_ROOM = 1.1  # the same of a single frame for all batches
GROWTH = 1.25  # size of a further frame, for a batch that is larger than all that were drawn, relative to the frame before
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

    The size of a frame affects rounding, so it may not depend on how long the training will be or with which epoch it continues. It depends on the graphs and
    the size of a batch alone: frames are made for random batches that are drawn for this purpose. A larger batch gets a frame that is larger by a fixed
    factor.

    Args:
        player: does the work.
        work: the work on a frame.
        undone: a function that returns a context, at the end of which all changes that the work made are undone.
        key: identifies the kernels of the work.
        batch_size: number of graphs in a batch.
    """

    def __init__(
        self,
        player: Player,
        work: Callable[[Played], None],
        undone: Callable[[], AbstractContextManager[Any]],
        key: Hashable,
        batch_size: int,
    ) -> None:
        self.player, self.work, self.undone, self.key, self.batch_size = player, work, undone, key, batch_size
        self._frames: list[Played] = []

    def batches(self, store: BagStore, batches: list[Ids]) -> Iterator[tuple[Played, Int[Tensor, "graphs"]]]:
        """Every batch as the work on a frame that it fits into, and its ids on the device, padded to the number of places of the frame."""
        padded = self._padded(store, batches)
        totals = store.totals(padded)
        if not self._frames and batches:
            self._add_for(store, self._drawn(store, torch.cat(batches).unique()), len(batches) >= FEW)
        while not self._fits(totals).any(1).all():
            self._add(store, self._frames[-1].frame.totals * GROWTH)
        which = self._fits(totals).int().argmax(1).tolist()
        for number, places in zip(which, padded.to(self.player.device), strict=True):
            yield self._frames[number], places

    def clear(self) -> None:
        """Forget all frames, so that their graphs and their memory are free at once: frames and this object refer to each other."""
        self._frames.clear()

    def _padded(self, store: BagStore, batches: Sequence[Ids]) -> Int[Tensor, "batches graphs"]:
        """The ids of each batch, followed by ids of no graph."""
        padded = torch.full((len(batches), self.batch_size), store.num_graphs, dtype=torch.long)
        for b, ids in enumerate(batches):
            padded[b, : ids.numel()] = ids
        return padded

    def _drawn(self, store: BagStore, ids: Ids) -> Int[Tensor, "batches spaces"]:
        """The sizes of random batches of these graphs, which are the same every time."""
        generator, drawn = torch.Generator().manual_seed(0), list[Ids]()
        while len(drawn) < DRAWN:
            drawn += ids[torch.randperm(ids.numel(), generator=generator)].split(self.batch_size)
        return store.totals(self._padded(store, drawn))

    def _add_for(self, store: BagStore, totals: Int[Tensor, "batches spaces"], several: bool) -> None:
        """Add frames into which batches of these sizes fit: one for all, or the first ones for the smaller batches."""
        for place, share in enumerate(SHARES if several else SHARES[-1:]):
            missing = totals[~self._fits(totals).any(1)]
            if len(missing):
                smaller = missing[missing.sum(1).argsort(stable=True)[: max(1, math.ceil(share * len(missing)))]]
                room = SINGLE_ROOM if not several else MORE_ROOM if place == len(SHARES) - 1 else ROOM
                self._add(store, smaller.amax(0) * room)

    def _add(self, store: BagStore, sizes: Float[Tensor, "spaces"]) -> None:
        """Add a frame of these sizes, which is at least as large as the others, but not larger than any batch can be."""
        sizes = torch.stack([sizes.long() + 1, *(played.frame.totals for played in self._frames)]).amax(0)
        frame = store.frame(self.batch_size, torch.minimum(sizes, store.largest(self.batch_size)))
        self._frames.append(Played(frame, self))

    def _fits(self, totals: Int[Tensor, "batches spaces"]) -> Bool[Tensor, "batches frames"]:
        fits = [played.frame.fits(totals) for played in self._frames]
        return torch.stack(fits, dim=1) if fits else torch.zeros(len(totals), 0, dtype=torch.bool)
