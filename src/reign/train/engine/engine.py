"""The state of a model in training: it runs epochs, evaluates the model, and can be saved and loaded."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from reign.bags import free_memory
from reign.data import Ids, Problem
from reign.disk import StateDict, write_tensors
from reign.kernels import fast_path
from reign.nn import Model
from reign.train.engine import batches
from reign.train.engine.batches import BagCache, BagSource, Budget
from reign.train.engine.callbacks import Callback
from reign.train.engine.captured import CapturedEngine
from reign.train.engine.execution import Execution, Fabric, dtype_of, epoch_seed, precision_of, seed_model, synchronise, width
from reign.train.engine.inference import Inference
from reign.train.engine.sharing import hand_over
from reign.train.engine.step import DirectBatch, Learner, Step
from reign.train.engine.update import Average, Sharpness, Update
from reign.train.runs.build import freeze_encoder, hold_encoder
from reign.train.runs.scaler import Scale
from reign.train.settings.config import TrainingConfig
from reign.train.settings.losses import LOSSES, choose, label_weights
from reign.train.settings.metrics import METRICS, measure_all
from reign.train.settings.optim import make_fused, make_plain, portable

SHARE = 1 / 8  # of the free memory, which other runs may need, too: as much as bags may take that are kept between epochs
BYTES = 500  # for each pair, while the bags of the first epoch are put together (400 for SUN, and 80 afterwards)


class Engine(Learner):
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
        self.execution = Execution(fabric.device, config.precision, config.eager)
        if fabric.world_size > 1:
            synchronise(model)
        scale = Scale.of(problem, config.scale_targets)
        self.graphs = problem.graphs.with_targets(scale.down(problem.y)).to(fabric.device, dtype)
        weights = label_weights(problem, config.class_balance, config.task_weights)
        self.label_weights = None if weights is None else weights.to(fabric.device, dtype)
        self.loss = loss
        self._frozen = freeze_encoder(model) if config.frozen_epochs else []
        self._make_step(config.freeze_epochs or config.epochs)
        self.budget = Budget(model, self.graphs, fabric.device, config.max_pairs, problem.name, callback, problem.names)
        self.bags = self._bags()
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
        self.resident: CapturedEngine | None = None
        self._decided = False

    def _make_step(self, epochs: int, share: float = 1.0) -> None:
        """Make the training step of the weights that are trained now, and the schedule of a share of the learning rate over some epochs."""
        model, problem, config, fabric = self.model, self.problem, self.config, self.fabric
        optimiser = config.optimiser.model_copy(update={"lr": share * config.optimiser.lr}).build(model)
        self.wrapped, self.optimiser = fabric.setup(model, optimiser)
        steps = math.ceil(math.ceil(problem.splits["train"].numel() / config.batch_size) / config.accumulate)  # of an epoch
        self.rate = config.schedule.build(optimiser, steps * epochs, self.metric if "val" in problem.splits else None)
        self.average = Average(model, config.average * steps) if config.average else None
        sharp = config.optimiser
        sharpness = Sharpness(model, sharp.rho, sharp.eta, sharp.sharpness == "asam") if sharp.sharpness else None
        self.raw_optimiser = optimiser
        on_cpu, alone = fabric.device.type == "cpu", fabric.world_size == 1
        self.step = Step(model, Update(model, optimiser, config.clip, on_cpu and alone, self.optimiser), sharpness, self.average)
        self.captured_step = Step(model, Update(model, optimiser, config.clip, not on_cpu), sharpness, self.average)

    # -- learning --------------------------------------------------------------------------------------------------

    def train_epoch(self, epoch: int) -> float:
        """Learn from every training graph once. Return the mean loss."""
        if self._frozen and epoch >= self.config.frozen_epochs:
            self._unfreeze()
            self.callback.note(
                f"From epoch {epoch + 1} on all weights are trained, with {self.config.unfrozen_lr:g} of the learning rate."
            )
        with self.execution.threads(self.model):
            return self._train_epoch(epoch)

    def _train_epoch(self, epoch: int) -> float:
        seed = epoch_seed(self.seed, epoch)
        seed_model(self.model, seed + self.fabric.global_rank)
        self.bags.next_epoch()
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
            found, number = self._learn(group, f"epoch {epoch + 1}, batch {g + 1}", epoch_seed(seed, g))
            loss, labels = loss + found, labels + number
            self.callback.batch(f"epoch {epoch + 1} of {self.config.epochs}", g + 1, len(groups))
            hand_over()
        return loss / max(labels, 1.0)

    def _train_mode(self) -> None:
        self.model.train()
        if self._frozen:
            hold_encoder(self.model)

    def _unfreeze(self) -> None:
        """Train all weights from now on. The optimiser and the schedule start anew, and on a GPU the step is captured again."""
        assert self.config.freeze_epochs is not None
        for weight in self._frozen:
            weight.requires_grad_(True)
        self._frozen = []
        self.step.update.release()
        if self.resident is not None:
            self.resident.release()
        self._make_step(self.config.epochs - self.config.freeze_epochs, self.config.unfrozen_lr)

    def _bags(self) -> BagSource:
        """Where the bags of batches come from: on a CPU they are kept between epochs, if that is possible."""
        why = why_not_cached(self)
        if why is None:
            assert isinstance(self.model, Model)
            return BagCache(self.model, self.graphs, self.problem.splits.get("val", torch.empty(0, dtype=torch.long)))
        if why:
            self.callback.note(f"bags are made again for every batch: {why}.")
        return BagSource(self.graphs)

    def _learn(self, group: list[Ids], when: str, seed: int = 0) -> tuple[float, float]:
        """One step for some batches. Return the sum of the loss and the number of labels."""
        rows = self.budget.together(batches.share(group[0], self.fabric.global_rank, self.fabric.world_size))
        with self.execution.operations(rows, width(self.model)):
            batch = DirectBatch(self, group, when, seed)
            loss = float(self.step(batch))
            self.rate.after_step()
        return loss, batch.labels

    # -- on the device ---------------------------------------------------------------------------------------------

    def _on_device(self) -> CapturedEngine | None:
        """Training with the data set on the device, if possible. Otherwise None; the reason is reported once."""
        if not self._decided:
            self._decided = True
            why = why_not_captured(self)
            if why is None:
                self.resident = CapturedEngine(self)
            elif self.fabric.device.type == "cuda":
                self.callback.note(f"batches are assembled one by one, not on the device: {why}.")
        return self.resident

    def _resident_epoch(self, resident: CapturedEngine, order: list[Ids], epoch: int) -> float:
        def after_step(step: int) -> None:
            self.rate.after_step()
            self.callback.batch(f"epoch {epoch + 1} of {self.config.epochs}", step + 1, len(order))

        rate, lr = self.rate.state_dict(), self.rate.value
        try:
            loss, labels, bad = resident.train_epoch(order, after_step)
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
        with fast_path(not self.config.eager), self.execution.threads(self.model):
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
            out = self.predict("val")
        if not bool(out.isfinite().all()):
            self.callback.note("some predictions for validation graphs are NaN or infinite, although the training loss is not.")
        return {f"val_{self.metric}": self.score("val", out)}

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
        self.step.update.release()
        if self.resident is not None:
            self.resident.release()
            self.resident = None

    def save(self, folder: Path) -> None:
        """Write the model, or only its weights if it cannot be saved as a ``reign.nn.Model``."""
        if callable(save := getattr(self.model, "save_pretrained", None)):
            save(folder)
        else:
            write_tensors(folder / "model.safetensors", _copied(self.model))

    def state_dict(self) -> StateDict:
        """Everything that is needed to continue the training."""
        return {
            "model": self.model.state_dict(),
            "optimiser": portable(self.optimiser.state_dict()),
            "rate": self.rate.state_dict(),
            "max_pairs": self.budget.bound,
            "split": self.budget.split,
            **({} if self.average is None else {"average": self.average.state_dict()}),
            **({} if self.config.freeze_epochs is None else {"frozen": bool(self._frozen)}),
        }

    def load_state_dict(self, state: StateDict) -> None:
        """Restore a state returned by ``state_dict``."""
        if self._frozen and not state.get("frozen", True):
            self._unfreeze()
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


def why_not_cached(engine: Engine) -> str | None:
    """The reason why training does not keep bags between epochs; empty if this needs no explanation; None if it keeps them."""
    model, fabric = engine.model, engine.fabric
    if fabric.device.type != "cpu" or engine.config.eager or not isinstance(model, Model) or model.task_level != "graph":
        return ""
    if fabric.world_size > 1 or model.policy.random:
        return ""  # each process sees other graphs in every epoch; each batch has other subgraphs
    if model.along_roots:
        return "bags with terms along several roots hold several times as many index maps as others"
    splits = engine.problem.splits
    graphs = torch.cat([splits[name] for name in ("train", "val") if name in splits]).unique()
    needed, limit = BYTES * int(engine.budget.pairs[graphs].sum()), int(SHARE * free_memory(fabric.device))
    if needed > limit:
        return f"to keep them takes about {needed / 1e9:,.1f} GB, and at most {limit / 1e9:,.1f} GB (an eighth of the free memory) are used for this"
    return None


def why_not_captured(engine: Engine) -> str | None:
    """The reason why training cannot keep the data set on the device; None if it can."""
    config, model, fabric = engine.config, engine.model, engine.fabric
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
    if model.along_roots:
        return "the model has terms along the roots of subgraphs, for which there are no batches of fixed sizes"
    order = engine.problem.splits["train"]
    largest = int(engine.budget.pairs[order].topk(min(config.batch_size, order.numel())).values.sum())
    if largest > engine.budget.bound:
        return f"a batch can have {largest:,} pairs, but there is memory for only {engine.budget.bound:,}"
    return None
