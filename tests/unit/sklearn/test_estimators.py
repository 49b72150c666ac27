"""The estimators on SMILES and graphs, and scikit-learn's own checks.

scikit-learn's checks make arrays of numbers, which the estimators do not take. ``FromRows`` turns every row of an array into a graph of two nodes with the
row as their features, so that all checks run on the estimators themselves, behind that step. ``NOT_FOR_US`` names those that cannot hold.
"""

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_is_fitted, validate_data
from torch_geometric.data import Data

from reign.experiments import find_recipe
from reign.sklearn import ReignClassifier, ReignRegressor
from reign.testing import random_graphs
from reign.train import train
from reign.train.runs.encoders import Encoder

RANDOM = "Training starts from random weights"
pytestmark = [pytest.mark.usefixtures("signatures_unchecked"), pytest.mark.filterwarnings(f"ignore:{RANDOM}")]
SMALL: dict[str, Any] = {
    "model": "ds",
    "policy": "ego+:1",
    "hidden_channels": 8,
    "num_layers": 1,
    "random_state": 0,
    "accelerator": "cpu",
}
SMILES = ["C" * n + end for end in ("", "O", "N") for n in range(1, 9)]
SIZES = [float(len(text)) for text in SMILES]
PAIR = torch.tensor([[0, 1], [1, 0]])

NOT_FOR_US = {
    "check_sample_weight_equivalence_on_dense_data": "a row of weight 2 and a row that is there twice make other mini-batches",
}
WITHOUT_X = [  # the checks that make no X run on the estimators as they are; scikit-learn leaves them out for input other than arrays
    "check_estimator_cloneable",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_mixin_order",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
]


def as_graphs(X: np.ndarray) -> list[Data]:
    return [Data(x=torch.tensor(np.stack([row, row]), dtype=torch.float32), edge_index=PAIR) for row in X]


class FromRows:
    """Takes arrays of numbers."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.one_d_array, tags.input_tags.two_d_array, tags.input_tags.string = False, True, False
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        X = validate_data(self, X)
        return super().fit(as_graphs(X), y, sample_weight)  # type: ignore[misc]

    def _values(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return super()._values(as_graphs(validate_data(self, X, reset=False)))  # type: ignore[misc]


class RowRegressor(FromRows, ReignRegressor):
    pass


class RowClassifier(FromRows, ReignClassifier):
    pass


def failures(estimator: Any, every: bool) -> tuple[dict[str, str], int]:
    """The checks that fail, with their errors, and the number of those that pass."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = estimator_checks.check_estimator(estimator, legacy=every, expected_failed_checks=NOT_FOR_US, on_fail=None)
    failed = {each["check_name"]: repr(each["exception"])[:500] for each in found if each["status"] == "failed"}
    return failed, sum(each["status"] == "passed" for each in found)


@pytest.mark.parametrize("kind", [RowRegressor, RowClassifier])
def test_scikit_learns_checks_of_the_interface(kind: Any) -> None:
    failed, passed = failures(kind("mpnn", hidden_channels=4, num_layers=1, epochs=1, accelerator="cpu"), every=False)
    assert failed == {}
    assert passed >= 13


@pytest.mark.slow
@pytest.mark.parametrize("kind", [RowRegressor, RowClassifier])
def test_all_of_scikit_learns_checks(kind: Any) -> None:
    exact = {"train": {"precision": "64-true"}}  # one check compares predictions in other batches, to seven digits
    options = {"hidden_channels": 16, "num_layers": 1, "epochs": 20, "learning_rate": 0.02}
    failed, passed = failures(kind("mpnn", **options, accelerator="cpu", settings=exact), every=True)
    assert failed == {}
    assert passed >= 57


@pytest.mark.parametrize("name", WITHOUT_X)
@pytest.mark.parametrize("kind", [ReignRegressor, ReignClassifier])
def test_checks_that_need_no_array(kind: Any, name: str) -> None:
    getattr(estimator_checks, name)(kind.__name__, kind())


@pytest.mark.parametrize(
    "name", ["check_estimators_fit_returns_self", "check_dont_overwrite_parameters", "check_estimators_overwrite_params"]
)
def test_wrong_estimators_fail_the_checks(name: str) -> None:
    class Forgetful(RowRegressor):
        def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
            super().fit(X, y, sample_weight)
            self.epochs = self.public = 7  # a setting of the user, and one of its own

    with pytest.raises(AssertionError):
        getattr(estimator_checks, name)(
            "Forgetful", Forgetful("mpnn", hidden_channels=4, num_layers=1, epochs=1, accelerator="cpu")
        )


