"""A model of a finished run, with everything that its predictions depend on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from reign.data import GraphPack, Ids
from reign.nn import Model
from reign.train.engine.batches import Budget
from reign.train.engine.callbacks import Callback
from reign.train.engine.inference import Inference
from reign.train.runs.run import ModelFiles
from reign.train.runs.scaler import Scale
from reign.train.settings.config import TrainingConfig
from reign.train.settings.losses import LOSSES

PAIRS = 65_536  # number of pairs (subgraph, node) of a batch: larger ones are hardly faster on a CPU


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A model that predicts as in training, with the same scale of targets, the same batch size and the same number format.

    Args:
        folder: the folder of the model in the run.
        model: the model with the weights that the run reports.
        scale: converts the outputs of the model to the units of the targets.
        config: the settings it was trained with.
        num_outputs: number of targets or classes.
        least_pairs: number of pairs (subgraph, node) of a batch at least. Larger batches are faster; the last bits of outputs depend on them.
    """

    folder: Path
    model: Model
    scale: Scale
    config: TrainingConfig
    num_outputs: int
    least_pairs: int = 0

    @classmethod
    def load(
        cls, folder: Path, report: str, config: TrainingConfig, num_outputs: int, device: str | torch.device
    ) -> "TrainedModel":
        """Read the weights of the best or the last epoch, as selected by ``report``."""
        files = ModelFiles(folder)
        model, scale = Model.from_pretrained(files.weights(report)), Scale.load(files.scale)
        per_target = _outputs(config)
        if model.out_channels != num_outputs * per_target or scale.mean.numel() not in (1, num_outputs):
            raise ValueError(
                f"the model in {files.weights(report)} has {model.out_channels} outputs and {scale.mean.numel()} scales of targets, expected "
                f"{num_outputs * per_target}, {per_target} for each target or class of the run."
            )
        return cls(folder, model.to(device), scale, config, num_outputs)

    def outputs(
        self,
        graphs: GraphPack,
        ids: Ids,
        callback: Callback,
        failed: dict[int, str] | None = None,
        rows: Sequence[str] | None = None,
    ) -> Float[Tensor, "graphs outputs"]:
        """The outputs of the model for some graphs, in the units of the targets (logits for classes).

        Args:
            graphs: all graphs.
            ids: the graphs to predict for.
            callback: receives an event after every batch.
            failed: dictionary that receives the graphs that are too large for the memory, with the reasons. Without it, such graphs raise
                an error.
            rows: the table rows of the graphs, for messages.
        """
        return self.moments(graphs, ids, callback, failed, rows)[:, : self.num_outputs]

    def in_large_batches(self) -> "TrainedModel":
        """The same model with batches of a size that suits predictions."""
        return replace(self, least_pairs=PAIRS)

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return next(self.model.parameters()).device

    @property
    def gives_variance(self) -> bool:
        """Whether it was trained to predict a variance for each target."""
        return _outputs(self.config) == 2

    def moments(
        self,
        graphs: GraphPack,
        ids: Ids,
        callback: Callback,
        failed: dict[int, str] | None = None,
        rows: Sequence[str] | None = None,
        dropped: int | None = None,
    ) -> Float[Tensor, "graphs outputs"]:
        """As ``outputs``, with variances in further columns if the model predicts them.

        Args:
            graphs, ids, callback, failed, rows: as above.
            dropped: seed of the dropout, which is then applied as in training; no dropout if not given.
        """
        width, scale = self.num_outputs * _outputs(self.config), self.scale.of_loss(_outputs(self.config))
        return self._run(graphs, ids, callback, width, scale, failed, rows, dropped)

    def vectors(
        self, graphs: GraphPack, ids: Ids, callback: Callback, failed: dict[int, str] | None = None
    ) -> Float[Tensor, "graphs channels"]:
        """The pooled vectors that the head predicts from.

        Args:
            graphs, ids, callback, failed: as above.
        """
        width, head = self.vector_channels, self.model.head
        plain = Scale(torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64))
        self.model.head = None
        try:
            return self._run(graphs, ids, callback, width, plain, failed)
        finally:
            self.model.head = head

    @property
    def vector_channels(self) -> int:
        """The number of channels of the pooled vectors."""
        width = getattr(getattr(self.model, "pooling", None), "out_channels", None)
        if not isinstance(width, int) or self.model.head is None:
            raise ValueError(f"{type(self.model).__name__} has no pooled vectors that a head predicts from.")
        return width

    def _run(
        self,
        graphs: GraphPack,
        ids: Ids,
        callback: Callback,
        width: int,
        scale: Scale,
        failed: dict[int, str] | None = None,
        rows: Sequence[str] | None = None,
        dropped: int | None = None,
    ) -> Float[Tensor, "graphs outputs"]:
        first = next(self.model.parameters())
        own = graphs.to(first.device, first.dtype)
        budget = Budget(self.model, own, first.device, self.config.max_pairs, "the input", callback, rows)
        batch_size = self.config.batch_size
        if dropped is None:  # what is dropped depends on the batches
            batch_size = max(batch_size, self.least_pairs * len(own) // max(1, int(budget.pairs.sum())))
        inference = Inference(
            self.model,
            own,
            width,
            scale,
            budget,
            batch_size,
            self.config.precision,
            callback,
            failed=failed,
            dropped=dropped,
        )
        return inference(ids, "predict")


def _outputs(config: TrainingConfig) -> int:
    """Number of outputs for each target."""
    return 1 if config.loss is None else LOSSES[config.loss].outputs
