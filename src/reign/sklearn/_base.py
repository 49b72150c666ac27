"""What both estimators share: options as a recipe, training with the training loop, and the mean prediction of all models."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils import check_array, check_consistent_length, check_random_state
from sklearn.utils.validation import check_is_fitted

from reign._validate import check, check_count
from reign.data import GraphPack, Problem, check_labels, graph_keys
from reign.experiments import find_recipe
from reign.sklearn._inputs import read_graphs
from reign.train import Recipe, fit
from reign.train.build import make_model
from reign.train.engine.callbacks import Callback
from reign.train.engine.execution import make_fabric
from reign.train.settings.losses import as_values
from reign.train.target_scaler import Scale
from reign.train.trained_model import TrainedModel


class Estimator(BaseEstimator):  # type: ignore[misc]
    """What both estimators share. All settings that are not options are those of ``reign train -i FILE.csv``."""

    models_: list[TrainedModel]

    def __init__(
        self,
        model: str = "sun",
        policy: str | None = None,
        *,
        hidden_channels: int | None = None,
        num_layers: int | None = None,
        dropout: float = 0.0,
        ignore_stereo: bool = False,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        validation_fraction: float = 0.0,
        patience: int | None = None,
        n_estimators: int = 1,
        settings: dict[str, Any] | None = None,
        accelerator: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.model = model
        self.policy = policy
        self.hidden_channels = hidden_channels
        self.num_layers = num_layers
        self.dropout = dropout
        self.ignore_stereo = ignore_stereo
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.n_estimators = n_estimators
        self.settings = settings
        self.accelerator = accelerator
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array, tags.input_tags.two_d_array, tags.input_tags.string = True, False, True
        return tags

    def _recipe(self, task: str) -> Recipe:
        """The settings as a recipe, whose messages name the wrong ones."""
        share = self.validation_fraction
        check("validation_fraction", share, isinstance(share, int | float) and 0 <= share < 1, "a number of at least 0 and below 1")
        check_count("n_estimators", self.n_estimators)
        model = {"name": self.model, **_given(policy=self.policy, hidden_channels=self.hidden_channels, num_layers=self.num_layers)}
        model |= {"dropout": self.dropout} if self.dropout else {}
        train = {
            **_given(epochs=self.epochs, batch_size=self.batch_size),
            "optimiser": _given(lr=self.learning_rate),
            "patience": self.patience,
            "report": "best" if share else "last",
        }
        data = {"path": "X", "task": task, **({"stereo": "none"} if self.ignore_stereo else {})}  # nothing is read from there
        name = "molecules" if task == "regression" else "molecules-classification"
        return find_recipe(name, {"data": data, "model": model, "train": train}, self.settings or {})[0]

    def _fit(self, X: Any, y: NDArray[np.float64], task: str, classes: list[str], sample_weight: Any) -> None:
        """Train all models on targets of shape (rows, targets)."""
        recipe = self._recipe(task)
        self._stereo = recipe.data.stereo
        graphs, self._kind = read_graphs(X, self._stereo)
        check_consistent_length(graphs, y)
        weights = None
        if sample_weight is not None:
            weights = _weights(sample_weight, len(y))
        draw = check_random_state(self.random_state)
        pack = GraphPack.of(graphs)
        split_seed, *seeds = (int(seed) for seed in draw.randint(0, 2**31 - 1, size=1 + self.n_estimators))
        problem = Problem(
            "X",
            pack.with_targets(torch.from_numpy(y)),
            _splits(y, self.validation_fraction, task, split_seed),
            task,
            ["y"] if y.shape[1] == 1 else [f"y{t}" for t in range(y.shape[1])],
            "atom" if self._kind == "smiles" else _types(pack.x),
            "bond" if self._kind == "smiles" else _types(pack.edge_attr),
            classes,
            weights=weights,
        )
        self._width = pack.x.size(1)
        for text in check_labels(problem, graph_keys(problem)):
            warnings.warn(text, stacklevel=3)
        scale = Scale.of(problem, recipe.train.scale_targets)
        self.models_ = []
        for seed in seeds:
            made = make_model(recipe.model, problem, seed, recipe.train.loss)
            fit(made, problem, recipe.train, seed=seed, fabric=make_fabric(recipe.train.precision, self.accelerator))
            self.models_.append(TrainedModel(Path("X"), made.eval().cpu(), scale, recipe.train, problem.num_outputs))

    def _values(self, X: Any) -> NDArray[np.float64]:
        """The mean prediction of all models; probabilities for classes."""
        check_is_fitted(self)
        graphs, kind = read_graphs(X, getattr(self, "_stereo", "ogb"))  # estimators of versions without it have OGB's feature
        check("X", kind, kind == self._kind, f"{self._kind}, as in fit")
        pack = GraphPack.of(graphs)
        check("the number of columns of x", pack.x.size(1), pack.x.size(1) == self._width, f"{self._width}, as in fit")
        every = torch.arange(len(pack))
        outs = torch.stack([model.outputs(pack, every, Callback()) for model in self.models_])
        values: NDArray[np.float64] = as_values(outs, self._task).mean(0).numpy()
        return values


def _weights(given: Any, rows: int) -> torch.Tensor:
    """The weight of each row; a single number applies to all rows."""
    found = np.full(rows, given) if np.isscalar(given) else given
    found = check_array(found, dtype=np.float64, ensure_2d=False, input_name="sample_weight")
    check("the shape of sample_weight", found.shape, found.shape == (rows,), f"one number for each of the {rows} rows: ({rows},)")
    check("sample_weight", found.min(), found.min() >= 0, "numbers of at least 0")
    check("sample_weight", "zero for all rows", found.max() > 0, "some weight above zero")
    return torch.from_numpy(found)


def _given(**options: Any) -> dict[str, Any]:
    """The options that are not None."""
    return {name: value for name, value in options.items() if value is not None}


def _splits(y: NDArray[np.float64], share: float, task: str, seed: int) -> dict[str, torch.Tensor]:
    """The rows to learn from, and those that are held out, with all classes in both where possible."""
    rows = np.arange(len(y))
    if not share:
        return {"train": torch.from_numpy(rows)}
    held = max(1, round(share * len(y)))
    if held >= len(y):
        raise ValueError(
            f"validation_fraction is {share} and X has {len(y)} rows, so no row is left to learn from; use a smaller share."
        )
    counts = np.unique(y, return_counts=True)[1]
    stratify = y[:, 0] if task != "regression" and counts.min() >= 2 and held >= len(counts) <= len(y) - held else None
    train, val = train_test_split(rows, test_size=held, random_state=seed, stratify=stratify)
    return {"train": torch.from_numpy(np.sort(train)), "val": torch.from_numpy(np.sort(val))}


def _types(values: torch.Tensor | None) -> list[int] | None:
    """The number of types in each column of whole numbers; None if the columns hold other numbers."""
    if values is None or values.is_floating_point():
        return None
    return [int(number) + 1 for number in values.reshape(len(values), -1).amax(0)]
