"""The training step, which is the same wherever it runs: the gradients of a batch, a check that they are finite, and the update of the weights.

It runs directly, for batches that are computed in parts and by several processes (``DirectBatch``), or as a CUDA graph (``reign.train.engine.captured``).
Nothing in ``Step`` waits for the device: what becomes of numbers that are not finite is up to the batch.
"""

import math
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from reign.data import GraphPack, Ids, Problem
from reign.train.engine.batches import BagSource, Budget, share
from reign.train.engine.callbacks import Callback
from reign.train.engine.execution import Fabric, total
from reign.train.engine.update import Average, Sharpness, Update
from reign.train.settings.config import TrainingConfig
from reign.train.settings.losses import Loss


class NonFiniteLoss(ValueError):
    """The loss or its gradient is NaN or infinite."""


@runtime_checkable
class Batch(Protocol):
    """What a step learns from."""

    def gradients(self) -> Tensor:
        """Give all weights the gradients of the mean loss. Return the sum of the loss."""

    def judge(self, loss: Tensor, grads: list[Tensor]) -> Tensor | None:
        """Raise an error if the loss or a gradient is not finite, or return a tensor that is 1 if the weights must stay as they are."""


class Step:
    """One training step.

    Args:
        model: the model whose weights are updated.
        update: what becomes of the gradients.
        sharpness: takes the gradients at the worst nearby point; None for those at the weights themselves.
        average: the moving average of the weights; None for none.
    """

    def __init__(
        self, model: nn.Module, update: Update, sharpness: Sharpness | None = None, average: Average | None = None
    ) -> None:
        self.update, self.sharpness, self.average = update, sharpness, average
        self._buffers = list(model.buffers())  # listing them takes long

    def __call__(self, batch: Batch) -> Tensor:
        """Learn from a batch. Return the sum of its loss."""
        loss = batch.gradients()
        if self.sharpness is not None:
            here = self.statistics()
            with self.sharpness.nearby():
                batch.gradients()
            self.restore(here)  # the statistics of norms must belong to the current weights, not to the nearby ones
        grads = self.update.collect()
        self.update(grads, batch.judge(loss, grads))
        if self.average is not None:
            self.average.update()
        return loss

    def statistics(self) -> list[Tensor]:
        """A copy of the running statistics of norms."""
        return [buffer.clone() for buffer in self._buffers]

    def restore(self, statistics: list[Tensor]) -> None:
        """Restore the running statistics of norms."""
        if statistics:
            torch._foreach_copy_(self._buffers, statistics)


def draw_targets(y: Tensor, share: float, generator: torch.Generator | None = None) -> Tensor:
    """Labels of which only those of a random share of the targets are kept, but at least one; the others become NaN."""
    if share >= 1:
        return y
    drawn = torch.rand(y.size(1), generator=generator, device=y.device)
    kept = (drawn < share) | (drawn == drawn.min())
    return torch.where(kept, y, torch.full_like(y, torch.nan))


def take_gradients(loss: Tensor, labels: Tensor, weights: list[nn.Parameter]) -> Tensor:
    """Give weights the gradients of a mean loss that is computed at once, on one device. Return the sum of the loss.

    Args:
        loss: the sum of the loss.
        labels: the number of labels.
        weights: the weights; those that are not trained get no gradient.
    """
    trained = [weight for weight in weights if weight.requires_grad]
    grads = torch.autograd.grad(loss / labels.clamp(min=1), trained, allow_unused=True)  # no copies, unlike backward()
    for weight, grad in zip(trained, grads, strict=True):
        weight.grad = grad
    return loss.detach()


def not_finite(loss: Tensor, grads: list[Tensor]) -> str | None:
    """What is not finite, the loss or the gradient; None if both are. This waits for the device."""
    value, slope = float(loss), float(get_total_norm(grads))
    if math.isfinite(value) and math.isfinite(slope):
        return None
    return f"loss is {value}" if not math.isfinite(value) else f"gradient is {slope}"


class Learner:
    """What batches read of a training; ``reign.train.engine.engine.Engine`` sets it."""

    model: nn.Module
    wrapped: Any  # the model, wrapped by the fabric
    problem: Problem
    config: TrainingConfig
    fabric: Fabric
    callback: Callback
    loss: Loss
    graphs: GraphPack  # on the device, with targets as the model learns them
    label_weights: Tensor | None  # on the device; None for equal weights
    budget: Budget
    bags: BagSource
    step: Step
    captured_step: Step  # its optimiser is prepared for capture


