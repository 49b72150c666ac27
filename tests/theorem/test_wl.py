"""Weisfeiler-Leman tests."""

import networkx as nx
import pytest
import torch
from torch_geometric.data import Data

from reign.data import from_networkx
from reign.testing import permute_graph, random_graphs, random_permutation
from reign.theory import family, separate, wl, wl_classes, wl_round, wl_separates
from reign.theory._wl import histograms


def told_apart(one: Data, other: Data, k: int, folklore: bool = False) -> bool:
    a, b = histograms(wl([one, other], k, folklore=folklore))
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


TREEWIDTH_3 = {"K4", "K3,3", "prism", "cube", "wheel 5", "grid 3x3"}
MORE = {"K5", "octahedron", "Petersen", "dodecahedron"}


def test_k_wl_tells_cfi_graphs_apart_if_the_treewidth_of_the_base_is_below_k() -> None:
    for pair in family("cfi"):
        base = pair.name[4:-1]
        assert not wl_separates(pair.one, pair.other, 1)
        if pair.one.num_nodes <= 48:
            assert wl_separates(pair.one, pair.other, 3) == (base not in TREEWIDTH_3 | MORE)
        if base in TREEWIDTH_3 | {"K5"}:
            assert wl_separates(pair.one, pair.other, 4) == (base in TREEWIDTH_3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("sr", (0, 0, 0, 105)),
        ("csl", (0, 0, 45, 45)),
        ("cfi", (0, 0, 22, 28)),
        ("exp", (0, 0, 600, 600)),
        ("cexp", (300, 300, 600, 600)),
    ],
)
def test_counts(name: str, counts: tuple[int, ...], request: pytest.FixtureRequest) -> None:
    if name in ("sr", "exp", "cexp"):
        request.getfixturevalue("real_data")
    pairs = family(name)
    assert tuple(sum(v.separated for v in separate(pairs, wl=[k])) for k in (1, 2, 3, 4)) == counts


def test_rounds() -> None:
    """Paths of 4 and 6 nodes, and two of 5: the two nodes in the middle of the longest have each other as neighbours, seen last."""
    one, other = (from_networkx(nx.disjoint_union(nx.path_graph(a), nx.path_graph(b))) for a, b in ((4, 6), (5, 5)))
    assert wl_round(one, other, 1) == 3
    assert wl_round(one, one, 1) is None
    marked = one.clone()
    marked.x = 2 * one.x
    assert wl_round(one, marked, 1) == 0


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


@pytest.mark.parametrize("model", ["ds", "dss"])
def test_colours_of_ds_and_dss(model: str) -> None:
    pairs = [pair for name in ("triangles", "rook") for pair in family(name)]
    policies = ("null", "nd", "nm", "ego:1", "ed", "2-nm")
    verdicts = separate(pairs, wl=[f"{model}:{policy}" for policy in policies])
    assert [v.separated for v in verdicts if v.pair == "C6 / 2xC3"] == [False, True, True, True, True, True]
    assert [v.separated for v in verdicts if v.pair != "C6 / 2xC3"] == [False, False, False, False, True, True]


@pytest.mark.parametrize("name", ["ds", "dss"])
@pytest.mark.parametrize("policy", ["null", "nd", "nm", "ego:1", "ego+:2", "ed"])
def test_float64_agrees_with_colours_on_easy_pairs(name: str, policy: str) -> None:
    """With few layers and small graphs digits suffice."""
    pairs = [p for p in SMALL if p.one.num_nodes <= 12]
    exact = separate(pairs, wl=[f"{name}:{policy}/4"])
    digits = separate(pairs, [f"{name}:{policy}/4"], seeds=(0,), exact=False)
    assert [v.separated for v in digits] == [v.separated for v in exact]


def test_wrong_input() -> None:
    ring = from_networkx(nx.cycle_graph(4))
    with pytest.raises(ValueError, match="k is 4, expected 1, 2 or 3"):
        wl([ring], 4)
    with pytest.raises(ValueError, match="expected an undirected simple graph"):
        wl([Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]))])
    with pytest.raises(ValueError, match="3-tuples of 20000 nodes with their neighbours need about .* GB are free"):
        wl([from_networkx(nx.cycle_graph(20_000))], 3)
    with pytest.raises(ValueError, match="k is 5, expected 1 to 4"):
        wl_separates(ring, ring, 5)


def test_features_are_numbers_not_bits() -> None:
    ring = from_networkx(nx.cycle_graph(4))
    zero, minus, none = ring.clone(), ring.clone(), ring.clone()
    zero.x, minus.x, none.x, none.num_nodes = torch.zeros(4, 1), -torch.zeros(4, 1), None, 4
    assert not wl_separates(zero, minus)
    assert not wl_separates(zero, none)
