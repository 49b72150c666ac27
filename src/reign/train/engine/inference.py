"""Inference: the outputs of a model for some graphs. Training, ``evaluate`` and ``predict`` all use this code."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from reign.data import GraphPack, Ids
from reign.train.engine.batches import BagSource, Budget, GraphTooLarge
from reign.train.engine.callbacks import Callback
from reign.train.engine.execution import Execution, number_format, total, width
from reign.train.runs.scaler import Scale


@dataclass(frozen=True, eq=False)
class Inference:
    """A model and graphs to predict for. It returns outputs in the units of the targets, computed in batches within a budget.

    Args:
        model: called as ``model(x, edge_index, edge_attr, batch, batch_size)``.
        graphs: all graphs, on the device of the model and in its number format.
        num_outputs: number of outputs for each graph.
        scale: converts the outputs of the model to the units of the targets.
        budget: how much is computed at a time.
        batch_size: number of graphs in a batch.
        precision: as in ``TrainingConfig``.
        callback: receives an event after every batch.
        resident: function that returns the outputs for some graphs if the data set is on the device, and None otherwise.
        rank, world: the rank of this process and the number of processes, which share the graphs; one process if not given.
        failed: dictionary that receives the graphs that are too large for the memory, with the reasons; their outputs are NaN. Without
            it, such graphs raise an error.
        dropped: seed of the dropout, which is then applied as in training; None for no dropout.
        bags: where the bags of the batches come from; None to make them anew for every batch.
    """

    model: nn.Module
    graphs: GraphPack
    num_outputs: int
    scale: Scale
    budget: Budget
    batch_size: int
    precision: str
    callback: Callback
    rank: int = 0
    world: int = 1
    resident: Callable[[Ids, Callable[[int, int], None]], Tensor | None] = lambda ids, after_batch: None
    failed: dict[int, str] | None = None
    dropped: int | None = None
    bags: BagSource | None = None

    @torch.no_grad()
    def __call__(self, ids: Ids, label: str) -> Float[Tensor, "graphs outputs"]:
        """The outputs for the graphs with these ids (logits for classes), on the CPU in float64. ``label`` is passed to the callback."""
        self.model.eval()
        if self.dropped is None:
            return self._all(ids, label)
        drops = [module for module in self.model.modules() if isinstance(module, nn.Dropout)]
        with torch.random.fork_rng():
            torch.manual_seed(self.dropped)
            for module in drops:
                module.train()
            try:
                return self._all(ids, label)
            finally:
                for module in drops:
                    module.eval()

    def _all(self, ids: Ids, label: str) -> Float[Tensor, "graphs outputs"]:
        device = self.graphs.x.device
        whole = self.resident(ids, lambda done, number: self.callback.batch(label, done, number)) if ids.numel() else None
        if whole is not None:
            return self.scale.up(whole.double().cpu())
        mine = torch.arange(self.rank, ids.numel(), self.world)
        out = torch.zeros(ids.numel(), self.num_outputs, dtype=torch.float64, device=device)
        batches = mine.split(self.batch_size) if mine.numel() else ()
        with Execution(device, self.precision).threads(self.model):
            for b, places in enumerate(batches):
                out[places.to(device)] = self._outputs(ids[places]).double()
                self.callback.batch(label, b + 1, len(batches))
        return self.scale.up((total(out) if self.world > 1 else out).cpu())

    def _outputs(self, ids: Ids) -> Float[Tensor, "graphs outputs"]:
        """The outputs of a batch; NaN for graphs that do not fit into memory, if ``failed`` is given."""
        out = torch.full((ids.numel(), self.num_outputs), torch.nan, dtype=torch.float64, device=self.graphs.x.device)
        left = torch.arange(ids.numel())
        while left.numel():
            try:
                self.budget.check_alone(ids[left])
                out[left.to(out.device)] = self.budget.within(partial(self._batch, ids[left]), ids[left]).double()
                break
            except GraphTooLarge as error:
                if self.failed is None:
                    raise
                self.failed[error.graph] = error.reason
                left = left[ids[left] != error.graph]
        return out

    def _batch(self, ids: Ids) -> Float[Tensor, "graphs outputs"]:
        found = []
        for part in self.budget.parts(ids):
            with number_format(self.graphs.x.device, self.precision, self.budget.together(part), width(self.model)):
                found.append((self.bags or BagSource(self.graphs)).predict(self.model, part))
        return torch.cat(found)
