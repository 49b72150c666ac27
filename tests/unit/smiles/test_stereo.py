"""One molecule is one graph, however it is written, and its stereoisomers are others."""

import random
import warnings
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from rdkit import Chem

from reign.data import GraphPack
from reign.data.molecules import Molecule, Neighbours, from_smiles, load_table, read_many
from reign.experiments import find_recipe
from reign.nn import Model, build_model
from reign.smiles import Rows
from reign.smiles._reading import BlockReader
from reign.train import Recipe, load, train

pytestmark = pytest.mark.usefixtures("signatures_unchecked")

# stereoisomers of each other, of which no two are the same graph
FAMILIES = [
    ["C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", "CC(N)C(=O)O"],  # enantiomers
    ["C[C@H]1CC[C@H](C)CC1", "C[C@H]1CC[C@@H](C)CC1"],  # 1,4-rings, cis and trans: the two ways round the ring are the same
    ["C[C@H]1CC[C@@](C)(O)CC1", "C[C@H]1CC[C@](C)(O)CC1"],
    ["CC(C)(O)[C@H]1CC[C@](C)(O)CC1", "CC(C)(O)[C@H]1CC[C@@](C)(O)CC1"],
    ["Cn1nccc1[C@H]1OC[C@@](C)(CO)CO1", "Cn1nccc1[C@H]1OC[C@](C)(CO)CO1"],
    ["C[C@H]1C[C@H](O)C1", "C[C@H]1C[C@@H](O)C1"],
    ["C[C@]12CC[C@H](CC1)C2", "C[C@]12CC[C@@H](CC1)C2"],
    ["C1CC[C@H]2CCCC[C@H]2C1", "C1CC[C@H]2CCCC[C@@H]2C1"],  # decalins
    ["OC(=O)[C@H](O)[C@@H](O)C(=O)O", "OC(=O)[C@@H](O)[C@H](O)C(=O)O", "OC(=O)[C@H](O)[C@H](O)C(=O)O"],  # chiral ones, meso
    ["C[C@H]1CCCC[C@H]1C", "C[C@H]1CCCC[C@@H]1C", "C[C@@H]1CCCC[C@H]1C"],
    ["C[C@H](F)[C@H](O)[C@@H](C)F", "C[C@H](F)[C@@H](O)[C@@H](C)F", "C[C@H](F)C(O)[C@H](C)F", "C[C@@H](F)C(O)[C@@H](C)F"],
    ["C/C=C/C", "C/C=C\\C", "CC=CC"],  # E and Z
    ["F/C=C/[C@H](O)/C=C/F", "F/C=C\\[C@H](O)/C=C/F", "F/C=C\\[C@@H](O)/C=C/F"],
    ["C[S@](=O)CC", "C[S@@](=O)CC"],
    ["C[C@H](O)/C=C/C(=O)[O-].[Na+]", "C[C@@H](O)/C=C/C(=O)[O-].[Na+]", "C[C@@H](O)/C=C\\C(=O)[O-].[Na+]"],
    ["NC[C@H]1CC[C@H](C(=O)O)CC1", "NC[C@H]1CC[C@@H](C(=O)O)CC1"],
]
TEXTS = [text for family in FAMILIES for text in family]
# RDKit writes each of them in several ways, even if the text is to be canonical
CAGES = ["C1C[C@H]2CC[C@@H]1[C@H]2O", "O[C@H]1[C@H]2C[C@@H]3C[C@@H](C2)C[C@H]1C3", "C1C[C@H]2[C@@H]1[C@H]1CC[C@H]12"]


def rewritten(text: str, number: int) -> list[str]:
    """The molecule, written from other atoms in other orders."""
    return list(Chem.MolToRandomSmilesVect(Chem.MolFromSmiles(text), number, randomSeed=1))


@pytest.fixture(scope="module")
def model() -> Model:
    """A model of random weights that sees all features of atoms and bonds."""
    torch.manual_seed(0)
    return build_model("mpnn", 16, 16, 3, 8, node_encoder="atom", edge_encoder="bond").eval()