@pytest.mark.parametrize("X", [SMILES, np.array(SMILES, dtype=object), pd.Series(SMILES)], ids=["list", "array", "series"])
def test_cross_val_score(X: Any) -> None:
    model = ReignRegressor(**SMALL, epochs=2, batch_size=8)
    scores = cross_val_score(model, X, SIZES, cv=2, scoring="neg_mean_absolute_error")
    first, second = slice(0, 12), slice(12, 24)  # the folds
    for score, here, there in zip(scores, (second, first), (first, second), strict=True):
        out = model.fit(SMILES[here], SIZES[here]).predict(SMILES[there])
        assert score == pytest.approx(-np.abs(out - np.array(SIZES[there])).mean(), rel=1e-6)


def test_numbers_are_learned() -> None:
    y = [10.0 + 5 * (text[-1] == "O") for text in SMILES]
    model = ReignRegressor(**SMALL, epochs=30, batch_size=8, learning_rate=0.03)
    assert model.fit(SMILES, y).score(SMILES, y) > 0.9
    table = pd.DataFrame({"smiles": SMILES})
    assert np.array_equal(model.predict(table), model.predict(SMILES))
    two = ReignRegressor(**SMALL, epochs=1).fit(SMILES, np.stack([SIZES, SIZES], axis=1))
    assert two.predict(SMILES[:3]).shape == (3, 2)


def test_classes_are_learned_and_named() -> None:
    words = [{"O": "alcohol", "N": "amine"}.get(text[-1], "alkane") for text in SMILES]
    model = ReignClassifier(**SMALL, epochs=15, batch_size=8, learning_rate=0.03).fit(SMILES, words)
    assert model.classes_.tolist() == ["alcohol", "alkane", "amine"]
    assert model.score(SMILES, words) > 0.9
    chances = model.predict_proba(["CCO", "CCN"])
    np.testing.assert_allclose(chances.sum(1), 1)
    assert model.classes_[chances.argmax(1)].tolist() == model.predict(["CCO", "CCN"]).tolist()
    two = ReignClassifier(**SMALL, epochs=15, batch_size=8, learning_rate=0.03).fit(SMILES[:16], np.arange(16) >= 8)
    assert two.predict(["CCCO"]).tolist() == [True]
    assert two.predict_proba(["CCCO"])[0, 1] > 0.5


def test_graphs_and_grid_search() -> None:
    graphs = random_graphs(16, min_nodes=4, num_features=3)
    sizes = [float(data.num_edges) for data in graphs]
    search = GridSearchCV(ReignRegressor(**SMALL, epochs=1), {"num_layers": [1, 2], "policy": ["ego+:1"]}, cv=2).fit(graphs, sizes)
    assert search.predict(graphs).shape == (16,)
    assert search.best_params_["policy"] == "ego+:1"
    for data in graphs:
        data.x = torch.randint(0, 4, (data.num_nodes, 2))
    assert ReignRegressor(**SMALL, epochs=1).fit(graphs, sizes).predict(graphs).shape == (16,)  # types, not numbers
    with pytest.raises(ValueError, match="expected graphs, as in fit"):
        search.predict(SMILES)


def test_random_state_and_copies() -> None:
    def predictions(**options: Any) -> np.ndarray:
        return ReignRegressor(**{**SMALL, "epochs": 1, **options}).fit(SMILES, SIZES).predict(SMILES)

    first = predictions()
    assert np.array_equal(first, predictions())
    assert not np.array_equal(first, predictions(random_state=1))
    assert np.array_equal(predictions(random_state=np.random.RandomState(3)), predictions(random_state=3))
    model = ReignRegressor(**SMALL, epochs=1, n_estimators=2).fit(SMILES, SIZES)
    assert len(model.models_) == 2
    outs = [member.outputs for member in model.models_]
    assert outs[0] != outs[1]
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(SMILES), model.predict(SMILES))
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "models_")
    assert copy.set_params(policy="ego:2").policy == "ego:2"


@pytest.mark.filterwarnings("ignore:y holds only 0 and 1", "ignore:1 graph has contradicting labels")
def test_weights_of_rows() -> None:
    model = ReignRegressor(**{**SMALL, "model": "mpnn", "policy": None}, epochs=30, batch_size=24, learning_rate=0.03)
    targets = [0.0, 1.0] * 12
    same = ["CCO"] * 24
    weighted = model.fit(same, targets, sample_weight=[3.0, 1.0] * 12).predict(["CCO"])[0]
    assert weighted == pytest.approx(0.25, abs=0.1)
    assert model.fit(same, targets).predict(["CCO"])[0] == pytest.approx(0.5, abs=0.1)


