"""Which molecules are alike."""

import pytest

from reign.data.molecules import Molecule, Neighbours


def test_neighbours() -> None:
    texts = ["CCO", "CCCCCCO", "c1ccccc1", "CCCCCO", "OCC"]
    known = Neighbours([None, *map(Molecule.read, texts)])
    places, similarities = zip(*known.nearest(Molecule.read("C(C)O"), 3), strict=True)
    assert places[:2] == (1, 5)  # both spellings of it, the first of them first
    assert similarities[:2] == (1.0, 1.0)
    assert 0 < similarities[2] < 1
    assert len(known.nearest(Molecule.read("C"), 99)) == 5
    with pytest.raises(ValueError, match="no molecule to compare with"):
        Neighbours([None])


def test_what_similarity_is_usual() -> None:
    """Nine of ten have a twin; the tenth is unlike all of them."""
    texts = ["CCO", "CCO", "CCN", "CCN", "CCS", "CCS", "CCF", "CCF", "CCCl", "[Xe]"]
    known = Neighbours([Molecule.read(text) for text in texts])
    assert known.usual(0.0) == 0.0
    assert known.usual(0.3) == 1.0