def outputs(model: Model, molecules: Sequence[Molecule | None]) -> torch.Tensor:
    pack = GraphPack.of([molecule.graph() for molecule in molecules if molecule is not None])
    with torch.no_grad():
        parts = [pack.batch(ids) for ids in torch.arange(len(pack)).split(512)]
        return torch.cat([model(b.x, b.edge_index, b.edge_attr, b.batch, b.size) for b in parts])


def assert_one_graph_each(model: Model, molecules: Sequence[str], number: int) -> None:
    texts = [each for text in molecules for each in rewritten(text, number)]
    read, _ = read_many(texts)
    found = outputs(model, read).view(len(molecules), number, -1)
    spread = (found - found[:, :1]).abs().amax((1, 2))
    assert float(spread.max()) < 1e-6, molecules[int(spread.argmax())]
    known = Neighbours(read[::number])
    every = {
        "canonical SMILES": [molecule.canonical() for molecule in read if molecule is not None],
        "keys": BlockReader().read(Rows(texts)).keys,
        "nearest molecules": [known.nearest(molecule, 3) for molecule in read if molecule is not None],
    }
    for what, values in every.items():
        wrong = [texts[i] for i, value in enumerate(values) if value != values[i - i % number]]
        assert (len(values), wrong) == (len(texts), []), what
    assert len(set(every["keys"])) == len(set(every["canonical SMILES"]))


def test_a_molecule_is_one_graph_however_it_is_written(model: Model) -> None:
    assert_one_graph_each(model, [*TEXTS, *CAGES], 20)
    assert len(set(BlockReader().read(Rows(TEXTS)).keys)) == len(TEXTS)
    assert float(outputs(model, read_many(rewritten(TEXTS[0], 20), "ogb")[0]).std(0).max()) > 1e-4  # as OGB has it, it is several


def test_stereoisomers_are_different_graphs(model: Model) -> None:
    for family in FAMILIES:
        found = outputs(model, read_many(family)[0])
        assert float(torch.nn.functional.pdist(found).min()) > 1e-4, family
        assert len(set(BlockReader().read(Rows(family)).keys)) == len(family)
        plain = outputs(model, read_many(family, "none")[0])
        assert float((plain - plain[0]).abs().max()) < 1e-6, family
        assert len(set(BlockReader().read(Rows(family, stereo="none")).keys)) == 1


@pytest.mark.parametrize("share", [0.2, pytest.param(1.0, marks=pytest.mark.slow)])
def test_real_molecules_are_one_graph_each(model: Model, real_data: Path, share: float) -> None:
    """200 molecules with chiral centres, 50 with E or Z, and 50 others, or a share of them."""
    texts = list(dict.fromkeys(pd.read_csv(real_data / "moleculeace.csv.xz")["smiles"]))
    draw = random.Random(0)
    chiral = [text for text in texts if "@" in text]
    both = [text for text in texts if "/" in text or "\\" in text]
    plain = [text for text in texts if not set("@/\\") & set(text)]
    chosen = [t for kind, number in ((chiral, 200), (both, 50), (plain, 50)) for t in draw.sample(kind, int(share * number))]
    assert_one_graph_each(model, chosen, 20)


def sides(text: str) -> str:
    """On which side of the ring the groups of an inositol are, read off its text without RDKit's ideas of stereo. Equal for equal molecules."""
    mol = Chem.MolFromSmiles(text, sanitize=False)
    Chem.FastFindRings(mol)
    ring, found = list(mol.GetRingInfo().AtomRings()[0]), ""
    for place, number in enumerate(ring):
        atom, before, after = mol.GetAtomWithIdx(number), ring[place - 1], ring[(place + 1) % 6]
        around = [bond.GetOtherAtomIdx(number) for bond in atom.GetBonds()]
        group = next(other for other in around if other not in ring)
        order = [around.index(other) for other in (group, before, after)]
        odd = sum(one > other for i, one in enumerate(order) for other in order[i + 1 :]) % 2
        found += "ab"[odd ^ (atom.GetChiralTag() == Chem.ChiralType.CHI_TETRAHEDRAL_CW)]
    turned = [found[place:] + found[:place] for place in range(6)]
    return min(turned + [each[::-1].translate(str.maketrans("ab", "ba")) for each in turned])