def test_doubtful_labels_are_warnings() -> None:
    model = ReignRegressor(**{**SMALL, "model": "mpnn", "policy": None}, epochs=1, settings={"train": {"checkpoint": None}})
    with pytest.warns(UserWarning, match="^") as found:
        model.fit(["CCO", "CC", "CCO"], [0.0, 1.0, 1.0])
    assert [str(each.message) for each in found] == [
        "y holds only 0 and 1, and is trained as regression; for probabilities of classes, use -t classification (from Python, the task classification or "
        "ReignClassifier)",
        "1 graph has contradicting labels, as in graphs 0 and 2, where y is 0 and 1; all are kept, and a model cannot match them all",
    ]
    with pytest.warns(
        UserWarning, match=r"y has a label far from all others, such as 1e\+38 in graph 3, where most are from 1 to 3"
    ):
        model.fit(["C", "CC", "CCC", "CCO"], [1.0, 2.0, 3.0, 1e38])
    with pytest.warns(UserWarning, match=r"y has the same label \(2\) in all training rows, so a model learns nothing"):
        model.fit(["C", "CC"], [2.0, 2.0])


def test_rows_held_out_and_settings() -> None:
    words = ["a", "b"] * 12
    model = ReignClassifier(
        **SMALL, epochs=3, validation_fraction=0.25, patience=1, settings={"train": {"clip": 1.0}, "model": {"residual": False}}
    )
    model.fit(SMILES, words)
    assert model.models_[0].config.clip == 1.0
    assert model.models_[0].config.report == "best"
    assert model.models_[0].model.residual is None


@pytest.mark.filterwarnings("ignore:1 graph has contradicting labels")  # without stereochemistry, all three are one molecule
def test_chirality() -> None:
    """Two writings of L-alanine are one molecule; D-alanine is another, unless stereo is ignored."""
    alanines = ["C[C@H](N)C(=O)O", "N[C@@H](C)C(=O)O", "N[C@H](C)C(=O)O"]
    for options, others in (({}, False), ({"ignore_stereo": True}, True), ({"settings": {"data": {"stereo": "none"}}}, True)):
        model = ReignRegressor(**{**SMALL, "epochs": 1, **options}).fit([*alanines, "C", "CC"], [1.0, 1.0, 3.0, 0.0, 0.0])
        first, again, other = model.predict(alanines)
        assert abs(first - again) < 1e-6
        assert (abs(first - other) < 1e-6) == others


def test_starting_from_a_run_and_weights_of_targets(tmp_path: Path) -> None:
    pd.DataFrame({"smiles": SMILES, "y": SIZES}).to_csv(tmp_path / "t.csv", index=False)
    made = {"name": "ds", "policy": "ego+:1", "hidden_channels": 8, "num_layers": 1}
    recipe, _ = find_recipe(
        "molecules", {"data": {"path": str(tmp_path / "t.csv"), "target_columns": ["y"]}, "model": made, "train": {"epochs": 1}}
    )
    train(recipe, tmp_path / "run")
    before = load_file(tmp_path / "run" / "seed-0" / "best" / "model.safetensors")
    start = {"checkpoint": str(tmp_path / "run")}

    def fitted(**settings: Any) -> dict[str, torch.Tensor]:
        estimator = ReignRegressor(**SMALL, epochs=2, settings={"train": settings}).fit(SMILES, np.array([SIZES, SIZES[::-1]]).T)
        return dict(estimator.models_[0].model.state_dict())

    frozen, later = fitted(**start, freeze_encoder=True), fitted(**start, freeze_epochs=1)
    moved = [
        {
            name.partition(".")[0]
            for name in before
            if before[name].shape == after[name].shape and not before[name].equal(after[name])
        }
        for after in (frozen, later)
    ]
    assert moved[0] == {"head"}
    assert len(moved[1]) > 1
    plain, weighted = fitted(), fitted(task_weights=[1.0, 3.0])
    assert any(not plain[name].equal(weighted[name]) for name in plain)
    for settings, message in (
        ({"freeze_encoder": True}, "needs a run with a trained encoder"),
        ({"task_weights": [1.0]}, "task_weights has 1 numbers, expected 2"),
    ):
        with pytest.raises(ValueError, match=message):
            fitted(**settings)


