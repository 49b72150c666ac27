"""Encodings of pairs and nodes against plain formulas, on directed graphs that need not be connected; and as an option of every model."""

import math
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

import reign
from reign.nn import NODE_ENCODINGS, PAIR_ENCODINGS, Encodings, encoded
from reign.testing import assert_batch_invariant, assert_equivariant, random_graphs

ALL = {"pairs": ["hop:2", "rrwp:3", "resistance", "common", "laplacian:3"], "nodes": ["return:3", "central:3", "laplacian:2"]}


def directed() -> list[Data]:
    """Directed graphs with a loop, parallel edges and several components; the last has no edges."""
    rng = torch.Generator().manual_seed(3)
    found = []
    for n, share in ((6, 0.3), (5, 0.15), (7, 0.07), (1, 0.0)):
        edges = (torch.rand(n, n, generator=rng) < share).nonzero().t()
        found.append(
            Data(x=torch.randn(n, 3, generator=rng, dtype=torch.float64), edge_index=torch.cat([edges, edges[:, :1]], dim=1))
        )
    return found


def simple(data: Data) -> np.ndarray:
    """Which nodes are neighbours, whichever way the edge points."""
    A = np.zeros((data.num_nodes,) * 2)
    for u, v in data.edge_index.t().tolist():
        if u != v:
            A[u, v] = A[v, u] = 1
    return A


def walk(data: Data) -> np.ndarray:
    M = np.zeros((data.num_nodes,) * 2)
    for u, v in data.edge_index.t().tolist():
        M[u, v] += 1
    return M / np.maximum(M.sum(1, keepdims=True), 1)


def hops(data: Data, most: int) -> np.ndarray:
    lengths = dict(nx.all_pairs_shortest_path_length(nx.from_numpy_array(simple(data))))
    n, out = data.num_nodes, np.zeros((data.num_nodes, data.num_nodes, most + 2))
    for u in range(n):
        for v in range(n):
            out[u, v, min(lengths[u][v], most) if v in lengths[u] else most + 1] = 1
    return out


def resistance(data: Data) -> np.ndarray:
    """One component at a time, by a current of 1 from u to v."""
    A, out = simple(data), np.zeros((data.num_nodes, data.num_nodes, 1))
    for part in map(sorted, nx.connected_components(nx.from_numpy_array(A))):
        L = np.diag(A[part].sum(1)) - A[np.ix_(part, part)]
        for a, u in enumerate(part):
            for b, v in enumerate(part):
                current = np.zeros(len(part))
                current[a] += 1
                current[b] -= 1
                potential = np.linalg.lstsq(L, current, rcond=None)[0]
                out[u, v, 0] = potential[a] - potential[b]
    return out


def projectors(data: Data, spaces: int) -> np.ndarray:
    """The product of (L - b) / (a - b) over the other eigenvalues b is the projection onto the eigenspace of a."""
    A = simple(data)
    degree = A.sum(1)
    scale = np.where(degree > 0, 1 / np.sqrt(np.maximum(degree, 1)), 0)
    L = np.diag((degree > 0).astype(float)) - scale[:, None] * A * scale
    found = np.linalg.eigvalsh(L)
    values = [v for i, v in enumerate(found) if i == 0 or v - found[i - 1] > 1e-6]
    out = np.zeros((*A.shape, spaces))
    for s, a in enumerate(values[:spaces]):
        P = np.eye(len(A))
        for b in values:
            if b != a:
                P = P @ (L - b * np.eye(len(A))) / (a - b)
        out[:, :, s] = P
    return out


PLAIN: dict[str, Callable[[Data], np.ndarray]] = {
    "hop:2": lambda d: hops(d, 2),
    "rrwp:4": lambda d: np.stack([np.linalg.matrix_power(walk(d), t) for t in range(4)], axis=2),
    "resistance": resistance,
    "common": lambda d: (simple(d) @ simple(d))[:, :, None],
    "laplacian:3": lambda d: projectors(d, 3),
}
PLAIN_NODES: dict[str, Callable[[Data], np.ndarray]] = {
    "return:4": lambda d: np.stack([np.diag(np.linalg.matrix_power(walk(d), t)) for t in range(1, 5)], axis=1),
    "central:5": lambda d: np.stack(
        [np.diag(np.linalg.matrix_power(simple(d), s)) / math.factorial(s) for s in range(1, 6)], axis=1
    ),
    "laplacian:3": lambda d: np.sqrt(np.maximum(np.einsum("iis->is", projectors(d, 3)), 0)),
}


