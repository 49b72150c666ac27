"""Weisfeiler-Leman tests."""

import networkx as nx
import pytest
import torch
from torch_geometric.data import Data

import reign
from reign.data import from_networkx
from reign.testing import permute_graph, random_graphs, random_permutation
from reign.theory import bag_wl, family, wl, wl_classes, wl_separates
from reign.theory._wl import _histograms


def told_apart(one: Data, other: Data, k: int, folklore: bool = False) -> bool:
    a, b = _histograms([c.flatten() for c in wl([one, other], k, folklore=folklore)])
    return a != b


SMALL = [pair for name in ("triangles", "decalin", "rook", "regular", "cfi") for pair in family(name) if pair.one.num_nodes <= 24]


@pytest.mark.parametrize("pair", SMALL, ids=lambda pair: pair.name)
def test_k_wl_is_k_minus_1_fwl(pair) -> None:
    assert told_apart(pair.one, pair.other, 2) == told_apart(pair.one, pair.other, 1)
    assert told_apart(pair.one, pair.other, 3) == told_apart(pair.one, pair.other, 2, folklore=True)
    assert told_apart(pair.one, pair.other, 3) == wl_separates(pair.one, pair.other, 3)


def test_what_is_known_of_the_families() -> None:
    verdicts = {
        name: [[wl_separates(p.one, p.other, k) for p in family(name)] for k in (1, 3)] for name in ("triangles", "csl", "rook")
    }
    assert not any(any(one) for one, _ in verdicts.values())
    assert all(verdicts["triangles"][1])
    assert all(verdicts["csl"][1])
    assert not any(verdicts["rook"][1])
    cfi = {p.name: wl_separates(p.one, p.other, 3) for p in family("cfi")}
    assert cfi == {"CFI(C3)": True, "CFI(C5)": True, "CFI(K4)": False, "CFI(K3,3)": False}
    k4 = next(p for p in family("cfi") if p.name == "CFI(K4)")
    assert wl_separates(k4.one, k4.other, 4)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("folklore", [False, True])
def test_colours_follow_the_nodes(k: int, folklore: bool) -> None:
    (data,) = random_graphs(1, min_nodes=6, max_nodes=6)
    data.x = data.x.round()
    perm = random_permutation(6)
    one, other = wl([data, permute_graph(data, perm)], k, folklore=folklore)
    for _ in range(k):
        other = other.movedim(0, -1)[..., perm]
    assert torch.equal(one, other)


def test_features_are_initial_colours() -> None:
    ring = from_networkx(nx.cycle_graph(6))
    marked = ring.clone()
    marked.x = marked.x.clone()
    marked.x[0] = 2
    for k in (1, 2, 3):
        assert wl_separates(ring, marked, k)
        assert not wl_separates(ring, ring, k)


def test_3_wl_on_graphs_of_40_nodes() -> None:
    one, other = (from_networkx(nx.random_regular_graph(3, 40, seed=seed)) for seed in (1, 2))
    assert told_apart(one, other, 3)


def test_rounds_can_be_limited() -> None:
    path, other = (from_networkx(nx.path_graph(n)) for n in (9, 9))
    other = from_networkx(nx.relabel_nodes(nx.path_graph(9), {0: 8, 8: 0}))
    assert len(set(wl_classes([path, other]))) == 1
    early = wl([path], 1, max_rounds=1)[0]
    assert early.unique().numel() == 2
    assert wl([path], 1)[0].unique().numel() == 5


@pytest.mark.parametrize("shared", [False, True])
def test_colourings_of_ds_and_dss(shared: bool) -> None:
    pairs = {p.name: p for name in ("triangles", "rook") for p in family(name)}
    easy, hard = pairs["C6 / 2xC3"], pairs["rook / Shrikhande"]

    def separates(pair, policy: str) -> bool:
        a, b = bag_wl([pair.one, pair.other], policy, shared=shared)
        return a != b

    assert [separates(easy, policy) for policy in ("null", "nd", "nm", "ego:1", "ed", "2-nm")] == [
        False,
        True,
        True,
        True,
        True,
        True,
    ]
    assert [separates(hard, policy) for policy in ("null", "nd", "nm", "ego:1", "ed", "2-nm")] == [
        False,
        False,
        False,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize("name", ["ds", "dss"])
@pytest.mark.parametrize("policy", ["null", "nd", "nm", "ego:1", "ego+:2", "ed"])
def test_models_separate_no_more_than_their_colourings(name: str, policy: str) -> None:
    for pair in [p for p in SMALL if p.one.num_nodes <= 12]:
        a, b = bag_wl([pair.one, pair.other], policy, shared=name == "dss")
        (verdict,) = reign.theory.separate([pair], [f"{name}:{policy}/4"], seeds=(0,))
        assert verdict.separated == (a != b)


def test_wrong_input() -> None:
    ring = from_networkx(nx.cycle_graph(4))
    with pytest.raises(ValueError, match="k is 4, expected 1, 2 or 3"):
        wl([ring], 4)
    with pytest.raises(ValueError, match="expected an undirected simple graph"):
        wl([Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]))])
    with pytest.raises(ValueError, match="3-tuples of 2000 nodes with their neighbours need about .* GB are free"):
        wl([from_networkx(nx.cycle_graph(2000))], 3)
    with pytest.raises(ValueError, match="k is 5, expected 1 to 4"):
        wl_separates(ring, ring, 5)


def test_features_are_numbers_not_bits() -> None:
    ring = from_networkx(nx.cycle_graph(4))
    zero, minus, none = ring.clone(), ring.clone(), ring.clone()
    zero.x, minus.x, none.x, none.num_nodes = torch.zeros(4, 1), -torch.zeros(4, 1), None, 4
    assert not wl_separates(zero, minus)
    assert len(set(bag_wl([zero, minus, none], "nm"))) == 1
