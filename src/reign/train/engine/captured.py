"""The data set stays on the device, and a step is one CUDA graph: assembly of the batch, forward, loss, backward, clipping, optimiser.

Bags and index maps of all graphs are made once (``BagStore``). A batch is written into a ``Frame`` of fixed sizes, so that the same work can
be captured once and replayed for every batch. There are a few frames, for smaller and larger batches. Padding is excluded from norms and has no
labels, so it affects only rounding.
"""

import gc
import math
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reign.bags import BagStore, Frame, SubgraphBag, all_real
from reign.data import Ids
from reign.kernels import compile_ahead
from reign.nn import Model
from reign.train.engine.batches import bag_of, parts
from reign.train.engine.execution import gpu_generator, number_format
from reign.train.engine.sharing import hand_over, wait_for
from reign.train.engine.step import Learner, draw_targets, take_gradients
from reign.train.settings.optim import make_capturable

# -- Batches of a few fixed sizes, and for each of them a CUDA graph of the work on it ---------------------------------
# The first batches of a frame run directly. What they need is then compiled and allocated, and the work can be captured; all later batches are replays.
# So nothing is computed only to warm up, and a frame that is used once is never captured.


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
class CapturedStep:
    """The work on a frame: run directly at first, then captured, then replayed. On other devices than a GPU it always runs directly."""

    frame: Frame
    frames: "Frames"
    out: Tensor | None = None
    runs: int = 0
    graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, ids: Int[Tensor, "graphs"]) -> None:
        """Do the work for these graphs, one id for each place of the frame. An id that is not a graph leaves its place empty."""
        self.frame.ids.copy_(ids)
        self.frames.runner.play(self)

    def work(self) -> None:
        """Do the work now, for the graphs that the frame has."""
        self.frames.work(self)


