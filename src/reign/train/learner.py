"""A model that learns: one epoch of steps, and predictions, in parts that fit into memory."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from lightning.fabric import Fabric
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from reign.data.pack import MiniBatch
from reign.data.problem import Ids, Problem
from reign.memory import out_of_memory
from reign.nn.model import Model
from reign.train import batches
from reign.train.distributed import most, synchronise, total
from reign.train.metrics import LOSS_OF_TASK, METRIC_OF_TASK, loss_sum, metric
from reign.train.optim import LearningRate, Sharpness, make_optimiser
from reign.train.recipe import Training
from reign.train.scale import Scale
from reign.train.watch import Watch

T = TypeVar("T")


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
    """

    def __init__(self, model: nn.Module, problem: Problem, config: Training, seed: int, fabric: Fabric) -> None:
        if "train" not in problem.splits or problem.splits["train"].numel() == 0:
            raise ValueError(f"{problem.name} has no training graphs.")
        dtype = torch.float64 if config.precision == "64-true" else torch.float32
        self.model, self.problem, self.config, self.seed, self.fabric = model.to(dtype), problem, config, seed, fabric
        if fabric.world_size > 1:
            synchronise(model)
        self.loss = config.loss or LOSS_OF_TASK[problem.task]
        self.metric = config.metric or METRIC_OF_TASK[problem.task]
        self.graphs = problem.graphs.to(fabric.device, dtype)
        self.scale = Scale.of(problem, config.scale_targets).to(fabric.device, dtype)
        steps = math.ceil(math.ceil(problem.splits["train"].numel() / config.batch_size) / config.accumulate) * config.epochs
        optimiser = make_optimiser(config.optimiser, model)
        self.wrapped, self.optimiser = fabric.setup(model, optimiser)
        self.rate = LearningRate(config.schedule, optimiser, steps)
        sharp = config.optimiser
        self.sharpness = Sharpness(model, sharp.rho, sharp.eta, sharp.sharpness == "asam") if sharp.sharpness else None
        self.pairs = batches.pairs_of(model, self.graphs)
        self.max_pairs = config.max_pairs or batches.affordable_pairs(model, fabric.device)

    # -- learning --------------------------------------------------------------------------------------------------

    def train_epoch(self, epoch: int, watch: Watch) -> float:
        """Every training graph once; the mean loss."""
        seed = epoch_seed(self.seed, epoch)
        seed_model(self.model, seed + self.fabric.global_rank)
        self.model.train()
        order = list(batches.shuffled(self.problem.splits["train"], self.config.batch_size, seed))
        groups = [order[g : g + self.config.accumulate] for g in range(0, len(order), self.config.accumulate)]
        loss, labels = 0.0, 0.0
        for g, group in enumerate(groups):
            found, number = self._step(group, epoch, g, watch)
            loss, labels = loss + found, labels + number
            watch.batch(f"epoch {epoch + 1}", g + 1, len(groups))
        return loss / max(labels, 1.0)

    def _step(self, group: list[Ids], epoch: int, number: int, watch: Watch) -> tuple[float, float]:
        """One step along the gradients of some batches; the sum of the loss, and how many labels it is of."""
        before = [buffer.clone() for buffer in self.model.buffers()]

        def undo() -> None:
            self.optimiser.zero_grad()
            with torch.no_grad():
                for buffer, old in zip(self.model.buffers(), before, strict=True):
                    buffer.copy_(old)

        def gradients() -> tuple[float, float]:
            loss, labels = self._within_memory(lambda: self._gradients(group), torch.cat(group), watch, undo)
            slope = float(get_total_norm([p.grad for p in self.model.parameters() if p.grad is not None]))
            if not math.isfinite(loss) or not math.isfinite(slope):
                undo()
                what = f"loss is {loss}" if not math.isfinite(loss) else f"gradient is {slope}"
                raise NonFiniteLoss(self._complaint(what, torch.cat(group).tolist(), epoch, number))
            return loss, labels

        self.optimiser.zero_grad()
        loss, labels = gradients()
        if self.sharpness is not None:
            with self.sharpness.nearby():
                gradients()
        if self.config.clip:
            self.fabric.clip_gradients(self.wrapped, self.optimiser, max_norm=self.config.clip, error_if_nonfinite=False)
        self.optimiser.step()
        self.rate.after_step()
        return loss, labels

    def _gradients(self, group: list[Ids]) -> tuple[float, float]:
        """Gradients of the mean loss of each batch, summed over parts and processes, averaged over batches."""
        loss_total, labels_total = 0.0, 0.0
        for b, ids in enumerate(group):
            labels = float((~self.problem.y[ids].isnan()).sum())
            mine = self._parts(batches.share(ids, self.fabric.global_rank, self.fabric.world_size))
            for p, part in enumerate(mine):
                done = b == len(group) - 1 and p == len(mine) - 1
                with self.fabric.no_backward_sync(self.wrapped, enabled=not done):
                    batch = self.graphs.batch(part)
                    assert batch.y is not None
                    loss, _ = loss_sum(self.loss, self._forward(batch), self.scale.down(batch.y))
                    # DDP takes the mean over processes, we want the sum
                    self.fabric.backward(loss * (self.fabric.world_size / max(labels, 1.0) / len(group)))
                loss_total += float(total(loss.detach()))
            labels_total += labels
        return loss_total, labels_total

    def _forward(self, batch: MiniBatch) -> Tensor:
        out: Tensor = self.wrapped(batch.x, batch.edge_index, batch.edge_attr, batch.batch, batch.size)
        return out.float() if out.dtype == torch.bfloat16 else out

    def _complaint(self, what: str, ids: list[int], epoch: int, number: int) -> str:
        shown = ", ".join(map(str, ids[:8])) + (", ..." if len(ids) > 8 else "")
        return (
            f"the {what} in epoch {epoch + 1}, batch {number + 1} ({len(ids)} graphs of {self.problem.name}: {shown}). The weights "
            "before this batch are kept. Look at the features and targets of these graphs; if they are fine, use a smaller learning rate "
            "(--set train.optimiser.lr=...) or a bound on gradients (--set train.clip=1)."
        )

    # -- memory ----------------------------------------------------------------------------------------------------

    def _parts(self, ids: Ids) -> list[Ids]:
        """A batch in parts of bounded cost; every process has as many, if need be empty ones."""
        found = batches.parts(ids, self.pairs, self.max_pairs)
        return found + [ids[:0]] * (most(len(found)) - len(found))

    def _within_memory(self, work: Callable[[], T], ids: Ids, watch: Watch, undo: Callable[[], None] = lambda: None) -> T:
        """Do some work; where memory is too small, undo what was done of it, and do it again in smaller parts."""
        while True:
            try:
                return work()
            except (RuntimeError, MemoryError, ValueError) as error:
                if not out_of_memory(error):
                    raise
                reason = str(error).splitlines()[0]
            undo()
            self._smaller(ids, reason, watch)

    def _smaller(self, ids: Ids, reason: str, watch: Watch) -> None:
        if self.fabric.world_size > 1:  # the others wait for this process, and cannot start the step again
            raise ValueError(f"memory is too small for a batch ({reason}); use a smaller train.batch_size or train.max_pairs.")
        pairs = self.pairs[ids]
        used = min(self.max_pairs, int(pairs.sum()))
        if used <= int(pairs.max()):
            worst = int(ids[pairs.argmax()])
            raise ValueError(
                f"memory is too small for graph {worst} of {self.problem.name} alone, which has {int(pairs.max()):,} pairs ({reason}); "
                "use fewer hidden_channels or num_layers, a sampled policy as 'ego+:3@0.5', or leave the graph out."
            )
        self.max_pairs = max(used // 2, int(pairs.max()))
        if self.fabric.device.type == "cuda":
            torch.cuda.empty_cache()
        watch.note(f"memory is too small for this batch; from now on batches are split at {self.max_pairs:,} pairs ({reason}).")

    # -- looking ---------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def predict(self, ids: Ids, watch: Watch | None = None, label: str = "predict") -> Tensor:
        """Predictions for some graphs, in the units of the targets (logits for classes)."""
        self.model.eval()
        rows: list[Tensor] = []
        places = torch.arange(self.fabric.global_rank, ids.numel(), self.fabric.world_size)
        chunks = places.split(self.config.batch_size)
        for c, chunk in enumerate(chunks):

            def work(chunk: Tensor = chunk) -> list[Tensor]:
                found = []
                for part in batches.parts(ids[chunk], self.pairs, self.max_pairs):
                    b = self.graphs.batch(part)
                    with self.fabric.autocast():
                        found.append(self.model(b.x, b.edge_index, b.edge_attr, b.batch, b.size).to(self.scale.mean.dtype))
                return found

            rows += self._within_memory(work, ids[chunk], watch or Watch())
            if watch is not None:
                watch.batch(label, c + 1, len(chunks))
        mine = torch.cat(rows) if rows else self.scale.mean.new_zeros(0, self.problem.num_outputs)
        out = mine.new_zeros(ids.numel(), self.problem.num_outputs)
        out[places.to(out.device)] = self.scale.up(mine)
        return total(out).cpu()

    def score(self, split: str, out: Tensor) -> float:
        """The metric of the predictions for a split."""
        return metric(self.metric, out, self.problem.y[self.problem.splits[split]])

    def validate(self, watch: Watch) -> dict[str, float]:
        """The metric on the validation graphs, if there are any."""
        if "val" not in self.problem.splits:
            return {}
        return {f"val_{self.metric}": self.score("val", self.predict(self.problem.splits["val"], watch, "val"))}

    # -- state -----------------------------------------------------------------------------------------------------

    def weights(self) -> dict[str, Tensor]:
        """A copy of the weights."""
        return {name: value.detach().cpu().clone() for name, value in self.model.state_dict().items()}

    def save(self, folder: Path) -> None:
        """Write the model, if it is one of ours, or its weights alone."""
        if isinstance(self.model, Model):
            self.model.save_pretrained(folder)

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on."""
        return {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "rate": self.rate.state_dict(),
            "max_pairs": self.max_pairs,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.rate.load_state_dict(state["rate"])
        self.max_pairs = state["max_pairs"]


def epoch_seed(seed: int, epoch: int) -> int:
    """A number that depends on the two alone, far from that of any other two."""
    return (seed * 1_000_003 + epoch * 7_919 + 17) % 2**31


def seed_model(model: nn.Module, seed: int) -> None:
    """Dropout and sampled subgraphs from here on depend on the seed."""
    torch.manual_seed(seed)
    policy = getattr(model, "policy", None)
    while policy is not None:
        if isinstance(generator := getattr(policy, "generator", None), torch.Generator):
            generator.manual_seed(seed)
        policy = getattr(policy, "policy", None)