class DirectBatch:
    r"""Some batches that are learned from in one step: the gradient of the mean loss of each batch, averaged over batches.

    .. math:: \frac{1}{B} \sum_{b=1}^{B} \nabla \frac{1}{|Y_b|} \sum_{y \in Y_b} \ell(y)

    The inner sum ranges over all labels of a batch, over all its parts and processes.

    Args:
        of: the training.
        group: the graphs of each batch.
        when: the epoch and the batch, for messages.
        seed: determines which targets are drawn.
    """

    def __init__(self, of: Learner, group: list[Ids], when: str, seed: int) -> None:
        self.of, self.group, self.when, self.seed = of, group, when, seed
        self.labels = 0.0
        self._before = of.step.statistics()
        of.step.update.forget()

    def gradients(self) -> Tensor:
        """Compute the gradients. If memory runs out, the computation is undone and repeated in smaller parts."""
        loss, self.labels = self.of.budget.within(self._compute, torch.cat(self.group), self._undo)
        return torch.tensor(loss, dtype=torch.float64)

    def judge(self, loss: Tensor, grads: list[Tensor]) -> None:
        """If the loss or the gradient is not finite, undo all and raise ``NonFiniteLoss`` with the batch and its graphs."""
        if (what := not_finite(loss, grads)) is not None:
            self._undo()
            raise NonFiniteLoss(self._complaint(f"the {what} in {self.when}", torch.cat(self.group).tolist()))

    def _compute(self) -> tuple[float, float]:
        of, loss_total, labels_total = self.of, 0.0, 0.0
        assert of.graphs.y is not None
        for b, ids in enumerate(self.group):
            labels = float((~self._drawn(of.problem.y[ids]).isnan()).sum())
            mine = of.budget.equal_parts(share(ids, of.fabric.global_rank, of.fabric.world_size))
            for p, part in enumerate(mine):
                done = b == len(self.group) - 1 and p == len(mine) - 1
                with of.fabric.no_backward_sync(of.wrapped, enabled=not done):
                    out = of.bags.learn(of.wrapped, part)
                    self._check_shape(out)
                    y = self._drawn(of.graphs.y[part])
                    loss = of.loss.sum(out.to(y.dtype), y, None if of.label_weights is None else of.label_weights[part])
                    # DDP takes the mean over processes; the sum is needed
                    of.fabric.backward(loss * (of.fabric.world_size / max(labels, 1.0) / len(self.group)))
                loss_total += float(total(loss.detach()))
            labels_total += labels
        return loss_total, labels_total

    def _drawn(self, y: Tensor) -> Tensor:
        """The labels to learn from. All parts and processes draw the same targets, so each draw starts from the seed of the step."""
        if self.of.config.target_share >= 1:
            return y
        return draw_targets(y.cpu(), self.of.config.target_share, torch.Generator().manual_seed(self.seed)).to(y.device)

    def _undo(self) -> None:
        self.of.step.update.forget()
        self.of.step.restore(self._before)
        self.of.bags.drop()  # perhaps their memory is what is missing

    def _check_shape(self, out: Tensor) -> None:
        expected = self.of.problem.num_outputs * self.of.loss.outputs
        if out.dim() != 2 or out.size(1) != expected:
            each = f", and the loss needs {self.of.loss.outputs} outputs for each" if self.of.loss.outputs > 1 else ""
            raise ValueError(
                f"the output of the model has shape {tuple(out.shape)}, expected {expected} for each graph, because "
                f"{self.of.problem.name} has {self.of.problem.num_outputs} targets or classes{each}; make it with out_channels={expected}."
            )

    def _complaint(self, what: str, ids: list[int]) -> str:
        names = ids if self.of.problem.names is None else [self.of.problem.names[i] for i in ids]
        shown = ", ".join(map(str, names[:8])) + (", ..." if len(ids) > 8 else "")
        kind = "graphs" if self.of.problem.names is None else "rows"
        return (
            f"{what} ({len(ids)} {kind} of {self.of.problem.name}: {shown}). The weights before this batch are kept. Check the features "
            "and targets of these graphs; if they are fine, start a new run with a smaller learning rate "
            "(--set train.optimiser.lr=...), a bound on gradients (--set train.clip=1) or, on a GPU, products in full float32 "
            "(--set train.precision=32-ieee)."
        )
