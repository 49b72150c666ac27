"""The Gaussian process next to the models: its formula, what it learns from, and files of it that are not to be trusted."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from reign.data import GraphPack, Problem
from reign.smiles import Molecule
from reign.train.predict import forest, gaussian
from reign.train.predict.gaussian import GaussianProcess

pytest.importorskip("rdkit")
NAN = float("nan")
WIDTH, MORGAN, NUMBERS, PAIRS = 9, slice(0, 3), slice(3, 6), slice(6, 9)  # the columns of these tests


@pytest.fixture(autouse=True)
def _few_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forest, "_widths", lambda: {"morgan_count": 3, "rdkit_2d": 3, "atom_pairs": 3})


@pytest.fixture
def fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Share, length and noise are 0.7, 1.5 and 0.1."""
    for name, value in (("SHARES", (0.7,)), ("LENGTHS", (1.5,)), ("NOISES", np.array([0.1]))):
        monkeypatch.setattr(gaussian, name, value)


def described(rows: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 4, (rows, WIDTH)).astype(np.float32)
    x[:, NUMBERS] = rng.normal(5, 3, (rows, 3))
    return x


def problem(y: Any, **more: Any) -> Problem:
    y = torch.as_tensor(np.asarray(y), dtype=torch.float64)
    y = y[:, None] if y.ndim == 1 else y
    pack = GraphPack.of([Molecule.read("C").graph() for _ in y]).with_targets(y)
    return Problem(
        "p", pack, {"train": torch.arange(len(y))}, "regression", [f"t{t}" for t in range(y.size(1))], "atom", "bond", **more
    )


def fitted(x: np.ndarray, y: Any, **more: Any) -> GaussianProcess:
    return GaussianProcess.fit(x, problem(y, **more), torch.arange(len(x)))


def plain(a: np.ndarray, b: np.ndarray, known: np.ndarray, share: float, length: float) -> np.ndarray:
    """The kernel pair by pair, from the formula."""
    deviation = known[:, NUMBERS].astype(float).std(0)
    out = np.zeros((len(a), len(b)))
    for i, one in enumerate(a.astype(float)):
        for j, two in enumerate(b.astype(float)):
            same = [np.minimum(one[at], two[at]).sum() / max(np.maximum(one[at], two[at]).sum(), 1) for at in (MORGAN, PAIRS)]
            apart = (((one[NUMBERS] - two[NUMBERS]) / deviation) ** 2).mean()
            out[i, j] = share * sum(same) / 2 + (1 - share) * np.exp(-apart / (2 * length**2))
    return out


@pytest.mark.usefixtures("fixed")
def test_its_formula() -> None:
    x, new = described(30), described(7, 1)
    y = 100 + x[:, 0] + x[:, 4]
    own = plain(x, x, x, 0.7, 1.5) + 0.1 * np.eye(30)
    expected = y.mean() + plain(new, x, x, 0.7, 1.5) @ np.linalg.solve(own, y - y.mean())
    assert fitted(x, y)(new)[:, 0].numpy() == pytest.approx(expected, rel=1e-5)


def test_the_kernel_under_which_the_labels_are_most_likely() -> None:
    x = described(40)
    by_numbers = np.sin(x[:, 4]) + x[:, 5]
    values, vectors = np.linalg.eigh(plain(x, x, x, 1.0, 1.0))  # labels drawn from the kernel of counts alone
    by_counts = vectors @ (np.sqrt(np.maximum(values, 0)) * np.random.default_rng(1).normal(size=40))
    shares = [fitted(x, y).kernel[0, 0] for y in (by_counts, by_numbers)]
    assert shares == [max(gaussian.SHARES), min(gaussian.SHARES)]

    def likelihood(share: float, length: float, noise: float) -> float:
        z = (by_numbers - by_numbers.mean()) / by_numbers.std()
        matrix = plain(x, x, x, share, length) + noise * np.eye(40)
        size = z @ np.linalg.solve(matrix, z) / 40
        return -0.5 * float(np.linalg.slogdet(matrix)[1] + 40 * np.log(size))

    share, length, _ = fitted(x, by_numbers).kernel[0]
    best = max(likelihood(share, length, noise) for noise in gaussian.NOISES)
    assert best == pytest.approx(max(likelihood(share, other, noise) for other in gaussian.LENGTHS for noise in gaussian.NOISES))


@pytest.mark.usefixtures("fixed")
def test_a_row_of_weight_two_counts_like_two_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = described(20), np.arange(20.0)
    x[:, NUMBERS] = NAN  # descriptors would have another mean and deviation
    twice = fitted(np.concatenate([x, x[:1]]), np.append(y, y[0]))
    weights = torch.ones(20, dtype=torch.float64)
    weights[0] = 2
    monkeypatch.setattr(gaussian, "NOISES", np.array([0.1 * 20 / 21]))  # weights in training have the mean 1
    assert_equal = pytest.approx(twice(x)[:, 0].numpy(), rel=1e-9)
    assert fitted(x, y, weights=weights)(x)[:, 0].numpy() == assert_equal
    assert fitted(x, y)(x)[:, 0].numpy() != assert_equal
    weights[0] = 0
    assert fitted(x, y, weights=weights).size["molecules"] == 19


def test_targets_are_apart_and_may_miss_labels() -> None:
    x = described(40)
    y = np.stack([x[:, 0], 1e6 * x[:, 4], np.full(40, NAN)], 1).astype(float)
    y[::2, 0] = NAN
    found = fitted(x, y)
    assert found(x)[:, 2].tolist() == [0.0] * 40
    assert (found.alpha[::2, 0] == 0).all()
    assert found(x)[:, 1].numpy() == pytest.approx(y[:, 1], abs=1e6)
    assert found(x).shape == (40, 3)


