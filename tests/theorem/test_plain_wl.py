"""Tests of Weisfeiler and Leman, and the colour tests of models, against plain versions with dictionaries; margins by hand."""

import inspect
from itertools import product
from typing import Any

import networkx as nx
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

import reign
from plain_colours import plain_bag, pool, refine, same_partition
from reign.data import from_networkx
from reign.testing import random_permutation
from reign.theory import Pair, model_colours, wl, wl_classes
from reign.theory._algebra import Hashing
from reign.theory._colours import pooled_rounds
from reign.theory._plan import bag_of, plan_of_model, trace
from reign.theory._separate import _margins
from reign.theory._wl import refinements

Tuple = tuple[int, ...]


def some_graphs() -> list[Data]:
    """Paths, cycles, a star with a tail and two triangles; one of them with features."""
    graphs = [nx.path_graph(4), nx.cycle_graph(5), nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3)), nx.cycle_graph(6)]
    tailed = nx.star_graph(3)
    tailed.add_edge(3, 4)
    made = [from_networkx(graph) for graph in [*graphs, tailed, nx.path_graph(4)]]
    made[-1].x = torch.tensor([[1.0], [2.0], [1.0], [1.0]])
    return made


def plain_start(data: Data, t: Tuple) -> Any:
    """The isomorphism type of a tuple: the features of its nodes, and which of them are equal or adjacent."""
    edges = set(map(tuple, data.edge_index.t().tolist()))
    places = list(product(range(len(t)), repeat=2))
    return (
        tuple(data.x[v].item() for v in t),
        tuple(t[a] == t[b] for a, b in places),
        tuple((t[a], t[b]) in edges for a, b in places),
    )


def moved(t: Tuple, a: int, u: int) -> Tuple:
    return (*t[:a], u, *t[a + 1 :])


def plain_round(data: Data, c: dict[Tuple, int], t: Tuple, folklore: bool) -> Any:
    """What a tuple sees in a round: a multiset for each position, or (folklore) one multiset of tuples of colours."""
    if len(t) == 1:
        source, target = data.edge_index.tolist()
        return tuple(sorted(c[(u,)] for u, v in zip(source, target, strict=True) if v == t[0]))
    n = data.num_nodes
    if folklore:
        return tuple(sorted(tuple(c[moved(t, a, u)] for a in range(len(t))) for u in range(n)))
    return tuple(tuple(sorted(c[moved(t, a, u)] for u in range(n))) for a in range(len(t)))


def plain_refinements(graphs: list[Data], k: int, folklore: bool, rounds: int) -> list[list[dict[Tuple, int]]]:
    names: dict[Any, int] = {}
    tuples = [list(product(range(data.num_nodes), repeat=k)) for data in graphs]
    colours = [{t: names.setdefault(plain_start(data, t), len(names)) for t in ts} for data, ts in zip(graphs, tuples, strict=True)]
    found = [colours]
    for _ in range(rounds):
        names, new = {}, []
        for data, ts, c in zip(graphs, tuples, colours, strict=True):
            new.append({t: names.setdefault((c[t], plain_round(data, c, t, folklore)), len(names)) for t in ts})
        colours = new
        found.append(colours)
    return found


@pytest.mark.parametrize(("k", "folklore"), [(1, False), (2, False), (2, True), (3, False), (3, True)])
def test_every_round_against_dictionaries(k: int, folklore: bool) -> None:
    graphs = some_graphs()
    ours = list(refinements(graphs, k, folklore=folklore))
    assert len(ours) > 1
    plain = plain_refinements(graphs, k, folklore, len(ours))
    for found, expected in zip(ours, plain, strict=False):
        flat = [int(v) for c in found for v in c.flatten()]
        assert same_partition(flat, [v for c in expected for v in c.values()])
    last, more = ([v for c in plain[t] for v in c.values()] for t in (-2, -1))  # it ended because nothing changes any more
    assert same_partition(last, more)
    pooled = [tuple(sorted(c.values())) for c in plain[-1]]
    assert same_partition([tuple(sorted(c.flatten().tolist())) for c in wl(graphs, k, folklore=folklore)], pooled)


def test_classes_of_k_wl() -> None:
    """One graph of six has a partner: the cycle of six and the two triangles, for 1-WL and 2-WL; 3-WL knows all."""
    classes = {k: wl_classes(some_graphs(), k) for k in (1, 2, 3)}
    assert [len(set(found)) for found in classes.values()] == [5, 5, 6]
    assert classes[1][2] == classes[1][3]
    assert classes[2][2] == classes[2][3]


