"""Train a model on the nodes of one large graph with the training loop of ``fit``, in batches of nodes with their subgraphs."""

from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch_geometric.data import Data

from reign._validate import check, kind_of
from reign.data import GraphPack, Problem, RootLoader
from reign.nn import Model
from reign.train.engine.callbacks import Callback
from reign.train.engine.execution import Fabric, dtype_of
from reign.train.engine.loop import Fitted, fit
from reign.train.settings.config import TrainingConfig


def fit_nodes(
    model: Model,
    data: Data,
    config: TrainingConfig | None = None,
    *,
    task: str = "multiclass",
    classes: Sequence[str] | None = None,
    halo: int | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
    fabric: Fabric | None = None,
    callback: Callback | None = None,
) -> tuple[Fitted, dict[str, Float[Tensor, "nodes outputs"]]]:
    """Train a model on the nodes of one large graph, and evaluate it on all nodes of every split. See ``fit`` for the result.

    Only one batch of nodes and their subgraphs is in memory at a time (see ``RootLoader``), in training as in evaluation.

    Args:
        model: a model with ``task_level="node"``. After training it has the weights that are reported.
        data: the graph, with ``x``, ``edge_index``, ``y`` and Boolean masks ``train_mask``, and optionally ``val_mask`` and ``test_mask``.
        config: the settings of the training. ``batch_size`` is the number of nodes to predict for in a batch.
        task: "multiclass" (``y`` holds the class of each node), "classification" (0 or 1 for each target) or "regression".
        classes: names of the classes; their numbers if not given.
        halo: as for ``RootLoader``.
        seed, folder, fabric, callback: as for ``fit``.
    """
    config = config or TrainingConfig()
    problem = problem_of_nodes(data, task, classes)
    return fit(AtNodes(model, data, config, halo), problem, config, seed=seed, folder=folder, fabric=fabric, callback=callback)


class AtNodes(nn.Module):
    """A model of one large graph as a model of its nodes: each input graph is a single node, and its feature is its number in the large graph.

    Args:
        model: the model of the large graph.
        data: the large graph.
        config: the settings of the training.
        halo: as for ``RootLoader``.
    """

    def __init__(self, model: Model, data: Data, config: TrainingConfig, halo: int | None = None) -> None:
        super().__init__()
        dtype = dtype_of(config.precision)
        features = {name: value for name, value in data.items() if name in ("x", "edge_index", "edge_attr") and value is not None}
        cast = {name: value.to(dtype) if value.is_floating_point() else value for name, value in features.items()}
        self.model, self.loader = model, RootLoader(Data(**cast), model, config.batch_size, halo=halo)
        self.hidden_channels, self.num_layers = model.hidden_channels, model.num_layers

    def forward(
        self,
        x: Shaped[Tensor, "nodes 1"],
        edge_index: Shaped[Tensor, "2 0"],
        edge_attr: None = None,
        batch: Shaped[Tensor, "nodes"] | None = None,
        batch_size: int | None = None,
    ) -> Float[Tensor, "nodes out_channels"]:
        """Predict for the nodes with these numbers."""
        out: Tensor = self.model(self.loader.batch(x[:, 0].cpu()).to(x.device))
        return out

    def save_pretrained(self, folder: str | Path) -> None:
        """Save the model of the large graph."""
        self.model.save_pretrained(folder)


def problem_of_nodes(data: Data, task: str = "multiclass", classes: Sequence[str] | None = None) -> Problem:
    """The nodes of a large graph as a problem: single nodes, whose features are their numbers, with the targets of the nodes.

    Args:
        data: the graph, with ``y`` and masks.
        task, classes: as for ``fit_nodes``.
    """
    number, y = data.num_nodes, getattr(data, "y", None)
    good = isinstance(y, Tensor) and y.dim() in (1, 2) and y.size(0) == number
    check("y", kind_of(y), good, f"one row for each of the {number} nodes")
    assert isinstance(y, Tensor)
    masks = {split: getattr(data, f"{split}_mask", None) for split in ("train", "val", "test")}
    splits, known = {}, torch.zeros(number, dtype=torch.bool)
    for split, mask in masks.items():
        if mask is None:
            continue
        good = isinstance(mask, Tensor) and mask.dtype == torch.bool and mask.shape == (number,)
        check(f"{split}_mask", kind_of(mask), good, f"a Boolean for each of the {number} nodes")
        if mask.any():
            splits[split], known = mask.cpu().nonzero().squeeze(1), known | mask.cpu()
    labels = y.cpu().double().reshape(number, -1)
    labels = labels.masked_fill(~known[:, None], torch.nan)  # nodes of no split may have any label
    targets = ["y"] if labels.size(1) == 1 else [f"y{t}" for t in range(labels.size(1))]
    if task == "multiclass" and classes is None:
        top = labels[known].nan_to_num(-1).max() if known.any() else torch.tensor(-1)
        classes = [str(c) for c in range(int(top) + 1)]
    none = torch.zeros(number + 1, dtype=torch.long)
    graphs = GraphPack(
        x=torch.arange(number)[:, None],
        edge_index=none.new_zeros(2, 0),
        edge_attr=None,
        y=labels,
        node_ptr=torch.arange(number + 1),
        edge_ptr=none,
    )
    return Problem("the nodes", graphs, splits, task, targets, classes=list(classes or []))