class StepRunner:
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

    def play(self, captured: CapturedStep) -> None:
        """Do some work for the graphs that its frame has."""
        if captured.graph is None:
            with number_format(self.device, self.precision), warnings.catch_warnings():
                warnings.filterwarnings("ignore", "The AccumulateGrad node's stream")  # gradients are not accumulated here
                if self.stream is None:
                    captured.work()
                elif captured.runs < self.runs:
                    self._run(captured, self.stream)
                else:
                    captured.graph = self._captured(captured, self.stream)
                    self.runs = RUNS
        if captured.graph is not None:
            captured.graph.replay()

    def _run(self, captured: CapturedStep, stream: torch.cuda.Stream) -> None:
        """Do the work directly, on the stream on which it will be captured. Before that, all its kernels are compiled at once, if they are new."""
        if captured.frames.key not in _COMPILED:
            with captured.frames.undone(), compile_ahead(self.device):
                captured.work()
            _COMPILED.add(captured.frames.key)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        try:
            with torch.cuda.stream(stream):
                captured.work()
        finally:  # after an error, what is restored must not be changed by work that is still running
            torch.cuda.current_stream(self.device).wait_stream(stream)
        captured.runs += 1

    def _captured(self, captured: CapturedStep, stream: torch.cuda.Stream) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize(self.device)
        torch.cuda.empty_cache()  # a graph has its own memory
        generator = gpu_generator(self.device)
        copy = generator.clone_state()
        with _no_garbage_collection(), torch.cuda.stream(stream):
            graph.capture_begin(pool=self.pool, capture_error_mode="thread_local")  # other threads may wait for the device
            try:
                captured.work()
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
        runner: does the work.
        work: the work on a frame.
        undone: a function that returns a context, at the end of which all changes that the work made are undone.
        key: identifies the kernels of the work.
        batch_size: number of graphs in a batch.
    """

    def __init__(
        self,
        runner: StepRunner,
        work: Callable[[CapturedStep], None],
        undone: Callable[[], AbstractContextManager[Any]],
        key: Hashable,
        batch_size: int,
    ) -> None:
        self.runner, self.work, self.undone, self.key, self.batch_size = runner, work, undone, key, batch_size
        self._frames: list[CapturedStep] = []

    def batches(self, store: BagStore, batches: list[Ids]) -> Iterator[tuple[CapturedStep, Int[Tensor, "graphs"]]]:
        """Every batch as the work on a frame that it fits into, and its ids on the device, padded to the number of places of the frame."""
        padded = self._padded(store, batches)
        totals = store.totals(padded)
        if not self._frames and batches:
            self._add_for(store, self._drawn(store, torch.cat(batches).unique()), len(batches) >= FEW)
        while not self._fits(totals).any(1).all():
            self._add(store, self._frames[-1].frame.totals * GROWTH)
        which = self._fits(totals).int().argmax(1).tolist()
        for number, places in zip(which, padded.to(self.runner.device), strict=True):
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
        sizes = torch.stack([sizes.long() + 1, *(captured.frame.totals for captured in self._frames)]).amax(0)
        frame = store.frame(self.batch_size, torch.minimum(sizes, store.largest(self.batch_size)))
        self._frames.append(CapturedStep(frame, self))

    def _fits(self, totals: Int[Tensor, "batches spaces"]) -> Bool[Tensor, "batches frames"]:
        fits = [captured.frame.fits(totals) for captured in self._frames]
        return torch.stack(fits, dim=1) if fits else torch.zeros(len(totals), 0, dtype=torch.bool)


# -- The data set stays on the device, and a step is one CUDA graph: assembly of the batch, forward, loss, backward, clipping, optimiser


STORES: WeakValueDictionary[Any, BagStore] = WeakValueDictionary()  # bags that several runs share
CHUNK = 1_000_000  # number of pairs whose index maps are made at a time


class CapturedEngine:
    """Training and prediction of one model on one device. Runs with the same graphs share their bags, also if they have other targets.

    Args:
        of: the training.
    """

    def __init__(self, of: Learner) -> None:
        assert isinstance(of.model, Model)
        assert of.graphs.y is not None
        self.of, self.model, self.graphs, self.precision = of, of.model, of.graphs, of.config.precision
        self.device = self.graphs.x.device
        nothing = torch.full_like(of.graphs.y[:1], torch.nan)
        self._targets, own = torch.cat([of.graphs.y, nothing]), of.label_weights
        self._weights = None if own is None else torch.cat([own, torch.zeros_like(own[:1])])
        self._frames: dict[str, Frames] = {}
        self._parameters, self._buffers = list(self.model.parameters()), list(self.model.buffers())  # listing them takes long
        self._store: BagStore | None = None
        config = getattr(self.model, "_config", None)
        known = repr(config) if config else object()  # an object equals no other
        self._architecture = (type(self.model), known, self.precision, self.device)
        self._runner = StepRunner(self.device, self.precision)
        self._loss, self._labels = (torch.zeros((), dtype=torch.float64, device=self.device) for _ in range(2))
        self._skip, self._skipped, self._one = (torch.full((), value, device=self.device) for value in (0.0, 0.0, 1.0))

    # -- learning --------------------------------------------------------------------------------------------------

    def train_epoch(self, batches: list[Ids], after_step: Callable[[int], None]) -> tuple[float, float, int | None]:
        """Learn from some batches. Return the sum of the loss, the number of labels, and the index of the first non-finite batch.

        If there is such a batch, the model and the optimiser are restored to their state before the epoch.

        Args:
            batches: ids of graphs.
            after_step: function that is called after each step with its index.
        """
        make_capturable(self.of.captured_step.update.optimiser, self.device)

        def work(captured: CapturedStep) -> None:
            self._learn(captured.frame)

        with self._unchanged() as keep:
            for s, (captured, ids) in enumerate(self._batches("train", batches, work, self._unchanged)):
                if s == 0:
                    self._loss.zero_(), self._labels.zero_(), self._skip.zero_(), self._skipped.zero_()
                captured(ids)
                after_step(s)
                hand_over()
            wait_for(self.device)
            found = float(self._loss), float(self._labels)
            skipped = int(self._skipped)
            if not skipped:
                keep()
        return *found, len(batches) - skipped if skipped else None

    def _learn(self, frame: Frame) -> None:
        """One step."""
        batch = FramedBatch(self, frame)
        loss = self.of.captured_step(batch)
        self._loss += loss
        self._labels += batch.labels

    def release(self) -> None:
        """Give every weight memory of its own again, and forget all work that was captured."""
        for frames in self._frames.values():
            frames.clear()
        self._frames, self._runner = {}, StepRunner(self.device, self.precision)
        for weight in self._parameters:
            weight.grad = None  # it may be in the memory of a graph
        self.of.captured_step.update.release()

    # -- predicting ------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def predict(self, ids: Ids, after_batch: Callable[[int, int], None]) -> Float[Tensor, "graphs outputs"]:
        """The outputs for some graphs in evaluation mode, on the device."""

        def work(captured: CapturedStep) -> None:
            captured.frame.fill()
            out = self.model.predict(captured.frame.bag.graph.x, captured.frame.bag)[:-1]
            if captured.out is None:
                captured.out = torch.empty_like(out)
            captured.out.copy_(out)

        rows: list[Tensor] = []
        chunks = list(ids.split(self.of.config.batch_size))
        for c, (captured, places) in enumerate(self._batches("predict", chunks, work, nullcontext)):
            captured(places)
            assert captured.out is not None
            rows.append(captured.out[: chunks[c].numel()].clone())
            after_batch(c + 1, len(chunks))
            hand_over()
        wait_for(self.device)
        return torch.cat(rows)

    # -- frames ----------------------------------------------------------------------------------------------------

    def _batches(
        self, kind: str, batches: list[Ids], work: Callable[[CapturedStep], None], undone: Callable[[], AbstractContextManager[Any]]
    ) -> Iterator[tuple[CapturedStep, Int[Tensor, "graphs"]]]:
        """Every batch as work on a frame, and its ids on the device."""
        store = self.store
        if kind not in self._frames:
            key = kind, self._architecture, sum(weight.requires_grad for weight in self._parameters)
            self._frames[kind] = Frames(self._runner, work, undone, key, self.of.config.batch_size)
        return self._frames[kind].batches(store, batches)

    @contextmanager
    def _unchanged(self) -> Iterator[Callable[[], None]]:
        """Undo all changes of weights, norms, optimiser, sums and random numbers in this context, unless the yielded function is called."""
        before = self._state()
        copies = {name: torch.empty_like(tensor) for name, tensor in before.items()}
        for dtype in {tensor.dtype for tensor in before.values()}:  # one operation for all tensors of a type
            same = [name for name, tensor in before.items() if tensor.dtype == dtype]
            torch._foreach_copy_([copies[name] for name in same], [before[name] for name in same])
        random = torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else torch.get_rng_state()
        kept: list[bool] = []
        try:
            yield lambda: kept.append(True)
        finally:
            if not kept:
                for name, tensor in self._state().items():
                    if name in copies:
                        tensor.copy_(copies[name])
                    else:
                        tensor.zero_()  # the optimiser created this state within the context
                if self.device.type == "cuda":
                    torch.cuda.set_rng_state(random, self.device)
                else:
                    torch.set_rng_state(random)

    def _state(self) -> dict[Any, Tensor]:
        """Everything that a step changes. Weights and moments can move to another place, but keep their names here."""
        found: dict[Any, Tensor] = dict(
            enumerate([*self._parameters, *self._buffers, self._loss, self._labels, self._skip, self._skipped])
        )
        for weight, state in self.of.captured_step.update.optimiser.state.items():
            found |= {(weight, name): value for name, value in state.items() if isinstance(value, Tensor)}
        if (average := self.of.captured_step.average) is not None:
            found |= {("average", n): value for n, value in enumerate(average.tensors())}
        return {name: tensor.detach() for name, tensor in found.items()}

    @property
    def store(self) -> BagStore:
        """The bags of all graphs, made on first use."""
        if self._store is None:
            key = (*self.of.problem.graphs.places(), *self._architecture)
            self._store = STORES[key] = STORES.get(key) or BagStore(self._bags())
        return self._store

    def _bags(self) -> Iterator[SubgraphBag]:
        modes = {module: module.training for module in self.model.modules()}
        self.model.eval()
        pairs = self.of.budget.pairs
        chunks = parts(torch.arange(pairs.numel()), pairs.cpu(), CHUNK)
        for ids in self.of.callback.track([ids for ids in chunks if ids.numel()], "making the subgraphs of all graphs, chunk"):
            yield self._prepared(ids)
        for module, mode in modes.items():
            module.training = mode

    def _prepared(self, ids: Ids) -> SubgraphBag:
        """The bag of some graphs, with all index maps that the model needs."""
        bag = all_real(bag_of(self.model, self.graphs, ids))
        with torch.no_grad(), number_format(self.device, self.precision), compile_ahead(self.device, wait=False):
            self.model.predict(bag.graph.x, bag)  # this builds the index maps; the output is not used
        assert bag.wiring.to_node is not None  # needed for gradients with respect to nodes
        return bag


class FramedBatch:
    """The batch that a frame holds.

    Args:
        of: the model, the targets and the loss.
        frame: the frame, whose ids have been written.
    """

    def __init__(self, of: CapturedEngine, frame: Frame) -> None:
        frame.fill()
        self.of, self.frame = of, frame
        self.y = draw_targets(of._targets.index_select(0, frame.ids), of.of.config.target_share)
        self.labels = (~self.y.isnan()).sum()

    def gradients(self) -> Tensor:
        """Compute the gradients."""
        of = self.of
        out = of.model.predict(self.frame.bag.graph.x, self.frame.bag)[:-1]
        counts = None if of._weights is None else of._weights.index_select(0, self.frame.ids)
        return take_gradients(of.of.loss.sum(out.to(self.y.dtype), self.y, counts), self.labels, of._parameters)

    def judge(self, loss: Tensor, grads: list[Tensor]) -> Tensor:
        """Count the steps from the first one on whose loss or gradient is not finite. They do not change the weights. This does not wait for the device."""
        of = self.of
        torch._amp_foreach_non_finite_check_and_unscale_([*grads, loss.clone()], of._skip, of._one)  # sets it to 1, never to 0
        of._skipped += of._skip
        return of._skip