@pytest.mark.parametrize("policy", ["null", "ego:1"])
@pytest.mark.parametrize("name", PLAIN)
def test_encodings_of_pairs(name: str, policy: str) -> None:
    graphs = directed()
    assert [nx.number_connected_components(nx.from_numpy_array(simple(data))) for data in graphs][2] > 2
    for domain in ("all", "members"):
        bag = reign.policy(policy).from_data(Batch.from_data_list(graphs), domain=domain)
        ours = encoded(bag, [name], PAIR_ENCODINGS, "pair", torch.float64)
        dense = [torch.from_numpy(PLAIN[name](data)) for data in graphs]
        first = bag.graph.ptr[bag.pair_batch]
        where = zip(bag.pair_batch.tolist(), (bag.root[bag.sub] - first).tolist(), (bag.node - first).tolist(), strict=True)
        expected = torch.stack([dense[g][k, i] for g, k, i in where])
        torch.testing.assert_close(ours, expected, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("name", PLAIN_NODES)
def test_encodings_of_nodes(name: str) -> None:
    graphs = directed()
    bag = reign.policy("nm").from_data(Batch.from_data_list(graphs))
    expected = torch.cat([torch.from_numpy(PLAIN_NODES[name](data)) for data in graphs])
    torch.testing.assert_close(encoded(bag, [name], NODE_ENCODINGS, "node", torch.float64), expected, atol=1e-7, rtol=1e-7)


def test_closed_walks_sum_to_the_exponential() -> None:
    for data in directed():
        values = encoded(reign.policy("nm").from_data(data), ["central:40"], NODE_ENCODINGS, "node", torch.float64)
        exponential = torch.matrix_exp(torch.from_numpy(simple(data))).diagonal()
        torch.testing.assert_close(1 + values.sum(1), exponential, atol=1e-12, rtol=1e-12)


def test_every_encoding_has_a_formula_here() -> None:
    assert {name.split(":")[0] for name in PLAIN} == set(PAIR_ENCODINGS)
    assert {name.split(":")[0] for name in PLAIN_NODES} == set(NODE_ENCODINGS)


def test_graphs_in_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, batch, names = reign.policy("nm"), Batch.from_data_list(directed()), ALL["pairs"]
    whole = encoded(policy.from_data(batch), names, PAIR_ENCODINGS, "pair", torch.float64)
    monkeypatch.setattr("reign.bags._hops.PADDED", 150)
    torch.testing.assert_close(
        encoded(policy.from_data(batch), names, PAIR_ENCODINGS, "pair", torch.float64), whole, atol=1e-9, rtol=1e-9
    )


HOWS: list[dict[str, Any]] = [{}, {"every_layer": True}, {"channels": 4}]


@pytest.mark.parametrize(("name", "how"), [(name, HOWS[number % 3]) for number, name in enumerate(reign.list_models())])
@pytest.mark.usefixtures("signatures_unchecked")
def test_every_model_takes_them(name: str, how: dict[str, Any]) -> None:
    """They are used, their maps learn, and the model stays equivariant: also where eigenvectors have signs and bases to choose."""
    graphs = random_graphs(3, min_nodes=4, max_nodes=5, edge_prob=0.5, dtype=torch.float64, seed=2)
    ring = torch.arange(4)
    edges = torch.stack([torch.cat([ring, ring.roll(1)]), torch.cat([ring.roll(1), ring])])
    graphs.append(Data(x=torch.ones(4, 3, dtype=torch.float64), edge_index=edges))  # two of its eigenvalues are the same
    given = {"nodes": ALL["nodes"]} if name in ("mpnn", "tuplesun", "tuplereign2") else ALL  # those of pairs need one root
    torch.manual_seed(0)
    model = reign.build_model(name, 3, 12, 2, 2, encodings={**given, **how}).double().eval()
    batch = Batch.from_data_list(graphs)
    assert_equivariant(model, batch, atol=1e-8, rtol=1e-8)
    assert_batch_invariant(model, graphs, atol=1e-8, rtol=1e-8)
    model(batch.x, batch.edge_index, batch=batch.batch).square().sum().backward()
    assert isinstance(model.encodings, Encodings)
    weights = [weight for key, weight in model.encodings.named_parameters() if key.endswith("weight")]
    assert len(weights) == len(given) * (len(model.layers) if "every_layer" in how else 1)
    assert all(weight.grad is not None and weight.grad.abs().max() > 1e-9 for weight in weights)


@pytest.mark.parametrize("every_layer", [False, True])
def test_they_are_added_by_linear_maps(every_layer: bool) -> None:
    """x[k, i] + W p[k, i] + V q[i], with the gradient of W."""
    batch = Batch.from_data_list(directed())
    bag = reign.policy("nm").from_data(batch)
    torch.manual_seed(0)
    module = Encodings([5, 4], pairs=["rrwp:3"], nodes=["return:2"], every_layer=every_layer).double()
    for layer, width in enumerate([5, 4] if every_layer else [5]):
        h = torch.randn(bag.num_pairs, width, dtype=torch.float64)
        W, V = module.of_pairs[layer], module.of_nodes[layer]
        p, q = (
            encoded(bag, ["rrwp:3"], PAIR_ENCODINGS, "pair", h.dtype),
            encoded(bag, ["return:2"], NODE_ENCODINGS, "node", h.dtype),
        )
        expected = h + p @ W.weight.t() + W.bias + (q @ V.weight.t())[bag.node]
        assert V.bias is None
        ours, weight = module(h, bag, layer), torch.randn_like(h)
        torch.testing.assert_close(ours, expected)
        grads = [torch.autograd.grad((out * weight).sum(), [W.weight, V.weight]) for out in (ours, expected)]
        for one, other in zip(*grads, strict=True):
            torch.testing.assert_close(one, other)
    if not every_layer:
        assert torch.equal(module(h, bag, 1), h)
    front = Encodings([5], nodes=["return:2"], channels=3).double()
    out = front(h := torch.randn(bag.num_pairs, 5, dtype=torch.float64), bag)
    assert torch.equal(out[:, 3:], h)
    torch.testing.assert_close(out[:, :3], front.of_nodes[0](q)[bag.node])


def test_mistakes() -> None:
    def sun(**encodings: Any) -> Any:
        return lambda: reign.nn.SUN(3, 6, 2, encodings=encodings)

    cases: list[tuple[Callable[[], Any], str]] = [
        (sun(pairs=["rrpw:3"]), "unknown encoding of pairs 'rrpw'; did you mean 'rrwp'"),
        (sun(nodes=["rrwp:3"]), "unknown encoding of nodes 'rrwp'"),
        (sun(pairs=["rrwp:0"]), "'rrwp:0' ends in ':0', expected a number from 1 to 1000, as in 'rrwp:21'"),
        (sun(pairs=["common:3"]), "'common:3' has a size, expected 'common'"),
        (sun(pairs="rrwp:3"), "encodings.pairs is 'rrwp:3', expected a list of names"),
        (sun(), "expected at least one encoding of pairs or nodes"),
        (sun(pairs=["rrwp"], channels=0), "encodings.channels is 0"),
        (sun(pairs=["rrwp"], channels=3, every_layer=True), "without every_layer"),
        (sun(pair=["rrwp"]), "encodings has no option 'pair'; did you mean 'pairs'"),
        (
            lambda: reign.nn.MPNN(3, 6, 2, encodings={"pairs": ["rrwp"]})(torch.ones(2, 3), torch.tensor([[0], [1]])),
            "expected one root",
        ),
    ]
    for make, message in cases:
        with pytest.raises(ValueError, match=message):
            make()


def test_weights_of_edges_do_not_change_them() -> None:
    batch = Batch.from_data_list(directed())
    bag = reign.policy("nm").from_data(batch)
    weighted = bag.weighted(torch.rand(batch.num_edges))
    one, other = (encoded(b, ["rrwp:3"], PAIR_ENCODINGS, "pair", torch.float64) for b in (bag, weighted))
    assert isinstance(one, Tensor)
    assert one is other