def test_it_learns_from_a_bounded_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaussian, "MOST_ROWS", 20)
    monkeypatch.setattr(gaussian, "JUDGES", 10)
    monkeypatch.setattr(gaussian, "AT_ONCE", 7)
    x = described(60)
    one, four = fitted(x, x[:, 0]), fitted(x, np.repeat(x[:, :1], 4, 1))
    assert (one.size["molecules"], four.size["molecules"]) == (20, 10)
    apart = np.full((60, 4), NAN)
    for t in range(4):
        apart[t::4, t] = 100 + x[t::4, 0]  # each row has one label
    apart[:, 3] = NAN
    apart[59, 3] = 100.0
    found = fitted(x, apart)
    assert found.size["molecules"] <= 20
    assert (found.kernel[:, 2] > 90).all()  # no target is without all of its labels
    assert ((found.alpha != 0).sum(0)[:3] >= 5).all()
    at_once = one(x)
    monkeypatch.setattr(gaussian, "AT_ONCE", 60)
    assert at_once.numpy() == pytest.approx(one(x).numpy())


def test_descriptors_without_a_number_or_with_a_huge_one() -> None:
    x, y = described(30), np.arange(30.0)
    x[3, 4] = np.float32(3e38)  # as Ipc of a large molecule
    x[:, 5] = 2.0
    gone, usual = x[:2].copy(), x[:2].copy()
    gone[:, 3], usual[:, 3] = NAN, np.median(x[:, 3])
    found = fitted(x, y)
    assert found.of_numbers.tolist() == [3, 4]
    assert bool(found(x).isfinite().all())
    assert found(gone).numpy() == pytest.approx(found(usual).numpy())
    only_counts = x.copy()
    only_counts[:, NUMBERS] = NAN
    assert fitted(only_counts, y).size["columns"] == 6
    assert fitted(np.zeros((30, WIDTH), np.float32), y)(x)[:, 0].numpy() == pytest.approx(14.5)
    assert fitted(x, np.full(30, 7.0))(x)[:, 0].numpy() == pytest.approx(7.0)
    with pytest.raises(ValueError, match="fitted to 9 columns of descriptors, and here are 8"):
        found(x[:, :8])


def test_a_file_holds_all_of_it(tmp_path: Path) -> None:
    x = described(30)
    found = fitted(x, x[:, :2])
    found.save(tmp_path / "one")
    again = GaussianProcess.load(tmp_path / "one", 2)
    assert torch.equal(again(x), found(x))
    with pytest.raises(ValueError, match="is damaged"):
        GaussianProcess.load(tmp_path / "one", 3)
    with pytest.raises(ValueError, match="is damaged"):
        GaussianProcess.load(tmp_path / "none", 2)


BAD: dict[str, Any] = {
    "one part less": lambda f: f.pop("alpha"),
    "one part more": lambda f: f.update(more=f["alpha"].clone()),
    "fewer molecules": lambda f: f.update(counts=f["counts"][1:]),
    "another type of all": lambda f: f.update(alpha=f["alpha"].bfloat16()),
    "no shape": lambda f: f.update(counts=f["counts"][0, 0]),
    "more molecules than are learned from": lambda f: f.update(
        {name: f[name][:1].expand(gaussian.MOST_ROWS + 1, -1) for name in ("counts", "numbers", "alpha")}
    ),
    "a share above 1": lambda f: f["kernel"].__setitem__((0, 0), 1e300),
    "no molecules": lambda f: f.update({name: f[name][:0] for name in ("counts", "numbers", "alpha")}),
    "a weight that is no number": lambda f: f["alpha"].__setitem__((0, 0), NAN),
    "another type": lambda f: f.update(alpha=f["alpha"].float()),
    "another shape": lambda f: f.update(usual=f["usual"][None]),
    "a deviation of 0": lambda f: f["deviation"].__setitem__(0, 0.0),
    "a length of 0": lambda f: f["kernel"].__setitem__((0, 1), 0.0),
    "a column that is not there": lambda f: f["of_numbers"].__setitem__(-1, WIDTH),
    "a negative column": lambda f: f["of_counts"].__setitem__(0, -1),
    "a column twice": lambda f: f["of_counts"].__setitem__(1, int(f["of_counts"][0])),
}


@pytest.mark.parametrize("what", BAD)
def test_a_damaged_file_is_refused(what: str, tmp_path: Path) -> None:
    x, file = described(30), tmp_path / "gp.safetensors"
    fitted(x, x[:, 0]).save(file)
    tensors, about = load_file(file), {"width": str(WIDTH), "descriptors": forest.digest()}
    save_file(tensors, file, about)
    GaussianProcess.load(file, 1)
    BAD[what](tensors)
    save_file({name: each.contiguous() for name, each in tensors.items()}, file, about)
    with pytest.raises(ValueError, match=r"gp.safetensors is damaged \(") as error:
        GaussianProcess.load(file, 1)
    assert "\n" not in str(error.value)
    for width in ("", "-8", "1e3", "7", "9" * 5_000):
        save_file(load_file(file), file, {"width": width, "descriptors": forest.digest()})
        with pytest.raises(ValueError, match="is damaged"):
            GaussianProcess.load(file, 1)


def test_a_file_of_another_rdkit(tmp_path: Path) -> None:
    x, file = described(30), tmp_path / "gp.safetensors"
    fitted(x, x[:, 0]).save(file)
    save_file(load_file(file), file, {"width": str(WIDTH), "descriptors": "other"})
    with pytest.raises(ValueError, match="another version of RDKit"):
        GaussianProcess.load(file, 1)
