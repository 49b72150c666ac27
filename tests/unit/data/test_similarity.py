"""Which molecules are alike, and numbers about whole molecules."""

import pytest
import torch

from reign.data.molecules import FEATURIZERS, Descriptors, Molecule, Neighbours
from reign.nn._encoders import TypesAndNumbers, make_encoder


def test_neighbours() -> None:
    texts = ["CCO", "CCCCCCO", "c1ccccc1", "CCCCCO", "OCC"]
    known = Neighbours([None, *map(Molecule.read, texts)])
    places, similarities = zip(*known.nearest(Molecule.read("C(C)O"), 3), strict=True)
    assert places[:2] == (1, 5)  # both spellings of it, the first of them first
    assert similarities[:2] == (1.0, 1.0)
    assert 0 < similarities[2] < 1
    assert len(known.nearest(Molecule.read("C"), 99)) == 5
    with pytest.raises(ValueError, match="expected at least one to compare with"):
        Neighbours([None])


def test_similarity_counts_repeat_units() -> None:
    """It is the Tanimoto similarity of counts, as RDKit has it: a long chain is not near to a short one of the same environments."""
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
    from rdkit.DataStructs import TanimotoSimilarity

    texts = ["C" * 10, "CCO", "c1ccccc1CCN"]
    known = Neighbours([Molecule.read(text) for text in texts])
    assert known.nearest(Molecule.read("C" * 12), 1)[0][1] > 0.8
    assert known.nearest(Molecule.read("C" * 1000), 1)[0][1] < 0.02
    for text in ("OCCCc1ccccc1", "CC", "[Xe]"):
        molecule = Molecule.read(text)
        counts = [
            GetMorganGenerator(radius=2).GetSparseCountFingerprint(each.mol) for each in [molecule, *map(Molecule.read, texts)]
        ]
        found = dict(known.nearest(molecule, 3))
        assert [found[i] for i in range(3)] == pytest.approx([TanimotoSimilarity(counts[0], other) for other in counts[1:]])


def test_what_similarity_is_usual() -> None:
    """Nine of ten have a twin; the tenth is unlike all of them."""
    texts = ["CCO", "CCO", "CCN", "CCN", "CCS", "CCS", "CCF", "CCF", "CCCl", "[Xe]"]
    known = Neighbours([Molecule.read(text) for text in texts])
    assert known.usual(0.0) == 0.0
    assert known.usual(0.3) == 1.0


def test_descriptors_by_name() -> None:
    molecule = Molecule.read("CCO")
    counts = FEATURIZERS["morgan_count"](molecule)
    assert (len(counts), sum(counts)) == (2048, 6)  # three atoms, three environments of radius 1; of radius 2 nothing is new
    assert max(FEATURIZERS["morgan_binary"](Molecule.read("CCCCCC"))) == 1.0
    assert len(FEATURIZERS["rdkit_2d"](molecule)) > 200
    with pytest.raises(ValueError, match="there are no descriptors 'x', expected rdkit_2d, morgan_count, morgan_binary"):
        Descriptors(featurizers=["x"])


def test_types_and_numbers() -> None:
    """Numbers are scaled by the rows that they were fitted to; a missing one counts as their mean."""
    encoder = make_encoder("atom+2", None, 4)
    assert isinstance(encoder, TypesAndNumbers)
    rows = torch.zeros(3, 11)
    rows[:, 9] = torch.tensor([1.0, 2.0, 3.0])
    rows[:, 10] = torch.tensor([5.0, float("nan"), 5.0])
    encoder.fit(rows)
    assert encoder.mean.tolist() == [2.0, 5.0]
    assert encoder.deviation.tolist() == pytest.approx([(2 / 3) ** 0.5, 1.0])
    out = encoder(rows)
    torch.testing.assert_close(out[1], encoder.types(rows[:, :9])[1] + encoder.lin.bias)  # the mean, and a missing number
    torch.testing.assert_close(out[2] - out[1], encoder.lin.weight[:, 0] * 1.5**0.5)
