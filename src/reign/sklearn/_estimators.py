"""Estimators for numbers and for classes: SMILES or graphs as X, options as a recipe, and the training loop."""

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import check_array, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted
from torch_geometric.data import Data

from reign._validate import check, check_count, kind_of
from reign.data import GraphPack, Problem, check_labels, graph_keys
from reign.experiments import find_recipe
from reign.experiments.pretrain import recipe_of_table
from reign.train import Recipe, fit
from reign.train.engine.callbacks import Callback
from reign.train.engine.execution import make_fabric
from reign.train.predict.ensemble import TrainedModel
from reign.train.runs.build import check_stereo, make_model, start_from
from reign.train.runs.scaler import Scale
from reign.train.settings.config import Stereo
from reign.train.settings.losses import as_values
from reign.train.settings.yaml import RawSettings, merge

# -- the X of scikit-learn as graphs -------------------------------------------------------------------------------------------

Kind = Literal["smiles", "graphs"]


def read_graphs(X: Any, stereo: Stereo) -> tuple[list[Data], Kind]:
    """The graphs of the rows of X, and what the rows are. Every row that cannot be read raises ``ValueError``, because no row may be left out.

    Args:
        X: the rows.
        stereo: what the graphs of SMILES say about chirality, see ``DataConfig``.
    """
    if isinstance(X, str | Data) or not hasattr(X, "__len__") or not hasattr(X, "__getitem__"):
        raise ValueError(f"X is {kind_of(X)}, expected a list or array of SMILES, or a list of PyG graphs.")
    rows = _rows(X)
    if not rows:
        raise ValueError("X has 0 sample(s), but at least 1 is needed: X is empty, expected SMILES or PyG graphs.")
    texts = [isinstance(row, str) for row in rows]
    if all(texts):
        return _molecules(rows, stereo), "smiles"
    wrong = next((i for i, row in enumerate(rows) if not isinstance(row, Data)), None)
    if wrong is not None:
        raise ValueError(
            f"row {wrong} of X is {kind_of(rows[wrong])}, expected only SMILES, or only PyG graphs, in all {len(rows)} rows."
        )
    return [Data(x=data.x, edge_index=data.edge_index, edge_attr=data.edge_attr) for data in rows], "graphs"


def _rows(X: Any) -> list[Any]:
    """The rows of a list, an array, a series or a data set; a table with one column counts as a list."""
    if hasattr(X, "to_numpy"):
        X = X.to_numpy()
    if isinstance(X, np.ndarray):
        if X.ndim == 2 and X.shape[1] == 1:
            X = X[:, 0]
        if X.ndim != 1:
            raise ValueError(
                f"X is an array of shape {X.shape}, expected one SMILES or graph per row: shape ({len(X) if X.ndim else 0},)."
            )
    return [str(row) if isinstance(row, str) else row for row in X]


def _molecules(texts: Sequence[str], stereo: Stereo) -> list[Data]:
    from reign.data.molecules import graphs_of, read_many

    graphs, wrong = graphs_of(*read_many(texts, stereo))
    if wrong:
        row, reason = min(wrong.items())
        more = f" ({len(wrong) - 1} more rows cannot be read)" if len(wrong) > 1 else ""
        raise ValueError(f"row {row} of X: {reason}{more}; leave such rows out.")
    return [data for data in graphs if data is not None]