def test_settings_that_fit_does_not_read() -> None:
    settings = {"ensemble_with": "forest", "seeds": [1], "data": {"stereo": "none", "group_column": "plate"}}
    with pytest.raises(ValueError, match=r"settings has ensemble_with, seeds, data\.group_column, which fit does not read"):
        ReignRegressor(**SMALL, settings=settings).fit(SMILES, SIZES)
    with pytest.raises(ValueError, match="patience is 2, but X has no validation split"):
        ReignRegressor(**SMALL, epochs=1, patience=2).fit(SMILES, SIZES)


def test_mistakes() -> None:
    def fit(X: Any = SMILES, y: Any = SIZES, **options: Any) -> None:
        ReignRegressor(**{**SMALL, "epochs": 1, **options}).fit(X, y)

    for message, given in {
        "row 1 of X: 'C\\(\\(' is not a SMILES \\(1 more rows cannot be read\\)": {"X": ["C", "C((", "X"], "y": [1.0, 2, 3]},
        "expected only SMILES, or only PyG graphs": {"X": ["C", 1.0], "y": [1.0, 2]},
        "X is a str|X is 'CCO'|expected a list or array of SMILES": {"X": "CCO", "y": [1.0]},
        "expected one SMILES or graph per row": {"X": np.zeros((4, 2)), "y": [1.0] * 4},
        "X is empty": {"X": [], "y": [1.0]},
        "inconsistent numbers of samples": {"X": ["C", "CC"], "y": [1.0]},
        "there is no setting 'train.clipp'": {"settings": {"train": {"clipp": 1}}},
        "unknown model 'suun'": {"model": "suun"},
        "validation_fraction is 1.5": {"validation_fraction": 1.5},
        "no row is left to learn from": {"X": ["C"], "y": [1.0], "validation_fraction": 0.5},
        "n_estimators is 0": {"n_estimators": 0},
        "contains NaN": {"y": [float("nan")] * 24},
    }.items():
        with pytest.raises(ValueError, match=message):
            fit(**given)
    with pytest.raises(ValueError, match="needs at least 2 classes"):
        ReignClassifier(**SMALL).fit(SMILES, [1] * 24)
    for weights in ([1.0], [-1.0] * 24):
        with pytest.raises(ValueError, match="sample_weight"):
            ReignRegressor(**SMALL).fit(SMILES, SIZES, sample_weight=weights)


@pytest.mark.parametrize(
    ("estimator", "task", "name"),
    [(ReignRegressor, "regression", "molecules-pretrained"), (ReignClassifier, "classification", "molecules-classification")],
)
def test_defaults_are_those_of_the_command(estimator: Any, task: str, name: str) -> None:
    ours = estimator()._recipe(task)[0]
    expected = find_recipe(name, {"data": {"path": "X", "task": task}})[0]
    assert (ours.model, ours.train) == (expected.model, expected.train)


def test_random_weights_are_a_warning() -> None:
    with pytest.warns(
        UserWarning, match=f"{RANDOM}, because the settings of the model are not those of the encoder. To choose this"
    ):
        ReignRegressor(**SMALL, epochs=1).fit(SMILES, SIZES)
    chosen = ReignRegressor(**SMALL, epochs=1, settings={"train": {"checkpoint": None}})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen.fit(SMILES, SIZES)
        ReignRegressor(**SMALL, epochs=1).fit(random_graphs(4, min_nodes=4, num_features=1), SIZES[:4])  # no encoder knows graphs


def test_where_regressors_start() -> None:
    assert ReignRegressor()._recipe("regression", smiles=False)[0].train.checkpoint is None  # graphs need not be molecules
    assert ReignRegressor("sun")._recipe("regression")[0].train.checkpoint is None
    assert ReignRegressor(ignore_stereo=True)._recipe("regression")[0].train.checkpoint is None
    assert ReignRegressor(settings={"train": {"checkpoint": None}})._recipe("regression")[0].model.name == "sun"
    fitted = ReignRegressor(epochs=1, random_state=0, settings={"train": {"optimiser": {"lr": 1e-12}}}).fit(SMILES, SIZES)
    encoder = Encoder.find("molecules-1")
    assert encoder is not None
    ours, theirs = fitted.models_[0].model.state_dict()["head.lin1.weight"], encoder.weights()["head.lin1.weight"]
    assert torch.allclose(ours, theirs, atol=1e-6)
