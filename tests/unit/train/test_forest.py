"""The forest next to the models: its trees, what they see of a molecule, and files of it that are not to be trusted."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from reign.data import GraphPack, Problem
from reign.smiles import Molecule
from reign.train.engine.callbacks import Callback
from reign.train.predict import forest
from reign.train.predict.forest import Forest, Trees, describe
from reign.train.runs.baseline import Beside, NotNeeded, wanted
from reign.train.settings.config import DataConfig, Recipe

pytest.importorskip("rdkit")
NAN = float("nan")


@pytest.fixture(autouse=True)
def _few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forest, "TREES", 6)
    monkeypatch.setattr(forest, "LEAST_TREES", 2)


def test_a_data_set_needs_its_smiles() -> None:
    recipe = Recipe.check({"data": {"name": "molhiv"}, "ensemble_with": "forest"})
    plain = recipe.model_copy(update={"ensemble_with": []})
    without, known = problem([0.0] * 51), problem([0.0] * 51, texts={"smiles": ["C"] * 51})
    for made in (without, known):
        made.splits.update(train=torch.arange(50), val=torch.tensor([50]))
    assert [wanted(plain, made) for made in (without, known)] == [[], ["forest", "gp"]]
    assert wanted(recipe, known) == ["forest", "gp"]
    with pytest.raises(ValueError, match="--ensemble-with forest needs SMILES, but p has only graphs; leave it out"):
        wanted(recipe, without)


def numbers(rows: int = 40, columns: int = 8) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 4, (rows, columns)).astype(np.float32)


def problem(y: Any, task: str = "regression", **more: Any) -> Problem:
    y = torch.as_tensor(y, dtype=torch.float64)
    y = y[:, None] if y.ndim == 1 else y
    graphs = [Molecule.read("C").graph() for _ in y]
    targets = [f"t{t}" for t in range(y.size(1))]
    pack = GraphPack.of(graphs).with_targets(y)
    return Problem("p", pack, {"train": torch.arange(len(y))}, task, targets, "atom", "bond", **more)


def fitted(x: np.ndarray, made: Problem, **more: Any) -> Forest:
    return Forest.fit(x, made, torch.arange(len(x)), **more)


@pytest.mark.parametrize("kind", ["ExtraTreesRegressor", "RandomForestRegressor"])
def test_the_predictions_of_scikit_learn(kind: str) -> None:
    from sklearn import ensemble

    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, (60, 5)).astype(np.float32)
    x[:, 4] = np.float32(1) + rng.integers(0, 9, 60) * np.finfo(np.float32).eps  # thresholds lie between neighbours in float32
    y = rng.normal(size=(60, 2))
    model = getattr(ensemble, kind)(20, random_state=0).fit(x, y)
    trees = Trees.of([each.tree_ for each in model.estimators_])
    assert trees.why_wrong(5) is None
    np.testing.assert_allclose(trees(x), model.predict(x), atol=1e-6)


def test_regression_is_in_the_units_of_the_labels() -> None:
    x = numbers()
    y = 1e6 + 10.0 * x[:, 0]
    found = fitted(x, problem(y))
    assert found(x)[:, 0].numpy() == pytest.approx(y, abs=2.0)
    assert [len(each.roots) for each in found.trees] == [6]


def test_targets_with_missing_labels_have_their_own_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    x = numbers()
    y = np.stack([x[:, 0], x[:, 1], x[:, 2]], axis=1).astype(np.float64)
    together = fitted(x, problem(y))
    assert [each.value.shape[1] for each in together.trees] == [3]
    y[::2, 1], y[:, 2] = NAN, NAN
    found = fitted(x, problem(y))
    assert [(len(each.roots), each.value.shape[1]) for each in found.trees] == [(2, 1)] * 3
    out = found(x)
    assert out[1::2, 1].numpy() == pytest.approx(y[1::2, 1], abs=0.5)  # all labels that it has were learned from
    assert out[:, 2].tolist() == [0.0] * len(x)
    monkeypatch.setattr(forest, "TREES", 2)
    alone = fitted(x[1::2], problem(y[1::2, 1]))
    assert torch.equal(alone(x)[:, 0], out[:, 1])


def test_probabilities() -> None:
    x = numbers()
    both = problem(np.stack([x[:, 0] > 1, x[:, 1] > 1], axis=1), "classification")
    out = fitted(x, both)(x)
    assert out.shape == (40, 2)
    assert bool(((out >= 0) & (out <= 1)).all())
    assert torch.equal(out > 0.5, both.y > 0.5)
    nothing = problem(np.stack([x[:, 0] > 1, np.full(40, NAN)], axis=1), "classification")
    assert fitted(x, nothing, class_balance=True)(x)[:, 1].tolist() == [0.5] * 40
    y = x[:, 0].astype(float)
    y[0] = NAN
    several = problem(y, "multiclass", classes=list("abcd"))
    out = fitted(x, several)(x)
    assert out.shape == (40, 4)
    assert out.sum(1).tolist() == pytest.approx([1.0] * 40)
    assert out.argmax(1)[1:].tolist() == y[1:].tolist()


def test_weights_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forest, "CLASSES", forest.NUMBERS)  # which learn from all rows, not from a sample
    x = np.zeros((40, 2), dtype=np.float32)
    x[:20, 0] = 1.0
    y = np.tile([0.0, 1.0], 20)
    even = fitted(x, problem(y, "classification"))(x)[0]
    assert float(even) == pytest.approx(0.5)
    weights = torch.from_numpy(np.where(y == 1, 3.0, 1.0))
    assert float(fitted(x, problem(y, "classification", weights=weights))(x)[0]) == pytest.approx(0.75)
    rare = np.where(np.arange(40) % 4, 0.0, 1.0)
    assert float(fitted(x, problem(rare, "classification"))(x)[0]) == pytest.approx(0.25)
    assert float(fitted(x, problem(rare, "classification"), class_balance=True)(x)[0]) == pytest.approx(0.5)


def test_only_columns_that_differ_for_some_molecules() -> None:
    x = numbers()
    x[:, 3] = 2.0  # constant
    x[:, 4] = 0.0
    x[:2, 4] = 1.0  # only two molecules
    x[:, 5] = NAN
    found = fitted(x, problem(x[:, 0].astype(float)))
    assert found.columns.tolist() == [0, 1, 2, 6, 7]
    gone = x.copy()
    gone[:, 0] = NAN
    usual = x.copy()
    usual[:, 0] = np.median(x[:, 0])
    assert torch.equal(found(gone), found(usual))
    assert fitted(np.zeros((40, 3), np.float32), problem(np.arange(40.0)))(np.zeros((1, 3), np.float32)).item() == pytest.approx(
        19.5
    )
    with pytest.raises(ValueError, match="fitted to 8 columns of descriptors, and here are 7"):
        found(x[:, :7])


def test_the_size_is_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(400, 8)).astype(np.float32)
    made = problem(x[:, 0].astype(float))
    fitted(x, made).save(tmp_path / "large")
    assert (tmp_path / "large").stat().st_size > 60_000
    monkeypatch.setattr(forest, "LARGEST", 20_000)
    fitted(x, made).save(tmp_path / "small")
    assert (tmp_path / "small").stat().st_size < 22_000


def test_a_file_holds_all_of_it(tmp_path: Path) -> None:
    x = numbers()
    y = np.stack([x[:, 0], x[:, 1]], axis=1).astype(np.float64)
    y[0, 1] = NAN
    fitted(x, problem(y)).save(tmp_path / "one")
    fitted(x, problem(y)).save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert torch.equal(Forest.load(tmp_path / "one", 2)(x), fitted(x, problem(y))(x))
    with pytest.raises(ValueError, match="is damaged"):
        Forest.load(tmp_path / "one", 3)


BAD: dict[str, Any] = {
    "a cycle": lambda f: f["0.left"].__setitem__(0, 0),
    "a child before its parent": lambda f: f["0.right"].__setitem__(2, 1),
    "a child in another tree": lambda f: f["0.left"].__setitem__(0, int(f["0.roots"][1])),
    "a child that is not there": lambda f: f["0.right"].__setitem__(0, len(f["0.right"])),
    "a column that is not there": lambda f: f["0.feature"].__setitem__(0, len(f["columns"])),
    "a negative column": lambda f: f["0.feature"].__setitem__(0, -2),
    "a value that is not there": lambda f: f["0.left"].__setitem__(int((f["0.feature"] < 0).nonzero()[0]), len(f["0.value"])),
    "a threshold that is no number": lambda f: f["0.threshold"].__setitem__(0, NAN),
    "a value that is no number": lambda f: f["0.value"].__setitem__((0, 0), float("inf")),
    "roots in another order": lambda f: f["0.roots"].__setitem__(1, 0),
    "a first tree that does not begin": lambda f: f["0.roots"].__setitem__(0, 1),
    "a root behind the end": lambda f: f["0.roots"].__setitem__(-1, len(f["0.left"])),
    "no trees": lambda f: f.update({"0.roots": f["0.roots"][:0]}),
    "fewer nodes": lambda f: f.update({"0.left": f["0.left"][:-1]}),
    "another type": lambda f: f.update({"0.left": f["0.left"].double()}),
    "another shape": lambda f: f.update({"0.value": f["0.value"][:, 0]}),
    "one part more": lambda f: f.update({"more": f["0.value"].clone()}),
    "one part less": lambda f: f.pop("mean"),
    "two deviations": lambda f: f.update(deviation=f["deviation"].repeat(2)),
    "a mean that is no number": lambda f: f["mean"].__setitem__(0, NAN),
    "a column of descriptors that is not there": lambda f: f["columns"].__setitem__(0, 8),
    "a column of descriptors twice": lambda f: f["columns"].__setitem__(1, int(f["columns"][0])),
    "columns of descriptors in another order": lambda f: f.update(columns=f["columns"].flip(0)),
    "a node with two parents": lambda f: f["0.left"].__setitem__(0, int(f["0.right"][0])),
    "more medians": lambda f: f.update(usual=f["usual"].repeat(2)),
    "two outputs": lambda f: f.update({"0.value": f["0.value"].repeat(1, 2)}),
}


@pytest.mark.parametrize("what", BAD)
def test_a_damaged_file_is_refused(what: str, tmp_path: Path) -> None:
    x, file = numbers(), tmp_path / "forest.safetensors"
    fitted(x, problem(x[:, 0].astype(float))).save(file)
    tensors, about = load_file(file), {"width": "8", "descriptors": forest.digest()}
    save_file(tensors, file, about)
    Forest.load(file, 1)
    BAD[what](tensors)
    save_file({name: each.contiguous() for name, each in tensors.items()}, file, about)
    with pytest.raises(ValueError, match=r"forest.safetensors is damaged \(") as error:
        Forest.load(file, 1)
    assert "\n" not in str(error.value)


def test_deep_trees_are_not_read() -> None:
    def chain(levels: int) -> Trees:
        inner, nodes = np.arange(0, 2 * levels, 2), 2 * levels + 1
        feature, left, right = np.full(nodes, -1), np.zeros(nodes, int), np.zeros(nodes, int)
        feature[inner], left[inner], right[inner] = 0, inner + 1, inner + 2
        parts = (feature, np.zeros(nodes), left, right, np.zeros((1, 1)), np.zeros(1))
        return Trees(*(part.astype(kind) for part, kind in zip(parts, forest.NODES.values(), strict=True)))

    assert chain(forest.DEEPEST).why_wrong(1) is None
    assert chain(forest.DEEPEST + 1).why_wrong(1) == f"a tree has more than {forest.DEEPEST} levels"
    assert "levels" in str(chain(500_000).why_wrong(1))


def test_other_damage(tmp_path: Path) -> None:
    x, file = numbers(), tmp_path / "forest.safetensors"
    fitted(x, problem(x[:, 0].astype(float))).save(file)
    tensors = load_file(file)
    for width in ("", "-8", "1e3", "7", "9" * 5_000):
        save_file(tensors, file, {"width": width, "descriptors": forest.digest()})
        with pytest.raises(ValueError, match="is damaged"):
            Forest.load(file, 1)
    save_file(tensors, file, {"width": "8", "descriptors": "other"})
    with pytest.raises(ValueError, match="another version of RDKit"):
        Forest.load(file, 1)
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(ValueError, match="is damaged"):
        Forest.load(file, 1)
    with pytest.raises(ValueError, match="is damaged"):
        Forest.load(tmp_path / "none", 1)


# -- what it sees of a molecule --------------------------------------------------------------------------------------------


def pack(texts: list[str]) -> GraphPack:
    return GraphPack.of([Molecule.read(text).graph() for text in texts])


def config(**more: Any) -> DataConfig:
    return DataConfig(path="t.csv", **more)


def test_the_same_numbers_in_other_processes() -> None:
    texts = ["CCO", " CCO", "OCC", "c1ccccc1", "CC(=O)O"] * 8
    found = describe(pack(texts), [texts], config(), Callback())
    assert found.dtype == np.float32
    np.testing.assert_array_equal(describe(pack(texts), [texts], config(), Callback(), 2), found)
    one = Molecule.read("c1ccccc1")
    np.testing.assert_array_equal(found[3], np.array(forest_numbers(one), np.float32))


def forest_numbers(molecule: Molecule) -> list[float]:
    from reign.smiles import FEATURIZERS

    return [value for kind in ("morgan_count", "rdkit_2d", "atom_pairs") for value in FEATURIZERS[kind](molecule)]


def test_columns_of_smiles_lie_side_by_side() -> None:
    one, two = ["CCO", "CN"], ["c1ccccc1", "CC"]
    graphs, wide = pack([".".join(pair) for pair in zip(one, two, strict=True)]), config(smiles_columns=["a", "b"])
    found = describe(graphs, [one, two], wide, Callback())
    alone = [describe(pack(texts), [texts], config(), Callback()) for texts in (one, two)]
    np.testing.assert_array_equal(found, np.concatenate(alone, axis=1))
    with pytest.raises(ValueError, match="needs the SMILES of a, b apart"):
        describe(graphs, [["CCO.c1ccccc1", "CN.CC"]], wide, Callback())


@pytest.mark.parametrize("names", [["rdkit_2d", "morgan_count"], ["morgan_binary", "rdkit_2d"], ["morgan_count"]])
def test_what_graphs_have_is_not_computed_again(names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from reign.data.molecules import Descriptors

    texts, asked = ["CCO", "c1ccccc1", "CC(=O)O"], []
    molecules = [Molecule.read(text) for text in texts]
    kept = Descriptors(featurizers=names)
    graphs = GraphPack.of([kept.attach(molecule.graph(), molecule, []) for molecule in molecules])
    expected = describe(pack(texts), [texts], config(), Callback())
    before = forest._numbers
    monkeypatch.setattr(forest, "_numbers", lambda texts, kinds, *more: asked.extend(kinds) or before(texts, kinds, *more))
    found = describe(graphs, [texts], config(molecule_featurizers=names), Callback())
    np.testing.assert_array_equal(found, expected)
    assert set(asked) == {"morgan_count", "rdkit_2d", "atom_pairs"} - set(names)


def test_molecules_that_cannot_be_described(monkeypatch: pytest.MonkeyPatch) -> None:
    from reign.smiles._reading import FEATURIZERS

    def fails(molecule: Molecule) -> list[float]:
        if molecule.text == "CN":
            raise RuntimeError("no such luck")
        return [1.0] * 217

    monkeypatch.setattr(forest, "_widths", lambda: {"morgan_count": 2048, "rdkit_2d": 217, "atom_pairs": 2048})
    monkeypatch.setitem(FEATURIZERS, "rdkit_2d", fails)
    found = describe(pack(["CCO", "CN"]), [["CCO", "CN"]], config(), Callback())
    assert np.isnan(found).all(1).tolist() == [False, True]


def test_the_kind_of_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: list[tuple[str, float | str]] = []
    before = Trees.fit
    monkeypatch.setattr(Trees, "fit", lambda *given: kinds.append(given[5]) or before(*given))
    x, y = numbers(), np.arange(40.0)
    fitted(x, problem(y))
    fitted(x, problem(np.where(y < 25, 0.0, y)))  # most labels are equal
    fitted(x, problem(y > 20, "classification"))
    assert kinds == [forest.NUMBERS, forest.CLASSES, forest.CLASSES]


def test_trees_are_the_same_however_many_are_fitted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, seen = numbers(), np.arange(40.0), []

    class Told(Callback):
        def track(self, items: Any, label: str) -> Any:
            seen.append(list(items))
            return items

    monkeypatch.setattr(forest, "TREES", 7)
    found = []
    for at_once, steps in ((10, [7]), (3, [3, 6, 7])):
        monkeypatch.setattr(forest, "AT_ONCE", at_once)
        found.append(Forest.fit(x, problem(y), torch.arange(40), False, Told()).trees[0])
        assert seen.pop() == steps
    for name in forest.NODES:
        np.testing.assert_array_equal(*(getattr(trees, name) for trees in found))


def test_it_stops_with_its_run() -> None:
    with Beside() as beside:
        items = iter(beside.track([1, 2], "trees"))
        assert next(items) == 1
    with pytest.raises(NotNeeded):
        next(items)