# -- what both estimators share ------------------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class Estimator(BaseEstimator):  # type: ignore[misc]
    """What both estimators share. All settings that are not options are those of ``reign train -i FILE.csv``."""

    model: str | None = None
    policy: str | None = None
    _: KW_ONLY
    hidden_channels: int | None = None
    num_layers: int | None = None
    dropout: float = 0.0
    ignore_stereo: bool = False
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    validation_fraction: float = 0.0
    patience: int | None = None
    n_estimators: int = 1
    settings: dict[str, Any] | None = None
    accelerator: str = "auto"
    random_state: Any = None
    models_: list[TrainedModel] = field(init=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array, tags.input_tags.two_d_array, tags.input_tags.string = True, False, True
        return tags

    def _recipe(self, task: str, smiles: bool = True) -> tuple[Recipe, str]:
        """The settings as a recipe, whose messages name the wrong ones, and why it starts from random weights."""
        share = self.validation_fraction
        check("validation_fraction", share, isinstance(share, int | float) and 0 <= share < 1, "a number of at least 0 and below 1")
        check_count("n_estimators", self.n_estimators)
        given, read = self.settings or {}, ("model", "train", "format")
        data = given.get("data") if isinstance(given, dict) else None
        unread = [str(key) for key in given if key not in (*read, "data")]
        unread += [f"data.{key}" for key in data if key != "stereo"] if isinstance(data, dict) else []
        if unread:
            raise ValueError(f"settings has {', '.join(unread)}, which fit does not read; expected model, train and data.stereo.")
        model = _given(name=self.model, policy=self.policy, hidden_channels=self.hidden_channels, num_layers=self.num_layers)
        model |= {"dropout": self.dropout} if self.dropout else {}
        train = {
            **_given(epochs=self.epochs, batch_size=self.batch_size),
            "optimiser": _given(lr=self.learning_rate),
            "patience": self.patience,
            "report": "best" if share else "last",
        }
        data = {"path": "X", "task": task, **({"stereo": "none"} if self.ignore_stereo else {})}  # nothing is read from there
        start: RawSettings = {} if smiles else {"train": {"checkpoint": None}}  # encoders know molecules only
        changes = {"data": data, "model": model, "train": train}, self.settings or {}
        name, why = recipe_of_table(merge(start, *changes))
        return find_recipe(name, *changes)[0], why

    def _fit(self, X: Any, y: NDArray[np.float64], task: str, classes: list[str], sample_weight: Any) -> None:
        """Train all models on targets of shape (rows, targets)."""
        recipe, why = self._recipe(task)
        self._stereo = recipe.data.stereo
        graphs, self._kind = read_graphs(X, self._stereo)
        recipe, why = (recipe, why) if self._kind == "smiles" else self._recipe(task, smiles=False)
        if why:
            warnings.warn(f'{why} To choose this: settings={{"train": {{"checkpoint": None}}}}.', stacklevel=3)
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
        if recipe.train.checkpoint is not None:
            check_stereo(recipe)
        scale = Scale.of(problem, recipe.train.scale_targets)
        self.models_ = []
        for seed in seeds:
            made = make_model(recipe.model, problem, seed, recipe.train.loss)
            start_from(made, recipe.train, problem, seed)
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


# -- the estimators ------------------------------------------------------------------------------------------------------------


class ReignRegressor(RegressorMixin, Estimator):  # type: ignore[misc]
    """Predict numbers from molecules or graphs. Options that are None have the defaults of ``reign train -i FILE.csv``.

    >>> from reign.sklearn import ReignRegressor
    >>> smiles = ["C", "CC", "CCC", "CCCC", "CCO", "CCCO", "c1ccccc1", "CC=O"]
    >>> settings = {"train": {"checkpoint": None}}  # random weights; a regressor of SMILES warns where it cannot start from its encoder
    >>> model = ReignRegressor("ds", "ego+:2", hidden_channels=8, num_layers=2, epochs=2, settings=settings, random_state=0)
    >>> model.fit(smiles, [1.0, 2, 3, 4, 3, 4, 6, 3]).predict(["CCCCC"]).shape
    (1,)

    Args:
        model: name of the model; see ``reign.list_models()``. If neither the model nor its settings are given, molecules start from the weights of an encoder.
        policy: name of the policy; the default of the model if not given.
        hidden_channels: number of channels of the layers.
        num_layers: number of layers.
        dropout: dropout probability.
        ignore_stereo: whether to use neither chirality nor E/Z of SMILES.
        epochs: number of epochs.
        batch_size: number of graphs in a batch.
        learning_rate: highest learning rate; it rises first, and then falls along a cosine.
        validation_fraction: share of the rows that are held out to choose the best epoch; 0 keeps the weights of the last epoch. Weights are averaged over about ten epochs.
        patience: stop after this many epochs without a better validation metric.
        n_estimators: number of models, with different seeds; their mean is the prediction.
        settings: further settings of the recipe, as in ``{"train": {"clip": 1.0, "task_weights": [1, 2]}, "model": {"residual": False}}``. With ``{"train": {"checkpoint": RUN}}``
            the training starts from the weights of a run with the same model, but for the last layer.
        accelerator: "auto" (a GPU if there is one), "cpu" or "cuda". Fitted models are on the CPU.
        random_state: determines weights, the order of rows, dropout, and which rows are held out.
    """

    _task = "regression"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "ReignRegressor":
        """Train on SMILES or PyG graphs.

        Args:
            X: a list or array of SMILES, or a list of PyG graphs.
            y: one number, or one row of numbers, for each of them.
            sample_weight: how much each row counts.
        """
        _need(y)
        y = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y", estimator=self)
        self._one = y.ndim == 1
        self._fit(X, y.reshape(len(y), -1), self._task, [], sample_weight)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """A number, or a row of numbers, for each SMILES or graph."""
        values = self._values(X)
        return values[:, 0] if self._one else values


class ReignClassifier(ClassifierMixin, Estimator):  # type: ignore[misc]
    """Predict classes, two or more, from molecules or graphs. Options that are None have the defaults of ``reign train -i FILE.csv -t classification``.

    >>> from reign.sklearn import ReignClassifier
    >>> smiles = ["C", "CC", "CCC", "CCCC", "CO", "CCO", "CCCO", "CCCCO"]
    >>> model = ReignClassifier("ds", "ego+:2", hidden_channels=8, num_layers=2, epochs=2, random_state=0)
    >>> model.fit(smiles, ["alkane"] * 4 + ["alcohol"] * 4).predict_proba(["CCCCC", "CO"]).shape
    (2, 2)

    Args:
        model, policy, hidden_channels, num_layers, dropout, ignore_stereo, epochs, batch_size, learning_rate: as in ``ReignRegressor``.
        validation_fraction, patience, n_estimators, settings, accelerator, random_state: as in ``ReignRegressor``.
    """

    @property
    def _task(self) -> str:
        return "classification" if len(self.classes_) == 2 else "multiclass"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "ReignClassifier":
        """Train on SMILES or PyG graphs.

        Args:
            X: a list or array of SMILES, or a list of PyG graphs.
            y: the class of each of them: numbers or words.
            sample_weight: how much each row counts.
        """
        _need(y)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has only one class, {self.classes_[0]!r}; ReignClassifier needs at least 2 classes.")
        names = [str(label) for label in self.classes_] if self._task == "multiclass" else []
        self._fit(X, labels.astype(np.float64)[:, None], self._task, names, sample_weight)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class, in the order of ``classes_``, for each SMILES or graph."""
        values = self._values(X)
        return np.hstack([1 - values, values]) if self._task == "classification" else values

    def predict(self, X: Any) -> Any:
        """The most probable class for each SMILES or graph."""
        found = self.predict_proba(X).argmax(1)
        return self.classes_[found]


def _need(y: Any) -> None:
    if y is None:
        raise ValueError("This estimator requires y to be passed, but the target y is None; give one target for each row of X.")
