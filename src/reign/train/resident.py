"""The data set stays on the device, and a step is one CUDA graph: assembly of the batch, forward, loss, backward, clipping, optimiser.

Bags and index maps of all graphs are made once (``BagStore``). A batch is written into a ``Frame`` of fixed sizes, so that the same work can
be captured once and replayed for every batch. There are a few frames, for smaller and larger batches. Padding is excluded from norms and has no
labels, so it affects only rounding.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reign.bags import BagStore, Frame, SubgraphBag, all_real
from reign.data import GraphPack, Ids
from reign.kernels import compile_ahead
from reign.nn import Model
from reign.train.average import Average
from reign.train.batches import bag_of, parts
from reign.train.callbacks import Callback
from reign.train.capturable import make_capturable
from reign.train.flat import FlatAdam
from reign.train.formats import number_format
from reign.train.frames import Frames, Played, Player
from reign.train.losses import Loss
from reign.train.sharpness import Sharpness
from reign.train.turns import hand_over, wait_for

if TYPE_CHECKING:
    from reign.train.learner import Learner

STORES: WeakValueDictionary[Any, BagStore] = WeakValueDictionary()  # bags that several runs share
CHUNK = 1_000_000  # number of pairs whose index maps are made at a time


@dataclass(eq=False)
class Resident:
    """Training and prediction of one model on one device.

    Args:
        model: the model.
        graphs: all graphs, on the device, with targets as the model learns them.
        loss: the loss.
        batch_size: number of graphs in a batch.
        precision: as in ``TrainingConfig``.
        pairs: number of pairs of each graph, used to make the bags in chunks.
        origin: the pack that the graphs were made from; runs with the same graphs share their bags, also if they have other targets. None to share nothing.
        weights: the weight of each label, on the device; None for equal weights.
        average: the moving average of the weights; None for none.
        callback: receives progress events while the bags are made.
    """

    model: Model
    graphs: GraphPack
    loss: Loss
    batch_size: int
    precision: str
    pairs: Int[Tensor, "graphs"]
    origin: GraphPack | None = None
    weights: Float[Tensor, "graphs targets"] | None = None
    average: Average | None = None
    callback: Callback = field(default_factory=Callback)
    _frames: dict[str, Frames] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.device = self.graphs.x.device
        assert self.graphs.y is not None
        nothing = torch.full_like(self.graphs.y[:1], torch.nan)
        self._targets = torch.cat([self.graphs.y, nothing])
        self._weights = None if self.weights is None else torch.cat([self.weights, torch.zeros_like(self.weights[:1])])
        self._parameters, self._buffers = list(self.model.parameters()), list(self.model.buffers())  # listing them takes long
        self._store: BagStore | None = None
        self._flat: FlatAdam | None = None
        config = getattr(self.model, "_config", None)
        known = repr(config) if config else object()  # an object equals no other
        self._architecture = (type(self.model), known, self.precision, self.device)
        self._player = Player(self.device, self.precision)
        self._loss, self._labels = (torch.zeros((), dtype=torch.float64, device=self.device) for _ in range(2))
        self._step, self._bad = (torch.full((), -1, dtype=torch.long, device=self.device) for _ in range(2))
        self._skip, self._one = torch.zeros((), device=self.device), torch.ones((), device=self.device)

    # -- learning --------------------------------------------------------------------------------------------------

    def train_epoch(
        self,
        batches: list[Ids],
        optimiser: torch.optim.Optimizer,
        sharpness: Sharpness | None,
        clip: float,
        after_step: Callable[[int], None],
    ) -> tuple[float, float, int | None]:
        """Learn from some batches. Return the sum of the loss, the number of labels, and the index of the first non-finite batch.

        If there is such a batch, the model and the optimiser are restored to their state before the epoch.

        Args:
            batches: ids of graphs.
            optimiser: the optimiser; it is prepared for capture.
            sharpness: sharpness-aware gradients, or None.
            clip: largest norm of the gradient; 0 for no clipping.
            after_step: function that is called after each step with its index.
        """
        make_capturable(optimiser, self.device)

        def work(played: Played) -> None:
            self._learn(played.frame, optimiser, sharpness, clip)

        with self._unchanged(optimiser) as keep:
            for s, (played, ids) in enumerate(self._batches("train", batches, work, partial(self._unchanged, optimiser))):
                if s == 0:
                    self._loss.zero_(), self._labels.zero_(), self._step.fill_(-1), self._bad.fill_(-1)
                played(ids)
                after_step(s)
                hand_over()
            wait_for(self.device)
            found = float(self._loss), float(self._labels)
            bad = int(self._bad)
            if bad < 0:
                keep()
        return *found, None if bad < 0 else bad

    def _learn(self, frame: Frame, optimiser: torch.optim.Optimizer, sharpness: Sharpness | None, clip: float) -> None:
        """One step."""
        frame.fill()
        y = self._targets.index_select(0, frame.ids)
        labels = (~y.isnan()).sum()
        loss = self._gradients(frame, y, labels)
        if sharpness is not None:
            here = [buffer.clone() for buffer in self._buffers]
            with sharpness.nearby():
                self._gradients(frame, y, labels)
            torch._foreach_copy_(
                self._buffers, here
            )  # the statistics of norms must belong to the current weights, not to the nearby ones
        flat = self._flat_weights(optimiser)
        grads = [p.grad for p in self._parameters if p.grad is not None] if flat is None else flat.collect()
        self._skip.copy_(~loss.isfinite())
        torch._amp_foreach_non_finite_check_and_unscale_(grads, self._skip, self._one)  # 1 if a gradient is not finite
        self._step += 1
        torch.where((self._bad < 0) & (self._skip > 0), self._step, self._bad, out=self._bad)
        self._skip.copy_(self._bad >= 0)
        if clip:
            norm = torch.nn.utils.get_total_norm(grads)
            torch._foreach_mul_(grads, (clip / (norm + 1e-6)).clamp(max=1.0))
        if flat is None:
            optimiser.found_inf = self._skip  # type: ignore[attr-defined]  # a fused optimiser skips the update if it is 1
            optimiser.step()
        else:
            flat.step(self._skip)
        if self.average is not None:
            self.average.update()
        self._loss += loss
        self._labels += labels

    def _flat_weights(self, optimiser: torch.optim.Optimizer) -> FlatAdam | None:
        """All weights that have gradients as one tensor, if ``FlatAdam`` supports the optimiser; otherwise None."""
        if self._flat is None and self.device.type == "cuda" and FlatAdam.takes(optimiser):
            self._flat = FlatAdam(optimiser, [p for p in self._parameters if p.grad is not None])
        return self._flat

    def release(self) -> None:
        """Give every weight memory of its own again, and forget all work that was captured."""
        for frames in self._frames.values():
            frames.clear()
        self._frames, self._player = {}, Player(self.device, self.precision)
        for weight in self._parameters:
            weight.grad = None  # it may be in the memory of a graph
        if self._flat is not None:
            self._flat.release()
            self._flat = None

    def _gradients(self, frame: Frame, y: Float[Tensor, "graphs targets"], labels: Tensor) -> Tensor:
        """Compute the gradients of the mean loss. Return the sum of the loss."""
        out = self.model.predict(frame.bag.graph.x, frame.bag)[:-1]
        counts = None if self._weights is None else self._weights.index_select(0, frame.ids)
        loss = self.loss.sum(out.to(y.dtype), y, counts)
        weights = [p for p in self._parameters if p.requires_grad]
        grads = torch.autograd.grad(loss / labels.clamp(min=1), weights, allow_unused=True)  # no copies, unlike backward()
        for weight, grad in zip(weights, grads, strict=True):
            weight.grad = grad
        return loss.detach()

    # -- predicting ------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def predict(self, ids: Ids, after_batch: Callable[[int, int], None]) -> Float[Tensor, "graphs outputs"]:
        """The outputs for some graphs in evaluation mode, on the device."""

        def work(played: Played) -> None:
            played.frame.fill()
            out = self.model.predict(played.frame.bag.graph.x, played.frame.bag)[:-1]
            if played.out is None:
                played.out = torch.empty_like(out)
            played.out.copy_(out)

        rows: list[Tensor] = []
        chunks = list(ids.split(self.batch_size))
        for c, (played, places) in enumerate(self._batches("predict", chunks, work, nullcontext)):
            played(places)
            assert played.out is not None
            rows.append(played.out[: chunks[c].numel()].clone())
            after_batch(c + 1, len(chunks))
            hand_over()
        wait_for(self.device)
        return torch.cat(rows)

    # -- frames ----------------------------------------------------------------------------------------------------

    def _batches(
        self, kind: str, batches: list[Ids], work: Callable[[Played], None], undone: Callable[[], AbstractContextManager[Any]]
    ) -> Iterator[tuple[Played, Int[Tensor, "graphs"]]]:
        """Every batch as work on a frame, and its ids on the device."""
        store = self.store
        if kind not in self._frames:
            self._frames[kind] = Frames(self._player, work, undone, (kind, self._architecture), self.batch_size)
        return self._frames[kind].batches(store, batches)

    @contextmanager
    def _unchanged(self, optimiser: torch.optim.Optimizer) -> Iterator[Callable[[], None]]:
        """Undo all changes of weights, norms, optimiser, sums and random numbers in this context, unless the yielded function is called."""
        before = self._state(optimiser)
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
                for name, tensor in self._state(optimiser).items():
                    if name in copies:
                        tensor.copy_(copies[name])
                    else:
                        tensor.zero_()  # the optimiser created this state within the context
                if self.device.type == "cuda":
                    torch.cuda.set_rng_state(random, self.device)
                else:
                    torch.set_rng_state(random)

    def _state(self, optimiser: torch.optim.Optimizer) -> dict[Any, Tensor]:
        """Everything that a step changes. Weights and moments can move to another place, but keep their names here."""
        found: dict[Any, Tensor] = dict(
            enumerate([*self._parameters, *self._buffers, self._loss, self._labels, self._step, self._bad])
        )
        for weight, state in optimiser.state.items():
            found |= {(weight, name): value for name, value in state.items() if isinstance(value, Tensor)}
        if self.average is not None:
            found |= {("average", n): value for n, value in enumerate(self.average.tensors())}
        return {name: tensor.detach() for name, tensor in found.items()}

    @property
    def store(self) -> BagStore:
        """The bags of all graphs, made on first use."""
        if self._store is None:
            key = None if self.origin is None else (*self.origin.places(), *self._architecture)
            self._store = STORES.get(key) or BagStore(self._bags())
            if key is not None:
                STORES[key] = self._store
        return self._store

    def _bags(self) -> Iterator[SubgraphBag]:
        modes = {module: module.training for module in self.model.modules()}
        self.model.eval()
        chunks = parts(torch.arange(self.pairs.numel()), self.pairs.cpu(), CHUNK)
        for ids in self.callback.track([ids for ids in chunks if ids.numel()], "making the subgraphs of all graphs, chunk"):
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


def why_not_resident(learner: "Learner") -> str | None:
    """The reason why training cannot keep the data set on the device; None if it can."""
    config, model, fabric = learner.config, learner.model, learner.fabric
    if fabric.device.type != "cuda":
        return "the device is not a GPU"
    if config.eager:
        return "train.eager is set"
    if not isinstance(model, Model) or model.task_level != "graph":
        return "the model is not a graph-level model of reign.nn"
    if fabric.world_size > 1:
        return "several processes share the batches"
    if config.accumulate > 1:
        return "gradients of several batches are accumulated"
    if config.precision == "64-true":
        return "the precision is float64"
    if model.policy.random:
        return f"policy '{model.policy}' draws new subgraphs at each step"
    order = learner.problem.splits["train"]
    largest = int(learner.budget.pairs[order].topk(min(config.batch_size, order.numel())).values.sum())
    if largest > learner.budget.bound:
        return f"a batch can have {largest:,} pairs, but there is memory for only {learner.budget.bound:,}"
    return None
