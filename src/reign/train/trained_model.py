"""A model of a finished run, with everything that its predictions depend on."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from reign.data import GraphPack, Ids
from reign.nn import Model
from reign.train.budget import Budget
from reign.train.callbacks import Callback
from reign.train.config import TrainingConfig
from reign.train.inference import Inference
from reign.train.target_scaler import Scale


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A model that predicts as in training, with the same scale of targets, the same batch size and the same number format.

    Args:
        folder: the folder of the model in the run.
        model: the model with the weights that the run reports.
        scale: converts the outputs of the model to the units of the targets.
        config: the settings it was trained with.
        num_outputs: number of outputs for each graph.
    """

    folder: Path
    model: Model
    scale: Scale
    config: TrainingConfig
    num_outputs: int

    @classmethod
    def load(
        cls, folder: Path, report: str, config: TrainingConfig, num_outputs: int, device: str | torch.device
    ) -> "TrainedModel":
        """Read the weights of the best or the last epoch, as selected by ``report``."""
        model, scale = Model.from_pretrained(folder / report), Scale.load(folder / "scale.json")
        if model.out_channels != num_outputs or scale.mean.numel() not in (1, num_outputs):
            raise ValueError(
                f"the model in {folder / report} has {model.out_channels} outputs and {scale.mean.numel()} scales of targets, expected "
                f"{num_outputs}, one for each target or class of the run."
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
        first = next(self.model.parameters())
        own = graphs.to(first.device, first.dtype)
        budget = Budget(self.model, own, first.device, self.config.max_pairs, "the input", callback, rows)
        inference = Inference(
            self.model,
            own,
            self.num_outputs,
            self.scale,
            budget,
            self.config.batch_size,
            self.config.precision,
            callback,
            failed=failed,
        )
        return inference(ids, "predict")
