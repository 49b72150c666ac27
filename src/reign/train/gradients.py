"""Gradients of the loss over some batches, computed in parts and by several processes, and undone on errors."""

import math

import torch
from torch import Tensor, nn

from reign.data import GraphPack, Ids, Problem
from reign.train.batches import share
from reign.train.budget import Budget
from reign.train.distributed import total
from reign.train.kept_bags import KeptBags
from reign.train.losses import Loss
from reign.train.processes import Fabric
from reign.train.update import Update


class NonFiniteLoss(ValueError):
    """The loss or its gradient is NaN or infinite."""


class Gradients:
    r"""The gradient of the mean loss of each batch, averaged over batches.

    .. math:: \frac{1}{B} \sum_{b=1}^{B} \nabla \frac{1}{|Y_b|} \sum_{y \in Y_b} \ell(y)

    The inner sum ranges over all labels of a batch, over all its parts and processes.

    Args:
        model: the model whose weights receive the gradients.
        wrapped: the same model, wrapped by the fabric.
        loss: the loss.
        problem: the problem, for the number of labels and for messages.
        graphs: all graphs on the device, with targets as the model learns them.
        budget: how much is computed at a time.
        fabric: devices and processes.
        update: what comes after the gradients.
        weights: how much each label counts, on the device; None for equal weights.
        bags: the bags that are kept between epochs; None to make them again for every batch.
    """

    def __init__(
        self,
        model: nn.Module,
        wrapped: nn.Module,
        loss: Loss,
        problem: Problem,
        graphs: GraphPack,
        budget: Budget,
        fabric: Fabric,
        update: Update,
        weights: Tensor | None = None,
        bags: KeptBags | None = None,
    ) -> None:
        self.model, self.wrapped, self.loss, self.problem = model, wrapped, loss, problem
        self.graphs, self.budget, self.fabric, self.weights = graphs, budget, fabric, weights
        self.update, self.bags = update, bags
        self._buffers = list(model.buffers())  # listing them takes long

    def __call__(self, group: list[Ids], when: str, before: list[Tensor]) -> tuple[float, float]:
        """Compute the gradients for some batches. Return the sum of the loss and the number of labels.

        If memory runs out, the computation is repeated in smaller parts. If the loss or the gradient is not finite, ``NonFiniteLoss`` is
        raised with the batch and its graphs. In both cases the running statistics are restored to ``before``.
        """
        ids = torch.cat(group)
        loss, labels = self.budget.within(lambda: self._compute(group), ids, lambda: self._undo(before))
        slope = self.update.norm()
        if not math.isfinite(loss) or not math.isfinite(slope):
            self._undo(before)
            what = f"loss is {loss}" if not math.isfinite(loss) else f"gradient is {slope}"
            raise NonFiniteLoss(self._complaint(f"the {what} in {when}", ids.tolist()))
        return loss, labels

    def _compute(self, group: list[Ids]) -> tuple[float, float]:
        loss_total, labels_total = 0.0, 0.0
        for b, ids in enumerate(group):
            labels = float((~self.problem.y[ids].isnan()).sum())
            mine = self.budget.equal_parts(share(ids, self.fabric.global_rank, self.fabric.world_size))
            for p, part in enumerate(mine):
                done = b == len(group) - 1 and p == len(mine) - 1
                with self.fabric.no_backward_sync(self.wrapped, enabled=not done):
                    out = self._outputs(part)
                    self._check_shape(out)
                    assert self.graphs.y is not None
                    y = self.graphs.y[part]
                    loss = self.loss.sum(out.to(y.dtype), y, None if self.weights is None else self.weights[part])
                    # DDP takes the mean over processes; the sum is needed
                    self.fabric.backward(loss * (self.fabric.world_size / max(labels, 1.0) / len(group)))
                loss_total += float(total(loss.detach()))
            labels_total += labels
        return loss_total, labels_total

    def _outputs(self, ids: Ids) -> Tensor:
        if self.bags is not None:
            bag = self.bags.training(ids)
            out: Tensor = self.wrapped(*bag.graph.inputs, bag=bag)
        else:
            batch = self.graphs.batch(ids)
            out = self.wrapped(batch.x, batch.edge_index, batch.edge_attr, batch.batch, batch.size)
        return out

    def statistics(self) -> list[Tensor]:
        """A copy of the running statistics of norms."""
        return [buffer.clone() for buffer in self._buffers]

    @torch.no_grad()
    def restore(self, statistics: list[Tensor]) -> None:
        """Restore the running statistics of norms."""
        for buffer, old in zip(self._buffers, statistics, strict=True):
            buffer.copy_(old)

    def _undo(self, statistics: list[Tensor]) -> None:
        self.model.zero_grad()
        self.restore(statistics)
        if self.bags is not None:
            self.bags.drop()  # perhaps their memory is what is missing

    def _check_shape(self, out: Tensor) -> None:
        expected = self.problem.num_outputs * self.loss.outputs
        if out.dim() != 2 or out.size(1) != expected:
            each = f", and the loss needs {self.loss.outputs} outputs for each" if self.loss.outputs > 1 else ""
            raise ValueError(
                f"the output of the model has shape {tuple(out.shape)}, expected {expected} for each graph, because "
                f"{self.problem.name} has {self.problem.num_outputs} targets or classes{each}; make it with out_channels={expected}."
            )

    def _complaint(self, what: str, ids: list[int]) -> str:
        names = ids if self.problem.names is None else [self.problem.names[i] for i in ids]
        shown = ", ".join(map(str, names[:8])) + (", ..." if len(ids) > 8 else "")
        kind = "graphs" if self.problem.names is None else "rows"
        return (
            f"{what} ({len(ids)} {kind} of {self.problem.name}: {shown}). The weights before this batch are kept. Check the features "
            "and targets of these graphs; if they are fine, start a new run with a smaller learning rate "
            "(--set train.optimiser.lr=...) or a bound on gradients (--set train.clip=1)."
        )
