"""A model that learns: epochs of steps, and predictions."""

import math
from functools import partial
from pathlib import Path
from typing import Any

import torch
from lightning.fabric import Fabric
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from reign.data import Ids, Problem
from reign.nn import Model
from reign.train import batches
from reign.train.budget import Budget
from reign.train.callbacks import Watch
from reign.train.config import Training
from reign.train.distributed import synchronise, total
from reign.train.metrics import LOSSES_OF_TASK, METRICS_OF_TASK, choose, loss_sum, metric
from reign.train.optim import LearningRate, Sharpness, make_optimiser
from reign.train.seeds import epoch_seed, seed_model
from reign.train.target_scaler import Scale


class NonFiniteLoss(ValueError):
    """The loss or its gradient is NaN or infinite."""


class Learner:
    """A model, its optimiser, and the graphs it learns from.

    Args:
        model: called as ``model(x, edge_index, edge_attr, batch, batch_size)``.
        problem: what to learn.
        config: how.
        seed: of the order of graphs, dropout and sampled subgraphs.
        fabric: devices and processes.
        watch: is told of every batch.
    """

    def __init__(self, model: nn.Module, problem: Problem, config: Training, seed: int, fabric: Fabric, watch: Watch) -> None:
        if "train" not in problem.splits or problem.splits["train"].numel() == 0:
            raise ValueError(f"{problem.name} has no training graphs.")
        if config.precision == "bf16-mixed" and fabric._precision.precision != "bf16-mixed":
            raise ValueError("train.precision is bf16-mixed, and the fabric has another one; use make_fabric('bf16-mixed').")
        self.loss = choose("loss", config.loss, LOSSES_OF_TASK, problem.task)
        self.metric = choose("metric", config.metric, METRICS_OF_TASK, problem.task)
        dtype = torch.float64 if config.precision == "64-true" else torch.float32
        self.model, self.problem, self.config, self.seed, self.fabric, self.watch = (
            model.to(dtype),
            problem,
            config,
            seed,
            fabric,
            watch,
        )
        if fabric.world_size > 1:
            synchronise(model)
        self.scale = Scale.of(problem, config.scale_targets)
        self.graphs = problem.graphs.with_targets(self.scale.down(problem.y)).to(fabric.device, dtype)
        optimiser = make_optimiser(config.optimiser, model)
        self.wrapped, self.optimiser = fabric.setup(model, optimiser)
        steps = math.ceil(math.ceil(problem.splits["train"].numel() / config.batch_size) / config.accumulate) * config.epochs
        self.rate = LearningRate(config.schedule, optimiser, steps, self.metric if "val" in problem.splits else None)
        sharp = config.optimiser
        self.sharpness = Sharpness(model, sharp.rho, sharp.eta, sharp.sharpness == "asam") if sharp.sharpness else None
        self.budget = Budget(model, self.graphs, fabric.device, config.max_pairs, problem.name, watch)

    # -- learning --------------------------------------------------------------------------------------------------

    def train_epoch(self, epoch: int) -> float:
        """Every training graph once; the mean loss."""
        seed = epoch_seed(self.seed, epoch)
        seed_model(self.model, seed + self.fabric.global_rank)
        self.model.train()
        order = list(batches.shuffled(self.problem.splits["train"], self.config.batch_size, seed))
        groups = [order[g : g + self.config.accumulate] for g in range(0, len(order), self.config.accumulate)]
        loss, labels = 0.0, 0.0
        for g, group in enumerate(groups):
            found, number = self._step(group, f"epoch {epoch + 1}, batch {g + 1}")
            loss, labels = loss + found, labels + number
            self.watch.batch(f"epoch {epoch + 1}", g + 1, len(groups))
        return loss / max(labels, 1.0)

    def _step(self, group: list[Ids], when: str) -> tuple[float, float]:
        """One step along the gradients of some batches; the sum of the loss, and how many labels it is of."""
        before = self._statistics()

        def gradients() -> tuple[float, float]:
            loss, labels = self.budget.within(lambda: self._gradients(group), torch.cat(group), lambda: self._undo(before))
            slope = float(get_total_norm([p.grad for p in self.model.parameters() if p.grad is not None]))
            if not math.isfinite(loss) or not math.isfinite(slope):
                self._undo(before)
                what = f"loss is {loss}" if not math.isfinite(loss) else f"gradient is {slope}"
                raise NonFiniteLoss(self._complaint(f"the {what} in {when}", torch.cat(group).tolist()))
            return loss, labels

        self.optimiser.zero_grad()
        loss, labels = gradients()
        if self.sharpness is not None:
            here = self._statistics()
            with self.sharpness.nearby():
                gradients()
            self._restore(here)  # norms are to know the weights that stay, not those nearby
        if self.config.clip:
            self.fabric.clip_gradients(self.wrapped, self.optimiser, max_norm=self.config.clip)
        self.optimiser.step()
        self.rate.after_step()
        return loss, labels

    def _gradients(self, group: list[Ids]) -> tuple[float, float]:
        """Gradients of the mean loss of each batch, summed over parts and processes, averaged over batches."""
        loss_total, labels_total = 0.0, 0.0
        for b, ids in enumerate(group):
            labels = float((~self.problem.y[ids].isnan()).sum())
            mine = self.budget.equal_parts(batches.share(ids, self.fabric.global_rank, self.fabric.world_size))
            for p, part in enumerate(mine):
                done = b == len(group) - 1 and p == len(mine) - 1
                with self.fabric.no_backward_sync(self.wrapped, enabled=not done):
                    batch = self.graphs.batch(part)
                    assert batch.y is not None
                    out = self.wrapped(batch.x, batch.edge_index, batch.edge_attr, batch.batch, batch.size)
                    self._check_shape(out)
                    loss = loss_sum(self.loss, out.to(batch.y.dtype), batch.y)
                    # DDP takes the mean over processes, we want the sum
                    self.fabric.backward(loss * (self.fabric.world_size / max(labels, 1.0) / len(group)))
                loss_total += float(total(loss.detach()))
            labels_total += labels
        return loss_total, labels_total

    def _check_shape(self, out: Tensor) -> None:
        if out.dim() != 2 or out.size(1) != self.problem.num_outputs:
            raise ValueError(
                f"the model gives values of shape {tuple(out.shape)}, expected {self.problem.num_outputs} for each graph, as "
                f"{self.problem.name} has {self.problem.num_outputs} targets or classes; make it with out_channels={self.problem.num_outputs}."
            )

    def _statistics(self) -> list[Tensor]:
        return [buffer.clone() for buffer in self.model.buffers()]

    @torch.no_grad()
    def _restore(self, statistics: list[Tensor]) -> None:
        for buffer, old in zip(self.model.buffers(), statistics, strict=True):
            buffer.copy_(old)

    def _undo(self, statistics: list[Tensor]) -> None:
        self.optimiser.zero_grad()
        self._restore(statistics)

    def _complaint(self, what: str, ids: list[int]) -> str:
        names = ids if self.problem.names is None else [self.problem.names[i] for i in ids]
        shown = ", ".join(map(str, names[:8])) + (", ..." if len(ids) > 8 else "")
        kind = "graphs" if self.problem.names is None else "rows"
        return (
            f"{what} ({len(ids)} {kind} of {self.problem.name}: {shown}). The weights before this batch are kept. Look at the features "
            "and targets of these graphs; if they are fine, start a new run with a smaller learning rate "
            "(--set train.optimiser.lr=...) or a bound on gradients (--set train.clip=1)."
        )

    # -- looking ---------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def predict(self, split: str) -> Tensor:
        """Predictions for a split, in the units of the targets (logits for classes)."""
        self.model.eval()
        ids = self.problem.splits[split]
        rows: list[Tensor] = []
        places = torch.arange(self.fabric.global_rank, ids.numel(), self.fabric.world_size)
        chunks = places.split(self.config.batch_size)
        for c, chunk in enumerate(chunks):
            rows += self.budget.within(partial(self._outputs, ids[chunk]), ids[chunk])
            self.watch.batch(split, c + 1, len(chunks))
        out = torch.zeros(ids.numel(), self.problem.num_outputs, dtype=torch.float64, device=self.fabric.device)
        if rows:
            out[places.to(out.device)] = torch.cat(rows).double()
        return self.scale.up(total(out).cpu())

    def _outputs(self, ids: Ids) -> list[Tensor]:
        found = []
        for part in self.budget.parts(ids):
            b = self.graphs.batch(part)
            with self.fabric.autocast():
                found.append(self.model(b.x, b.edge_index, b.edge_attr, b.batch, b.size))
        return found

    def score(self, split: str, out: Tensor) -> float:
        """The metric of the predictions for a split."""
        return metric(self.metric, out, self.problem.y[self.problem.splits[split]])

    def validate(self) -> dict[str, float]:
        """The metric on the validation graphs, if there are any."""
        return {f"val_{self.metric}": self.score("val", self.predict("val"))} if "val" in self.problem.splits else {}

    # -- state -----------------------------------------------------------------------------------------------------

    def weights(self) -> dict[str, Tensor]:
        """A copy of the weights."""
        return {name: value.detach().cpu().clone() for name, value in self.model.state_dict().items()}

    def save(self, folder: Path) -> None:
        """Write the model if it is one of ours, of others the weights."""
        if isinstance(self.model, Model):
            self.model.save_pretrained(folder)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            save_file({name: value.contiguous() for name, value in self.weights().items()}, folder / "model.safetensors")

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on."""
        return {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "rate": self.rate.state_dict(),
            "max_pairs": self.budget.bound,
            "split": self.budget.split,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.rate.load_state_dict(state["rate"])
        self.budget.bound, self.budget.split = state["max_pairs"], state["split"]
