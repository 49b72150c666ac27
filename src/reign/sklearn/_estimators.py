"""The two estimators: numbers and classes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from reign.sklearn._base import Estimator


class ReignRegressor(RegressorMixin, Estimator):  # type: ignore[misc]
    """Predict numbers from molecules or graphs. Options that are None have the defaults of ``reign train -i FILE.csv``.

    >>> from reign.sklearn import ReignRegressor
    >>> smiles = ["C", "CC", "CCC", "CCCC", "CCO", "CCCO", "c1ccccc1", "CC=O"]
    >>> model = ReignRegressor("ds", "ego+:2", hidden_channels=8, num_layers=2, epochs=2, random_state=0)
    >>> model.fit(smiles, [1.0, 2, 3, 4, 3, 4, 6, 3]).predict(["CCCCC"]).shape
    (1,)

    Args:
        model: name of the model; see ``reign.list_models()``.
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
        settings: further settings of the recipe, as in ``{"train": {"clip": 1.0}, "model": {"residual": False}}``.
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