LOCAL = ["own", "local"]
MODELS: dict[str, tuple[list[str], list[str] | None, str]] = {
    # the terms that each model sums, from the equations of the paper, and how it pools
    "ds": (LOCAL, None, "nested"),
    "dss": ([*LOCAL, "needle", "needle_msg"], None, "flat"),
    "sun": (
        ["node_root", "root", "readout", *LOCAL, "needle", "needle_msg"],
        ["readout", *LOCAL, "needle", "needle_msg"],
        "flat",
    ),
    "sswl": ([*LOCAL, "swap_local", "node_root"], None, "flat"),
    "idgnn": (["own", "local_others", "root_msg"], None, "roots"),
}


@pytest.mark.parametrize("policy", ["nm", "ego:1"])
@pytest.mark.parametrize("name", MODELS)
def test_models_see_what_their_terms_sum(name: str, policy: str) -> None:
    """The colour test of a model, read off its layers, round by round. Means see the same here: all graphs have five nodes."""
    graphs = [from_networkx(g) for g in nx.graph_atlas_g() if len(g) == 5 and nx.number_connected_components(g) < 3][::2]
    terms, root_terms, pooling = MODELS[name]
    plan = plan_of_model(reign.build_model(name, 1, 8, 3, 1, policy=policy, domain="all"))
    bag = bag_of(plan, graphs)
    plains = [plain_bag(bag[g], "all") for g in range(len(graphs))]
    for (state, pooled, _), plain in zip(trace(plan, bag, Hashing()), refine(plains, terms, root_terms, 3), strict=True):
        expected = [plain[g][k, i] for g in range(len(graphs)) for k in range(5) for i in range(5)]
        assert same_partition(state[:, 0].tolist(), expected)
        together = [pool(b, c, pooling) for b, c in zip(plains, plain, strict=True)]
        assert same_partition(pooled[:, 0].tolist(), together)
    rounds = list(pooled_rounds(plan, bag, endless=True))
    assert same_partition(
        rounds[-1].tolist(), [pool(b, c, pooling) for b, c in zip(plains, last_of(plains, terms, root_terms), strict=True)]
    )


def last_of(plains: list[Any], terms: list[str], root_terms: list[str] | None) -> list[dict[Any, int]]:
    """The colours after so many rounds that nothing changes: one for each pair of the largest graph is enough."""
    *_, last = refine(plains, terms, root_terms, 6)
    return last


def test_set_networks_pool_sets_and_means_all_pairs() -> None:
    """Two trees whose pairs are the same after a round, but not those of their subgraphs."""
    trees = []
    for legs in ((2, 2, 1), (1, 1, 3)):
        graph = nx.Graph()
        for leg, length in enumerate(legs):
            nx.add_path(graph, ["centre", *((leg, step) for step in range(length))])
        trees.append(from_networkx(graph))
    assert model_colours(trees, reign.nn.DS(1, 8, 3, 1, policy="nm")).separated(0, 1) == 1
    assert model_colours(trees, reign.nn.DS(1, 8, 3, 1, policy="nm", set_channels=())).separated(0, 1) == 2


def test_margins_by_hand() -> None:
    """The difference of two outputs over 100 times the noise, which is the difference between a graph and its permuted copy."""

    def model(x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        """The number of edges, and a little of the first node's feature, which depends on the order of nodes."""
        edges = torch.bincount(batch[edge_index[0]], minlength=int(batch[-1]) + 1).double()
        first = torch.tensor([int((batch == g).nonzero()[0]) for g in range(int(batch[-1]) + 1)])
        return torch.stack([edges, 1e-3 * x[first, 0]], dim=1)

    margins = inspect.unwrap(_margins)  # without the checks of signatures: this is no model of reign
    one, other = from_networkx(nx.path_graph(4)), from_networkx(nx.cycle_graph(4))
    one.x, other.x = torch.tensor([[0.0], [1.0], [2.0], [3.0]]), torch.tensor([[5.0], [9.0], [7.0], [6.0]])
    perm = random_permutation(4, 3)
    first = int((perm == 0).nonzero())  # the node that comes first in the copies
    noise = [1e-3 * abs(float(g.x[first] - g.x[0])) for g in (one, other)]
    assert min(noise) > 0
    found = float(margins(model, [Pair("pair", one, other)], 3))
    assert found == pytest.approx(2 / (100 * max(noise)))
    assert float(margins(model, [Pair("pair", other, one)], 3)) == pytest.approx(found)  # the larger noise counts, on either side
    assert noise[0] != noise[1]
    same = one.clone()
    same.x = one.x.clone()
    assert float(margins(model, [Pair("pair", one, same)], 3)) == 0
