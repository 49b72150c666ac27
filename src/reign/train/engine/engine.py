"""The state of a model in training: it runs epochs, evaluates the model, and can be saved and loaded."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from reign.data import GraphPack, Ids, Problem
from reign.disk import write_tensors
from reign.kernels import fast_path
from reign.nn import Model
from reign.train.engine import batches
from reign.train.engine.batches import Budget, KeptBags, share, why_not_kept
from reign.train.engine.callbacks import Callback
from reign.train.engine.captured import Resident, why_not_resident
from reign.train.engine.execution import (
    Fabric,
    dtype_of,
    epoch_seed,
    number_format,
    precision_of,
    seed_model,
    synchronise,
    threads_of,
    total,
)
from reign.train.engine.inference import Inference
from reign.train.engine.sharing import hand_over
from reign.train.engine.update import Average, Sharpness, Update
from reign.train.runs.build import hold_encoder
from reign.train.runs.scaler import Scale
from reign.train.settings.config import TrainingConfig
from reign.train.settings.losses import LOSSES, Loss, choose, label_weights
from reign.train.settings.metrics import METRICS, measure_all
from reign.train.settings.optim import make_fused, make_plain, portable

# -- Gradients of the loss over some batches, computed in parts and by several processes, and undone on errors ---------


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


# -- The state of a model in training: it runs epochs, evaluates the model, and can be saved and loaded ----------------


class Learner:
    """A model, its optimiser, and the graphs it learns from.

    Args:
        model: called as ``model(x, edge_index, edge_attr, batch, batch_size)``.
        problem: the graphs, targets and splits.
        config: the settings of the training.
        seed: determines the order of the graphs, dropout and sampled subgraphs.
        fabric: devices and processes.
        callback: receives an event after every batch.
    """

    def __init__(
        self, model: nn.Module, problem: Problem, config: TrainingConfig, seed: int, fabric: Fabric, callback: Callback
    ) -> None:
        if "train" not in problem.splits or problem.splits["train"].numel() == 0:
            raise ValueError(f"{problem.name} has no training graphs.")
        if (config.precision == "bf16-mixed") != (precision_of(fabric) == "bf16-mixed"):
            raise ValueError(
                f"train.precision is {config.precision}, but the precision of the fabric is {precision_of(fabric)}; "
                f"use make_fabric({config.precision!r})."
            )
        loss = LOSSES[choose(LOSSES, config.loss, problem.task)]
        self.metric = choose(METRICS, config.metric, problem.task)
        dtype = dtype_of(config.precision)
        self.model, self.problem, self.config = model.to(dtype), problem, config
        self.seed, self.fabric, self.callback = seed, fabric, callback
        if fabric.world_size > 1:
            synchronise(model)
        scale = Scale.of(problem, config.scale_targets)
        self.graphs = problem.graphs.with_targets(scale.down(problem.y)).to(fabric.device, dtype)
        weights = label_weights(problem, config.class_balance)
        self.label_weights = None if weights is None else weights.to(fabric.device, dtype)
        optimiser = config.optimiser.build(model)
        self.wrapped, self.optimiser = fabric.setup(model, optimiser)
        steps = math.ceil(math.ceil(problem.splits["train"].numel() / config.batch_size) / config.accumulate)  # of an epoch
        self.rate = config.schedule.build(optimiser, steps * config.epochs, self.metric if "val" in problem.splits else None)
        self.average = Average(model, config.average * steps) if config.average else None
        sharp = config.optimiser
        self.sharpness = Sharpness(model, sharp.rho, sharp.eta, sharp.sharpness == "asam") if sharp.sharpness else None
        self.budget = Budget(model, self.graphs, fabric.device, config.max_pairs, problem.name, callback, problem.names)
        self.bags, self.update = self._kept_bags(), Update(model, self.wrapped, optimiser, self.optimiser, fabric)
        self.gradients = Gradients(
            model, self.wrapped, loss, problem, self.graphs, self.budget, fabric, self.update, self.label_weights, self.bags
        )
        self.inference = Inference(
            model,
            self.graphs,
            problem.num_outputs * loss.outputs,
            scale.of_loss(loss.outputs),
            self.budget,
            config.batch_size,
            config.precision,
            callback,
            fabric.global_rank,
            fabric.world_size,
            self._resident_outputs,
            bags=self.bags,
        )
        self.raw_optimiser = optimiser
        self.resident: Resident | None = None
        self._decided = False

    # -- learning --------------------------------------------------------------------------------------------------

    def train_epoch(self, epoch: int) -> float:
        """Learn from every training graph once. Return the mean loss."""
        with self._threads():
            return self._train_epoch(epoch)

    def _train_epoch(self, epoch: int) -> float:
        seed = epoch_seed(self.seed, epoch)
        seed_model(self.model, seed + self.fabric.global_rank)
        if self.bags is not None:
            self.bags.assemble()
        self._train_mode()
        order = list(batches.shuffled(self.problem.splits["train"], self.config.batch_size, seed))
        groups = [order[g : g + self.config.accumulate] for g in range(0, len(order), self.config.accumulate)]
        if (resident := self._on_device()) is not None:
            try:
                return self._resident_epoch(resident, [group[0] for group in groups], epoch)
            except RuntimeError as error:  # the epoch is then repeated from its start with plain steps
                self._leave_device(error)
                seed_model(self.model, seed)
                self._train_mode()
        if self.fabric.device.type == "cpu":
            make_fused(self.raw_optimiser)
        loss, labels = 0.0, 0.0
        for g, group in enumerate(groups):
            found, number = self._step(group, f"epoch {epoch + 1}, batch {g + 1}")
            loss, labels = loss + found, labels + number
            self.callback.batch(f"epoch {epoch + 1} of {self.config.epochs}", g + 1, len(groups))
            hand_over()
        return loss / max(labels, 1.0)

    def _train_mode(self) -> None:
        self.model.train()
        if self.config.freeze_encoder:
            hold_encoder(self.model)

    def _kept_bags(self) -> KeptBags | None:
        """The bags that are kept between epochs, on a CPU; None if they are not."""
        why = why_not_kept(self)
        if why is None:
            assert isinstance(self.model, Model)
            return KeptBags(self.model, self.graphs, self.problem.splits.get("val", torch.empty(0, dtype=torch.long)))
        if why:
            self.callback.note(f"bags are made again for every batch: {why}.")
        return None

    def _step(self, group: list[Ids], when: str) -> tuple[float, float]:
        """One optimiser step for some batches. Return the sum of the loss and the number of labels."""
        rows = self.budget.together(batches.share(group[0], self.fabric.global_rank, self.fabric.world_size))
        with number_format(self.fabric.device, self.config.precision, rows), fast_path(not self.config.eager):
            return self._eager_step(group, when)

    def _eager_step(self, group: list[Ids], when: str) -> tuple[float, float]:
        before = self.gradients.statistics()
        self.optimiser.zero_grad()
        loss, labels = self.gradients(group, when, before)
        if self.sharpness is not None:
            here = self.gradients.statistics()
            with self.sharpness.nearby():
                self.gradients(group, when, before)
            self.gradients.restore(here)  # the statistics of norms must belong to the current weights, not to the nearby ones
        self.update.step(self.config.clip)
        if self.average is not None:
            self.average.update()
        self.rate.after_step()
        return loss, labels

    def _threads(self) -> AbstractContextManager[None]:
        return threads_of(self.model, self.fabric.device, self.config.precision, self.config.eager)

    # -- on the device ---------------------------------------------------------------------------------------------

    def _on_device(self) -> Resident | None:
        """Training with the data set on the device, if possible. Otherwise None; the reason is reported once."""
        if not self._decided:
            self._decided = True
            why = why_not_resident(self)
            if why is None:
                model = self.model
                assert isinstance(model, Model)
                self.resident = Resident(
                    model,
                    self.graphs,
                    self.gradients.loss,
                    self.config.batch_size,
                    self.config.precision,
                    self.budget.pairs,
                    self.problem.graphs,
                    self.label_weights,
                    self.average,
                    self.callback,
                )
            elif self.fabric.device.type == "cuda":
                self.callback.note(f"batches are assembled one by one, not on the device: {why}.")
        return self.resident

    def _resident_epoch(self, resident: Resident, order: list[Ids], epoch: int) -> float:
        def after_step(step: int) -> None:
            self.rate.after_step()
            self.callback.batch(f"epoch {epoch + 1} of {self.config.epochs}", step + 1, len(order))

        rate, lr = self.rate.state_dict(), self.rate.value
        try:
            loss, labels, bad = resident.train_epoch(order, self.raw_optimiser, self.sharpness, self.config.clip, after_step)
            if bad is not None:
                raise RuntimeError(f"the loss or its gradient is not finite in epoch {epoch + 1}, batch {bad + 1}")
        except RuntimeError:
            self.rate.load_state_dict(rate)
            self.rate.value = lr
            raise
        return loss / max(labels, 1.0)

    def _resident_outputs(self, ids: Ids, after_batch: Callable[[int, int], None]) -> Tensor | None:
        if self.resident is None:
            return None
        try:
            return self.resident.predict(ids, after_batch)
        except RuntimeError as error:
            self._leave_device(error)
            return None

    def _leave_device(self, error: RuntimeError) -> None:
        if self.resident is not None:
            self.resident.release()
            self.resident = None
        make_plain(self.raw_optimiser)
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        self.callback.note(f"batches are assembled one by one, not on the device: {reason}.")

    # -- measuring -------------------------------------------------------------------------------------------------

    def predict(self, split: str) -> Float[Tensor, "graphs outputs"]:
        """The predictions for the graphs of a split, in the units of the targets (logits for classes)."""
        with fast_path(not self.config.eager), self._threads():
            return self.inference(self.problem.splits[split], split)[:, : self.problem.num_outputs]  # without variances

    def score(self, split: str, out: Float[Tensor, "graphs outputs"]) -> float:
        """The metric of the predictions for a split."""
        return METRICS[self.metric](out, self.problem.y[self.problem.splits[split]])

    def all_metrics(self, split: str, out: Float[Tensor, "graphs outputs"]) -> dict[str, list[float]]:
        """All metrics of the predictions for a split, see ``measure_all``."""
        names = list(dict.fromkeys([self.metric, *self.config.metrics]))
        return measure_all(names, out, self.problem.y[self.problem.splits[split]], self.problem.targets)

    def validate(self) -> dict[str, float]:
        """The metric on the validation graphs, if there are any, with averaged weights if they are to be averaged."""
        if "val" not in self.problem.splits:
            return {}
        with self.averaged():
            return {f"val_{self.metric}": self.score("val", self.predict("val"))}

    def averaged(self) -> AbstractContextManager[None]:
        """A context in which the model has averaged weights, if they are to be averaged."""
        return nullcontext() if self.average is None else self.average.shown()

    # -- state -----------------------------------------------------------------------------------------------------

    def weights(self) -> dict[str, Tensor]:
        """A copy of the weights, averaged if they are to be averaged."""
        with self.averaged():
            return _copied(self.model)

    def release(self) -> None:
        """After training: give every weight memory of its own again, and free what belongs to the steps."""
        self.update.release()
        if self.resident is not None:
            self.resident.release()
            self.resident = None

    def save(self, folder: Path) -> None:
        """Write the model, or only its weights if it cannot be saved as a ``reign.nn.Model``."""
        if callable(save := getattr(self.model, "save_pretrained", None)):
            save(folder)
        else:
            write_tensors(folder / "model.safetensors", _copied(self.model))

    def state_dict(self) -> dict[str, Any]:
        """Everything that is needed to continue the training."""
        return {
            "model": self.model.state_dict(),
            "optimiser": portable(self.optimiser.state_dict()),
            "rate": self.rate.state_dict(),
            "max_pairs": self.budget.bound,
            "split": self.budget.split,
            **({} if self.average is None else {"average": self.average.state_dict()}),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state returned by ``state_dict``."""
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.rate.load_state_dict(state["rate"])
        self.budget.bound, self.budget.split = state["max_pairs"], state["split"]
        if self.average is not None:
            self.average.load_state_dict(state["average"])


def _copied(model: nn.Module) -> dict[str, Tensor]:
    """A copy of the weights on the CPU. From a GPU they come in one transfer for each type of numbers, because every transfer waits for the GPU."""
    found = {name: value.detach() for name, value in model.state_dict().items()}
    for dtype in {value.dtype for value in found.values() if value.is_cuda}:
        names = [name for name, value in found.items() if value.is_cuda and value.dtype == dtype]
        values = [found[name] for name in names]
        parts = torch.cat([value.reshape(-1) for value in values]).cpu().split([value.numel() for value in values])
        found |= {name: part.view(value.shape) for name, value, part in zip(names, values, parts, strict=True)}
    return {name: value.cpu().clone() for name, value in found.items()}
