"""A model as a ``LightningModule``, for Lightning's Trainer. It needs ``pip install 'reign[train]'``."""

import reign._pyg  # noqa: F401  # isort: skip
from typing import Any, Literal

import lightning
import torch
from jaxtyping import Float
from torch import Tensor
from torch_geometric.data import Data

from reign.nn import Model
from reign.train.settings.losses import LOSSES, choose
from reign.train.settings.metrics import METRICS

Task = Literal["regression", "classification", "multiclass"]


class ReignModule(lightning.LightningModule):
    """Trains a model on batches of a PyG ``DataLoader`` or of a ``RootLoader``, with Adam and a learning rate that rises and then falls.

    It logs ``train_loss``, and ``val_<metric>`` and ``test_<metric>``, which are computed from all predictions of a split. A label that is NaN is
    missing and is ignored. At node level the masks ``train_mask``, ``val_mask`` and ``test_mask`` of a batch select nodes, if it has them and
    no nodes of its own to predict for.

    Args:
        model: any model of ``reign.nn``, with the outputs that the task needs.
        task: "regression", "classification" (labels 0 or 1) or "multiclass" (the label is the index of the class).
        loss: name of the loss; the usual one of the task if not given.
        metric: name of the metric; the usual one of the task if not given.
        lr: highest learning rate.
        weight_decay: weight decay of Adam.
    """

    def __init__(
        self,
        model: Model,
        task: Task = "regression",
        *,
        loss: str | None = None,
        metric: str | None = None,
        lr: float = 1e-3,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__()
        self.save_hyperparameters(ignore=["model"])
        self.model, self.task = model, task
        self.loss, self.metric = choose(LOSSES, loss, task), choose(METRICS, metric, task)
        self.lr, self.weight_decay = lr, weight_decay
        self._seen: list[tuple[Tensor, Tensor]] = []

    def forward(self, batch: Data) -> Float[Tensor, "rows out_channels"]:
        """The outputs of the model for a batch: logits if targets are classes."""
        out: Tensor = self.model(batch)
        return out

    def training_step(self, batch: Data, index: int = 0) -> Float[Tensor, ""]:
        """The mean loss of a batch, of which Lightning takes the gradients."""
        out, y = self._pair(batch, "train")
        loss = LOSSES[self.loss].mean(out, y)
        self.log("train_loss", loss.detach(), batch_size=len(y))
        return loss

    def validation_step(self, batch: Data, index: int = 0) -> None:
        """Collect the predictions for a batch of the validation split."""
        self._seen.append(self._pair(batch, "val"))

    def test_step(self, batch: Data, index: int = 0) -> None:
        """Collect the predictions for a batch of the test split."""
        self._seen.append(self._pair(batch, "test"))

    def predict_step(self, batch: Data, index: int = 0) -> Float[Tensor, "rows out_channels"]:
        """The outputs of the model for a batch."""
        out: Tensor = self(batch)
        return out

    def on_validation_epoch_end(self) -> None:
        """Log the metric of the validation split."""
        self._measure("val")

    def on_test_epoch_end(self) -> None:
        """Log the metric of the test split."""
        self._measure("test")

    def configure_optimizers(self) -> Any:
        """Adam, with a rate that rises in the first tenth of the steps and then falls to nearly zero along a cosine."""
        optimiser = torch.optim.Adam(self.parameters(), lr=self.lr, weight_decay=self.weight_decay)
        steps = max(int(self.trainer.estimated_stepping_batches), 1)
        share = 0.11 if steps == 10 else 0.1  # a rise of exactly one step is a division by zero in PyTorch
        rate = torch.optim.lr_scheduler.OneCycleLR(optimiser, self.lr, total_steps=steps, pct_start=share)
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": rate, "interval": "step"}}

    def _pair(self, batch: Data, split: str) -> tuple[Tensor, Tensor]:
        """The outputs and the labels of a batch, with one row for each graph or node."""
        out: Tensor = self(batch)
        y, mask = batch.y, getattr(batch, f"{split}_mask", None)
        if self.model.task_level == "node" and getattr(batch, "bag", None) is not None and batch.bag.targets is not None:
            y = y[batch.bag.targets]
        elif self.model.task_level == "node" and mask is not None:
            out, y = out[mask], y[mask]
        if y.numel() % max(len(out), 1):
            raise ValueError(f"y has {y.numel()} labels, expected the same number for each of the {len(out)} predictions.")
        return out, y.reshape(len(out), -1).to(out.dtype)

    def _measure(self, split: str) -> None:
        if self._seen:
            out, y = (torch.cat(parts) for parts in zip(*self._seen, strict=True))
            self.log(f"{split}_{self.metric}", METRICS[self.metric](out, y), prog_bar=True)
        self._seen.clear()
