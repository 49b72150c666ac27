"""Training steps to measure: ours, as separate operations or as one CUDA graph, and those of the yardstick."""

from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam

from reign.data import Ids, Problem
from reign.experiments.measure import Kernel, KernelClock, added_bytes
from reign.experiments.yardstick import Union, YardstickSUN
from reign.nn import SUN, Model
from reign.train.engine.batches import pairs_of
from reign.train.engine.callbacks import Callback
from reign.train.engine.captured import FEW, FIRST_RUNS, CapturedEngine
from reign.train.engine.engine import Engine, why_not_captured
from reign.train.engine.execution import Execution, make_fabric, width
from reign.train.engine.step import Step, not_finite, take_gradients
from reign.train.engine.update import Update
from reign.train.settings.config import TrainingConfig
from reign.train.settings.losses import LOSSES
from reign.train.settings.optim import make_fused

PRECISION = "32-true"  # as in training; on GPUs, products are computed in TF32
RATE = 1e-3
PROFILED = 5  # number of resident steps over which the times of kernels are averaged


class EagerStep:
    """A training step, run directly, with L1 loss and Adam.

    Args:
        model: the model to train.
        forward: function that returns the outputs and the targets of the batch.
        execution: the device, and whether fused kernels are used on a GPU, and blocks of rows on a CPU, where available.
        rows: number of pairs of the batch.
    """

    def __init__(
        self,
        model: nn.Module,
        forward: Callable[[], tuple[Tensor, Tensor]],
        execution: Execution,
        rows: int,
    ) -> None:
        self.model, self.forward, self.execution, self.rows = model, forward, execution, rows
        self.weights = list(model.parameters())
        self.optimiser = Adam(self.weights, RATE)
        self.step = Step(model, Update(model, self.optimiser, flat=execution.device.type == "cpu"))

    def __call__(self) -> None:
        """Run one step. Gradients are freed at its end, so that all steps start in the same state."""
        with self.execution.operations(self.rows, width(self.model)), self.execution.threads(self.model):
            self.step(self)
            self.step.update.forget()

    def gradients(self) -> Tensor:
        """Compute the gradients."""
        out, y = self.forward()
        return take_gradients(LOSSES["l1"].sum(out, y), (~y.isnan()).sum(), self.weights)

    def judge(self, loss: Tensor, grads: list[Tensor]) -> None:
        """Raise ``RuntimeError`` if the loss or the gradient is not finite."""
        if (what := not_finite(loss, grads)) is not None:
            raise RuntimeError(f"the {what}")


def our_step(model: Model, problem: Problem, ids: Ids, device: torch.device, fast: bool) -> EagerStep:
    """A step of one of our models, with threads and an optimiser as in training. It includes the assembly of the batch and of its bag."""
    graphs = problem.graphs.to(device, torch.float32)
    model.to(device).train()

    def forward() -> tuple[Tensor, Tensor]:
        b = graphs.batch(ids)
        assert b.y is not None
        return model(b.x, b.edge_index, b.edge_attr, b.batch, b.size), b.y

    rows = int(pairs_of(model, graphs.select(ids)).sum())
    step = EagerStep(model, forward, Execution(device, PRECISION, eager=not fast), rows)
    if device.type == "cpu":
        make_fused(step.optimiser)
    return step


def yardstick_step(sun: SUN, problem: Problem, ids: Ids, device: torch.device) -> EagerStep:
    """A step of the yardstick, with terms of nodes and subgraphs evaluated on nodes. Its batch and its union are made beforehand."""
    b = problem.graphs.to(device, torch.float32).batch(ids)
    bag = sun.to(device).train().policy(b.x, b.edge_index, b.edge_attr, b.batch, batch_size=b.size)
    yardstick, union, y = YardstickSUN(sun, node_level=True), Union(bag), b.y
    assert y is not None
    return EagerStep(yardstick, lambda: (yardstick(b.x, bag, union), y), Execution(device, PRECISION, eager=True), bag.num_pairs)


class ResidentStep:
    """A step as in training on a GPU: the data set is on the GPU, and the step is one CUDA graph, including the assembly of the batch.

    Args:
        model: the model.
        problem: the data set.
        ids: the graphs of the batch.
        precision: as in ``TrainingConfig``.

    Raises:
        RuntimeError: if training would not run such a step; the message is the reason.
    """

    def __init__(self, model: Model, problem: Problem, ids: Ids, precision: Any = PRECISION) -> None:
        config = TrainingConfig(batch_size=ids.numel(), loss="l1", metric="mae", precision=precision)
        learner = Engine(model.train(), problem, config, 0, make_fabric(precision, "cuda"), Callback())
        if (why := why_not_captured(learner)) is not None:
            raise RuntimeError(why)
        self.ids, self.device = ids, learner.fabric.device
        self.resident = CapturedEngine(learner)
        before = torch.cuda.memory_allocated(self.device)
        _ = self.resident.store  # the first use makes the bags of all graphs
        self.store_bytes = torch.cuda.memory_allocated(self.device) - before
        before = torch.cuda.memory_allocated(self.device)
        steps = max(FIRST_RUNS + 1, FEW)  # as many as a frame that fits closely needs
        added = added_bytes(lambda: self._steps(steps), self.device)  # makes the frame, and captures the graph
        # memory held between steps: the frame, and the state of the optimiser
        self.frame_bytes = torch.cuda.memory_allocated(self.device) - before
        self.added_bytes = added - self.frame_bytes

    def seconds(self, repeats: int) -> float:
        """The median time of a step, measured on the GPU."""
        ends = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
        self._steps(repeats + 1, lambda s: ends[s].record())
        torch.cuda.synchronize()
        return median(ends[s].elapsed_time(ends[s + 1]) for s in range(repeats)) / 1000

    def profile(self) -> list[Kernel]:
        """The kernels of a step, their times averaged over ``PROFILED`` steps."""
        clock = KernelClock()

        def after_step(s: int) -> None:
            if s == 0:
                clock.start()
            elif s == PROFILED:
                clock.stop()

        self._steps(PROFILED + 1, after_step)
        return clock.kernels(PROFILED)

    def _steps(self, number: int, after_step: Callable[[int], None] = lambda s: None) -> None:
        *_, bad = self.resident.train_epoch([self.ids] * number, after_step)
        if bad is not None:
            raise RuntimeError(f"the loss or its gradient is not finite in step {bad + 1}")