def test_the_inositols(model: Model) -> None:
    """All 64 ways to write the nine of them in one order of atoms. RDKit's random SMILES are no test here: they can be of another one."""
    texts = ["O[C{}H]1[C{}H](O)[C{}H](O)[C{}H](O)[C{}H](O)[C{}H]1O".format(*signs) for signs in product(("@", "@@"), repeat=6)]
    found, read = outputs(model, read_many(texts)[0]), [Molecule.read(text) for text in texts]
    kinds = [sides(text) for text in texts]
    assert len(set(zip(kinds, [molecule.canonical() for molecule in read], strict=True))) == len(set(kinds)) == 9
    assert [sides(molecule.canonical()) for molecule in read] == kinds
    firsts = [kinds.index(kind) for kind in kinds]
    assert float((found - found[firsts]).abs().max()) < 1e-6
    near = torch.cdist(found[sorted(set(firsts))], found[sorted(set(firsts))]) < 1e-5
    assert len({tuple(row) for row in near.tolist()}) == 6  # as docs/molecules.md says
    for text in texts[:16]:  # the atoms in other orders, without a text in between
        orders = [random.Random(seed).sample(range(12), 12) for seed in range(10)]
        molecules = [Molecule("", Chem.RenumberAtoms(Chem.MolFromSmiles(text), order)) for order in orders]
        assert {molecule.canonical() for molecule in molecules} == {Molecule.read(text).canonical()}
        assert float(outputs(model, molecules).std(0).max()) < 1e-6


def test_rdkit_writes_another_inositol_at_random() -> None:
    """Which is why the docs advise against it. A change of this in RDKit is welcome."""
    text = "O[C@H]1[C@H](O)[C@@H](O)[C@H](O)[C@H](O)[C@H]1O"
    assert {sides(each) for each in rewritten(text, 20)} == {
        sides(text),
        sides(text.replace("@@", "!").replace("@", "@@").replace("!", "@")),
    }


def test_the_parity_of_a_molecule() -> None:
    """In the order N, O, F of classes, the tag turns with each exchange of two neighbours; all other features are OGB's."""
    for one, other in (("N[C@H](O)F", "N[C@@H](F)O"), ("O[C@@H](N)F", "F[C@H](N)O")):
        parities = [Molecule.read(text).arrays()[0][1, 1] for text in (one, other)]
        assert parities[0] == parities[1]
        assert {int(from_smiles(text).x[1, 1]) for text in (one, other)} == {1, 2}
    text = "OC(=O)[C@H](O)[C@H](O)C(=O)O"
    found, official = Molecule.read(text).graph(), from_smiles(text)
    assert sorted(found.x[:, 1].tolist()) == [0] * 8 + [1, 2]  # meso: one of each
    assert torch.equal(found.x[:, [0, *range(2, 9)]], official.x[:, [0, *range(2, 9)]])
    text = r"F/C=C/C[C@H]1CC[C@@H](C)CC1"  # from the canonical SMILES, with the atoms in their own order
    found, official = Molecule.read(text).graph(), from_smiles(text)
    assert torch.equal(found.x[:, [0, *range(2, 9)]], official.x[:, [0, *range(2, 9)]])
    ours, theirs = (
        {(*ends, *kind) for *ends, kind in zip(*g.edge_index.tolist(), g.edge_attr.tolist(), strict=True) for kind in [tuple(kind)]}
        for g in (found, official)
    )
    assert ours == theirs
    with pytest.raises(ValueError, match="stereo is 'all', expected parity, ogb, none"):
        Molecule.read("C", stereo="all")  # type: ignore[arg-type]


def test_a_molecule_that_is_too_large_has_no_chirality() -> None:
    text = "C" * 2_000 + "[C@H](N)O"
    with pytest.warns(UserWarning, match="the chirality of a molecule of 2,003 atoms is not used"):
        x, _, _ = Molecule.read(text).arrays()
    assert x[:, 1].tolist() == [0] * 2_003
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Molecule.read(text, stereo="ogb").arrays()[0][:, 1].sum() > 0
        assert Molecule.read(text, stereo="none").arrays()[0][:, 1].sum() == 0


def recipe(folder: Path, **data: str) -> Recipe:
    pd.DataFrame({"smiles": TEXTS, "y": [n / 100 for n in range(len(TEXTS))]}).to_csv(folder / "mols.csv", index=False)
    return find_recipe(
        "molecules",
        {"data": {"path": str(folder / "mols.csv"), "target_columns": ["y"], **data}},
        {"model": {"hidden_channels": 8, "num_layers": 1}, "train": {"epochs": 1}},
    )[0]


def test_a_run_predicts_once_for_a_molecule(tmp_path: Path) -> None:
    """With the nearest training molecules, which are the same for all its writings; from a table and from a list."""
    train(recipe(tmp_path), tmp_path / "run")
    predictor = load(tmp_path / "run")
    texts = [each for text in TEXTS for each in rewritten(text, 3)]
    pd.DataFrame({"smiles": texts}).to_csv(tmp_path / "in.csv", index=False)
    table = predictor.predict_file(tmp_path / "in.csv", nearest=2)
    table["again"] = predictor.predict(texts)["y_pred"]
    assert float((table["again"] - table["y_pred"]).abs().max()) < 1e-6
    for _, rows in table.groupby(np.arange(len(table)) // 3):
        assert (
            len(rows[["y_pred", "nearest_rows", "nearest_similarity", "vector_rows", "vector_similarity"]].drop_duplicates()) == 1
        )
        assert float(rows["again"].max() - rows["again"].min()) < 1e-6


def test_a_run_that_ignores_stereo(tmp_path: Path) -> None:
    """The run remembers it, in predictions from lists and tables and when it is measured; runs that differ do not predict together."""
    chosen = recipe(tmp_path, stereo="none")
    with pytest.warns(UserWarning, match="molecules have contradicting labels"):  # stereoisomers are one molecule now
        train(chosen, tmp_path / "run")
    predictor = load(tmp_path / "run")
    assert predictor.recipe.data.stereo == "none"
    family = FAMILIES[0]
    pd.DataFrame({"smiles": family, "y": 0.0}).to_csv(tmp_path / "in.csv", index=False)
    for found in (predictor.predict(family), predictor.predict_file(tmp_path / "in.csv", nearest=1)):
        assert float(found["y_pred"].max() - found["y_pred"].min()) < 1e-6
    _, report = load_table(tmp_path / "mols.csv", stereo="none")
    assert report.duplicates == len(TEXTS) - len(FAMILIES)
    assert predictor.evaluate_file(tmp_path / "in.csv")["rows"] == 3
    train(recipe(tmp_path), tmp_path / "other")
    with pytest.raises(ValueError, match="trained on different inputs"):
        load(tmp_path / "run", tmp_path / "other")
    with pytest.raises(ValueError, match=r"stereo is for tables of molecules, but name is 'molhiv'"):
        Recipe.check({"data": {"name": "molhiv", "stereo": "none"}})
    assert Recipe.check({"data": {"name": "molhiv"}}).data.stereo_of_graphs == "ogb"


def test_a_run_starts_from_weights_for_the_same_feature(tmp_path: Path) -> None:
    train(recipe(tmp_path, stereo="ogb"), tmp_path / "old")
    start = {"checkpoint": str(tmp_path / "old"), "epochs": 1}
    other = Recipe.check({**recipe(tmp_path).model_dump(), "train": start})
    with pytest.raises(ValueError, match=r"data.stereo is 'parity', but the run .*old, whose weights are to be used, has .* 'ogb'"):
        train(other, tmp_path / "new")
